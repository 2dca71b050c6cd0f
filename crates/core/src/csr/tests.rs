//! Sparse tiles: checked, converted, and not overwritten while they are in use.

use super::*;
use crate::{FramesView, Scratch};

#[test]
fn a_tile_is_checked_before_anybody_sees_it() {
    let tile = |starts: &[usize], columns: &[u32], n_values: usize| {
        CsrTile::try_new(starts, columns, TypedSlice::U8(&[1; 8][..n_values]), 6).is_ok()
    };
    assert!(tile(&[0, 2, 2, 3], &[0, 5, 3], 3));
    assert!(tile(&[0, 0], &[], 0));
    // No rows; starts that begin late, fall, or end elsewhere; too few values.
    assert!(!tile(&[0], &[], 0));
    assert!(!tile(&[], &[], 0));
    assert!(!tile(&[1, 2], &[0, 1], 2));
    assert!(!tile(&[0, 2, 1, 3], &[0, 5, 3], 3));
    assert!(!tile(&[0, 2], &[0, 1, 2], 3));
    assert!(!tile(&[0, 3], &[0, 1, 2], 2));
    // Columns beyond the frame, not ascending, twice the same.
    assert!(!tile(&[0, 1], &[6], 1));
    assert!(!tile(&[0, 2], &[3, 1], 2));
    assert!(!tile(&[0, 2], &[3, 3], 2));
    // Only within a row do they have to ascend.
    assert!(tile(&[0, 1, 2], &[3, 1], 2));
}

#[test]
fn columns_that_changed_are_not_given_away() {
    let (starts, values) = ([0, 2], [1, 1]);
    let tile = |columns| CsrTile {
        starts: &starts,
        columns,
        values: TypedSlice::U8(&values),
        len: 6,
        lent: None,
    };
    assert_eq!(tile(&[0, 5]).checked_columns().unwrap(), [0, 5]);
    for changed in [&[0, 6], &[5, 0], &[5, 5]] {
        let error = tile(changed).checked_columns().unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::BadFile);
    }
}

#[test]
fn there_and_back_again() {
    let cells = [0i16, -3, 0, 0, 7, 99, 0, 0, 0, 0, 0, 99, 1, 0, 0, 0, 2];
    let frames = i16::wrap_frames(FramesView::try_new(&cells, 3, 5, 6).unwrap());
    let dense = crate::DenseTile::borrowed(frames);
    let (mut sparse, mut scratch) = (CsrScratch::new(), Scratch::new());
    let tile = sparsify(&dense, &mut sparse).unwrap();
    assert_eq!(tile.starts(), [0, 2, 2, 4]);
    assert_eq!(tile.columns(), [1, 4, 0, 4]);
    assert_eq!(tile.view::<i16>().unwrap().frame(2), (&[0, 4][..], &[1, 2][..]));
    assert!(tile.view::<u16>().is_none());
    let back = densify(&tile, &mut scratch).unwrap();
    assert_eq!(back.frames().dtype(), DType::I16);
    let expected = [0i16, -3, 0, 0, 7, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2];
    assert_eq!(back.frames().as_bytes(), bytemuck::cast_slice::<i16, u8>(&expected));
}

#[test]
fn values_are_converted_and_nothing_else() {
    let values = [1u16, 65535];
    let tile = CsrTile::try_new(&[0, 1, 2], &[3, 0], TypedSlice::U16(&values), 4).unwrap();
    let mut scratch = Scratch::new();
    let wide = convert_csr(&tile, DType::F32, &mut scratch).unwrap();
    assert_eq!(wide.view::<f32>().unwrap().entries(), (&[3, 0][..], &[1.0, 65535.0][..]));
    assert_eq!((wide.frame_len(), wide.starts()), (4, &[0, 1, 2][..]));
    let complex = [crate::Complex64::new(1.0, 2.0)];
    let tile = CsrTile::try_new(&[0, 1], &[0], TypedSlice::C64(&complex), 4).unwrap();
    assert!(convert_csr(&tile, DType::F64, &mut Scratch::new()).is_err());
}

#[test]
fn what_is_still_held_is_not_overwritten() {
    let mut scratch = CsrScratch::new();
    let cells = [1u8, 2, 3, 4];
    let frames = u8::wrap_frames(FramesView::try_new(&cells, 1, 4, 4).unwrap());
    let dense = crate::DenseTile::borrowed(frames);
    let mut values_of = |keep: &mut Option<crate::LentBytes>| {
        let tile = sparsify(&dense, &mut scratch).unwrap();
        *keep = keep.take().and_then(|_| tile.lent_values().cloned());
        tile.values().as_bytes().as_ptr() as usize
    };
    let nothing = crate::LentBytes::try_new(&[], std::sync::Arc::new(Vec::<u8>::new()));
    let mut held: Option<crate::LentBytes> = nothing.ok();
    let first = values_of(&mut held);
    let second = values_of(&mut None);
    assert_ne!(second, first);
    assert_eq!(values_of(&mut None), second);
    drop(held);
}

#[test]
fn not_a_number_is_not_zero() {
    let cells = [0.0f32, f32::NAN, -0.0, 1.0];
    let frames = f32::wrap_frames(FramesView::try_new(&cells, 1, 4, 4).unwrap());
    let mut scratch = CsrScratch::new();
    let tile = sparsify(&crate::DenseTile::borrowed(frames), &mut scratch).unwrap();
    assert_eq!(tile.columns(), [1, 3]);
}

#[test]
fn frames_of_any_length_with_few_or_only_entries() {
    let mut scratch = CsrScratch::new();
    for len in [1usize, 15, 16, 17, 127, 128, 129, 255, 256, 300, 1000] {
        for every in [1usize, 2, 7, 100, 10_000] {
            let cells: Vec<u16> =
                (0..3 * len).map(|i| if i % every == every - 1 { 0x0100 } else { 0 }).collect();
            let frames = u16::wrap_frames(FramesView::try_new(&cells, 3, len, len).unwrap());
            let tile = sparsify(&crate::DenseTile::borrowed(frames), &mut scratch).unwrap();
            let expected = |frame: &[u16]| -> Vec<u32> {
                (0..len).filter(|&i| frame[i] != 0).map(|i| i as u32).collect()
            };
            for (i, frame) in cells.chunks(len).enumerate() {
                let columns = &tile.columns()[tile.row(i)];
                assert_eq!(columns, expected(frame), "{len} {every}");
                assert_eq!(tile.view::<u16>().unwrap().frame(i).1, vec![0x0100; columns.len()]);
            }
        }
    }
}
