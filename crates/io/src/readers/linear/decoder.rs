//! From the bytes of a stored frame to pixels.

use super::copy::copy_pixels;
use framefold_core::{Error, Result, SigSlice, StoredDType};
use std::fmt::Debug;
use std::ops::Range;

/// Makes pixels out of the bytes of one stored frame.
///
/// Shared by all workers; has no state that changes.
pub trait FrameDecoder: Send + Sync + Debug {
    /// Bytes of one stored frame, without its header and footer. Always the same.
    fn stored_len(&self) -> usize;

    /// Which of these bytes are needed for the cells `sig`; `0..stored_len()` is always right.
    /// Called once or more per tile; must be cheap.
    fn stored_range(&self, sig: &SigSlice) -> Range<usize>;

    /// Writes the cells `sig`, in C order of the slice and native byte order, to all of `out`.
    ///
    /// `stored` holds exactly the bytes of [`FrameDecoder::stored_range`]; `out` has the size
    /// of the slice in the source's dtype, is aligned for it, and may hold anything before.
    /// Called once per frame and tile, by many threads at once.
    ///
    /// # Errors
    /// `BadFile` if the bytes are not a valid frame. The run ends.
    fn decode(&self, stored: &[u8], sig: &SigSlice, out: &mut [u8]) -> Result<()>;

    /// The way to decode the cells `sig` piece by piece, with the same result, if there is one: the
    /// bytes of [`FrameDecoder::stored_range`] are units, each of which holds the next few cells.
    /// Called once or more per tile; must be cheap. Frames are then read side by side, which is
    /// faster, and nothing else changes; so `None` is always right.
    fn by_pieces(&self, _sig: &SigSlice) -> Option<&dyn PieceDecoder> {
        None
    }
}

/// Decodes parts of a frame that are a run of units.
pub trait PieceDecoder {
    /// The size of a unit. Always the same.
    fn unit(&self) -> Unit;

    /// Writes the cells of some units to all of `out`, as [`FrameDecoder::decode`] does.
    ///
    /// # Errors
    /// As [`FrameDecoder::decode`].
    fn decode_piece(&self, stored: &[u8], out: &mut [u8]) -> Result<()>;
}

/// The size in bytes of the smallest piece that can be decoded by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unit {
    /// In the file; not 0.
    pub stored: usize,
    /// In the tile; not 0.
    pub decoded: usize,
}

/// Decodes a plain array in C order, in either byte order.
#[derive(Clone, Debug)]
pub struct PlainDecoder {
    stored: StoredDType,
    sig_shape: Vec<usize>,
    stored_len: usize,
}

impl PlainDecoder {
    /// A decoder for frames of `sig_shape`, whose size in bytes must fit in a `usize`.
    pub fn new(stored: StoredDType, sig_shape: &[usize]) -> Self {
        let n_cells: usize = sig_shape.iter().product();
        let stored_len = n_cells.saturating_mul(stored.dtype.size());
        PlainDecoder { stored, sig_shape: sig_shape.to_vec(), stored_len }
    }

    /// The cells from the first to the last of the slice, those between its runs included.
    fn span(&self, sig: &SigSlice) -> Range<usize> {
        if let Some(linear) = sig.linear() {
            return linear;
        }
        let flat = |ends: bool| {
            let mut flat = 0;
            let axes = self.sig_shape.iter().zip(sig.origin().iter().zip(sig.shape()));
            for (&len, (&origin, &n)) in axes {
                flat = flat * len + origin + if ends { n - 1 } else { 0 };
            }
            flat
        };
        flat(false)..flat(true) + 1
    }
}

impl FrameDecoder for PlainDecoder {
    fn stored_len(&self) -> usize {
        self.stored_len
    }

    fn stored_range(&self, sig: &SigSlice) -> Range<usize> {
        let size = self.stored.dtype.size();
        let span = self.span(sig);
        span.start * size..span.end * size
    }

    fn decode(&self, stored: &[u8], sig: &SigSlice, out: &mut [u8]) -> Result<()> {
        if sig.linear().is_some() {
            return if stored.len() == out.len() {
                copy_pixels(self.stored, stored, out);
                Ok(())
            } else {
                Err(wrong_length(stored.len()))
            };
        }
        let size = self.stored.dtype.size();
        let first = self.span(sig).start;
        let mut rest = out;
        for run in sig.runs(&self.sig_shape) {
            let from = stored.get((run.start - first) * size..(run.end - first) * size);
            let to = rest.split_at_mut_checked(run.len() * size);
            let (Some(from), Some((to, after))) = (from, to) else {
                return Err(wrong_length(stored.len()));
            };
            copy_pixels(self.stored, from, to);
            rest = after;
        }
        Ok(())
    }

    fn by_pieces(&self, sig: &SigSlice) -> Option<&dyn PieceDecoder> {
        sig.linear().map(|_| self as &dyn PieceDecoder)
    }
}

impl PieceDecoder for PlainDecoder {
    fn unit(&self) -> Unit {
        let size = self.stored.dtype.size();
        Unit { stored: size, decoded: size }
    }

    fn decode_piece(&self, stored: &[u8], out: &mut [u8]) -> Result<()> {
        if stored.len() != out.len() {
            return Err(wrong_length(stored.len()));
        }
        copy_pixels(self.stored, stored, out);
        Ok(())
    }
}

fn wrong_length(len: usize) -> Error {
    Error::bug(format!("the decoder got {len} bytes, which do not make up the slice"))
}
