//! What stages share: cells of a tile by their dtype, and parts of frames of the same shape.

use framefold_core::{
    Complex128, DType, Element, Error, FramesView, Result, SigSlice, TileFrames, TypedVec,
    cast_frames,
};

/// The bytes of an output tile as cells.
pub(crate) fn cells_mut<T: Element>(out: &mut [u8]) -> Result<&mut [T]> {
    bytemuck::try_cast_slice_mut(out)
        .map_err(|e| Error::bug(format!("an output tile as {}: {e}", T::DTYPE)))
}

/// The same slice of frames that have the same shape.
pub(crate) fn same(sig: &SigSlice, shape: &[usize]) -> Result<SigSlice> {
    SigSlice::try_within(sig.origin().to_vec(), sig.shape().to_vec(), shape)
}

/// The error of a stage that cannot take pixels of a dtype.
pub(crate) fn refuse_dtype(stage: &str, dtype: DType, why: &str) -> Error {
    Error::invalid(format!("the stage '{stage}' cannot take pixels of {dtype}: {why}"))
}

/// The bytes of so many cells.
pub(crate) fn len_bytes(cells: usize, dtype: DType) -> Result<usize> {
    cells.checked_mul(dtype.size()).ok_or_else(|| Error::limit("a tile does not fit in memory"))
}

/// Where a step along each axis leads in C order.
pub(crate) fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis] * shape[axis];
    }
    strides
}

/// One pixel of that value; `None` if no pixel of the dtype has it. Floats are rounded.
pub(crate) fn pixel(value: f64, dtype: DType) -> Result<Option<TypedVec>> {
    let (mut one, mut back) =
        (TypedVec::try_zeros(dtype, 1)?, TypedVec::try_zeros(DType::C128, 1)?);
    let given = [value];
    let frames = f64::wrap_frames(FramesView::try_new(&given, 1, 1, 1)?);
    cast_frames(frames, dtype, one.as_bytes_mut())?;
    let frames = TileFrames::from_bytes(dtype, one.as_bytes(), 1, 1, 1)?;
    cast_frames(frames, DType::C128, back.as_bytes_mut())?;
    let rounds = dtype.is_float() || dtype.is_complex();
    let found = back.as_slice::<Complex128>().and_then(|found| found.first()).map(|found| found.re);
    // The cast gives the largest integer instead, which the cast back rounds up.
    let beyond = match dtype {
        DType::I64 => value >= 2_f64.powi(63),
        DType::U64 => value >= 2_f64.powi(64),
        _ => false,
    };
    let is_held = |found: &f64| *found == value || (rounds && found.is_finite());
    Ok(found.filter(|found| !beyond && is_held(found)).map(|_| one))
}
