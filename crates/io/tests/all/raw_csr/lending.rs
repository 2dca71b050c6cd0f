//! When rows are lent as they lie in memory, and how long they live.

use crate::raw_csr::support::{Sparse, stored, whole};
use framefold_core::{DataSource, FrameIndices, TypedSlice};
use framefold_io::{Backend, OpenOptions, open_as};

/// Whether frames 0 and 1 of an open file are lent: then two reads give the same memory even while
/// the first tile is held.
fn lends(sparse: &Sparse, backend: Backend) -> bool {
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions { backend, ..OpenOptions::default() };
    let dataset = open_as("raw_csr", sparse.write(dir.path()), &options).unwrap();
    let source = dataset.source();
    let slice = whole(&sparse.sig_shape);
    let mut reader = source.reader().unwrap();
    let mut address = || {
        let tile = reader.read_csr(FrameIndices::Run(0..2), &slice).unwrap();
        (tile.values().as_bytes().as_ptr(), tile.lent_values().cloned())
    };
    let (first, second) = (address(), address());
    first.0 == second.0
}

#[test]
fn columns_of_four_bytes_are_lent() {
    let small = Sparse::small();
    assert!(lends(&small, Backend::Mmap));
    assert!(!lends(&small, Backend::Buffered));
    for (dtype, expected) in [("<u4", true), (">i4", false), ("<i8", false), ("<u2", false)] {
        let sparse = Sparse { column_dtype: stored(dtype), ..small.clone() };
        assert_eq!(lends(&sparse, Backend::Mmap), expected, "{dtype}");
    }
    for (dtype, expected) in [(">i2", false), ("<i2", true), ("<f2", true)] {
        let sparse = Sparse { value_dtype: stored(dtype), ..small.clone() };
        assert_eq!(lends(&sparse, Backend::Mmap), expected, "{dtype}");
    }
    for pointers in ["<u4", ">i2", "u1"] {
        let sparse = Sparse { pointer_dtype: stored(pointers), ..small.clone() };
        assert!(lends(&sparse, Backend::Mmap), "{pointers}");
    }
    assert!(!lends(&Sparse { columns: vec![4, 1, 5], ..small.clone() }, Backend::Mmap));
    assert!(!lends(&Sparse { columns: vec![4, 4, 5], ..small }, Backend::Mmap));
}

#[test]
fn values_live_as_long_as_their_owner() {
    for column_dtype in ["<i4", "<i8"] {
        let sparse = Sparse { column_dtype: stored(column_dtype), ..Sparse::small() };
        let source = sparse.in_memory().unwrap();
        let slice = whole(&sparse.sig_shape);
        let mut reader = source.reader().unwrap();
        let tile = reader.read_csr(FrameIndices::Run(0..3), &slice).unwrap();
        let held = tile.lent_values().cloned().unwrap();
        assert_eq!(tile.starts(), [0, 2, 2, 3]);
        assert!(matches!(tile.values(), TypedSlice::U16([10, 20, 30])));
        let again = reader.read_csr(FrameIndices::List(&[1, 2]), &slice).unwrap();
        assert_eq!(again.starts(), [0, 0, 1]);
        assert_eq!(again.columns(), [5]);
        // What is still lent was not written over.
        let values: &[u16] = &[10, 20, 30];
        assert_eq!(held.bytes(), bytemuck::cast_slice::<u16, u8>(values));
    }
}
