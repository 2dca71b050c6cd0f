//! FRMS6 recordings.

use crate::contiguous::{hostile, plain};
use crate::oracle::{Frames, any_questions};
use framefold_core::{DType, ErrorKind, MetadataValue, Quantity};
use framefold_io::{OpenOptions, detect, open_as};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

/// A frame as the camera stores it: cell by cell from the place where it is shown.
fn fold(frames: &Frames, frame: usize, binning: usize) -> Vec<u8> {
    let (rows, columns) = (frames.sig_shape[0] / binning, frames.sig_shape[1]);
    let (width, height) = (2 * columns, rows / 2);
    let mut stored = vec![0; 2 * width * height];
    for y in 0..rows {
        for x in 0..columns {
            let (row, column) =
                if y < height { (y, x) } else { (rows - 1 - y, 2 * columns - 1 - x) };
            let from = 2 * (y * binning * columns + x);
            let to = 2 * (row * width + column);
            stored[to..to + 2].copy_from_slice(&frames.frame(frame)[from..from + 2]);
        }
    }
    stored
}

/// Random frames whose rows come `binning` times each.
fn repeated(rows: usize, columns: usize, binning: usize, n_frames: usize, seed: u64) -> Frames {
    let once = Frames::random(DType::U16.into(), n_frames, &[rows, columns], seed);
    let each_row = once.bytes.chunks(2 * columns);
    let bytes = each_row.flat_map(|row| row.repeat(binning)).collect();
    Frames { sig_shape: vec![rows * binning, columns], bytes, ..once }
}

fn file(frames: &Frames, range: std::ops::Range<usize>, binning: usize, count: bool) -> Vec<u8> {
    let columns = u16::try_from(2 * frames.sig_shape[1]).unwrap();
    let rows = u16::try_from(frames.sig_shape[0] / binning / 2).unwrap();
    let mut bytes = vec![0; 1024];
    bytes[..4].copy_from_slice(&[0, 4, 64, 0]);
    bytes[7] = 6;
    bytes[88..90].copy_from_slice(&columns.to_le_bytes());
    bytes[90..92].copy_from_slice(&rows.to_le_bytes());
    if count {
        bytes[1020..].copy_from_slice(&u32::try_from(range.len()).unwrap().to_le_bytes());
    }
    for frame in range {
        bytes.extend([0xA5; 64]);
        bytes.extend(fold(frames, frame, binning));
    }
    bytes
}

/// Writes a recording with files of `per_file` frames; gives the path of its `.hdr` file.
fn write(
    dir: &Path,
    frames: &Frames,
    dark: Option<&Frames>,
    binning: usize,
    per_file: usize,
) -> PathBuf {
    let name = |n: usize| dir.join(format!("scan_{n:03}.frms6"));
    if let Some(dark) = dark {
        std::fs::write(name(0), file(dark, 0..dark.n_frames, binning, true)).unwrap();
    }
    let starts = (0..frames.n_frames).step_by(per_file);
    for (i, start) in starts.enumerate() {
        let range = start..(start + per_file).min(frames.n_frames);
        std::fs::write(name(i + 1), file(frames, range, binning, i % 2 == 0)).unwrap();
    }
    let hdr = dir.join("scan.hdr");
    let text = format!(
        "[measurementInfo]\ndwelltimemicroseconds = 500\nsignalframes = {0}\n\
         stemimagesize = {0}x1\nreadoutmode = \"bin: {binning}, windowing: 1 x 1 \"\n",
        frames.n_frames
    );
    std::fs::write(&hdr, text).unwrap();
    hdr
}

proptest! {
    #[test]
    fn equals_what_was_written(
        (height, columns) in (1usize..4, 1usize..6),
        binning in prop::sample::select(vec![1usize, 2, 4]),
        n_frames in 1usize..8,
        per_file in 1usize..9,
        seed in any::<u64>(),
        ask in any_questions(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let frames = repeated(2 * height, columns, binning, n_frames, seed);
        let path = write(dir.path(), &frames, Some(&frames), binning, per_file);
        crate::contiguous::check("frms6", &path, &frames, &ask, false);
        let dataset = plain("frms6", &path).unwrap();
        prop_assert_eq!(dataset.shape().nav(), [n_frames, 1]);
        let reshaped = OpenOptions {
            sig_shape: Some(vec![frames.cells()]), nav_shape: Some(vec![n_frames]),
            ..OpenOptions::default()
        };
        let dataset = open_as("frms6", &path, &reshaped).unwrap();
        let flat = Frames { sig_shape: vec![frames.cells()], ..frames };
        crate::oracle::check(dataset.source().as_ref(), &flat, &crate::oracle::all(n_frames), &ask);
    }
}

#[test]
fn stored_rows_as_documented() {
    // Two stored rows of 8: two chips of 4 columns.
    let mut bytes = vec![0; 1024];
    bytes[..4].copy_from_slice(&[0, 4, 64, 0]);
    bytes[7] = 6;
    (bytes[88], bytes[90]) = (8, 2);
    bytes.extend([0; 64]);
    bytes.extend((1u16..=16).flat_map(u16::to_le_bytes));
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a_001.frms6"), bytes).unwrap();
    let hdr = dir.path().join("a.hdr");
    std::fs::write(&hdr, "[measurementInfo]\nreadoutmode=\"bin: 1, windowing: 1 x 1\"\n").unwrap();
    let dataset = plain("auto", &hdr).unwrap();
    let frame = &crate::contiguous::read_all(&dataset).unwrap()[0].1;
    let pixels: Vec<u16> =
        frame.chunks(2).map(|pixel| u16::from_ne_bytes(pixel.try_into().unwrap())).collect();
    assert_eq!(pixels, [1, 2, 3, 4, 9, 10, 11, 12, 16, 15, 14, 13, 8, 7, 6, 5]);
    assert!(dataset.source().info().warnings[0].contains("dark frames"));
}

#[test]
fn dark_frames_are_averaged() {
    let dir = tempfile::tempdir().unwrap();
    let frames = repeated(4, 3, 2, 5, 3);
    let dark = repeated(4, 3, 2, 3, 9);
    let path = write(dir.path(), &frames, Some(&dark), 2, 2);
    let dataset = plain("frms6", &path).unwrap();
    let corrections = dataset.corrections().unwrap();
    let found = corrections.dark().unwrap().as_slice::<f32>().unwrap();
    for (cell, &mean) in found.iter().enumerate() {
        let at = |frame: usize| {
            let bytes = &dark.frame(frame)[2 * cell..][..2];
            f64::from(u16::from_le_bytes(bytes.try_into().unwrap()))
        };
        assert_eq!(mean, ((at(0) + at(1) + at(2)) / 3.0) as f32);
    }
    let off = OpenOptions::default().with("enable_corrections", false);
    assert!(open_as("frms6", &path, &off).unwrap().corrections().is_none());
    let map = dir.path().join("gain.csv");
    std::fs::write(&map, "1;2;3;4;5;6;7;8\n".repeat(3)).unwrap();
    let with_gain = off.with("gain_map_path", map.clone());
    let dataset = open_as("frms6", &path, &with_gain).unwrap();
    let corrections = dataset.corrections().unwrap();
    assert!(corrections.dark().is_none());
    let gain = corrections.gain().unwrap().as_slice::<f64>().unwrap();
    assert_eq!(gain[..4], [1.0, 1.0, 1.0, 2.0]);
    let mat = with_gain.clone().with("gain_map_path", dir.path().join("gain.mat"));
    assert_eq!(open_as("frms6", &path, &mat).unwrap_err().kind(), ErrorKind::Unsupported);
    std::fs::write(&map, "1;2\n").unwrap();
    let error = open_as("frms6", &path, &with_gain).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::BadFile, Some(map.as_path())));
}

#[test]
fn any_file_of_the_recording_opens_it() {
    let dir = tempfile::tempdir().unwrap();
    let frames = repeated(4, 3, 1, 5, 3);
    let hdr = write(dir.path(), &frames, Some(&frames), 1, 2);
    let expected = crate::contiguous::read_all(&plain("frms6", &hdr).unwrap()).unwrap();
    for n in 0..4 {
        let path = dir.path().join(format!("scan_{n:03}.frms6"));
        assert_eq!(detect(&path).unwrap().format.name, "frms6");
        assert_eq!(crate::contiguous::read_all(&plain("auto", &path).unwrap()).unwrap(), expected);
    }
    assert_eq!(detect(&hdr).unwrap().format.name, "frms6");
    let facts = &plain("auto", &hdr).unwrap().source().info().metadata.clone();
    assert_eq!(facts.get(Quantity::FrameTime), Some(&MetadataValue::Number(0.0005)));
    std::fs::remove_file(dir.path().join("scan_002.frms6")).unwrap();
    let error = plain("auto", &hdr).unwrap_err();
    assert!(error.message().contains("file number 2 of the recording is missing"), "{error}");
    std::fs::remove_file(&hdr).unwrap();
    let error = plain("auto", &dir.path().join("scan_001.frms6")).unwrap_err();
    assert!(error.message().contains("no file 'scan.hdr'"), "{error}");
}

#[test]
fn a_file_that_is_cut_leaves_a_gap() {
    let dir = tempfile::tempdir().unwrap();
    let frames = repeated(4, 3, 1, 6, 3);
    let hdr = write(dir.path(), &frames, None, 1, 3);
    let first = dir.path().join("scan_001.frms6");
    let whole = std::fs::read(&first).unwrap();
    std::fs::write(&first, &whole[..whole.len() - 1]).unwrap();
    let dataset = plain("frms6", &hdr).unwrap();
    assert_eq!(dataset.positions_with_data(), [0..2, 3..6]);
    let read = crate::contiguous::read_all(&dataset).unwrap();
    assert!(read.iter().all(|(i, bytes)| bytes == frames.frame(usize::try_from(*i).unwrap())));
    assert!(dataset.source().info().warnings.iter().any(|w| w.contains("only 2 are there")));
}

#[test]
fn cut_and_lying_files() {
    let dir = tempfile::tempdir().unwrap();
    let frames = repeated(4, 3, 1, 4, 3);
    let hdr = write(dir.path(), &frames, None, 1, 4);
    let path = dir.path().join("scan_001.frms6");
    hostile::cut_everywhere("frms6", &path, 1024);
    hostile::lie_everywhere("frms6", &path, 100);
    let text = std::fs::read(&hdr).unwrap();
    for len in 0..text.len() {
        std::fs::write(&hdr, &text[..len]).unwrap();
        if let Err(error) = plain("frms6", &hdr) {
            assert_eq!((error.kind(), error.path()), (ErrorKind::BadFile, Some(hdr.as_path())));
        }
    }
    std::fs::write(&hdr, &text).unwrap();
    hostile::lie_everywhere("frms6", &hdr, text.len());
}
