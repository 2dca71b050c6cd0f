//! Decodes raw (R64) frames: unpacks the words of a chip row and puts the chips together.
//!
//! Pixels lie in words of 8 bytes, most significant byte first. The first pixel of a word is in
//! its least significant place. So a row read forwards is the row with each word turned around,
//! and a row read backwards (the lower chips of a quad detector are built in upside down) is the
//! words in reverse order, each as it lies in the file.

use super::layout::{Chips, Depth, RawLayout};
use crate::FrameDecoder;
use bytemuck::Pod;
use framefold_core::{Error, Result, SigSlice};
use std::ops::Range;

/// Decodes frames of one layout.
#[derive(Clone, Debug)]
pub(super) struct RawDecoder {
    layout: RawLayout,
    /// The shape that frames are to have: that of the layout, or another one with as many cells.
    sig_shape: Vec<usize>,
    /// Bytes of one of the images that a frame is stored as: two with 24 bits, else one.
    plane_bytes: usize,
    n_planes: usize,
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
            plane_bytes: layout.chip_rows * row_bytes(&layout),
            n_planes: if layout.depth == Depth::TwentyFour { 2 } else { 1 },
            sig_shape: sig_shape.to_vec(),
            layout,
        })
    }

    /// Unpacks one of the images of a frame; `stored` starts at byte `skipped` of that image.
    fn decode_plane<T: Pod>(
        &self,
        stored: &[u8],
        skipped: usize,
        sig: &SigSlice,
        out: &mut [T],
        unpack: Unpack<T>,
    ) -> Option<()> {
        let [all_rows, all_columns] = self.layout.sig_shape();
        let mut rest = out;
        for run in sig.runs(&self.sig_shape) {
            if run.end > all_rows * all_columns {
                return None;
            }
            let mut at = run.start;
            while at < run.end {
                let (row, column) = (at / all_columns, at % all_columns);
                let n = (all_columns - column).min(run.end - at);
                let (now, later) = rest.split_at_mut_checked(n)?;
                self.decode_row(stored, skipped, row, column..column + n, now, unpack)?;
                (at, rest) = (at + n, later);
            }
        }
        rest.is_empty().then_some(())
    }

    /// Unpacks the columns `wanted` of one row.
    fn decode_row<T: Pod>(
        &self,
        stored: &[u8],
        skipped: usize,
        row: usize,
        wanted: Range<usize>,
        out: &mut [T],
        unpack: Unpack<T>,
    ) -> Option<()> {
        for piece in pieces(&self.layout, row) {
            let start = wanted.start.max(piece.columns.start);
            let end = wanted.end.min(piece.columns.end);
            if start >= end {
                continue;
            }
            let out = out.get_mut(start - wanted.start..end - wanted.start)?;
            match piece.source {
                Source::Gap => out.fill(T::zeroed()),
                Source::Chip { offset, direction } => {
                    let offset = offset.checked_sub(skipped)?;
                    let words = stored.get(offset..offset + self.layout.chip_row_bytes())?;
                    let pixels = start - piece.columns.start..end - piece.columns.start;
                    let per_word = self.layout.depth.pixels_per_word();
                    unpack_part(words, per_word, direction, pixels, out, unpack)?;
                }
            }
        }
        Some(())
    }

    /// The bytes of one image that hold the cells from the first to the last one of `sig`.
    fn plane_range(&self, sig: &SigSlice) -> Range<usize> {
        let columns = self.layout.sig_shape()[1];
        let (mut first, mut last) = (0, 0);
        let axes = self.sig_shape.iter().zip(sig.origin().iter().zip(sig.shape()));
        for (&len, (&origin, &n)) in axes {
            (first, last) = (first * len + origin, last * len + origin + n - 1);
        }
        let stored_rows = self.layout.stored_rows(first / columns..last / columns + 1);
        let row_bytes = row_bytes(&self.layout);
        stored_rows.start * row_bytes..stored_rows.end * row_bytes
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
        let misfit = || Error::bug(format!("a raw frame does not fit {:?}, {sig:?}", self.layout));
        let skipped = self.plane_range(sig).start;
        match self.layout.depth {
            Depth::One => self.decode_plane(stored, skipped, sig, out, unpack_1),
            Depth::Six => self.decode_plane(stored, skipped, sig, out, unpack_6),
            Depth::Twelve => {
                let out = bytemuck::try_cast_slice_mut(out).map_err(|_| misfit())?;
                self.decode_plane(stored, skipped, sig, out, unpack_12)
            }
            Depth::TwentyFour => {
                let out = bytemuck::try_cast_slice_mut(out).map_err(|_| misfit())?;
                let low = stored.get(self.plane_bytes..).ok_or_else(misfit)?;
                self.decode_plane(stored, skipped, sig, out, unpack_24_high)
                    .and_then(|()| self.decode_plane(low, skipped, sig, out, add_24_low))
            }
        }
        .ok_or_else(misfit)
    }
}

/// Bytes of one stored row: a row of each chip.
fn row_bytes(layout: &RawLayout) -> usize {
    let n_chips = if layout.chips == Chips::One { 1 } else { 4 };
    n_chips * layout.chip_row_bytes()
}

impl RawLayout {
    /// The stored rows that hold the rows `rows` of the assembled frame, gap rows aside.
    fn stored_rows(&self, rows: Range<usize>) -> Range<usize> {
        let Chips::Quad { gap } = self.chips else {
            return rows;
        };
        let top = rows.start..rows.end.min(self.chip_rows);
        let bottom_start = rows.start.max(self.chip_rows + gap);
        let last = 2 * self.chip_rows + gap;
        // The bottom chips are upside down.
        let bottom = last.saturating_sub(rows.end)..last.saturating_sub(bottom_start);
        let has_bottom = rows.end > bottom_start;
        match (top.is_empty(), has_bottom) {
            (false, true) => top.start.min(bottom.start)..top.end.max(bottom.end),
            (false, false) => top,
            (true, true) => bottom,
            // Nothing but gap.
            (true, false) => 0..0,
        }
    }
}

/// Which way round a chip row is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Forward,
    Backward,
}

/// Unpacks whole words into pixels. The words are those of the pixels wanted; in backward
/// direction the last word holds the first pixels.
type Unpack<T> = fn(words: &[u8], direction: Direction, out: &mut [T]);

/// A part of one row of the assembled frame.
struct Piece {
    /// The columns it fills.
    columns: Range<usize>,
    source: Source,
}

enum Source {
    /// Nothing was measured here.
    Gap,
    /// One row of one chip, at this byte of the frame's pixels.
    Chip { offset: usize, direction: Direction },
}

/// What row `row` of the assembled frame is made of, from left to right.
///
/// A raw row of a quad detector holds one row of each chip: bottom right, bottom left, top
/// right, top left. The bottom chips are turned by 180 degrees.
fn pieces(layout: &RawLayout, row: usize) -> impl Iterator<Item = Piece> {
    let (width, rows) = (layout.chip_width, layout.chip_rows);
    let row_bytes = layout.chip_row_bytes();
    let pieces = match layout.chips {
        Chips::One => {
            let source = Source::Chip { offset: row * row_bytes, direction: Direction::Forward };
            [Some(Piece { columns: 0..width, source }), None, None]
        }
        Chips::Quad { gap } if (rows..rows + gap).contains(&row) => {
            [Some(Piece { columns: 0..2 * width + gap, source: Source::Gap }), None, None]
        }
        Chips::Quad { gap } => {
            let (raw_row, left_slot, right_slot, direction) = if row < rows {
                (row, 3, 2, Direction::Forward)
            } else {
                (2 * rows + gap - 1 - row, 1, 0, Direction::Backward)
            };
            let chip =
                |slot: usize| Source::Chip { offset: (4 * raw_row + slot) * row_bytes, direction };
            [
                Some(Piece { columns: 0..width, source: chip(left_slot) }),
                Some(Piece { columns: width..width + gap, source: Source::Gap }),
                Some(Piece { columns: width + gap..2 * width + gap, source: chip(right_slot) }),
            ]
        }
    };
    pieces.into_iter().flatten()
}

/// Unpacks pixels `pixels` of a chip row into `out`; `None` if the lengths do not fit.
fn unpack_part<T: Pod>(
    words: &[u8],
    per_word: usize,
    direction: Direction,
    pixels: Range<usize>,
    out: &mut [T],
    unpack: Unpack<T>,
) -> Option<()> {
    let n_words = words.len() / 8;
    // The words for pixels `from..to`, which lie on word boundaries.
    let select = |from: usize, to: usize| {
        let (from, to) = (from / per_word, to / per_word);
        match direction {
            Direction::Forward => words.get(8 * from..8 * to),
            Direction::Backward => {
                words.get(8 * n_words.checked_sub(to)?..8 * n_words.checked_sub(from)?)
            }
        }
    };
    // Ragged ends go through one unpacked word; a whole word is at most 64 pixels.
    let mut at = pixels.start;
    let mut out = out;
    while at < pixels.end {
        let word_start = at - at % per_word;
        let whole = (pixels.end - at) - (pixels.end - at) % per_word;
        if at == word_start && whole > 0 {
            let (now, later) = out.split_at_mut_checked(whole)?;
            unpack(select(at, at + whole)?, direction, now);
            (at, out) = (at + whole, later);
        } else {
            let end = pixels.end.min(word_start + per_word);
            let (now, later) = out.split_at_mut_checked(end - at)?;
            let mut word = [T::zeroed(); 64];
            let word = word.get_mut(..per_word)?;
            let part = at - word_start..end - word_start;
            // An unpacker may add to what is there, so that it has to see it.
            word.get_mut(part.clone())?.copy_from_slice(now);
            unpack(select(word_start, word_start + per_word)?, direction, word);
            now.copy_from_slice(word.get(part)?);
            (at, out) = (end, later);
        }
    }
    Some(())
}

/// Calls `each` with every word, in the order of the pixels, and the `N` pixels it fills.
///
/// `N` is known when this is compiled, so that the loops below become shuffles of whole vectors.
fn for_each_word<T, const N: usize>(
    words: &[u8],
    direction: Direction,
    out: &mut [T],
    mut each: impl FnMut(u64, &mut [T; N]),
) {
    let words = words.as_chunks::<8>().0.iter();
    let out = out.as_chunks_mut::<N>().0.iter_mut();
    match direction {
        Direction::Forward => words.zip(out).for_each(|(w, o)| each(u64::from_be_bytes(*w), o)),
        // Turned around as bytes here, so that pixel 0 is in the least significant place again
        // (12-bit pixels are turned around as a whole by their unpacker).
        Direction::Backward => {
            words.rev().zip(out).for_each(|(w, o)| each(u64::from_le_bytes(*w), o));
        }
    }
}

fn unpack_1(words: &[u8], direction: Direction, out: &mut [u8]) {
    // Byte i of `spread` keeps one bit of the byte that was copied to all eight places.
    let spread = match direction {
        Direction::Forward => 0x8040_2010_0804_0201_u64,
        Direction::Backward => 0x0102_0408_1020_4080,
    };
    for_each_word::<u8, 64>(words, direction, out, |word, out| {
        for (byte, out) in word.to_le_bytes().iter().zip(out.as_chunks_mut::<8>().0) {
            let bits = (u64::from(*byte) * 0x0101_0101_0101_0101) & spread;
            // Any set bit carries into the top bit of its byte, and no further.
            let ones = ((bits + 0x7F7F_7F7F_7F7F_7F7F) >> 7) & 0x0101_0101_0101_0101;
            *out = ones.to_le_bytes();
        }
    });
}

fn unpack_6(words: &[u8], direction: Direction, out: &mut [u8]) {
    for_each_word::<u8, 8>(words, direction, out, |word, out| *out = word.to_le_bytes());
}

fn unpack_12(words: &[u8], direction: Direction, out: &mut [u16]) {
    for_each_word::<u16, 4>(words, direction, out, |word, out| {
        *out = pixels_of_16_bits(word, direction);
    });
}

fn unpack_24_high(words: &[u8], direction: Direction, out: &mut [u32]) {
    for_each_word::<u32, 4>(words, direction, out, |word, out| {
        *out = pixels_of_16_bits(word, direction).map(|pixel| u32::from(pixel) << 12);
    });
}

fn add_24_low(words: &[u8], direction: Direction, out: &mut [u32]) {
    for_each_word::<u32, 4>(words, direction, out, |word, out| {
        for (out, pixel) in out.iter_mut().zip(pixels_of_16_bits(word, direction)) {
            // At most 0xFFFF000 + 0xFFFF: never wraps.
            *out += u32::from(pixel);
        }
    });
}

/// The four pixels of a word as [`for_each_word`] hands it out.
fn pixels_of_16_bits(word: u64, direction: Direction) -> [u16; 4] {
    let word = match direction {
        Direction::Forward => word,
        // The bytes of a pixel were turned around together with the pixels.
        Direction::Backward => {
            ((word & 0x00FF_00FF_00FF_00FF) << 8) | ((word >> 8) & 0x00FF_00FF_00FF_00FF)
        }
    };
    [0, 16, 32, 48].map(|shift| (word >> shift & 0xFFFF) as u16)
}

#[cfg(test)]
mod tests;
