//! Files that are cut, or lie about themselves.

use crate::real_files::bytes_of;
use crate::round_trip::{scan, some_frames};
use crate::writer::Series;
use framefold_core::{DType, Dataset, ErrorKind, Result};
use framefold_io::{Backend, OpenOptions, open_as};
use proptest::prelude::*;

fn open_bytes(bytes: &[u8], options: &OpenOptions) -> Result<Dataset> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scan_000.tvips");
    std::fs::write(&path, bytes).unwrap();
    open_as("tvips", &path, options)
}

#[test]
fn a_file_cut_at_every_byte() {
    let frames = some_frames(DType::U16, 6, &[3, 5]);
    let series = Series { positions: scan(0, 2, 3), ..Series::of(&frames) };
    let whole = series.write(&frames).remove(0);
    let record = 80 + 30;
    for len in 0..whole.len() {
        match open_bytes(&whole[..len], &OpenOptions::default()) {
            Ok(dataset) => {
                let n = (len - 256) / record;
                let info = dataset.source().info();
                assert_eq!(info.n_frames as usize, n, "{len}");
                assert_eq!(bytes_of(&dataset), frames.bytes[..n * 30]);
                assert_eq!(info.warnings.len(), usize::from((len - 256) % record > 0));
            }
            Err(error) => {
                assert!(len < 256 + record, "{len}: {error}");
                assert_eq!(error.kind(), ErrorKind::BadFile, "{len}: {error}");
                assert!(error.path().is_some() && error.format() == Some("tvips"), "{error}");
            }
        }
    }
}

#[test]
fn headers_that_lie_are_refused() {
    let frames = some_frames(DType::U16, 4, &[3, 5]);
    let whole = Series::of(&frames).write(&frames).remove(0);
    let cases: [(usize, i32, &str); 10] = [
        (0, 255, "255"),
        (4, 3, "version"),
        (8, 0, "length"),
        (8, -5, "-5"),
        (12, i32::MAX, "whole frame"),
        (16, 32, "32 bits"),
        (48, 11, "11 bytes"),
        (48, -1, "-1 bytes"),
        (48, i32::MAX, "2147483647"),
        (8, i32::MAX, ""),
    ];
    for (at, value, words) in cases {
        let mut lying = whole.clone();
        lying[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let error = open_bytes(&lying, &OpenOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFile, "{at}: {error}");
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
    let mut absurd = whole.clone();
    absurd[8..16].copy_from_slice(&[0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0x7F]);
    assert!(open_bytes(&absurd, &OpenOptions::default()).is_err());
}

#[test]
fn every_byte_may_lie() {
    let frames = some_frames(DType::U8, 4, &[2, 3]);
    let series = Series { positions: scan(0, 2, 2), ..Series::of(&frames) };
    let whole = series.write(&frames).remove(0);
    for at in 0..whole.len() {
        for value in [0, 0x7F, 0xFF] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            if let Ok(dataset) = open_bytes(&bytes, &OpenOptions::default()) {
                bytes_of(&dataset);
            }
        }
    }
}

proptest! {
    /// Whatever the bytes, there is an answer and no panic.
    #[test]
    fn noise_anywhere(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..9),
    ) {
        let frames = some_frames(DType::U8, 6, &[2, 3]);
        let series = Series { positions: scan(1, 2, 3)[..6].to_vec(), ..Series::of(&frames) };
        let mut bytes = series.write(&frames).remove(0);
        for (place, value) in &changes {
            let place = place.index(bytes.len());
            bytes[place] = *value;
        }
        for backend in [Backend::Mmap, Backend::Buffered] {
            let options = OpenOptions { backend, ..OpenOptions::default() };
            if let Ok(dataset) = open_bytes(&bytes, &options) {
                bytes_of(&dataset);
            }
        }
    }
}
