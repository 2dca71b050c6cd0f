//! Memory whose amount follows from input: never taken before it was asked for.
//!
//! Budget: a piece of memory is at most what [`set_budget`] says, which is all that the system has,
//! and what the system grants at that moment. An allocation that fails ends the process, so what
//! a header, a shape or an option claims is asked for here first.

use crate::{Error, Result};
use bytemuck::Zeroable;
use std::sync::atomic::{AtomicU64, Ordering};

static BUDGET: AtomicU64 = AtomicU64::new(u64::MAX);

/// No piece of memory is larger from now on.
pub fn set_budget(len_bytes: u64) {
    BUDGET.store(len_bytes, Ordering::Relaxed);
}

/// Whether there is memory for so many bytes.
pub fn fits(len_bytes: u64) -> bool {
    len_bytes <= BUDGET.load(Ordering::Relaxed)
        && usize::try_from(len_bytes)
            .is_ok_and(|len_bytes| Vec::<u8>::new().try_reserve_exact(len_bytes).is_ok())
}

/// So many zeros; the system clears them when they are first touched.
///
/// # Errors
/// `Limit` if there is no memory for them.
pub fn zeros<T: Zeroable>(len: usize) -> Result<Vec<T>> {
    let len_bytes = len_bytes::<T>(len);
    if len_bytes > BUDGET.load(Ordering::Relaxed) {
        return Err(too_large(len_bytes));
    }
    bytemuck::try_zeroed_vec(len).map_err(|()| too_large(len_bytes))
}

/// `len` times `value`.
///
/// # Errors
/// `Limit` if there is no memory for them.
pub fn filled<T: Clone>(value: T, len: usize) -> Result<Vec<T>> {
    collected(std::iter::repeat_n(value, len))
}

/// What the iterator gives, whose number follows from input.
///
/// # Errors
/// `Limit` if there is no memory for them.
pub fn collected<T>(items: impl ExactSizeIterator<Item = T>) -> Result<Vec<T>> {
    let mut vec = with_room(items.len())?;
    vec.extend(items);
    Ok(vec)
}

/// No values, and room for so many.
///
/// # Errors
/// `Limit` if there is no memory for them.
pub fn with_room<T>(len: usize) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    make_room(&mut vec, len)?;
    Ok(vec)
}

/// Makes a vector `len` values long, with `value` in new places.
///
/// # Errors
/// `Limit` if there is no memory for them.
pub fn resize<T: Clone>(vec: &mut Vec<T>, len: usize, value: T) -> Result<()> {
    make_room(vec, len.saturating_sub(vec.len()))?;
    vec.resize(len, value);
    Ok(())
}

fn make_room<T>(vec: &mut Vec<T>, more: usize) -> Result<()> {
    let len_bytes = len_bytes::<T>(vec.len().saturating_add(more));
    if len_bytes > BUDGET.load(Ordering::Relaxed) {
        return Err(too_large(len_bytes));
    }
    vec.try_reserve_exact(more).map_err(|_| too_large(len_bytes))
}

fn len_bytes<T>(len: usize) -> u64 {
    let sizes = u64::try_from(len).ok().zip(u64::try_from(size_of::<T>()).ok());
    sizes.and_then(|(len, size)| len.checked_mul(size)).unwrap_or(u64::MAX)
}

fn too_large(len_bytes: u64) -> Error {
    Error::limit(format!("there is no memory for an array of {len_bytes} bytes"))
        .with_hint("select fewer positions with a ROI, or check the shape of the data set")
}
