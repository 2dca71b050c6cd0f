//! Decodes raw (R64) frames: unpacks the words of chip rows and puts the chips together.
//!
//! Stored rows are read from first to last, each once, as a row of a quad detector holds two rows
//! of the assembled frame that are far apart.

mod bits;
mod chips;
mod frame;
mod unpack;

use super::layout::{Chips, Depth, RawLayout};
use crate::readers::linear::{FrameDecoder, PieceDecoder, Unit};
use chips::Direction;
use frame::{Frame, Part};
use framefold_core::{Error, Result, SigSlice};
use framefold_simd::Simd;
use std::ops::Range;
use unpack::{OneBit, SixBits, TwelveBits, TwentyFourBits, Unpack, Words};

/// Decodes frames of one layout.
#[derive(Clone, Debug)]
pub(super) struct RawDecoder {
    layout: RawLayout,
    /// The shape that frames are to have: that of the layout, or another one with as many cells.
    sig_shape: Vec<usize>,
    /// Bytes of one of the images that a frame is stored as: two with 24 bits, else one.
    plane_bytes: usize,
    n_planes: usize,
    simd: Simd,
}

impl RawDecoder {
    /// A decoder for frames of `layout`, cut into rows as in `sig_shape`.
    ///
    /// # Errors
    /// `Bug` if the cells of `sig_shape` are not as many as those of the layout.
    pub(super) fn try_new(layout: RawLayout, sig_shape: &[usize]) -> Result<Self> {
        let [rows, columns] = layout.sig_shape();
        if sig_shape.iter().product::<usize>() != rows * columns {
            return Err(Error::bug(format!("raw frames of {layout:?} in shape {sig_shape:?}")));
        }
        Ok(RawDecoder {
            plane_bytes: layout.chip_rows * layout.row_bytes(),
            n_planes: if layout.depth == Depth::TwentyFour { 2 } else { 1 },
            sig_shape: sig_shape.to_vec(),
            layout,
            simd: Simd::best(),
        })
    }

    /// The bytes of one image that hold the cells from the first to the last one of `sig`.
    fn plane_range(&self, sig: &SigSlice) -> Range<usize> {
        let columns = self.layout.sig_shape()[1];
        let (mut first, mut last) = (0, 0);
        let axes = self.sig_shape.iter().zip(sig.origin().iter().zip(sig.shape()));
        for (&len, (&origin, &n)) in axes {
            (first, last) = (first * len + origin, last * len + origin + n - 1);
        }
        let stored_rows = self.layout.stored_rows(&(first / columns..last / columns + 1));
        let row_bytes = self.layout.row_bytes();
        stored_rows.start * row_bytes..stored_rows.end * row_bytes
    }

    /// Unpacks the cells `sig` into `out`; `None` if the lengths do not fit.
    fn decode_as<U: Unpack>(
        &self,
        unpack: U,
        stored: &[u8],
        sig: &SigSlice,
        out: &mut [u8],
    ) -> Option<()> {
        let out = bytemuck::try_cast_slice_mut(out).ok()?;
        let frame = Frame {
            layout: &self.layout,
            skipped: self.plane_range(sig).start,
            stored,
            lower: stored.get(self.plane_bytes * (self.n_planes - 1)..)?,
        };
        let [all_rows, all_columns] = self.layout.sig_shape();
        if self.sig_shape == [all_rows, all_columns]
            && let ([row, column], [n_rows, n_columns]) = (sig.origin(), sig.shape())
        {
            let part = Part { rows: *row..row + n_rows, columns: *column..column + n_columns };
            return frame.decode(unpack, &part, out);
        }
        let mut rest = out;
        for run in sig.runs(&self.sig_shape) {
            let mut at = run.start;
            while at < run.end {
                let (row, column) = (at / all_columns, at % all_columns);
                let n = (all_columns - column).min(run.end - at);
                let (now, later) = rest.split_at_mut_checked(n)?;
                let part = Part { rows: row..row + 1, columns: column..column + n };
                frame.decode(unpack, &part, now)?;
                (at, rest) = (at + n, later);
            }
        }
        rest.is_empty().then_some(())
    }
}

impl FrameDecoder for RawDecoder {
    fn stored_len(&self) -> usize {
        self.n_planes * self.plane_bytes
    }

    fn stored_range(&self, sig: &SigSlice) -> Range<usize> {
        // From the start of the part of the first image to the end of that of the last one.
        let plane = self.plane_range(sig);
        plane.start..plane.end + (self.n_planes - 1) * self.plane_bytes
    }

    fn decode(&self, stored: &[u8], sig: &SigSlice, out: &mut [u8]) -> Result<()> {
        match self.layout.depth {
            Depth::One => self.decode_as(OneBit(self.simd), stored, sig, out),
            Depth::Six => self.decode_as(SixBits(self.simd), stored, sig, out),
            Depth::Twelve => self.decode_as(TwelveBits(self.simd), stored, sig, out),
            Depth::TwentyFour => self.decode_as(TwentyFourBits(self.simd), stored, sig, out),
        }
        .ok_or_else(|| Error::bug(format!("a raw frame does not fit {:?}, {sig:?}", self.layout)))
    }

    /// Whole rows of the one chip of a detector lie one after the other, and are made of words.
    fn by_pieces(&self, sig: &SigSlice) -> Option<&dyn PieceDecoder> {
        let columns = self.layout.sig_shape()[1];
        let cells = sig.linear()?;
        let is_rows = cells.start % columns == 0 && cells.end % columns == 0;
        (self.layout.chips == Chips::One && self.n_planes == 1 && is_rows)
            .then_some(self as &dyn PieceDecoder)
    }
}

impl PieceDecoder for RawDecoder {
    fn unit(&self) -> Unit {
        let depth = self.layout.depth;
        Unit { stored: 8, decoded: depth.pixels_per_word() * depth.dtype().size() }
    }

    fn decode_piece(&self, stored: &[u8], out: &mut [u8]) -> Result<()> {
        match self.layout.depth {
            Depth::One => unpack_words(OneBit(self.simd), stored, out),
            Depth::Six => unpack_words(SixBits(self.simd), stored, out),
            Depth::Twelve => unpack_words(TwelveBits(self.simd), stored, out),
            // Two images: never by pieces.
            Depth::TwentyFour => None,
        }
        .ok_or_else(|| Error::bug(format!("some words of a frame do not fit {:?}", self.layout)))
    }
}

/// Unpacks words as they are stored; `None` if the lengths do not fit.
fn unpack_words<U: Unpack>(unpack: U, stored: &[u8], out: &mut [u8]) -> Option<()> {
    let out: &mut [U::Pixel] = bytemuck::try_cast_slice_mut(out).ok()?;
    let (words, rest) = stored.as_chunks();
    if !rest.is_empty() || words.len().checked_mul(U::PER_WORD)? != out.len() {
        return None;
    }
    unpack.unpack(Words { stored: words, lower: words, direction: Direction::Forward }, out);
    Some(())
}

#[cfg(test)]
mod tests;
