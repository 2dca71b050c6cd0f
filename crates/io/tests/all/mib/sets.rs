//! Acquisitions spread over files, and files that only look like it.

use super::read::{alone, open, read_all};
use super::writer::Mode;
use framefold_core::{ErrorKind, Presence};
use framefold_io::OpenOptions;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn mode() -> Mode {
    Mode::plain("U16", [3, 5])
}

/// Writes files of `n` frames each; the frames are filled with their sequence numbers.
fn write(dir: &TempDir, files: &[(&str, u64, u64)]) {
    for &(name, first, n) in files {
        let frames: Vec<Vec<u32>> =
            (first..first + n).map(|sequence| vec![sequence as u32; 15]).collect();
        std::fs::write(dir.path().join(name), mode().file(first, &frames)).unwrap();
    }
}

/// The sequence numbers of the frames, the names of the files, and the warnings.
fn opened(path: &Path, options: &OpenOptions) -> (Vec<u32>, Vec<String>, Vec<String>) {
    let dataset = open(path, options).unwrap();
    let frames = read_all(&dataset).chunks(15).map(|frame| frame[0]).collect();
    let info = dataset.source().info();
    let name = |path: &PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    (frames, info.paths.iter().map(name).collect(), info.warnings.clone())
}

fn all(dir: &TempDir, name: &str) -> (Vec<u32>, Vec<String>, Vec<String>) {
    opened(&dir.path().join(name), &OpenOptions::default())
}

#[test]
fn any_member_opens_the_set_in_the_order_of_its_sequence() {
    let dir = tempfile::tempdir().unwrap();
    // Neither the names nor their order in the directory tell the order of the frames.
    write(&dir, &[("run10.mib", 1, 4), ("run2.mib", 5, 4), ("run1.mib", 9, 2)]);
    for name in ["run1.mib", "run2.mib", "run10.mib"] {
        let (frames, files, warnings) = all(&dir, name);
        assert_eq!(frames, (1..=10).collect::<Vec<u32>>());
        assert_eq!(files, ["run10.mib", "run2.mib", "run1.mib"]);
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}

#[test]
fn disable_glob_reads_one_file() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &[("run1.mib", 1, 4), ("run2.mib", 5, 4)]);
    let (frames, files, warnings) = opened(&dir.path().join("run2.mib"), &alone());
    assert_eq!((frames, files), (vec![5, 6, 7, 8], vec!["run2.mib".to_owned()]));
    assert!(warnings[0].contains("sequence number 5"), "{warnings:?}");
}

#[test]
fn a_missing_file_leaves_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &[("run1.mib", 1, 4), ("run2.mib", 5, 4), ("run3.mib", 9, 2)]);
    std::fs::remove_file(dir.path().join("run2.mib")).unwrap();
    let dataset = open(dir.path().join("run1.mib"), &OpenOptions::default()).unwrap();
    let info = dataset.source().info();
    assert_eq!(info.n_frames, 10);
    assert_eq!(info.presence, Presence::Ranges(vec![0..4, 8..10]));
    assert!(info.warnings[0].contains("frames 5 to 8"), "{:?}", info.warnings);
    assert_eq!(dataset.frame_at(3), Some(3));
    assert_eq!(dataset.frame_at(5), None);
    assert_eq!(all(&dir, "run3.mib").0, [1, 2, 3, 4, 9, 10]);
}

#[test]
fn a_truncated_member_leaves_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &[("run1.mib", 1, 4), ("run2.mib", 5, 4)]);
    let path = dir.path().join("run1.mib");
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let (frames, _, warnings) = all(&dir, "run2.mib");
    assert_eq!(frames, [1, 2, 3, 5, 6, 7, 8]);
    assert!(warnings.iter().any(|w| w.contains("frames 4 to 4")), "{warnings:?}");
    assert!(warnings.iter().any(|w| w.contains("the last 413 bytes (of 414")), "{warnings:?}");
}

#[test]
fn separate_acquisitions_are_left_out() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &[("a.mib", 1, 3), ("a1.mib", 1, 4), ("a2.mib", 1, 3)]);
    for (name, n) in [("a.mib", 3), ("a1.mib", 4), ("a2.mib", 3)] {
        let (frames, files, warnings) = all(&dir, name);
        assert_eq!((frames.len(), files), (n, vec![name.to_owned()]));
        assert!(warnings[0].contains("left out 2 files such as 'a"), "{warnings:?}");
    }
}

#[test]
fn other_names_are_not_even_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &[("a1.mib", 1, 3), ("a4RAW.mib", 4, 3), ("ab4.mib", 4, 3), ("b4.mib", 4, 3)]);
    std::fs::write(dir.path().join("a4.txt"), "MQ1,").unwrap();
    std::fs::create_dir(dir.path().join("a7.mib")).unwrap();
    let (frames, _, warnings) = all(&dir, "a1.mib");
    assert_eq!(frames, [1, 2, 3]);
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[test]
fn characters_of_patterns_mean_themselves() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &[("r[0-9]*?1.mib", 1, 2), ("r[0-9]*?2.mib", 3, 2), ("r5x1.mib", 3, 2)]);
    let (frames, files, _) = all(&dir, "r[0-9]*?1.mib");
    assert_eq!(frames, [1, 2, 3, 4]);
    assert_eq!(files, ["r[0-9]*?1.mib", "r[0-9]*?2.mib"]);
}

#[test]
fn a_broken_member_is_left_out_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &[("run1.mib", 1, 2), ("run3.mib", 5, 2)]);
    std::fs::write(dir.path().join("run2.mib"), "").unwrap();
    let (frames, _, warnings) = all(&dir, "run1.mib");
    assert_eq!(frames, [1, 2, 5, 6]);
    assert!(warnings.iter().any(|w| w.contains("run2.mib") && w.contains("empty")), "{warnings:?}");
}

#[test]
fn members_that_contradict_each_other_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &[("run1.mib", 1, 4), ("run2.mib", 3, 4)]);
    let refused = |name: &str| {
        let error = open(dir.path().join(name), &OpenOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFile);
        assert!(error.hint().is_some_and(|hint| hint.contains("disable_glob")));
        error.to_string()
    };
    let error = refused("run1.mib");
    assert!(error.contains("frame 3") && error.contains("run1.mib") && error.contains("run2.mib"));

    // Two files claim to continue the one that was opened.
    write(&dir, &[("run1.mib", 1, 2), ("run2.mib", 3, 2), ("run3.mib", 3, 2)]);
    let error = refused("run1.mib");
    assert!(error.contains("run2.mib") && error.contains("run3.mib"), "{error}");
    std::fs::remove_file(dir.path().join("run3.mib")).unwrap();

    let other = Mode::plain("U16", [3, 6]);
    let path = dir.path().join("run2.mib");
    std::fs::write(path, other.file(3, &other.noise(2, 1))).unwrap();
    let error = refused("run1.mib");
    assert!(error.contains("6 x 3 pixels") && error.contains("5 x 3 pixels"), "{error}");
    assert!(error.contains("run1.mib") && error.contains("run2.mib"), "{error}");

    write(&dir, &[("run2.mib", 1 << 40, 2)]);
    assert!(refused("run1.mib").contains("too far apart"));
}

#[test]
fn frames_lost_inside_a_file_are_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run.mib");
    let frames = mode().noise(4, 1);
    let mut bytes = mode().file(1, &frames[..2]);
    bytes.extend(mode().file(7, &frames[2..]));
    std::fs::write(&path, bytes).unwrap();
    let dataset = open(&path, &alone()).unwrap();
    let warnings = &dataset.source().info().warnings;
    assert!(warnings[0].contains("sequence number 8, expected 4"), "{warnings:?}");
}

fn sidecar(dir: &TempDir, name: &str, lines: &str) {
    std::fs::write(dir.path().join(name), format!("HDR,\t\r\n{lines}\r\nEnd\t")).unwrap();
}

#[test]
fn a_sidecar_opens_its_set_and_names_the_scan() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &[("run_001.mib", 1, 4), ("run_002.mib", 5, 4)]);
    sidecar(&dir, "run.hdr", "ScanX:\t4\r\nScanY:\t2");
    for name in ["run.hdr", "run_001.mib", "run_002.mib"] {
        let dataset = open(dir.path().join(name), &OpenOptions::default()).unwrap();
        assert_eq!(dataset.shape().nav(), [2, 4], "{name}");
        assert_eq!(dataset.source().info().n_frames, 8);
        assert!(dataset.source().info().warnings.is_empty());
    }
    let as_wanted = OpenOptions { nav_shape: Some(vec![8]), ..OpenOptions::default() };
    assert_eq!(open(dir.path().join("run.hdr"), &as_wanted).unwrap().shape().nav(), [8]);
}

#[test]
fn the_file_is_trusted_more_than_its_sidecar() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &[("run.mib", 1, 9)]);
    sidecar(
        &dir,
        "run.hdr",
        "Frames in Acquisition (Number):\t100\r\nScanX:\t9999\r\nScanY:\t9999",
    );
    let dataset = open(dir.path().join("run.mib"), &OpenOptions::default()).unwrap();
    assert_eq!(dataset.shape().nav(), [3, 3]);
    assert_eq!(dataset.source().info().warnings.len(), 2);
}

#[test]
fn the_sidecar_of_a_separate_acquisition_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    sidecar(&dir, "scan.hdr", "ScanX:\t4\r\nScanY:\t2");
    let nav = |name: &str| {
        let dataset = open(dir.path().join(name), &OpenOptions::default()).unwrap();
        dataset.shape().nav().to_vec()
    };
    write(&dir, &[("scan.mib", 1, 8), ("scan2.mib", 1, 7)]);
    assert_eq!((nav("scan.mib"), nav("scan2.mib")), (vec![2, 4], vec![7]));
    // Here the second file continues the first one.
    write(&dir, &[("scan.mib", 1, 4), ("scan2.mib", 5, 4)]);
    assert_eq!((nav("scan.mib"), nav("scan2.mib")), (vec![2, 4], vec![2, 4]));
}

#[test]
fn a_sidecar_without_data_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    sidecar(&dir, "run.hdr", "ScanX:\t4");
    let error = |options| open(dir.path().join("run.hdr"), &options).unwrap_err();
    assert_eq!(error(OpenOptions::default()).kind(), ErrorKind::BadFile);
    let text = error(OpenOptions::default()).to_string();
    assert!(text.contains("no .mib file") && text.contains("one directory"), "{text}");
    write(&dir, &[("run1.mib", 1, 4)]);
    let text = error(alone()).to_string();
    assert!(text.contains("disable_glob: leave it out"), "{text}");
}

#[test]
fn the_hdr_file_of_another_format_is_not_used() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, &[("run.mib", 1, 5)]);
    std::fs::write(dir.path().join("run.hdr"), "[measurementInfo]\n").unwrap();
    let (frames, _, warnings) = all(&dir, "run.mib");
    assert_eq!(frames.len(), 5);
    assert!(warnings[0].contains("the .hdr file is not used"), "{warnings:?}");
    let error = open(dir.path().join("run.hdr"), &OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains("expected a first line that starts with 'HDR'"), "{error}");
}

#[test]
fn the_depth_of_raw_frames_may_come_from_the_sidecar() {
    let dir = tempfile::tempdir().unwrap();
    let mode = Mode::raw(12, [4, 64]);
    let frames = mode.noise(2, 5);
    let open = |path: &Path| open(path, &OpenOptions::default());
    let old: Vec<u8> = String::from_utf8_lossy(&mode.header(1)).replace("MQ1A", "0000").into();
    let mut bytes = Vec::new();
    for frame in &frames {
        bytes.extend(&old);
        bytes.extend(mode.payload(frame));
    }
    let path = dir.path().join("run.mib");
    std::fs::write(&path, &bytes).unwrap();
    let has_no_depth = |path: &Path| {
        let error = open(path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("counter depth"), "{error}");
    };
    has_no_depth(&path);
    sidecar(&dir, "run.hdr", "Counter Depth (number):\t12");
    assert_eq!(read_all(&open(&path).unwrap()), frames.concat());
    // A separate acquisition may have another depth; a file that continues it has the same.
    let other = dir.path().join("run2.mib");
    std::fs::write(&other, &bytes).unwrap();
    has_no_depth(&other);
    let next: Vec<u8> = String::from_utf8_lossy(&mode.header(3)).replace("MQ1A", "0000").into();
    std::fs::write(&other, [next, mode.payload(&frames[0])].concat()).unwrap();
    assert_eq!(read_all(&open(&other).unwrap()), [&frames[..], &frames[..1]].concat().concat());
}
