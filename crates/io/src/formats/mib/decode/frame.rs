//! From one stored frame to a part of the assembled one.

use super::super::layout::RawLayout;
use super::chips::Direction;
use super::unpack::{Unpack, Words};
use bytemuck::Zeroable;
use std::ops::Range;

/// How far ahead of the decoder the processor is asked for bytes. By itself it stops at the end of
/// each page, which is only a few stored rows.
const PREFETCHED: usize = 4096;

/// The bytes of a stored frame, or of some rows of it.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    pub(super) layout: &'a RawLayout,
    /// The bytes of the frame that come before `stored`.
    pub(super) skipped: usize,
    pub(super) stored: &'a [u8],
    /// Where the second image begins, for pixels that are stored in two halves; else as `stored`.
    pub(super) lower: &'a [u8],
}

/// A rectangle of the assembled frame.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) rows: Range<usize>,
    pub(super) columns: Range<usize>,
}

impl Frame<'_> {
    /// Writes the cells of `part` to all of `out`; `None` if the lengths do not fit.
    pub(super) fn decode<U: Unpack>(
        &self,
        unpack: U,
        part: &Part,
        out: &mut [U::Pixel],
    ) -> Option<()> {
        let layout = self.layout;
        let width = part.columns.len();
        if part.rows.len().checked_mul(width)? != out.len() {
            return None;
        }
        clear_gap(layout, part, out)?;
        let (chips, n_chips) = layout.chips();
        let (row_bytes, chip_row_bytes) = (layout.row_bytes(), layout.chip_row_bytes());
        let ahead = (PREFETCHED / row_bytes.max(1)).max(1) * row_bytes;
        for stored_row in layout.stored_rows(&part.rows) {
            for (slot, chip) in chips.iter().take(n_chips).enumerate() {
                let row = chip.row_in_frame(stored_row, layout.chip_rows);
                let start = part.columns.start.max(chip.first_column);
                let end = part.columns.end.min(chip.first_column + layout.chip_width);
                if !part.rows.contains(&row) || start >= end {
                    continue;
                }
                let out = out.get_mut((row - part.rows.start) * width..)?;
                let out = out.get_mut(start - part.columns.start..end - part.columns.start)?;
                let offset = stored_row * row_bytes + slot * chip_row_bytes;
                let bytes = offset.checked_sub(self.skipped)?;
                let bytes = bytes..bytes + chip_row_bytes;
                prefetch(self.stored, bytes.start + ahead, chip_row_bytes);
                let words = Words {
                    stored: self.stored.get(bytes.clone())?.as_chunks().0,
                    lower: self.lower.get(bytes)?.as_chunks().0,
                    direction: chip.direction,
                };
                let pixels = start - chip.first_column..end - chip.first_column;
                if pixels.len() == layout.chip_width {
                    unpack.unpack(words, out);
                } else {
                    unpack_some(unpack, words, pixels, out)?;
                }
            }
        }
        Some(())
    }
}

/// Zeroes the rows and columns of `part` that are in the gap between chips.
fn clear_gap<T: Zeroable + Clone>(layout: &RawLayout, part: &Part, out: &mut [T]) -> Option<()> {
    let width = part.columns.len();
    let within = |gap: Range<usize>, wanted: &Range<usize>| {
        let start = gap.start.clamp(wanted.start, wanted.end);
        start - wanted.start..gap.end.clamp(start, wanted.end) - wanted.start
    };
    let (rows, columns) = layout.gap();
    let (rows, columns) = (within(rows, &part.rows), within(columns, &part.columns));
    out.get_mut(rows.start * width..rows.end * width)?.fill(T::zeroed());
    if !columns.is_empty() {
        for row in out.chunks_exact_mut(width) {
            row.get_mut(columns.clone())?.fill(T::zeroed());
        }
    }
    Some(())
}

/// Unpacks only the pixels `pixels` of a chip row; `None` if the lengths do not fit.
fn unpack_some<U: Unpack>(
    unpack: U,
    words: Words<'_>,
    pixels: Range<usize>,
    out: &mut [U::Pixel],
) -> Option<()> {
    let mut at = pixels.start;
    let mut out = out;
    while at < pixels.end {
        let (word, within) = (at / U::PER_WORD, at % U::PER_WORD);
        let n_whole = if within == 0 { (pixels.end - at) / U::PER_WORD } else { 0 };
        let n = if n_whole > 0 {
            n_whole * U::PER_WORD
        } else {
            (U::PER_WORD - within).min(pixels.end - at)
        };
        let (now, later) = out.split_at_mut_checked(n)?;
        if n_whole > 0 {
            unpack.unpack(words.select(word..word + n_whole)?, now);
        } else {
            // A whole word is at most 64 pixels.
            let mut all = [U::Pixel::zeroed(); 64];
            unpack.unpack(words.select(word..word + 1)?, all.get_mut(..U::PER_WORD)?);
            now.copy_from_slice(all.get(within..within + n)?);
        }
        (at, out) = (at + n, later);
    }
    Some(())
}

impl Words<'_> {
    /// Those of some of the words, counted in the order of the pixels.
    fn select(&self, words: Range<usize>) -> Option<Self> {
        let of = |all: &'_ [[u8; 8]]| -> Option<Range<usize>> {
            Some(match self.direction {
                Direction::Forward => words.clone(),
                Direction::Backward => {
                    all.len().checked_sub(words.end)?..all.len().checked_sub(words.start)?
                }
            })
        };
        Some(Words {
            stored: self.stored.get(of(self.stored)?)?,
            lower: self.lower.get(of(self.lower)?)?,
            direction: self.direction,
        })
    }
}

/// Asks for `len` bytes from `start` on, if they are there.
#[inline(always)]
fn prefetch(bytes: &[u8], start: usize, len: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(bytes) = bytes.get(start..start + len) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        for line in bytes.chunks(64) {
            // SAFETY: a prefetch reads nothing and may be given any address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, start, len);
}
