//! What stages share: cells of a tile by their dtype, and parts of frames of the same shape.

use framefold_core::{DType, Element, Error, Result, SigSlice};

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
