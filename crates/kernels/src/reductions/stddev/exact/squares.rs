//! Sums of integers and of their squares.

use crate::cell::Cell;
use crate::layout::filled;
use crate::loops::{GROUP, STRIP, groups, stream, strip};
use framefold_core::{Bool8, FramesView, Result};
use framefold_simd::{Simd, run};
use std::ops::Range;

/// An integer whose squares are summed exactly.
pub(super) trait Exact: Cell<Total = i64> {
    /// The absolute value.
    fn magnitude(self) -> u32;
}

macro_rules! exact {
    ($($type:ty, |$cell:ident| $magnitude:expr);* $(;)?) => {$(
        impl Exact for $type {
            #[inline(always)]
            fn magnitude(self) -> u32 {
                let $cell = self;
                u32::from($magnitude)
            }
        }
    )*};
}
exact! {
    Bool8, |cell| cell.get();
    u8, |cell| cell;
    i8, |cell| cell.unsigned_abs();
    u16, |cell| cell;
    i16, |cell| cell.unsigned_abs();
    u32, |cell| cell;
    i32, |cell| cell.unsigned_abs();
}

/// Sums of squares for every pixel, in two halves: `low + high * 2^32`.
///
/// Squares of up to 32 bits, of which [`MOST_FRAMES`](super::MOST_FRAMES) fit 64, are all in `low`.
pub(super) struct Squares {
    pub(super) low: Vec<u64>,
    /// Empty for pixels of less than 32 bits.
    pub(super) high: Vec<u64>,
}

impl Squares {
    pub(super) fn zeros<T: Exact>(len: usize) -> Result<Self> {
        let has_high = size_of::<T>() > 2;
        Ok(Squares { low: filled(0, len)?, high: filled(0, if has_high { len } else { 0 })? })
    }

    /// Both halves of a slice's pixels.
    pub(super) fn of(&mut self, place: Range<usize>) -> (&mut [u64], &mut [u64]) {
        let high = if self.high.is_empty() { 0..0 } else { place.clone() };
        (&mut self.low[place], &mut self.high[high])
    }

    /// The sums of squares.
    pub(super) fn wholes(&self) -> impl Iterator<Item = i128> {
        let high = self.high.iter().copied().chain(std::iter::repeat(0));
        let halves = self.low.iter().zip(high);
        halves.map(|(&low, high)| i128::from(low) + (i128::from(high) << 32))
    }
}

/// Squares of 16 bits: those of a group fit 32 bits.
#[inline(always)]
fn add_bytes<T: Exact, const W: usize>(
    frames: FramesView<'_, T>,
    group: Range<usize>,
    at: usize,
    sums: &mut [T::Block; W],
    squares: &mut [u64; W],
) {
    let mut plain = [T::Block::default(); W];
    let mut squared = [0u32; W];
    for i in group {
        let cells = strip::<T, W>(frames, i, at);
        for k in 0..W {
            let x = cells[k].magnitude();
            plain[k] += cells[k].block();
            squared[k] += x * x;
        }
    }
    for k in 0..W {
        sums[k] += plain[k];
        squares[k] += u64::from(squared[k]);
    }
}

/// Magnitudes below this have squares of which a group fits 32 bits.
pub(super) const SMALL: u32 = 1 << 14;
const _: () = assert!((SMALL as u64 - 1).pow(2) * (GROUP as u64) < 1 << 32);

/// Squares of 32 bits. Counts are mostly small, so they are summed in 32 bits first; if any pixel
/// turns out to be large, once more in 64.
#[inline(always)]
fn add_words<T: Exact, const W: usize>(
    frames: FramesView<'_, T>,
    group: Range<usize>,
    at: usize,
    sums: &mut [T::Block; W],
    squares: &mut [u64; W],
) {
    let mut plain = [T::Block::default(); W];
    let mut squared = [0u32; W];
    let mut bits = [0; W];
    for i in group.clone() {
        let cells = stream::<T, W>(frames, i, at);
        for k in 0..W {
            let x = cells[k].magnitude();
            plain[k] += cells[k].block();
            bits[k] |= x;
            // With these bits alone, the product is one instruction for pairs of 16-bit numbers.
            let x = x & 0x7fff;
            squared[k] = squared[k].wrapping_add(x * x);
        }
    }
    for k in 0..W {
        sums[k] += plain[k];
    }
    if bits.iter().fold(0, |all, bits| all | bits) < SMALL {
        for k in 0..W {
            squares[k] += u64::from(squared[k]);
        }
        return;
    }
    let mut squared = [0u64; W];
    for i in group {
        let cells = strip::<T, W>(frames, i, at);
        for k in 0..W {
            let x = cells[k].magnitude();
            squared[k] += u64::from(x * x);
        }
    }
    for k in 0..W {
        squares[k] += squared[k];
    }
}

/// Squares of 64 bits, summed in halves.
#[inline(always)]
fn add_longs<T: Exact, const W: usize>(
    frames: FramesView<'_, T>,
    group: Range<usize>,
    at: usize,
    sums: &mut [T::Block; W],
    low: &mut [u64; W],
    high: &mut [u64; W],
) {
    // Copies stay in registers.
    let (mut plain, mut lows, mut highs) = (*sums, *low, *high);
    for i in group {
        let cells = stream::<T, W>(frames, i, at);
        for k in 0..W {
            let x = u64::from(cells[k].magnitude());
            plain[k] += cells[k].block();
            lows[k] += (x * x) & 0xffff_ffff;
            highs[k] += (x * x) >> 32;
        }
    }
    (*sums, *low, *high) = (plain, lows, highs);
}

/// Adds some frames of a tile, and their squares.
pub(super) fn add_frames<T: Exact>(
    simd: Simd,
    frames: FramesView<'_, T>,
    which: Range<usize>,
    sums: &mut [T::Block],
    squares: (&mut [u64], &mut [u64]),
) {
    // Half as many pixels of twice the size.
    const HALF: usize = STRIP / 2;
    let (low, high) = squares;
    run!(simd, {
        for group in groups(which) {
            let width = if size_of::<T>() > 2 { HALF } else { STRIP };
            let wide = sums.len() - sums.len() % width;
            let (sums, rest_sums) = sums.split_at_mut(wide);
            let (low, rest_low) = low.split_at_mut(wide);
            if size_of::<T>() > 2 {
                let (high, rest_high) = high.split_at_mut(wide);
                add_wide::<T, HALF>(frames, group.clone(), 0, sums, low, high);
                add_wide::<T, 1>(frames, group, wide, rest_sums, rest_low, rest_high);
            } else {
                add_narrow::<T, STRIP>(frames, group.clone(), 0, sums, low);
                add_narrow::<T, 1>(frames, group, wide, rest_sums, rest_low);
            }
        }
    });
}

#[inline(always)]
fn add_narrow<T: Exact, const W: usize>(
    frames: FramesView<'_, T>,
    group: Range<usize>,
    first: usize,
    sums: &mut [T::Block],
    squares: &mut [u64],
) {
    let strips = sums.as_chunks_mut::<W>().0.iter_mut().zip(squares.as_chunks_mut::<W>().0);
    for (index, (sums, squares)) in strips.enumerate() {
        let at = first + index * W;
        if size_of::<T>() == 1 {
            add_bytes(frames, group.clone(), at, sums, squares);
        } else {
            add_words(frames, group.clone(), at, sums, squares);
        }
    }
}

#[inline(always)]
fn add_wide<T: Exact, const W: usize>(
    frames: FramesView<'_, T>,
    group: Range<usize>,
    first: usize,
    sums: &mut [T::Block],
    low: &mut [u64],
    high: &mut [u64],
) {
    let squares = low.as_chunks_mut::<W>().0.iter_mut().zip(high.as_chunks_mut::<W>().0);
    let strips = sums.as_chunks_mut::<W>().0.iter_mut().zip(squares);
    for (index, (sums, (low, high))) in strips.enumerate() {
        add_longs(frames, group.clone(), first + index * W, sums, low, high);
    }
}
