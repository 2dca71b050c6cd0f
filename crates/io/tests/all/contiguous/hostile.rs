//! What holds for every format when a file is cut or its header lies.

use crate::contiguous::{plain, read_all};
use framefold_core::ErrorKind;
use std::path::Path;

/// Cuts a file at every byte of its first `header_len` bytes and at every 37th of the rest.
///
/// Either opening is an error that names the file, or all frames that are there are the same as
/// those of the whole file.
pub fn cut_everywhere(format: &str, path: &Path, header_len: usize) {
    let bytes = std::fs::read(path).unwrap();
    let whole = read_all(&plain(format, path).unwrap()).unwrap();
    let mut opened = 0;
    for len in (0..header_len).chain((header_len..bytes.len()).step_by(37)) {
        std::fs::write(path, &bytes[..len]).unwrap();
        match plain(format, path) {
            Ok(dataset) => {
                opened += 1;
                let frames = read_all(&dataset).unwrap();
                assert!(!frames.is_empty() && frames.len() <= whole.len());
                assert_eq!(frames, whole[..frames.len()], "{format}: {len} bytes");
                let missing = frames.len() < whole.len();
                let info = dataset.source().info();
                assert!(!missing || !info.warnings.is_empty() || info.n_frames > 0);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::BadFile, "{format}: {len} bytes: {error}");
                assert!(error.path().is_some(), "{format}: {len} bytes: {error}");
                assert!(error.hint().is_some(), "{format}: {len} bytes: {error}");
            }
        }
    }
    assert!(opened > 0, "{format}: files cut in their last frames are of use");
    std::fs::write(path, bytes).unwrap();
}

/// Puts odd numbers to every byte of the header: an error, or something that reads to its end.
pub fn lie_everywhere(format: &str, path: &Path, header_len: usize) {
    let bytes = std::fs::read(path).unwrap();
    for at in 0..header_len.min(bytes.len()) {
        for value in [0, 0x7f, 0xff] {
            let mut changed = bytes.clone();
            changed[at] = value;
            std::fs::write(path, changed).unwrap();
            match plain(format, path) {
                Ok(dataset) => drop(read_all(&dataset)),
                Err(error) => assert_ne!(error.kind(), ErrorKind::Bug, "{format}, {at}: {error}"),
            }
        }
        // Four bytes at once: the largest and the most negative number.
        for word in [[0xff; 4], [0xff, 0xff, 0xff, 0x7f]] {
            let mut changed = bytes.clone();
            let end = (at + 4).min(changed.len());
            changed[at..end].copy_from_slice(&word[..end - at]);
            std::fs::write(path, changed).unwrap();
            match plain(format, path) {
                Ok(dataset) => drop(read_all(&dataset)),
                Err(error) => assert_ne!(error.kind(), ErrorKind::Bug, "{format}, {at}: {error}"),
            }
        }
    }
    std::fs::write(path, bytes).unwrap();
}
