//! A block of pixels, converted to the precision of the product.

use super::number::{Number, Operand};
use crate::cell::Cell;
use crate::total::Value;
use framefold_core::{Bool8, Complex64, Complex128, F16, FramesView};
use framefold_simd::{Simd, run};
use std::ops::Range;

/// Up to `P` pixels of one frame; zeros follow.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Row<S, const P: usize> {
    pub(super) cells: [S; P],
    /// Keeps the same pixel of several rows out of the same set of the cache.
    gap: [S; 16],
}

/// Some frames deep. A real pixel makes one row, a complex one two: first all real parts of the
/// frame, then the imaginary ones.
pub(super) struct Rows<S, const P: usize>(Vec<Row<S, P>>);

/// The rows that a frame makes.
pub(super) fn rows_per_frame<T: Cell>() -> usize {
    if T::DTYPE.is_complex() { 2 } else { 1 }
}

/// A pixel that masks are multiplied with.
pub(crate) trait Pixel: Cell {
    /// Itself, if it can be loaded as a number of single precision.
    type Raw: Operand<f32>;

    /// The cells as they are; `None` if they have to be converted first.
    fn raw(cells: &[Self]) -> Option<&[Self::Raw]>;
}

macro_rules! pixels {
    (raw $($raw:ty),*; converted $($converted:ty),*) => {
        $(impl Pixel for $raw {
            type Raw = $raw;

            #[inline(always)]
            fn raw(cells: &[$raw]) -> Option<&[$raw]> {
                Some(cells)
            }
        })*
        $(impl Pixel for $converted {
            type Raw = f32;

            #[inline(always)]
            fn raw(_: &[$converted]) -> Option<&[f32]> {
                None
            }
        })*
    };
}
pixels!(
    raw u8, i8, u16, i16, f32;
    converted Bool8, F16, u32, i32, u64, i64, f64, Complex64, Complex128
);

impl<S: Number, const P: usize> Rows<S, P> {
    /// Room for `n` rows, all zero.
    pub(super) fn new(n: usize) -> Self {
        Rows(vec![Row { cells: [S::default(); P], gap: [S::default(); 16] }; n])
    }

    /// All rows; those that are not in use hold numbers of no meaning.
    pub(super) fn all(&self) -> &[Row<S, P>] {
        &self.0
    }

    /// The first `len` cells of up to `N` rows.
    pub(super) fn slices<const N: usize>(&self, len: usize) -> [&[S]; N] {
        let mut slices: [&[S]; N] = [&[]; N];
        for (slice, row) in slices.iter_mut().zip(&self.0) {
            *slice = &row.cells[..len];
        }
        slices
    }

    /// Takes in the `cells`, at most `P`, of the frames `which`.
    pub(super) fn load<T: Cell>(
        &mut self,
        simd: Simd,
        frames: FramesView<'_, T>,
        which: Range<usize>,
        cells: &Range<usize>,
    ) {
        let per_frame = rows_per_frame::<T>();
        for (rows, i) in self.0.chunks_exact_mut(per_frame).zip(which) {
            let cells = &frames.frame(i)[cells.clone()];
            run!(
                simd,
                match &mut *rows {
                    [row] => convert(cells, row, real),
                    [re, im] => {
                        convert(cells, re, real);
                        convert(cells, im, imaginary);
                    }
                    _ => {}
                }
            );
        }
    }
}

#[inline(always)]
fn convert<T: Cell, S: Number, const P: usize>(
    cells: &[T],
    row: &mut Row<S, P>,
    part: impl Fn(T) -> f64,
) {
    for (number, &cell) in row.cells.iter_mut().zip(cells) {
        *number = S::narrow(part(cell));
    }
    let end = cells.len().next_multiple_of(16).min(P);
    row.cells[cells.len().min(end)..end].fill(S::default());
}

#[inline(always)]
pub(super) fn real<T: Cell>(cell: T) -> f64 {
    cell.value().complex().re
}

#[inline(always)]
pub(super) fn imaginary<T: Cell>(cell: T) -> f64 {
    cell.value().complex().im
}
