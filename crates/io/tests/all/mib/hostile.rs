//! Files that are broken, cut off, or something else: errors in words, never a panic.

use super::read::{alone, open};
use super::writer::Mode;
use framefold_core::{ErrorKind, FrameIndices, TilingScheme};
use framefold_io::{Backend, OpenOptions, detect};
use std::path::PathBuf;
use tempfile::TempDir;

fn file(dir: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join("data.mib");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn quad() -> Mode {
    Mode::quad(6, [4, 32])
}

#[test]
fn a_file_cut_off_inside_of_the_first_frame_is_an_error_at_every_byte() {
    let dir = tempfile::tempdir().unwrap();
    let whole = quad().file(1, &quad().noise(1, 1));
    for len in 0..whole.len() {
        let error = open(file(&dir, &whole[..len]), &alone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFile, "{len} bytes: {error}");
        assert!(error.path().is_some() && error.hint().is_some(), "{len} bytes: {error}");
    }
    assert!(open(file(&dir, &whole), &alone()).is_ok());
}

#[test]
fn every_corrupted_header_byte_is_an_error_or_harmless() {
    let dir = tempfile::tempdir().unwrap();
    let mode = quad();
    let whole = mode.file(1, &mode.noise(2, 1));
    for offset in 0..mode.header_len() {
        for byte in [0, b'-', b'9', b',', 0xFF] {
            let mut bytes = whole.clone();
            bytes[offset] = byte;
            if let Ok(dataset) = open(file(&dir, &bytes), &alone()) {
                // Whatever was opened can be read to its end.
                super::read::read_all(&dataset);
            }
        }
    }
}

#[test]
fn sizes_that_do_not_add_up_are_found_at_the_last_frame() {
    let dir = tempfile::tempdir().unwrap();
    let mode = Mode::plain("U16", [8, 16]);
    let whole = mode.file(1, &mode.noise(40, 1));
    let lie = |from: &str, to: &str| {
        let mut bytes = whole.clone();
        let header = String::from_utf8(bytes[..384].to_vec()).unwrap().replacen(from, to, 1);
        bytes[..384].copy_from_slice(header.as_bytes());
        open(file(&dir, &bytes), &alone()).unwrap_err()
    };
    for (from, to) in
        [(",0016,", ",0017,"), (",0008,", ",0004,"), (",00384,", ",00380,"), ("U16", "U08")]
    {
        let error = lie(from, to);
        assert_eq!(error.kind(), ErrorKind::BadFile, "{from} {to}: {error}");
        assert!(error.frame().is_some() && error.offset() > Some(384), "{from} {to}: {error}");
    }
    let error = lie(",0008,", ",9999,");
    assert!(error.to_string().contains("bytes, expected at least"), "{error}");
    let error = lie(",0008,", ",0000,");
    assert!(error.to_string().contains("'height' is '0000'"), "{error}");
}

#[test]
fn frames_of_two_sizes_in_one_file_are_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (Mode::plain("U08", [8, 16]), Mode::plain("U08", [16, 8]));
    let mut bytes = a.file(1, &a.noise(1, 1));
    bytes.extend(b.file(2, &b.noise(1, 1)));
    let error = open(file(&dir, &bytes), &alone()).unwrap_err();
    assert!(
        error.to_string().contains("16 x 8") && error.to_string().contains("8 x 16"),
        "{error}"
    );
}

#[test]
fn what_is_no_mib_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let error = open(file(&dir, b"\x93NUMPY\x01\x00v\x00"), &alone()).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::BadFile, Some(0)));
    assert!(error.to_string().contains("'\\x93NUM'"), "{error}");
    assert!(open(file(&dir, b""), &alone()).unwrap_err().to_string().contains("empty"));
    assert_eq!(open(dir.path(), &alone()).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let missing = open(dir.path().join("no.mib"), &alone()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Io);
    let missing = open(dir.path().join("no.hdr"), &alone()).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::Io);
}

#[test]
fn detection_goes_by_content() {
    let dir = tempfile::tempdir().unwrap();
    let mode = quad();
    let renamed = dir.path().join("data.xyz");
    std::fs::write(&renamed, mode.file(1, &mode.noise(2, 1))).unwrap();
    let detection = detect(&renamed).unwrap();
    assert_eq!(detection.format.name, "mib");
    assert!(detection.reason.contains("64 x 2 pixels in format R64"), "{}", detection.reason);
    let dataset = open(&renamed, &OpenOptions::default()).unwrap();
    assert_eq!(dataset.source().info().n_frames, 2);

    let sidecar = dir.path().join("a.hdr");
    std::fs::write(&sidecar, "HDR,\t\r\nEnd\t").unwrap();
    assert_eq!(detect(&sidecar).unwrap().format.name, "mib");

    // Damaged beyond the magic: still MIB, so that opening it says what is wrong.
    let damaged = file(&dir, b"MQ1,000001,0038");
    assert_eq!(detect(&damaged).unwrap().format.name, "mib");

    let other = file(&dir, b"something else entirely");
    let error = detect(other).unwrap_err().to_string();
    assert!(error.contains("neither with 'MQ1,' nor with 'HDR'"), "{error}");
}

#[test]
fn options_without_meaning_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(&dir, &quad().file(1, &quad().noise(1, 1)));
    let options = OpenOptions::default().with("frame_header", 384u64);
    let error = open(path, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("'frame_header'"), "{error}");
}

#[test]
fn what_is_no_frame_in_the_middle_is_found_when_it_is_read() {
    for mode in [Mode::plain("U08", [8, 16]), Mode::plain("U16", [8, 16]), Mode::raw(6, [64, 64])] {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = mode.file(1, &mode.noise(5, 1));
        let record = bytes.len() / 5;
        bytes[3 * record..4 * record].fill(0);
        let path = file(&dir, &bytes);
        for backend in [Backend::Mmap, Backend::Buffered] {
            let dataset = open(&path, &OpenOptions { backend, ..alone() }).unwrap();
            let sig = &dataset.source().info().sig_shape;
            let halves = TilingScheme::try_new(sig, &[sig[0] / 2, sig[1]], 5).unwrap();
            let mut reader = dataset.source().reader().unwrap();
            reader.read(FrameIndices::Run(0..3), &halves.slices()[0]).unwrap();
            reader.read(FrameIndices::List(&[0, 2, 4]), &halves.slices()[0]).unwrap();
            for frames in [FrameIndices::Run(0..5), FrameIndices::List(&[1, 3])] {
                let error = reader.read(frames, &halves.slices()[0]).map(|_| ()).unwrap_err();
                assert_eq!((error.kind(), error.frame()), (ErrorKind::BadFile, Some(3)));
                assert_eq!(error.offset(), Some(3 * record as u64));
                assert!(error.path().is_some() && error.message().contains("'MQ1'"), "{error}");
            }
        }
    }
}

#[test]
fn a_file_that_shrinks_after_it_was_opened_is_an_error() {
    let mode = Mode::raw(6, [64, 64]);
    for backend in [Backend::Mmap, Backend::Buffered] {
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir, &mode.file(1, &mode.noise(8, 1)));
        let dataset = open(&path, &OpenOptions { backend, ..alone() }).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(5000).unwrap();
        let scheme = TilingScheme::try_new(&[64, 64], &[64, 64], 8).unwrap();
        let mut reader = dataset.source().reader().unwrap();
        let read = reader.read(FrameIndices::Run(0..8), &scheme.slices()[0]).map(|_| ());
        let error = read.and_then(|()| reader.verify()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFile, "{error}");
        assert!(error.path().is_some());
    }
}
