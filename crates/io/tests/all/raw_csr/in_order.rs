//! Sparse rows in memory are put in order once, and only if they are not.

use crate::raw_csr::support::{Sparse, integers, read_frames, read_u16, stored, whole};
use framefold_core::{DType, DataSource, ErrorKind, FrameIndices, Result, TypedSlice};
use framefold_io::{CsrSource, MemoryArray, MemorySource};
use std::sync::Arc;

fn in_order(sparse: &Sparse) -> Result<(Arc<CsrSource>, Arc<CsrSource>)> {
    let source = Arc::new(sparse.in_memory()?);
    Ok((source.clone(), source.in_order()?))
}

/// Where columns and values of all frames lie.
fn addresses(source: &CsrSource) -> (usize, usize) {
    let slice = whole(&source.info().sig_shape);
    let mut reader = source.reader().unwrap();
    let tile = reader.read_csr(FrameIndices::Run(0..source.info().n_frames), &slice).unwrap();
    (tile.columns().as_ptr() as usize, tile.values().as_bytes().as_ptr() as usize)
}

#[test]
fn rows_in_order_stay_as_they_are() {
    let (before, after) = in_order(&Sparse::small()).unwrap();
    assert!(Arc::ptr_eq(&before, &after));
    let none = Sparse { pointers: vec![0; 4], columns: vec![], values: vec![], ..Sparse::small() };
    let (before, after) = in_order(&none).unwrap();
    assert!(Arc::ptr_eq(&before, &after));
    assert_eq!(read_u16(&*after).unwrap(), vec![vec![0; 6]; 3]);
}

#[test]
fn columns_get_four_bytes_and_values_stay_where_they_are() {
    for dtype in ["<i8", ">i4", "u1"] {
        let sparse = Sparse { column_dtype: stored(dtype), ..Sparse::small() };
        let (before, after) = in_order(&sparse).unwrap();
        assert_eq!(read_u16(&*after).unwrap(), read_u16(&*before).unwrap(), "{dtype}");
        // They are lent from now on.
        assert_eq!(addresses(&after), addresses(&after));
        assert_ne!(addresses(&after).1, addresses(&before).1, "{dtype}: values were copied before");
        let slice = whole(&[2, 3]);
        let mut reader = after.reader().unwrap();
        let tile = reader.read_csr(FrameIndices::Run(0..3), &slice).unwrap();
        assert_eq!(tile.columns(), [1, 4, 5]);
        assert!(matches!(tile.values(), TypedSlice::U16([10, 20, 30])));
    }
}

#[test]
fn rows_out_of_order_are_copied() {
    let sparse = Sparse {
        pointers: vec![0, 3, 3, 5],
        columns: vec![4, 1, 4, 5, 0],
        values: integers(&[10, 20, 30, 40, 50], stored("u2")),
        ..Sparse::small()
    };
    let (before, after) = in_order(&sparse).unwrap();
    assert!(!Arc::ptr_eq(&before, &after));
    assert_eq!(addresses(&after), addresses(&after), "rows in order are lent");
    assert_eq!(read_frames(&*after).unwrap(), read_frames(&*before).unwrap());
    assert_eq!(after.info().n_frames, 3);
    assert_eq!(read_u16(&*after).unwrap()[0], [0, 20, 0, 0, 40, 0]);
    assert_eq!(read_u16(&*after).unwrap()[2], [50, 0, 0, 0, 0, 40]);
}

#[test]
fn what_is_wrong_is_named_at_once() {
    let small = Sparse::small();
    let column = Sparse { columns: vec![1, 6, 5], ..small.clone() };
    let pointer = Sparse { pointers: vec![0, 4, 2, 3], ..small.clone() };
    let sum = Sparse {
        columns: vec![4, 4, 5],
        values: integers(&[65000, 536, 1], stored("u2")),
        ..small
    };
    for (sparse, words) in [
        (column, "found 6 among the columns, expected 0 to 5"),
        (pointer, "found 4 among the row pointers"),
        (sum, "pixel 4 add up to more than uint16"),
    ] {
        let error = in_order(&sparse).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFile);
        assert!(error.to_string().contains(words), "{error}");
        assert_eq!(error.frame(), Some(0), "{error}");
    }
}

#[test]
fn dense_frames_become_sparse_ones() {
    let pixels: Vec<u16> = (0..2000 * 12).map(|i| if i % 7 == 0 { i as u16 } else { 0 }).collect();
    let layout = MemoryArray {
        shape: vec![40, 50, 3, 4],
        strides_bytes: None,
        offset_bytes: 0,
        stored: DType::U16.into(),
        sig_dims: 2,
    };
    let bytes: Vec<u8> = bytemuck::cast_slice(&pixels).to_vec();
    let dense = Arc::new(MemorySource::try_new(Arc::new(bytes), layout).unwrap());
    let sparse = CsrSource::from_frames(dense.clone()).unwrap();
    assert_eq!(read_u16(&sparse).unwrap(), read_u16(&*dense).unwrap());
    assert_eq!(sparse.info().nav_shape, [40, 50]);
    let n_entries = pixels.iter().filter(|&&pixel| pixel != 0).count() as u64;
    assert_eq!(sparse.stored_bytes(), Some(n_entries * (4 + 2) + 2001 * 8));
}
