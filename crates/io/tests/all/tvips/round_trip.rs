//! Random series in one or several files, against a plain array.

use crate::oracle::{Frames, all, any_questions, check};
use crate::tvips::writer::Series;
use framefold_core::{ByteOrder, DType, ErrorKind, MetadataValue, Quantity, StoredDType};
use framefold_io::{Backend, OpenOptions, detect, open, open_as};
use framefold_testkit::check_source;
use proptest::prelude::*;

pub fn some_frames(dtype: DType, n_frames: usize, sig_shape: &[usize]) -> Frames {
    Frames::random(StoredDType { dtype, order: ByteOrder::Little }, n_frames, sig_shape, 7)
}

proptest! {
    #[test]
    fn equals_the_oracle(
        bytes_per_pixel in 1usize..3,
        files in prop::collection::vec(1usize..4, 1..4),
        sig in (1usize..6, 1usize..6),
        ask in any_questions(),
        version in 1u32..3,
        frame_header in 12usize..120,
        opened in any::<prop::sample::Index>(),
    ) {
        let dtype = if bytes_per_pixel == 1 { DType::U8 } else { DType::U16 };
        let n_frames = files.iter().sum();
        let frames = some_frames(dtype, n_frames, &[sig.0, sig.1]);
        let frame_header = if version == 1 { 12 } else { frame_header };
        let series = Series { version, frame_header, files, ..Series::of(&frames) };
        let dir = tempfile::tempdir().unwrap();
        let paths = series.save(&frames, dir.path());
        for backend in [Backend::Mmap, Backend::Buffered] {
            let options = OpenOptions { backend, ..OpenOptions::default() };
            let path = opened.get(&paths);
            prop_assert_eq!(detect(path).unwrap().format.name, "tvips");
            let dataset = open(path, &options).unwrap();
            let info = dataset.source().info();
            prop_assert_eq!(&info.paths, &paths);
            prop_assert!(info.warnings.is_empty(), "{:?}", info.warnings);
            check(dataset.source().as_ref(), &frames, &all(n_frames), &ask);
            check_source(dataset.source().as_ref()).unwrap();
        }
    }
}

/// Idle frames, then a scan.
pub fn scan(idle: usize, rows: u16, width: u16) -> Vec<(u16, u16)> {
    let positions = (0..rows).flat_map(|y| (0..width).map(move |x| (y, x)));
    [(0, 0)].repeat(idle).into_iter().chain(positions).collect()
}

#[test]
fn the_scan_is_found_in_any_number_of_files() {
    let frames = some_frames(DType::U16, 13, &[2, 3]);
    let series = Series { positions: scan(3, 2, 5), ..Series::of(&frames) };
    for files in [vec![13], vec![2, 3, 8], vec![1, 12], vec![4, 1, 1, 7]] {
        let dir = tempfile::tempdir().unwrap();
        let paths = Series { files, ..series.clone() }.save(&frames, dir.path());
        let shown = |options: OpenOptions| {
            let dataset = open(&paths[0], &options).unwrap();
            (dataset.shape().nav().to_vec(), dataset.sync_offset())
        };
        let default = OpenOptions::default;
        assert_eq!(shown(default()), (vec![2, 5], 3));
        assert_eq!(shown(OpenOptions { fixed_sync: true, ..default() }), (vec![2, 5], 0));
        assert_eq!(shown(OpenOptions { sync_offset: -2, ..default() }), (vec![2, 5], -2));
        let nav_shape = Some(vec![10]);
        assert_eq!(shown(OpenOptions { nav_shape, ..default() }), (vec![10], 3));
    }
    // Headers too short for positions.
    let dir = tempfile::tempdir().unwrap();
    let paths = Series { frame_header: 72, ..series }.save(&frames, dir.path());
    assert_eq!(open(&paths[0], &OpenOptions::default()).unwrap().shape().nav(), [13]);
}

#[test]
fn what_the_headers_tell() {
    let frames = some_frames(DType::U8, 2, &[2, 3]);
    let dir = tempfile::tempdir().unwrap();
    let paths = Series::of(&frames).save(&frames, dir.path());
    let dataset = open(&paths[0], &OpenOptions::default()).unwrap();
    let facts = &dataset.source().info().metadata;
    for (quantity, number) in [
        (Quantity::AccelerationVoltage, 200.0),
        (Quantity::BinningX, 2.0),
        (Quantity::BinningY, 4.0),
        (Quantity::PixelSizeX, 15.5),
        (Quantity::BitDepth, 8.0),
        (Quantity::StageX, 1.5),
    ] {
        assert_eq!(facts.get(quantity), Some(&MetadataValue::Number(number)), "{quantity:?}");
    }
}

#[test]
fn files_that_are_missing() {
    let frames = some_frames(DType::U16, 9, &[2, 3]);
    let dir = tempfile::tempdir().unwrap();
    let series = Series { files: vec![3, 2, 4], ..Series::of(&frames) };
    let paths = series.save(&frames, dir.path());
    std::fs::remove_file(&paths[1]).unwrap();
    // The frames' numbers tell how many are missing.
    let dataset = open(&paths[2], &OpenOptions::default()).unwrap();
    let info = dataset.source().info();
    assert_eq!((info.n_frames, info.warnings.len()), (9, 1), "{:?}", info.warnings);
    assert_eq!(dataset.positions_with_data(), [0..3, 5..9]);
    let ask = crate::oracle::Questions { tile_shape: vec![2], picks: vec![any_index()] };
    check(dataset.source().as_ref(), &frames, &[0, 1, 2, 5, 6, 7, 8], &ask);
    // Without them, it is an error.
    let mut bytes = std::fs::read(&paths[2]).unwrap();
    bytes[..4].fill(0);
    std::fs::write(&paths[2], bytes).unwrap();
    let error = open(&paths[0], &OpenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadFile);
    assert!(error.to_string().contains("file number 1"), "{error}");
    let alone = OpenOptions::default().with("disable_glob", true);
    assert_eq!(open(&paths[0], &alone).unwrap().source().info().n_frames, 3);
    // The first one holds the header.
    std::fs::remove_file(&paths[0]).unwrap();
    let error = open_as("tvips", &paths[2], &OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains("_000"), "{error}");
}

fn any_index() -> prop::sample::Index {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    any::<prop::sample::Index>().new_tree(&mut runner).unwrap().current()
}
