//! Puts the two chips of a camera above each other.

use crate::readers::linear::FrameDecoder;
use framefold_core::{Error, Result, SigSlice};
use framefold_simd::{Simd, run};
use std::ops::Range;

/// Decodes frames of one size.
#[derive(Clone, Debug)]
pub(super) struct UnfoldDecoder {
    /// Columns and rows as stored: those of both chips side by side.
    width: usize,
    height: usize,
    /// How often a row is repeated.
    binning: usize,
    /// The shape that frames are to have: the native one, or another one with as many cells.
    sig_shape: Vec<usize>,
}

/// The shape of a frame whose chips are above each other.
pub(super) fn native_shape(width: usize, height: usize, binning: usize) -> [usize; 2] {
    // Two numbers of 16 bits, and at most 4.
    [2 * height * binning, width / 2]
}

impl UnfoldDecoder {
    /// A decoder for frames stored in an even number of columns.
    pub(super) fn new(width: usize, height: usize, binning: usize) -> Self {
        let sig_shape = native_shape(width, height, binning).to_vec();
        UnfoldDecoder { width, height, binning, sig_shape }
    }

    /// The same for frames of another shape with as many cells.
    pub(super) fn with_shape(mut self, sig_shape: &[usize]) -> Self {
        self.sig_shape = sig_shape.to_vec();
        self
    }

    pub(super) fn native_shape(&self) -> [usize; 2] {
        native_shape(self.width, self.height, self.binning)
    }

    /// The stored row of a row of the frame, and whether it is of the lower chip.
    fn stored_row(&self, row: usize) -> (usize, bool) {
        let row = row / self.binning;
        if row < self.height { (row, false) } else { (2 * self.height - 1 - row, true) }
    }

    /// The stored rows that hold the cells from the first to the last one of `sig`.
    fn stored_rows(&self, sig: &SigSlice) -> Range<usize> {
        let (mut first, mut last) = (0, 0);
        for (&len, (&origin, &n)) in self.sig_shape.iter().zip(sig.origin().iter().zip(sig.shape()))
        {
            (first, last) = (first * len + origin, last * len + origin + n - 1);
        }
        let columns = self.width / 2;
        let ((a, a_lower), (b, b_lower)) =
            (self.stored_row(first / columns), self.stored_row(last / columns));
        if a_lower == b_lower {
            a.min(b)..a.max(b) + 1
        } else {
            // Both chips end at the last stored row.
            a.min(b)..self.height
        }
    }
}

impl FrameDecoder for UnfoldDecoder {
    fn stored_len(&self) -> usize {
        self.width * self.height * 2
    }

    fn stored_range(&self, sig: &SigSlice) -> Range<usize> {
        let rows = self.stored_rows(sig);
        rows.start * self.width * 2..rows.end * self.width * 2
    }

    fn decode(&self, stored: &[u8], sig: &SigSlice, out: &mut [u8]) -> Result<()> {
        let wrong = || Error::bug(format!("{} stored bytes for {sig:?}", stored.len()));
        let simd = Simd::best();
        let skipped = self.stored_rows(sig).start;
        let columns = self.width / 2;
        let pixels = stored.as_chunks::<2>().0;
        let mut rest = out.as_chunks_mut::<2>().0;
        for run in sig.runs(&self.sig_shape) {
            let mut cell = run.start;
            while cell < run.end {
                let (row, column) = (cell / columns, cell % columns);
                let n = (columns - column).min(run.end - cell);
                let (to, after) = rest.split_at_mut_checked(n).ok_or_else(wrong)?;
                rest = after;
                let (stored_row, lower) = self.stored_row(row);
                let start = stored_row.checked_sub(skipped).ok_or_else(wrong)? * self.width;
                // The lower chip is turned: its last column comes first.
                let start = if lower { start + self.width - column - n } else { start + column };
                let from = pixels.get(start..start + n).ok_or_else(wrong)?;
                if lower {
                    run!(simd, copy_turned(from, to));
                } else {
                    copy(from, to);
                }
                cell += n;
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(wrong()) }
    }
}

/// Pixels in native byte order; both slices have the same length.
fn copy(from: &[[u8; 2]], to: &mut [[u8; 2]]) {
    for (to, from) in to.iter_mut().zip(from) {
        *to = u16::from_le_bytes(*from).to_ne_bytes();
    }
}

/// The same from the last to the first.
#[inline(always)]
fn copy_turned(from: &[[u8; 2]], to: &mut [[u8; 2]]) {
    for (to, from) in to.iter_mut().zip(from.iter().rev()) {
        *to = u16::from_le_bytes(*from).to_ne_bytes();
    }
}
