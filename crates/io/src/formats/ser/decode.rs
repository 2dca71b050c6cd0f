//! From an element to a frame: its header is checked, and the rows of images are turned over.

use super::header::Element;
use crate::readers::linear::FrameDecoder;
use crate::readers::linear::copy_pixels;
use framefold_core::{Error, Result, SigSlice, StoredDType};
use std::ops::Range;

/// Decodes elements that are all like the first one.
#[derive(Clone, Debug)]
pub(super) struct ElementDecoder {
    stored: StoredDType,
    /// Columns and rows as stored; a spectrum is a single row.
    columns: usize,
    rows: usize,
    /// The shape that frames are to have, with as many cells.
    sig_shape: Vec<usize>,
    header_len: usize,
    identity: Vec<u8>,
}

impl ElementDecoder {
    /// # Errors
    /// `Bug` if the cells of `sig_shape` are not as many as those of an element.
    pub(super) fn try_new(element: &Element, sig_shape: &[usize]) -> Result<Self> {
        let columns = element.sig_shape.last().copied().unwrap_or(1);
        let cells: usize = element.sig_shape.iter().product();
        if sig_shape.iter().product::<usize>() != cells {
            return Err(Error::bug(format!("elements of {cells} values in shape {sig_shape:?}")));
        }
        Ok(ElementDecoder {
            stored: element.stored,
            columns,
            rows: cells / columns,
            sig_shape: sig_shape.to_vec(),
            header_len: element.header_len,
            identity: element.identity.clone(),
        })
    }

    /// The stored rows from the first to the last that has a cell of the slice.
    fn stored_rows(&self, sig: &SigSlice) -> Range<usize> {
        let (mut first, mut last) = (0, 0);
        let axes = self.sig_shape.iter().zip(sig.origin().iter().zip(sig.shape()));
        for (&len, (&origin, &n)) in axes {
            (first, last) = (first * len + origin, last * len + origin + n - 1);
        }
        self.rows - 1 - last / self.columns..self.rows - first / self.columns
    }

    fn copy(&self, values: &[u8], sig: &SigSlice, out: &mut [u8]) -> Option<()> {
        let size = self.stored.dtype.size();
        let mut rest = out;
        for run in sig.runs(&self.sig_shape) {
            let mut at = run.start;
            while at < run.end {
                let (row, column) = (at / self.columns, at % self.columns);
                let n = (self.columns - column).min(run.end - at);
                let from = ((self.rows - 1 - row) * self.columns + column) * size;
                let (now, later) = rest.split_at_mut_checked(n * size)?;
                copy_pixels(self.stored, values.get(from..from + n * size)?, now);
                (at, rest) = (at + n, later);
            }
        }
        rest.is_empty().then_some(())
    }
}

impl FrameDecoder for ElementDecoder {
    fn stored_len(&self) -> usize {
        self.header_len + self.rows * self.columns * self.stored.dtype.size()
    }

    fn stored_range(&self, sig: &SigSlice) -> Range<usize> {
        // The header says whether the values are what they should be.
        let row_bytes = self.columns * self.stored.dtype.size();
        0..self.header_len + self.stored_rows(sig).end * row_bytes
    }

    fn decode(&self, stored: &[u8], sig: &SigSlice, out: &mut [u8]) -> Result<()> {
        let identity = self.header_len - self.identity.len()..self.header_len;
        if stored.get(identity.clone()) != Some(self.identity.as_slice()) {
            return Err(Error::bad_file(format!(
                "the element is not like the first one: its type and size are {:02x?}, expected \
                 {:02x?}",
                stored.get(identity).unwrap_or_default(),
                self.identity
            ))
            .with_hint("series of elements that differ cannot be read as a stack of frames"));
        }
        stored
            .get(self.header_len..)
            .and_then(|values| self.copy(values, sig, out))
            .ok_or_else(|| Error::bug(format!("an element does not fit {sig:?}")))
    }
}
