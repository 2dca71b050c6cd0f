//! Where elements are, in an array and in a tile.

use crate::readers::recut::Axis;

/// Elements next to each other, both where they come from and in the tile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    /// Bytes from the first element of the array.
    pub(super) offset: u64,
    /// Elements from the start of the tile.
    pub(super) to: usize,
    pub(super) n: usize,
}

/// The offset of the `flat`-th position in C order. The layout was checked, so nothing overflows.
pub(super) fn offset_of(mut flat: u64, axes: &[Axis]) -> u64 {
    let mut offset = 0;
    for axis in axes.iter().rev() {
        let len = to_u64(axis.len).max(1);
        offset += flat % len * axis.stride;
        flat /= len;
    }
    offset
}

pub(super) fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}
