//! Files that are cut, or lie about themselves.

use crate::real_files::bytes_of;
use crate::tvips::round_trip::{scan, some_frames};
use crate::tvips::writer::Series;
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
fn a_file_in_the_middle_of_a_series_that_is_cut_leaves_a_gap() {
    let frames = some_frames(DType::U8, 6, &[3, 5]);
    let series = Series { files: vec![4, 2], ..Series::of(&frames) };
    let record = 80 + 15;
    let dir = tempfile::tempdir().unwrap();
    let paths = series.save(&frames, dir.path());
    let whole = std::fs::read(&paths[0]).unwrap();
    let open = || open_as("tvips", &paths[0], &OpenOptions::default());
    for len in (256..whole.len()).rev() {
        std::fs::write(&paths[0], &whole[..len]).unwrap();
        let n = (len - 256) / record;
        if n == 0 {
            let error = open().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadFile, "{len}: {error}");
            assert_eq!(error.path(), Some(paths[0].as_path()), "{len}: {error}");
            continue;
        }
        let dataset = open().unwrap();
        let ranges = dataset.positions_with_data();
        assert_eq!(ranges, [0..n, 4..6], "{len}");
        let warnings = &dataset.source().info().warnings;
        assert!(warnings.iter().any(|w| w.contains(&format!("frames {n} to 3"))), "{warnings:?}");
    }
    // Without numbers, nothing tells how many frames are missing.
    let unnumbered = |mut bytes: Vec<u8>, start: usize| {
        bytes[start..].chunks_mut(record).for_each(|record| record[..4].fill(0));
        bytes
    };
    let second = std::fs::read(&paths[1]).unwrap();
    std::fs::write(&paths[1], unnumbered(second, 0)).unwrap();
    let whole = unnumbered(whole, 256);
    std::fs::write(&paths[0], &whole).unwrap();
    assert_eq!(open().unwrap().source().info().n_frames, 6);
    std::fs::write(&paths[0], &whole[..whole.len() - 5]).unwrap();
    let error = open().unwrap_err();
    assert!(error.message().contains("cut short"), "{error}");
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
