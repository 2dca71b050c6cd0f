//! What pixels weigh: the numbers behind a centre of mass.

use crate::cell::Real;
use framefold_core::{Bool8, F16, widen_f16};
use std::ops::{Add, AddAssign, Mul};

/// A pixel that adds to the mass of its frame.
pub(crate) trait Mass: Real {
    /// What a few pixels are summed in, each at most [`super::rectangles::ROWS`] times, as narrow
    /// as can be, so that vectors hold many.
    type Few: Copy + AddAssign;
    /// What columns are summed in.
    type Sum: ColumnSum;

    /// The pixel, to be added to a few others.
    fn mass(self) -> Self::Few;

    /// A few pixels, to be added to their column.
    fn sum(few: Self::Few) -> Self::Sum;
}

/// The most rows of which the pixels of a column, each times its distance from the first row, add
/// up to a [`ColumnSum`] without overflow: `(0 + 1 + … + 255) * 65535` is just below 2^31.
pub(crate) const BAND_ROWS: usize = 256;

/// The most columns that are folded at a time: sums of [`BAND_ROWS`] pixels, each times its
/// distance from the first column, add up to a [`ColumnSum::Fold`].
pub(crate) const FOLD_COLUMNS: usize = 256;

/// The sum of part of a column: of its pixels, or of pixels times distances.
pub(crate) trait ColumnSum:
    Copy + Default + Add<Output = Self> + AddAssign + Mul<Output = Self> + Send + Sync + 'static
{
    /// What the sums of some columns are added up in.
    type Fold: Copy + Default + Add<Output = Self::Fold> + AddAssign + Mul<Output = Self::Fold>;
    /// What the sums of a frame are kept in: exact for integers.
    type Moment: Moment;

    /// A distance from a row, below [`BAND_ROWS`].
    fn rows(rows: u16) -> Self;

    /// Itself, to be added to other columns.
    fn fold(self) -> Self::Fold;

    /// A distance from a column, below [`FOLD_COLUMNS`].
    fn columns(columns: u16) -> Self::Fold;

    /// What was added up, to be added to the sums of the frame.
    fn moment(fold: Self::Fold) -> Self::Moment;
}

/// A sum over a frame, of pixels or of pixels times coordinates.
pub(crate) trait Moment: Copy + Default + AddAssign + Send + Sync + 'static {
    /// Itself times a coordinate.
    fn times(self, coordinate: usize) -> Self;

    /// From double precision; where sums are exact, from an integer that is exact in it.
    fn from_f64(value: f64) -> Self;

    /// Itself divided by the sum of pixels, or `None` if that is zero.
    fn over(self, sum: Self) -> Option<f64>;
}

impl Moment for i128 {
    fn times(self, coordinate: usize) -> Self {
        self * coordinate as i128
    }

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        i128::from(value as i64)
    }

    fn over(self, sum: Self) -> Option<f64> {
        // From 64 bits it is one instruction, and the same number.
        let double = |n: i128| i64::try_from(n).map_or_else(|_| from_many_bits(n), |n| n as f64);
        (sum != 0).then(|| double(self) / double(sum))
    }
}

/// Apart, or else the compiler finds that it can do without the other way.
#[cold]
#[inline(never)]
fn from_many_bits(n: i128) -> f64 {
    n as f64
}

impl Moment for f64 {
    fn times(self, coordinate: usize) -> Self {
        self * coordinate as f64
    }

    #[inline(always)]
    fn from_f64(value: f64) -> Self {
        value
    }

    fn over(self, sum: Self) -> Option<f64> {
        (sum != 0.0).then(|| self / sum)
    }
}

macro_rules! column_sums {
    ($($sum:ty, $fold:ty, $moment:ty);* $(;)?) => {$(
        impl ColumnSum for $sum {
            type Fold = $fold;
            type Moment = $moment;

            #[inline(always)]
            fn rows(rows: u16) -> $sum {
                rows.into()
            }

            #[inline(always)]
            fn fold(self) -> $fold {
                self.into()
            }

            #[inline(always)]
            fn columns(columns: u16) -> $fold {
                columns.into()
            }

            #[inline(always)]
            fn moment(fold: $fold) -> $moment {
                fold.into()
            }
        }
    )*};
}
column_sums! {
    u32, u64, i128;
    i32, i64, i128;
    i64, i64, i128;
    i128, i128, i128;
    f64, f64, f64;
}

macro_rules! masses {
    ($($type:ty, $few:ty, $sum:ty, |$cell:ident| $mass:expr);* $(;)?) => {$(
        impl Mass for $type {
            type Few = $few;
            type Sum = $sum;

            #[inline(always)]
            fn mass(self) -> $few {
                let $cell = self;
                $mass
            }

            #[inline(always)]
            fn sum(few: $few) -> $sum {
                few.into()
            }
        }
    )*};
}
masses! {
    Bool8, u16, u32, |cell| u16::from(cell.get());
    u8, u16, u32, |cell| cell.into();
    u16, u32, u32, |cell| cell.into();
    i8, i16, i32, |cell| cell.into();
    i16, i32, i32, |cell| cell.into();
    u32, i64, i64, |cell| cell.into();
    i32, i64, i64, |cell| cell.into();
    u64, i128, i128, |cell| cell.into();
    i64, i128, i128, |cell| cell.into();
    F16, f64, f64, |cell| widen_f16(cell).into();
    f32, f64, f64, |cell| cell.into();
    f64, f64, f64, |cell| cell;
}
