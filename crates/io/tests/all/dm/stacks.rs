//! Lists of files.

use crate::dm::writer::{Image, file};
use crate::oracle::{Frames, all, any_questions, check};
use framefold_core::{ByteOrder, DType, Dataset, ErrorKind, Result};
use framefold_io::{Backend, OpenOptions, open_as};
use proptest::prelude::*;
use std::path::PathBuf;

fn open(files: &[PathBuf], options: OpenOptions) -> Result<Dataset> {
    open_as("dm", &files[0], &OpenOptions { files: files.to_vec(), ..options })
}

/// Writes each part as a file, with a thumbnail before it.
fn write(dir: &tempfile::TempDir, parts: &[Image]) -> Vec<PathBuf> {
    let picture = Image::new(DType::U8.into(), &[2, 2], &[9; 4]);
    let one = |(i, part): (usize, &Image)| {
        let path = dir.path().join(format!("{i}.dm4"));
        let bytes = file(4, ByteOrder::Little, &[picture.clone(), part.clone()], 1);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    parts.iter().enumerate().map(one).collect()
}

/// The frames `range` as the image of a file; a single one has two axes.
fn part(frames: &Frames, range: std::ops::Range<usize>) -> Image {
    let mut lengths = vec![frames.sig_shape[1], frames.sig_shape[0]];
    if range.len() != 1 {
        lengths.push(range.len());
    }
    let bytes = &frames.bytes[range.start * frames.frame_bytes()..range.end * frames.frame_bytes()];
    Image::new(frames.stored, &lengths, bytes)
}

proptest! {
    #[test]
    fn equals_the_oracle(
        lengths in prop::collection::vec(1usize..4, 1..5),
        sig in (1usize..5, 1usize..5),
        ask in any_questions(),
    ) {
        let n_frames = lengths.iter().sum();
        let frames = Frames::random(DType::I32.into(), n_frames, &[sig.0, sig.1], 5);
        let mut start = 0;
        let parts: Vec<Image> = lengths
            .iter()
            .map(|&n| {
                start += n;
                part(&frames, start - n..start)
            })
            .collect();
        let dir = tempfile::tempdir().unwrap();
        let files = write(&dir, &parts);
        let same_size = lengths.iter().all(|n| *n == lengths[0]);
        for backend in [Backend::Mmap, Backend::Buffered] {
            for same_offset in [false, true].into_iter().take(1 + usize::from(same_size)) {
                let options = OpenOptions { backend, ..OpenOptions::default() }.with("same_offset", same_offset);
                let dataset = open(&files, options).unwrap();
                prop_assert_eq!(dataset.shape().nav(), &[n_frames]);
                prop_assert_eq!(&dataset.source().info().paths, &files);
                check(dataset.source().as_ref(), &frames, &all(n_frames), &ask);
            }
        }
    }
}

#[test]
fn the_order_is_that_of_the_list() {
    let frames = Frames::random(DType::U8.into(), 3, &[2, 2], 8);
    let dir = tempfile::tempdir().unwrap();
    let parts: Vec<Image> = (0..3).map(|i| part(&frames, i..i + 1)).collect();
    let mut files = write(&dir, &parts);
    files.reverse();
    files.push(files[0].clone());
    let dataset = open(
        &files,
        OpenOptions { nav_shape: Some(vec![2, 2]), sig_shape: Some(vec![4]), ..Default::default() },
    )
    .unwrap();
    assert_eq!(dataset.shape().to_string(), "(2, 2) + (4,)");
    let bytes = [2, 1, 0, 2].into_iter().flat_map(|i| frames.frame(i).to_vec()).collect();
    let expected = Frames { n_frames: 4, bytes, sig_shape: vec![4], ..frames };
    let ask = crate::oracle::Questions { tile_shape: vec![3], picks: vec![] };
    let ask = crate::oracle::Questions { picks: vec![any_index()], ..ask };
    check(dataset.source().as_ref(), &expected, &all(4), &ask);
}

fn any_index() -> prop::sample::Index {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    any::<prop::sample::Index>().new_tree(&mut runner).unwrap().current()
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let frames = Frames::random(DType::U16.into(), 1, &[4, 6], 8);
    let good = part(&frames, 0..1);
    let other_dtype = Image::new(DType::I16.into(), &[6, 4], &frames.bytes);
    let other_shape = Image::new(frames.stored, &[4, 6], &frames.bytes);
    let spectrum = Image::new(frames.stored, &[24], &frames.bytes);
    let swapped = Image { swapped: Some(false), lengths: vec![2, 3, 4], ..good.clone() };
    let cases = [
        (other_dtype, "in int16"),
        (other_shape, "6 x 4 pixels"),
        (spectrum, "single axis"),
        (swapped, "transposed"),
    ];
    for (bad, words) in cases {
        let dir = tempfile::tempdir().unwrap();
        let files = write(&dir, &[good.clone(), bad]);
        let error = open(&files, OpenOptions::default()).unwrap_err();
        assert_eq!(error.path(), Some(files[1].as_path()), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    let files = write(&dir, &[good.clone(), good]);
    std::fs::write(&files[1], b"\0\0\0\x04").unwrap();
    for same_offset in [false, true] {
        let options = OpenOptions::default().with("same_offset", same_offset);
        let error = open(&files, options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFile, "{error}");
        assert_eq!(error.path(), Some(files[1].as_path()), "{error}");
    }
    let missing = [files[0].clone(), dir.path().join("none.dm4")];
    assert_eq!(open(&missing, OpenOptions::default()).unwrap_err().kind(), ErrorKind::Io);
    let options = OpenOptions { sig_shape: Some(vec![5]), ..OpenOptions::default() };
    let error = open(&files[..1], options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
}

#[test]
fn images_without_a_scan_are_in_order_whatever_the_file_says() {
    let frames = Frames::random(DType::U8.into(), 2, &[3, 2], 8);
    let one = |i: usize| Image { swapped: Some(false), ..part(&frames, i..i + 1) };
    let dir = tempfile::tempdir().unwrap();
    let dataset = open(&write(&dir, &[one(0), one(1)]), OpenOptions::default()).unwrap();
    let ask = crate::oracle::Questions { tile_shape: vec![2, 2], picks: vec![any_index()] };
    check(dataset.source().as_ref(), &frames, &all(2), &ask);
}

#[test]
fn sizes_of_pixels_that_differ_give_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let image = Image::new(DType::I32.into(), &[3, 2], &[1; 24]);
    let files = write(&dir, &[image.clone(), Image { unit: "nm", ..image.clone() }, image]);
    let dataset = open(&files, OpenOptions::default()).unwrap();
    let [warning] = dataset.source().info().warnings.as_slice() else { panic!("one warning") };
    assert!(warning.contains("'0.dm4'") && warning.contains("'1.dm4'; those of"), "{warning}");
    let same = [files[0].clone(), files[2].clone()];
    let dataset = open(&same, OpenOptions::default()).unwrap();
    assert!(dataset.source().info().warnings.is_empty());
}
