//! Sums of integers and of their squares, entry by entry.

use super::squares::Exact;
use framefold_core::{Result, stray_column};

/// Adds entries, and their squares, to what their columns name.
///
/// # Errors
/// `BadFile` if a column does not name any of `sums`.
#[inline(always)]
pub(super) fn add_entries<T: Exact>(
    (columns, values): (&[u32], &[T]),
    sums: &mut [T::Block],
    (low, high): (&mut [u64], &mut [u64]),
) -> Result<()> {
    let len = sums.len();
    let low = &mut low[..len];
    let wide = size_of::<T>() > 2;
    let high = &mut high[..if wide { len } else { 0 }];
    for (&column, &value) in columns.iter().zip(values) {
        let cell = column as usize;
        if cell >= len {
            return Err(stray_column(column, len));
        }
        let x = u64::from(value.magnitude());
        sums[cell] += value.block();
        if wide {
            low[cell] += (x * x) & 0xffff_ffff;
            high[cell] += (x * x) >> 32;
        } else {
            low[cell] += x * x;
        }
    }
    Ok(())
}
