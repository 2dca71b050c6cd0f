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
    let len_bytes = u64::try_from(len).ok().zip(u64::try_from(size_of::<T>()).ok());
    let len_bytes = len_bytes.and_then(|(len, size)| len.checked_mul(size)).unwrap_or(u64::MAX);
    if len_bytes > BUDGET.load(Ordering::Relaxed) {
        return Err(too_large(len_bytes));
    }
    bytemuck::try_zeroed_vec(len).map_err(|()| too_large(len_bytes))
}

fn too_large(len_bytes: u64) -> Error {
    Error::limit(format!("there is no memory for an array of {len_bytes} bytes"))
        .with_hint("select fewer positions with a ROI, or check the shape of the data set")
}
