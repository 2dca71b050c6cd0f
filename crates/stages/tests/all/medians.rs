//! The order of floats in medians.

use framefold_core::{DenseTile, Element, FrameIndices, FrameKind, FramesView, SigSlice};
use framefold_stages::make;

/// The medians of the windows of a row of pixels.
fn medians(size: usize, row: &[f32]) -> Vec<f32> {
    let shape = [row.len()];
    let kind = FrameKind { shape: shape.to_vec(), dtype: f32::DTYPE };
    let stage = make(&format!("median {size}"), kind).unwrap();
    let sig = SigSlice::try_within(vec![0], shape.to_vec(), &shape).unwrap();
    let tile = FramesView::try_new(row, 1, row.len(), row.len()).unwrap();
    let tile = DenseTile::borrowed(f32::wrap_frames(tile));
    let mut found = vec![0_f32; row.len()];
    let out = bytemuck::cast_slice_mut(&mut found);
    stage.part(&sig).unwrap().apply(&tile, &FrameIndices::Run(0..1), out).unwrap();
    found
}

#[test]
fn floats_keep_their_order() {
    let same = |a: f32, b: f32| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    let values = [f32::NEG_INFINITY, -2.5, -0.0, 0.0, 1e-40, 3.0, f32::INFINITY, f32::NAN];
    for (found, value) in medians(1, &values).into_iter().zip(values) {
        assert!(same(found, value), "{found} is not {value}");
    }
    let check = |low: f32, middle: f32, high: f32| {
        for row in [[low, middle, high], [high, low, middle], [middle, high, low]] {
            let found = medians(3, &row)[1];
            assert!(same(found, middle), "{found} of {row:?}");
        }
    };
    for (i, &middle) in values.iter().enumerate() {
        for &low in &values[..i] {
            values[i + 1..].iter().for_each(|&high| check(low, middle, high));
        }
    }
    // NaN is the largest, whatever its sign.
    check(3.0, f32::INFINITY, -f32::NAN);
    check(f32::INFINITY, -f32::NAN, f32::NAN);
}
