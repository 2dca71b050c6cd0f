//! SEQ files, and the files beside them.

use crate::contiguous::{any_of, check, frames, hostile, mrc, plain};
use crate::oracle::{Frames, any_questions};
use framefold_core::{DType, ErrorKind, MetadataValue, Quantity};
use framefold_io::{Backend, OpenOptions, detect, open_as};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

fn bytes(frames: &Frames, version: i32, footer: usize) -> Vec<u8> {
    let mut header = vec![0; if version >= 5 { 8192 } else { 1024 }];
    let mut put = |at: usize, value: usize| {
        header[at..at + 4].copy_from_slice(&u32::try_from(value).unwrap().to_le_bytes());
    };
    put(0, 0xFEED);
    put(28, usize::try_from(version).unwrap());
    put(32, 1024);
    put(548, frames.sig_shape[1]);
    put(552, frames.sig_shape[0]);
    put(556, 8 * frames.size());
    put(560, 7);
    put(564, frames.frame_bytes());
    put(568, 100);
    put(572, frames.n_frames);
    put(580, frames.frame_bytes() + footer);
    header[584..592].copy_from_slice(&40f64.to_le_bytes());
    for (at, text) in [(4, "Norpix seq"), (36, "StreamPix")] {
        for (i, unit) in text.encode_utf16().enumerate() {
            header[at + 2 * i..][..2].copy_from_slice(&unit.to_le_bytes());
        }
    }
    for frame in 0..frames.n_frames {
        header.extend(frames.frame(frame));
        header.extend(vec![0xA5; footer]);
    }
    header
}

fn write(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

proptest! {
    #[test]
    fn equals_what_was_written(
        dtype in any_of(&[DType::U8, DType::U16, DType::U32]),
        version in 3i32..7,
        footer in prop_oneof![Just(0usize), Just(8), 0usize..99],
        n_frames in 1usize..8,
        sig in prop::collection::vec(1usize..9, 2),
        seed in any::<u64>(),
        ask in any_questions(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let frames = Frames::random(dtype.into(), n_frames, &sig, seed);
        let path = write(dir.path(), "scan.seq", &bytes(&frames, version, footer));
        check("seq", &path, &frames, &ask, n_frames == 1 || footer.is_multiple_of(dtype.size()));
    }
}

#[test]
fn cut_and_lying_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "scan.seq", &bytes(&frames(DType::U16, 4, &[6, 5]), 4, 12));
    hostile::cut_everywhere("seq", &path, 1024);
    let path = write(dir.path(), "scan.seq", &bytes(&frames(DType::U16, 1, &[6, 5]), 4, 12));
    hostile::lie_everywhere("seq", &path, 40);
    // What follows is the description.
    let mut whole = std::fs::read(&path).unwrap();
    for at in 548..632 {
        for value in [0, 0x7f, 0xff] {
            let before = std::mem::replace(&mut whole[at], value);
            if let Ok(dataset) = plain("seq", &write(dir.path(), "lie.seq", &whole)) {
                drop(crate::contiguous::read_all(&dataset));
            }
            whole[at] = before;
        }
    }
}

#[test]
fn what_is_not_read_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let whole = bytes(&frames(DType::U16, 2, &[6, 5]), 5, 12);
    for (at, value, kind, words) in [
        (620, 2, ErrorKind::Unsupported, "the compression is 2"),
        (568, 101, ErrorKind::Unsupported, "the image format is 101"),
        (556, 12, ErrorKind::BadFile, "pixels have 12 bits"),
        (548, 0, ErrorKind::BadFile, "the width is 0"),
        (548, 6, ErrorKind::BadFile, "60 bytes of pixels, but 6 x 6 pixels of 16 bits take 72"),
        (552, 7, ErrorKind::BadFile, "60 bytes of pixels, but 7 x 5 pixels of 16 bits take 70"),
        (556, 8, ErrorKind::BadFile, "60 bytes of pixels, but 6 x 5 pixels of 8 bits take 30"),
        (564, 30, ErrorKind::BadFile, "30 bytes of pixels, but 6 x 5 pixels of 16 bits take 60"),
        (580, 59, ErrorKind::BadFile, "frames are 59 bytes apart"),
    ] {
        let mut changed = whole.clone();
        changed[at] = value;
        let error = plain("auto", &write(dir.path(), "a.seq", &changed)).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.message().contains(words), "{error}");
    }
    // Without the number of bytes, there is nothing to compare.
    let mut without = whole.clone();
    without[564] = 0;
    assert!(plain("seq", &write(dir.path(), "a.seq", &without)).unwrap().warnings().is_empty());
    let mut other = whole;
    other[4] = b'M';
    let error = detect(write(dir.path(), "a.seq", &other)).unwrap_err();
    assert!(error.to_string().contains("not 'Norpix'"), "{error}");
}

const LIST: &str = "<Configuration><BadPixels><BadPixelMap Rows=\"6\" Columns=\"5\">\
                    <Defect Row=\"2\" Column=\"3\"/></BadPixelMap></BadPixels><FileInfo>\
                    <CameraType Value=\"DE-16\"/><HT Value=\"200\"/></FileInfo></Configuration>";

#[test]
fn files_beside_it_bring_corrections() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "scan.seq", &bytes(&frames(DType::U16, 3, &[6, 5]), 5, 12));
    assert!(plain("seq", &path).unwrap().corrections().is_none());
    let mut dark = frames(DType::U16, 1, &[6, 5]);
    dark.bytes.fill(1);
    for (dark_name, gain_name) in
        [("scan.seq.dark.mrc", "scan.seq.gain.mrc"), ("scan.dark.mrc", "scan.gain.mrc")]
    {
        let mut image = mrc::bytes(&dark, 0, b"MAP ");
        // As the cameras write it.
        image[8..12].copy_from_slice(&32_766i32.to_le_bytes());
        write(dir.path(), dark_name, &image);
        let dataset = plain("seq", &path).unwrap();
        let corrections = dataset.corrections().unwrap();
        assert_eq!(corrections.dark().unwrap().as_slice::<u16>().unwrap(), [0x0101; 30]);
        assert!(corrections.gain().is_none());
        write(dir.path(), gain_name, &image);
        assert!(plain("seq", &path).unwrap().corrections().unwrap().gain().is_some());
        for name in [dark_name, gain_name] {
            std::fs::remove_file(dir.path().join(name)).unwrap();
        }
    }
    write(dir.path(), "scan.seq.Config.Metadata.xml", LIST.as_bytes());
    assert!(plain("seq", &path).unwrap().corrections().is_none());
    write(dir.path(), "scan.seq.metadata", &[0; 327]);
    let dataset = plain("seq", &path).unwrap();
    assert_eq!(dataset.corrections().unwrap().excluded(), [13]);
    let facts = &dataset.source().info().metadata;
    assert_eq!(facts.get(Quantity::Detector), Some(&MetadataValue::Text("DE-16".into())));
    assert_eq!(facts.get(Quantity::AccelerationVoltage), Some(&MetadataValue::Number(200.0)));
    assert_eq!(facts.get(Quantity::FrameTime), Some(&MetadataValue::Number(0.025)));
    let options = |sig_shape| OpenOptions { sig_shape, ..OpenOptions::default() };
    // Pixels have other neighbours there, which would repair them.
    let reshaped = || open_as("seq", &path, &options(Some(vec![5, 6]))).unwrap();
    assert!(reshaped().corrections().is_none());
    assert!(reshaped().warnings()[0].contains("not used for sig_shape [5, 6]"));
    write(dir.path(), "scan.dark.mrc", &mrc::bytes(&dark, 0, b"MAP "));
    assert_eq!(reshaped().corrections().unwrap().sig_shape(), [5, 6]);
    assert!(reshaped().corrections().unwrap().excluded().is_empty());
    let off = OpenOptions::default().with("enable_corrections", false);
    assert!(open_as("seq", &path, &off).unwrap().corrections().is_none());
}

#[test]
fn corrections_that_do_not_fit_are_errors_that_name_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "scan.seq", &bytes(&frames(DType::U16, 3, &[6, 5]), 5, 12));
    let image = mrc::bytes(&frames(DType::F32, 1, &[5, 6]), 0, b"MAP ");
    for content in [&image[..], &image[..1024 + 30], &image[..200], b"hello"] {
        let dark = write(dir.path(), "scan.seq.dark.mrc", content);
        for backend in [Backend::Mmap, Backend::Buffered] {
            let options = OpenOptions { backend, ..OpenOptions::default() };
            let error = open_as("seq", &path, &options).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadFile, "{error}");
            assert_eq!(error.path(), Some(dark.as_path()));
            assert!(error.to_string().contains("enable_corrections=False"), "{error}");
            let off = options.with("enable_corrections", false);
            assert!(open_as("seq", &path, &off).is_ok());
        }
    }
    std::fs::remove_file(dir.path().join("scan.seq.dark.mrc")).unwrap();
    write(dir.path(), "scan.seq.metadata", &[0; 10]);
    for len in (0..LIST.len()).step_by(7) {
        let xml = write(dir.path(), "scan.seq.Config.Metadata.xml", &LIST.as_bytes()[..len]);
        let error = plain("seq", &path).unwrap_err();
        assert_eq!((error.kind(), error.path()), (ErrorKind::BadFile, Some(xml.as_path())));
    }
}

#[test]
fn frames_know_when_they_were_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let frames = frames(DType::U16, 3, &[6, 5]);
    let open = |version: i32, footer: usize, times: &[(u32, u16, u16)]| {
        let mut whole = bytes(&frames, version, footer);
        let first = if version >= 5 { 8192 } else { 1024 };
        for (i, (seconds, milliseconds, microseconds)) in times.iter().enumerate() {
            let at = first + i * (frames.frame_bytes() + footer) + frames.frame_bytes();
            let mut stamp = seconds.to_le_bytes().to_vec();
            stamp.extend(milliseconds.to_le_bytes());
            stamp.extend(microseconds.to_le_bytes());
            stamp.truncate(footer);
            whole[at..at + stamp.len()].copy_from_slice(&stamp);
        }
        let dataset = plain("seq", &write(dir.path(), "scan.seq", &whole)).unwrap();
        let info = dataset.source().info();
        let found = info.metadata.get(Quantity::RecordedAt).cloned();
        let details = info.details.iter().map(|(name, value)| format!("{name}: {value}"));
        (found, details.collect::<Vec<_>>().join("; "))
    };
    let times = [(1_435_776_075, 775, 430), (1_435_776_075, 808, 227), (1_435_776_076, 775, 430)];
    let text = |text: &str| Some(MetadataValue::Text(text.to_owned()));
    let (found, details) = open(5, 99, &times);
    assert_eq!(found, text("2015-07-01T18:41:15.775430Z"));
    assert!(details.contains("last frame recorded at: 2015-07-01T18:41:16.775430Z"), "{details}");
    assert!(details.contains("mean time from frame to frame: 0.500000 s"), "{details}");
    // Before version 5, there are no microseconds.
    assert_eq!(open(4, 99, &times).0, text("2015-07-01T18:41:15.775000Z"));
    assert_eq!(open(4, 6, &times).0, text("2015-07-01T18:41:15.775000Z"));
    // No room, or nothing that could be a time.
    assert_eq!(open(5, 6, &times).0, None);
    assert_eq!(open(5, 0, &[]).0, None);
    assert_eq!(open(5, 8, &[]).0, None);
    assert_eq!(open(5, 8, &[(1_435_776_075, 1001, 0)]).0, None);
}

/// Slots that a recording allocated and never wrote are no frames: from a frame of zeros the dark
/// frame would be subtracted as from any other, and the sums would be wrong.
#[test]
fn frames_are_those_of_the_header_and_slots_never_written_are_none() {
    let dir = tempfile::tempdir().unwrap();
    let frames = frames(DType::U16, 8, &[6, 5]);
    let stride = frames.frame_bytes() + 12;
    let stamp = [&1_435_776_075u32.to_le_bytes()[..], &[0; 8]].concat();
    // The header counts `counted`; the first `stamped` frames have a time stamp, all after the first
    // `written` ones are zero; the file is cut after so many bytes of the last slot.
    let open = |counted: u32, stamped: usize, written: usize, cut: usize| {
        let mut whole = bytes(&frames, 5, 12);
        whole[572..576].copy_from_slice(&counted.to_le_bytes());
        for slot in 0..8 {
            let at = 8192 + slot * stride;
            if slot >= written {
                whole[at..at + stride].fill(0);
            }
            let tail = at + frames.frame_bytes();
            whole[tail..tail + 12].fill(0);
            if slot < stamped {
                whole[tail..tail + 12].copy_from_slice(&stamp);
            }
        }
        whole.truncate(whole.len() - cut);
        let dataset = plain("seq", &write(dir.path(), "scan.seq", &whole)).unwrap();
        let info = dataset.source().info();
        (info.n_frames, info.warnings.join("; "))
    };
    for (counted, stamped, written, cut, expected, words) in [
        (8, 8, 8, 0, 8, ""),
        (5, 5, 5, 0, 5, "the header counts 5 frames, and the file has room for 8"),
        (5, 8, 8, 0, 5, "room for 8"),
        (8, 3, 3, 0, 3, "the last 5 of 8 frames were never written"),
        (6, 3, 3, 0, 3, "the last 3 of 6 frames were never written"),
        // A header that cannot be right: the size counts.
        (0, 8, 8, 0, 8, ""),
        (0, 3, 3, 0, 3, "never written"),
        (9, 8, 8, 0, 8, "the header counts 9 frames, but only 8 are there"),
        (u32::MAX, 3, 3, 0, 3, "never written"),
        // Frames of zeros with a time stamp, and pixels without one, are frames.
        (8, 8, 3, 0, 8, ""),
        (8, 3, 5, 0, 5, "never written"),
        // Without time stamps, or where one was cut off, this cannot be known.
        (8, 0, 3, 0, 8, ""),
        (8, 3, 3, 12, 8, "the file ends 12 bytes before its last frame does"),
        (8, 3, 3, 13, 3, "59 bytes after the last of 7 whole frames"),
    ] {
        let (n_frames, warnings) = open(counted, stamped, written, cut);
        let case = format!("{counted} {stamped} {written} {cut}: {warnings}");
        assert_eq!(n_frames, expected, "{case}");
        assert!(warnings.contains(words) && (words.is_empty() == warnings.is_empty()), "{case}");
    }
}

/// Each frame would begin further from where it does.
#[test]
fn the_bytes_from_frame_to_frame_are_those_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let frames = frames(DType::U16, 4, &[6, 5]);
    let open = |stamped: usize, stride: u32| {
        let mut whole = bytes(&frames, 5, 40);
        for slot in 0..stamped {
            let tail = 8192 + slot * 100 + 60;
            whole[tail..tail + 40].fill(0);
            whole[tail..tail + 4].copy_from_slice(&1_435_776_075u32.to_le_bytes());
        }
        whole[580..584].copy_from_slice(&stride.to_le_bytes());
        plain("seq", &write(dir.path(), "scan.seq", &whole))
    };
    for (stamped, last) in [(4, true), (3, false), (0, false)] {
        let dataset = open(stamped, 100).unwrap();
        assert!(dataset.warnings().is_empty());
        let info = dataset.source().info();
        assert_eq!(info.metadata.get(Quantity::RecordedAt).is_some(), stamped > 0);
        assert_eq!(info.details.iter().any(|(name, _)| name.starts_with("last frame")), last);
    }
    for stride in [96, 98, 99, 101, 102, 104, 110] {
        let error = open(4, stride).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFile, "{error}");
        let words = format!("after it none: frames are not {stride} bytes apart");
        assert!(error.message().contains(&words), "{error}");
        assert!(error.path().is_some_and(|path| path.ends_with("scan.seq")));
        // Without time stamps, the length of the file says that something is wrong.
        assert!(!open(0, stride).unwrap().warnings().is_empty(), "{stride}");
    }
    // There is no room for time stamps, or every second one is taken.
    for stride in [60, 200] {
        assert!(!open(4, stride).unwrap().warnings().is_empty());
    }
    let warning = open(0, 104).unwrap().warnings().join("; ");
    assert!(warning.contains("ends 16 bytes before its last frame does"), "{warning}");
}

/// Whole frames as a movie in two halves, `p` frames of each in an image: the upper half upside
/// down, its last row first.
fn write_halves(dir: &Path, frames: &Frames, p: usize) -> [PathBuf; 3] {
    let [height, width] = [frames.sig_shape[0], frames.sig_shape[1]];
    let row = width * frames.size();
    let part = |rows: &dyn Fn(usize) -> usize| Frames {
        stored: frames.stored,
        n_frames: frames.n_frames / p,
        sig_shape: vec![p * height / 2, width],
        bytes: (0..frames.n_frames)
            .flat_map(|frame| (0..height / 2).map(move |y| (frame, rows(y))))
            .flat_map(|(frame, y)| frames.frame(frame)[y * row..][..row].to_vec())
            .collect(),
    };
    let xml = format!(
        "<Configuration><FileInfo><CameraType Value=\"Celeritas Camera\"/>\
         <ImageSizeX Value=\"{width}\"/><ImageSizeY Value=\"{height}\"/>\
         <FrameRate Value=\"80.0\"/></FileInfo></Configuration>"
    );
    [
        write(dir, "m_Top_1.160.seq", &bytes(&part(&|y| height / 2 - 1 - y), 5, 8)),
        write(dir, "m_Bottom_1.196.seq", &bytes(&part(&|y| height / 2 + y), 5, 8)),
        write(dir, "m.seq.Config.Metadata.xml", xml.as_bytes()),
    ]
}

proptest! {
    #[test]
    fn halves_are_one_frame(
        dtype in any_of(&[DType::U8, DType::U16]),
        p in 1usize..4,
        n_images in 1usize..4,
        sig in prop::collection::vec(1usize..7, 2),
        seed in any::<u64>(),
        ask in any_questions(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let sig = [2 * sig[0], sig[1]];
        let frames = Frames::random(dtype.into(), p * n_images, &sig, seed);
        for path in write_halves(dir.path(), &frames, p) {
            check("seq", &path, &frames, &ask, false);
        }
    }
}

#[test]
fn halves_bring_what_belongs_to_whole_frames() {
    let dir = tempfile::tempdir().unwrap();
    let [top, bottom, xml] = write_halves(dir.path(), &frames(DType::U16, 6, &[6, 5]), 3);
    let image = mrc::bytes(&frames(DType::U16, 1, &[6, 5]), 0, b"MAP ");
    write(dir.path(), "m.seq.dark.mrc", &image);
    for path in [&top, &bottom, &xml] {
        let dataset = plain("auto", path).unwrap();
        assert_eq!(dataset.corrections().unwrap().dark().unwrap().len(), 30);
        let info = dataset.source().info();
        assert_eq!(info.paths, [top.clone(), bottom.clone()]);
        let rate = info.metadata.get(Quantity::FrameTime);
        assert_eq!(rate, Some(&MetadataValue::Number(1.0 / 80.0)));
    }
    let off = OpenOptions::default().with("enable_corrections", false);
    assert!(open_as("seq", &xml, &off).unwrap().corrections().is_none());
    let reshaped = OpenOptions { sig_shape: Some(vec![30]), ..OpenOptions::default() };
    assert_eq!(open_as("seq", &top, &reshaped).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn a_half_that_has_no_other_is_opened_by_itself_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let whole = frames(DType::U16, 6, &[6, 5]);
    let open = |change: &dyn Fn(&[PathBuf; 3])| {
        let paths = write_halves(dir.path(), &whole, 3);
        change(&paths);
        let dataset = plain("seq", &paths[1]).unwrap();
        let info = dataset.source().info();
        assert!(plain("seq", &paths[2]).is_err());
        (info.sig_shape.clone(), info.warnings.join("; "))
    };
    let cut = |path: &Path| {
        let bytes = std::fs::read(path).unwrap();
        std::fs::write(path, &bytes[..bytes.len() - 9 * 10 - 8]).unwrap();
    };
    let (sig_shape, warnings) = open(&|paths| std::fs::remove_file(&paths[0]).unwrap());
    assert_eq!(sig_shape, [9, 5]);
    assert!(warnings.contains("has 0 upper and 1 lower halves beside it"), "{warnings}");
    let (_, warnings) = open(&|paths| std::fs::remove_file(&paths[2]).unwrap());
    assert!(warnings.contains("which tells the size of whole frames"), "{warnings}");
    let other = |paths: &[PathBuf; 3]| {
        let xml = std::fs::read_to_string(&paths[2]).unwrap();
        std::fs::write(&paths[2], xml.replace("Y Value=\"6\"", "Y Value=\"8\"")).unwrap();
    };
    let (_, warnings) = open(&other);
    assert!(warnings.contains("do not hold halves of frames of 8 x 5"), "{warnings}");
    // Frames of which there is one half only are left out.
    let [top, bottom, _] = write_halves(dir.path(), &whole, 3);
    cut(&top);
    let dataset = plain("seq", &bottom).unwrap();
    let info = dataset.source().info();
    assert_eq!((info.n_frames, &info.sig_shape[..]), (3, &[6, 5][..]));
    let warnings = info.warnings.join("; ");
    assert!(warnings.contains("1 images of upper and 2 of lower halves"), "{warnings}");
    // A second recording of the same name.
    std::fs::copy(&top, dir.path().join("m_Top_2.seq")).unwrap();
    let dataset = plain("seq", &bottom).unwrap();
    let warnings = dataset.source().info().warnings.join("; ");
    assert!(warnings.contains("has 2 upper and 1 lower halves"), "{warnings}");
}
