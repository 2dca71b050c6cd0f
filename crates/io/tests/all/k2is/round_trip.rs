//! Sets that are written by the tests, whose sectors begin and end anywhere.

use crate::k2is::writer::{COLUMNS, ROWS, Set, pixel, save};
use crate::real_files::{data_dir, entries};
use framefold_core::{DataSource, Dataset, FrameIndices, SigSlice, TilingScheme};
use framefold_io::{Backend, OpenOptions, detect, open, open_as};
use framefold_testkit::check_source;
use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

fn backends() -> [OpenOptions; 2] {
    [Backend::Mmap, Backend::Buffered]
        .map(|backend| OpenOptions { backend, ..OpenOptions::default() })
}

/// Checks every pixel of a slice of some frames.
pub fn check(source: &dyn DataSource, frames: &FrameIndices<'_>, slice: &SigSlice) {
    compare(source, frames, slice, |frame, run| pixels(frame, run).into());
}

/// The bytes of pixels that follow each other in a frame.
fn pixels(frame: u64, run: Range<usize>) -> Vec<u8> {
    run.flat_map(|flat| pixel(frame as i64, flat / COLUMNS, flat % COLUMNS).to_ne_bytes()).collect()
}

/// Compares a slice of some frames with what is `expected` of pixels that follow each other.
fn compare<'e>(
    source: &dyn DataSource,
    frames: &FrameIndices<'_>,
    slice: &SigSlice,
    expected: impl Fn(u64, Range<usize>) -> Cow<'e, [u8]>,
) {
    let mut reader = source.reader().unwrap();
    let tile = reader.read(frames.clone(), slice).unwrap();
    let mut left = tile.frames().as_bytes();
    assert_eq!(left.len(), frames.len() * slice.len() * 2);
    for frame in frames.iter() {
        for run in slice.runs(&source.info().sig_shape) {
            let (found, behind) = left.split_at(run.len() * 2);
            assert!(*found == *expected(frame, run.clone()), "frame {frame}, pixels {run:?}");
            left = behind;
        }
    }
    reader.verify().unwrap();
}

/// Checks parts of all frames against these whole ones.
fn check_all(dataset: &Dataset, whole: &[Vec<u8>]) {
    let source = dataset.source().as_ref();
    let n_frames = source.info().n_frames;
    let sig = source.info().sig_shape.clone();
    let tilings: &[&[usize]] = match sig.len() {
        2 => &[&[1860, 2048], &[930, 16], &[930, 64], &[700, 300], &[1, 2048], &[1860, 5]],
        _ => &[&[ROWS * COLUMNS], &[77_777]],
    };
    for tiling in tilings {
        let scheme = TilingScheme::try_new(&sig, tiling, 2).unwrap();
        let slices = scheme.slices();
        // The corners, and some in between.
        for slice in slices.iter().step_by(1 + slices.len() / 7).chain(slices.last()) {
            for frames in [FrameIndices::Run(0..n_frames), FrameIndices::List(&[n_frames - 1])] {
                compare(source, &frames, slice, |frame, run| {
                    whole[frame as usize][run.start * 2..run.end * 2].into()
                });
            }
        }
    }
}

#[test]
fn sectors_are_aligned() {
    let ragged = Set {
        early_blocks: [0, 3, 31, 7, 1, 0, 12, 3],
        partial: [0, 1, 22_359, 0, 40, 0, 9_000, 5],
        late_blocks: [0, 31, 5, 64, 1, 0, 0, 33],
        ..Set::new(3, 1, Some([1, 3]))
    };
    let whole: Vec<Vec<u8>> = (0..3).map(|frame| pixels(frame, 0..ROWS * COLUMNS)).collect();
    for set in [Set::new(2, 1, Some([1, 2])), ragged] {
        let dir = tempfile::tempdir().unwrap();
        let (gtg, sectors) = save(&set, dir.path());
        for options in backends() {
            for path in [&gtg, &sectors[0], &sectors[7]] {
                assert_eq!(detect(path).unwrap().format.name, "k2is");
                let dataset = open(path, &options).unwrap();
                assert_eq!(dataset.source().info().n_frames, set.n_frames as u64);
                assert_eq!(dataset.source().info().paths.len(), 9);
            }
            let dataset = open(&gtg, &options).unwrap();
            check_all(&dataset, &whole);
            check_source(dataset.source().as_ref()).unwrap();
        }
        let flat = OpenOptions { sig_shape: Some(vec![ROWS * COLUMNS]), ..OpenOptions::default() };
        check_all(&open(&gtg, &flat).unwrap(), &whole);
    }
}

/// More frames than are decoded side by side, in parts of a block, of which some are odd.
#[test]
fn many_frames_of_parts_of_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let (gtg, _) = save(&Set::new(2, 0, None), dir.path());
    let list: Vec<u64> = (0..19).map(|i| i * i % 2).collect();
    for options in backends() {
        let dataset = open(&gtg, &options).unwrap();
        for (shape, index) in [([930, 16], 200), ([43, 16], 77), ([41, 5], 900), ([100, 24], 3)] {
            let scheme = TilingScheme::try_new(&[ROWS, COLUMNS], &shape, 2).unwrap();
            for n_frames in [1, 7, 8, 9, 19] {
                let frames = FrameIndices::List(&list[..n_frames]);
                check(dataset.source().as_ref(), &frames, &scheme.slices()[index]);
            }
        }
    }
}

fn shown(path: &Path, options: &OpenOptions) -> (Vec<usize>, i64) {
    let dataset = open_as("k2is", path, options).unwrap();
    (dataset.shape().nav().to_vec(), dataset.sync_offset())
}

#[test]
fn positions_follow_from_the_shutter() {
    let dir = tempfile::tempdir().unwrap();
    let with =
        |sync_offset, fixed_sync| OpenOptions { sync_offset, fixed_sync, ..OpenOptions::default() };
    // A scan: the flag comes one frame late.
    let (gtg, _) = save(&Set::new(5, 3, Some([1, 2])), dir.path());
    assert_eq!(shown(&gtg, &with(0, false)), (vec![1, 2], 2));
    assert_eq!(shown(&gtg, &with(4, true)), (vec![1, 2], 3));
    assert_eq!(shown(&gtg, &with(1, true)), (vec![1, 2], 0));
    assert_eq!(shown(&gtg, &with(0, true)), (vec![1, 2], 0));
    assert_eq!(shown(&gtg, &with(-2, true)), (vec![1, 2], -2));
    let nav_shape = Some(vec![2]);
    assert_eq!(shown(&gtg, &OpenOptions { nav_shape, ..with(0, false) }), (vec![2], 2));
    // A series in time begins with the flag.
    let dir = tempfile::tempdir().unwrap();
    let (gtg, _) = save(&Set::new(5, 2, None), dir.path());
    assert_eq!(shown(&gtg, &with(0, false)), (vec![3], 2));
    assert_eq!(shown(&gtg, &with(0, true)), (vec![3], 0));
    // Always open, and never.
    let dir = tempfile::tempdir().unwrap();
    let (gtg, _) = save(&Set::new(2, 0, Some([1, 2])), dir.path());
    assert_eq!(shown(&gtg, &with(0, false)), (vec![1, 2], 0));
    let dir = tempfile::tempdir().unwrap();
    let (gtg, _) = save(&Set::new(2, 9, Some([1, 2])), dir.path());
    assert_eq!(shown(&gtg, &with(0, false)), (vec![1, 2], 0));
    let dataset = open(&gtg, &OpenOptions::default()).unwrap();
    assert!(dataset.source().info().warnings[0].contains("shutter"));
}

/// The pixels of a block of an instrument, within a set that the test writes around it.
#[test]
fn a_real_block() {
    for entry in entries("K2IS") {
        let payload = std::fs::read(data_dir().join(entry["file"].as_str().unwrap())).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let (gtg, sectors) = save(&Set::new(1, 0, None), dir.path());
        let mut bytes = std::fs::read(&sectors[3]).unwrap();
        bytes[40..40 + payload.len()].copy_from_slice(&payload);
        std::fs::write(&sectors[3], bytes).unwrap();
        let dataset = open(&gtg, &OpenOptions::default()).unwrap();
        let scheme = TilingScheme::try_new(&[ROWS, COLUMNS], &[930, 16], 1).unwrap();
        // The first block of a sector is its rightmost one.
        let slice = scheme.slices().iter().find(|slice| slice.origin() == [0, 3 * 256 + 240]);
        let mut reader = dataset.source().reader().unwrap();
        let tile = reader.read(FrameIndices::Run(0..1), slice.unwrap()).unwrap();
        for reading in entry["readings"].as_array().unwrap() {
            assert!(crate::real_files::is_the_same(tile.frames().as_bytes(), "uint16", reading));
        }
    }
}
