//! Logarithms of all pixels that there can be.

use framefold_core::{
    DenseTile, Element, F16, FrameIndices, FrameKind, FramesView, SigSlice, widen_f16,
};
use framefold_stages::make;

/// Confirms the bits of the logarithm of each pixel that there can be.
fn check<T: Element>(every: &[T], wide: impl Fn(T) -> f64) {
    let shape = [every.len()];
    let stage = make("log 1", FrameKind { shape: shape.to_vec(), dtype: T::DTYPE }).unwrap();
    let sig = SigSlice::try_within(vec![0], shape.to_vec(), &shape).unwrap();
    let view = FramesView::try_new(every, 1, every.len(), every.len()).unwrap();
    let mut found = vec![0_f32; every.len()];
    let tile = DenseTile::borrowed(T::wrap_frames(view));
    let out = bytemuck::cast_slice_mut(&mut found);
    stage.part(&sig).unwrap().apply(&tile, &FrameIndices::Run(0..1), out).unwrap();
    for (&cell, found) in every.iter().zip(found) {
        let expected = (wide(cell) + 1.0).ln() as f32;
        let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
        assert!(same, "{cell:?}: {found} is not {expected}");
    }
}

#[test]
fn narrow_pixels_have_the_bits_of_what_is_computed() {
    check(&(0..=u8::MAX).collect::<Vec<_>>(), f64::from);
    check(&(i8::MIN..=i8::MAX).collect::<Vec<_>>(), f64::from);
    check(&(0..=u16::MAX).collect::<Vec<_>>(), f64::from);
    check(&(i16::MIN..=i16::MAX).collect::<Vec<_>>(), f64::from);
    let halves: Vec<F16> = (0..=u16::MAX).map(F16::from_bits).collect();
    check(&halves, |cell| f64::from(widen_f16(cell)));
}
