//! How each element type is summed: the numbers behind the loops.

use crate::total::Total;
use framefold_core::{
    Bool8, Complex64, Complex128, Element, Error, F16, FramesView, Result, TileFrames, widen_f16,
};
use std::ops::Add;

/// A pixel.
///
/// Sums are built in two steps. Inside a loop they are kept in a `Block`, as narrow as can be so
/// that vector registers hold many; after at most [`Cell::BLOCK_TERMS`] terms the block is folded
/// into a [`Total`].
pub(crate) trait Cell: Element {
    /// What inner loops sum in.
    type Block: Total + Add<Output = Self::Block>;
    /// What sums are kept in.
    type Total: Total;
    /// The number of pixels that a block takes without overflow.
    const BLOCK_TERMS: usize;
    /// The number of pixels that a total takes without overflow.
    const TOTAL_TERMS: u64;

    /// The cells of a tile.
    ///
    /// # Errors
    /// `Bug` if the tile has another dtype than was planned.
    fn view(frames: TileFrames<'_>) -> Result<FramesView<'_, Self>>;

    /// The pixel, to be added to a block.
    fn block(self) -> Self::Block;

    /// A block, to be added to a total.
    fn total(block: Self::Block) -> Self::Total;

    /// The pixel in double precision.
    fn value(self) -> <Self::Total as Total>::Value;
}

/// A pixel that is a real number.
pub(crate) trait Real: Cell {
    /// The smallest value: the maximum of nothing.
    const LOWEST: Self;

    /// The larger of both, or NaN if either is.
    fn larger(self, other: Self) -> Self;

    /// The smaller of both, or NaN if either is.
    fn smaller(self, other: Self) -> Self;

    /// One more than the difference to a pixel that is not larger: rounded once for integers.
    fn steps(self, floor: Self) -> f64;

    /// The number of such steps whose product stays below 2^1024.
    const STEP_FACTORS: usize;
}

macro_rules! cell {
    ($variant:ident: $type:ty, $block:ty, $total:ty, $block_terms:expr, $total_terms:expr,
        |$cell:ident| $to_block:expr, |$value:ident| $to_value:expr) => {
        impl Cell for $type {
            type Block = $block;
            type Total = $total;
            const BLOCK_TERMS: usize = $block_terms;
            const TOTAL_TERMS: u64 = $total_terms;

            #[inline]
            fn view(frames: TileFrames<'_>) -> Result<FramesView<'_, Self>> {
                match frames {
                    TileFrames::$variant(view) => Ok(view),
                    other => Err(Error::bug(format!(
                        "a tile of {} was processed as {}",
                        other.dtype(),
                        Self::DTYPE
                    ))),
                }
            }

            #[inline(always)]
            fn block(self) -> $block {
                let $cell = self;
                $to_block
            }

            #[inline(always)]
            fn total(block: $block) -> $total {
                block as $total
            }

            #[inline(always)]
            fn value(self) -> <$total as Total>::Value {
                let $value = self;
                $to_value
            }
        }
    };
}

macro_rules! integers {
    ($($variant:ident: $type:ty, $block:ty, $total:ty, $block_terms:expr, $total_terms:expr,
        |$cell:ident, $floor:ident| $steps:expr);* $(;)?) => {$(
        cell!($variant: $type, $block, $total, $block_terms, $total_terms,
            |cell| cell as $block, |cell| cell as f64);

        impl Real for $type {
            const LOWEST: Self = <$type>::MIN;

            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                self.max(other)
            }

            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                self.min(other)
            }

            #[inline(always)]
            fn steps(self, $floor: Self) -> f64 {
                let $cell = self;
                $steps
            }

            // From 1 to 2^BITS.
            const STEP_FACTORS: usize = 1023 / <$type>::BITS as usize;
        }
    )*};
}
integers! {
    U8: u8, u32, i64, 1 << 16, 1 << 47, |cell, floor| narrow_steps(cell, floor);
    I8: i8, i32, i64, 1 << 16, 1 << 47, |cell, floor| narrow_steps(cell, floor);
    U16: u16, u32, i64, 1 << 16, 1 << 47, |cell, floor| narrow_steps(cell, floor);
    I16: i16, i32, i64, 1 << 15, 1 << 47, |cell, floor| narrow_steps(cell, floor);
    U32: u32, i64, i64, 1 << 30, 1 << 31, |cell, floor| narrow_steps(cell, floor);
    I32: i32, i64, i64, 1 << 30, 1 << 31, |cell, floor| narrow_steps(cell, floor);
    U64: u64, i128, i128, 1 << 30, 1 << 62, |cell, floor| cell.abs_diff(floor) as f64 + 1.0;
    I64: i64, i128, i128, 1 << 30, 1 << 62, |cell, floor| cell.abs_diff(floor) as f64 + 1.0;
}

/// Exact for integers of up to 32 bits, and one operation per pixel, because the floor is the same
/// for all.
#[inline(always)]
fn narrow_steps<T: Into<f64>>(cell: T, floor: T) -> f64 {
    cell.into() - (floor.into() - 1.0)
}

macro_rules! floats {
    ($($variant:ident: $type:ty, $to_f64:path, $nan:path, $factors:expr);* $(;)?) => {$(
        cell!($variant: $type, f64, f64, usize::MAX, u64::MAX,
            |cell| $to_f64(cell), |cell| $to_f64(cell));

        impl Real for $type {
            const LOWEST: Self = <$type>::NEG_INFINITY;

            // One comparison with the other value and one with itself, and no branch.
            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                if (other > self) | $nan(other) { other } else { self }
            }

            #[inline(always)]
            fn smaller(self, other: Self) -> Self {
                if (other < self) | $nan(other) { other } else { self }
            }

            #[inline(always)]
            fn steps(self, floor: Self) -> f64 {
                $to_f64(self) - $to_f64(floor) + 1.0
            }

            const STEP_FACTORS: usize = $factors;
        }
    )*};
}
floats! {
    F16: F16, widen_half, F16::is_nan, 1023 / 18;
    F32: f32, f64::from, f32::is_nan, 1023 / 130;
    F64: f64, std::convert::identity, f64::is_nan, 1;
}

cell!(Bool: Bool8, u32, i64, 1 << 16, 1 << 47,
    |cell| u32::from(cell.get()), |cell| f64::from(u8::from(cell.get())));
cell!(C64: Complex64, Complex128, Complex128, usize::MAX, u64::MAX,
    |cell| widen(cell), |cell| widen(cell));
cell!(C128: Complex128, Complex128, Complex128, usize::MAX, u64::MAX,
    |cell| cell, |cell| cell);

/// As `f64::from`, in a form that becomes vector instructions.
#[inline(always)]
fn widen_half(cell: F16) -> f64 {
    f64::from(widen_f16(cell))
}

#[inline(always)]
fn widen(cell: Complex64) -> Complex128 {
    Complex128::new(f64::from(cell.re), f64::from(cell.im))
}

impl Real for Bool8 {
    const LOWEST: Self = Bool8(0);

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        Bool8::from(self.get() | other.get())
    }

    #[inline(always)]
    fn smaller(self, other: Self) -> Self {
        Bool8::from(self.get() & other.get())
    }

    #[inline(always)]
    fn steps(self, floor: Self) -> f64 {
        self.value() - floor.value() + 1.0
    }

    const STEP_FACTORS: usize = 1023;
}

/// Refuses sums of more terms than a total of `T` can hold.
///
/// # Errors
/// `Limit` that says how many there are and how many would do.
pub(crate) fn check_terms<T: Cell>(terms: usize, of_what: &str) -> Result<()> {
    if u64::try_from(terms).is_ok_and(|terms| terms <= T::TOTAL_TERMS) {
        return Ok(());
    }
    Err(Error::limit(format!(
        "{terms} {of_what} of {} are too many for an exact sum: at most {}",
        T::DTYPE,
        T::TOTAL_TERMS
    ))
    .with_hint("select fewer positions with a ROI and add the results"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_is_widened_to_the_bits_of_the_library() {
        for half in (0..=u16::MAX).map(F16::from_bits) {
            assert_eq!(half.value().to_bits(), f64::from(half).to_bits(), "{half:?}");
        }
    }
}
