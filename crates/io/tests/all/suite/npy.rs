//! NPY files: versions, orders, cutting anew, and whatever headers may claim.

use crate::oracle::{Frames, Questions, all, any_frames, any_questions, check};
use framefold_core::{ByteOrder, DType, Dataset, ErrorKind, Result, StoredDType};
use framefold_io::{Backend, OpenOptions, open_as};
use proptest::prelude::*;
use std::path::Path;

pub fn descr(stored: StoredDType) -> String {
    let order = match stored.order {
        _ if stored.dtype.size() == 1 => '|',
        ByteOrder::Little => '<',
        ByteOrder::Big => '>',
    };
    format!("{order}{}", stored.dtype.code())
}

/// A header as NumPy writes it; `padding` varies its length.
pub fn header(version: u8, dict: &str, padding: usize) -> Vec<u8> {
    let text = format!("{dict}{}\n", " ".repeat(padding));
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    if version == 1 {
        bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
    } else {
        bytes.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
    }
    bytes.extend(text.as_bytes());
    bytes
}

fn dict(descr: &str, fortran: bool, shape: &[usize]) -> String {
    let axes: String = shape.iter().map(|n| format!("{n},")).collect();
    let fortran = if fortran { "True" } else { "False" };
    format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': ({axes}), }}")
}

/// The elements of a C-ordered array of `shape` in Fortran order.
fn to_fortran(bytes: &[u8], shape: &[usize], size: usize) -> Vec<u8> {
    let mut out = vec![0; bytes.len()];
    for (flat, element) in bytes.chunks(size).enumerate() {
        let (mut rest, mut coordinates) = (flat, vec![0; shape.len()]);
        for axis in (0..shape.len()).rev() {
            coordinates[axis] = rest % shape[axis];
            rest /= shape[axis];
        }
        let place = coordinates.iter().zip(shape).rev().fold(0, |at, (c, n)| at * n + c);
        out[place * size..][..size].copy_from_slice(element);
    }
    out
}

fn shape_of(frames: &Frames, nav: &[usize]) -> Vec<usize> {
    nav.iter().chain(&frames.sig_shape).copied().collect()
}

fn write(frames: &Frames, nav: &[usize], fortran: bool, version: u8, padding: usize, path: &Path) {
    let shape = shape_of(frames, nav);
    let mut bytes = header(version, &dict(&descr(frames.stored), fortran, &shape), padding);
    if fortran {
        bytes.extend(to_fortran(&frames.bytes, &shape, frames.size()));
    } else {
        bytes.extend(&frames.bytes);
    }
    std::fs::write(path, bytes).unwrap();
}

proptest! {
    #[test]
    fn equals_the_oracle(
        frames in any_frames(),
        ask in any_questions(),
        fortran in any::<bool>(),
        version in 1u8..4,
        padding in 0usize..70,
        split in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scan.npy");
        let nav = match (split, frames.n_frames % 2) {
            (true, 0) => vec![2, frames.n_frames / 2],
            (true, _) => vec![frames.n_frames, 1],
            (false, _) => vec![frames.n_frames],
        };
        write(&frames, &nav, fortran, version, padding, &path);
        for backend in [Backend::Mmap, Backend::Buffered] {
            let sig_dims = Some(frames.sig_shape.len());
            let options = OpenOptions { backend, ..OpenOptions::default() }.with_some("sig_dims", sig_dims);
            let dataset = open_as("npy", &path, &options).unwrap();
            prop_assert_eq!(dataset.shape().nav(), &nav);
            prop_assert!(dataset.source().info().warnings.is_empty());
            check(dataset.source().as_ref(), &frames, &all(frames.n_frames), &ask);
        }
    }

    /// Frames of another shape are cut from the C order of the array, however it is stored.
    #[test]
    fn cut_anew(
        array in any_frames(),
        ask in any_questions(),
        fortran in any::<bool>(),
        sig_shape in prop::collection::vec(1usize..9, 1..4),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scan.npy");
        write(&array, &[array.n_frames], fortran, 1, 0, &path);
        let options = OpenOptions { sig_shape: Some(sig_shape.clone()), ..OpenOptions::default() };
        let cells: usize = sig_shape.iter().product();
        let total = array.n_frames * array.cells();
        match open_as("npy", &path, &options) {
            Ok(dataset) => {
                let n_frames = total / cells;
                let frames = Frames { n_frames, sig_shape, ..array };
                check(dataset.source().as_ref(), &frames, &all(n_frames), &ask);
            }
            Err(error) if cells > total => {
                prop_assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{}", error);
            }
            Err(error) => {
                prop_assert!(fortran, "{}", error);
                prop_assert_eq!(error.kind(), ErrorKind::Unsupported, "{}", error);
            }
        }
    }
}

/// Opens an NPY file of these bytes.
pub fn open_bytes(bytes: &[u8], options: &OpenOptions) -> Result<Dataset> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scan.npy");
    std::fs::write(&path, bytes).unwrap();
    open_as("npy", &path, options)
}

fn array_file(shape: &[usize], fortran: bool) -> Vec<u8> {
    let mut bytes = header(1, &dict("<u2", fortran, shape), 3);
    bytes.resize(bytes.len() + 2 * shape.iter().product::<usize>(), 1);
    bytes
}

#[test]
fn axes_are_dealt_out() {
    let shape = |dims: &[usize], sig_dims: Option<usize>| {
        let options = OpenOptions::default().with_some("sig_dims", sig_dims);
        open_bytes(&array_file(dims, false), &options).map(|dataset| dataset.shape().to_string())
    };
    assert_eq!(shape(&[2, 3, 4, 5], None).unwrap(), "(2, 3) + (4, 5)");
    assert_eq!(shape(&[2, 3, 4, 5], Some(1)).unwrap(), "(2, 3, 4) + (5,)");
    assert_eq!(shape(&[4, 5], None).unwrap(), "(1,) + (4, 5)");
    assert_eq!(shape(&[5], Some(1)).unwrap(), "(1,) + (5,)");
    for (dims, sig_dims) in [(&[5][..], None), (&[2, 3], Some(3)), (&[2, 3], Some(0))] {
        let error = shape(dims, sig_dims).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.hint().unwrap().contains("sig_dims"), "{error}");
    }
}

#[test]
fn shapes_of_the_caller_win() {
    let open = |options: OpenOptions| open_bytes(&array_file(&[6, 6, 4, 4], false), &options);
    let options = OpenOptions {
        nav_shape: Some(vec![7, 6]),
        sig_shape: Some(vec![16]),
        ..OpenOptions::default()
    };
    let dataset = open(options.clone()).unwrap();
    assert_eq!(dataset.shape().to_string(), "(7, 6) + (16,)");
    assert_eq!(dataset.positions_with_data(), std::slice::from_ref(&(0..36)));
    let error = open(options.with("sig_dims", 2usize)).unwrap_err();
    assert!(error.to_string().contains("sig_dims is 2"), "{error}");
    let keeps_scan = OpenOptions { sig_shape: Some(vec![2, 8]), ..OpenOptions::default() };
    assert_eq!(open(keeps_scan).unwrap().shape().to_string(), "(6, 6) + (2, 8)");
    let no_dtype = OpenOptions::default().with("dtype", DType::U8);
    assert!(open(no_dtype).unwrap_err().to_string().contains("'dtype'"));
}

#[test]
fn a_file_cut_short_keeps_its_whole_frames() {
    let whole = array_file(&[3, 4, 5], false);
    let pixels = 3 * 4 * 5 * 2;
    let start = whole.len() - pixels;
    for left in 0..pixels {
        let result = open_bytes(&whole[..start + left], &OpenOptions::default());
        match left / 40 {
            0 => {
                let error = result.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::BadFile);
                assert!(error.to_string().contains(&format!("{left} are there")), "{error}");
            }
            n_frames => {
                let dataset = result.unwrap();
                assert_eq!(dataset.shape().nav(), [3]);
                assert_eq!(dataset.positions_with_data(), std::slice::from_ref(&(0..n_frames)));
                let warning = &dataset.source().info().warnings[0];
                assert!(warning.contains("120 bytes") && warning.contains(&left.to_string()));
            }
        }
    }
    let fortran = array_file(&[3, 4, 5], true);
    let error = open_bytes(&fortran[..fortran.len() - 1], &OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains("Fortran order"), "{error}");
}

#[test]
fn surplus_bytes_are_left_out_and_reported() {
    for fortran in [false, true] {
        let mut bytes = array_file(&[3, 4, 5], fortran);
        bytes.extend([9; 41]);
        let dataset = open_bytes(&bytes, &OpenOptions::default()).unwrap();
        assert_eq!(dataset.source().info().n_frames, 3);
        assert!(dataset.source().info().warnings[0].contains("41 bytes"));
    }
}

#[test]
fn cells_that_make_no_whole_frame_are_reported() {
    // In Fortran order, they can only lie at the end of the first axis.
    for (fortran, sig_shape, words) in [
        (false, vec![4, 6], "24 bytes after the last of 2 whole frames"),
        (true, vec![2, 4, 5], "40 bytes after the last of 1 whole frames"),
    ] {
        let options = OpenOptions { sig_shape: Some(sig_shape), ..OpenOptions::default() };
        let mut bytes = array_file(&[3, 4, 5], fortran);
        let dataset = open_bytes(&bytes, &options).unwrap();
        let [warning] = dataset.source().info().warnings.as_slice() else { panic!("one warning") };
        assert!(warning.contains(words), "{warning}");
        bytes.extend([9; 41]);
        let dataset = open_bytes(&bytes, &options).unwrap();
        assert_eq!(dataset.source().info().warnings.len(), 2);
    }
}

/// A Fortran file larger than one window of the buffered backend.
#[test]
fn buffered_windows_join_seamlessly() {
    let stored = StoredDType { dtype: DType::F64, order: ByteOrder::Big };
    let frames = Frames::random(stored, 400 * 500, &[1, 3], 7);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scan.npy");
    write(&frames, &[400, 500], true, 1, 0, &path);
    let n = frames.n_frames as u64;
    let some: Vec<u64> = (0..n).step_by(997).chain(n - 300..n).collect();
    let mut some = some;
    some.sort_unstable();
    some.dedup();
    for backend in [Backend::Mmap, Backend::Buffered] {
        let options = OpenOptions { backend, ..OpenOptions::default() };
        let dataset = open_as("npy", &path, &options).unwrap();
        let ask = Questions { tile_shape: vec![1, 2], picks: vec![any_index()] };
        check(dataset.source().as_ref(), &frames, &some, &ask);
    }
}

pub fn any_index() -> prop::sample::Index {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    any::<prop::sample::Index>().new_tree(&mut runner).unwrap().current()
}
