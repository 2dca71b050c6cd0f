//! Decodes raw (R64) frames: unpacks the words of a chip row and puts the chips together.
//!
//! Pixels lie in words of 8 bytes, most significant byte first. The first pixel of a word is in
//! its least significant place. So a row read forwards is the row with each word turned around,
//! and a row read backwards (the lower chips of a quad detector are built in upside down) is the
//! words in reverse order, each as it lies in the file.

use super::layout::{Chips, Depth, RawLayout};
use framefold_core::{Error, Result, SigSlice};
use std::ops::Range;

/// Writes the cells `sig` of the frame with pixels `stored` to `out`, in C order of the slice
/// and native byte order.
///
/// # Errors
/// `Bug` if the lengths do not fit the layout: callers cut both to measure.
pub(super) fn decode(
    layout: &RawLayout,
    stored: &[u8],
    sig: &SigSlice,
    out: &mut [u8],
) -> Result<()> {
    match layout.depth {
        Depth::One => decode_as::<u8>(layout, stored, sig, out, unpack_1),
        Depth::Six => decode_as::<u8>(layout, stored, sig, out, unpack_6),
        Depth::Twelve => decode_as::<u16>(layout, stored, sig, out, unpack_12),
        Depth::TwentyFour => {
            let (high, low) = stored.split_at(stored.len() / 2);
            decode_as::<u32>(layout, high, sig, out, unpack_24_high)?;
            decode_as::<u32>(layout, low, sig, out, add_24_low)
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

fn decode_as<T: bytemuck::Pod>(
    layout: &RawLayout,
    stored: &[u8],
    sig: &SigSlice,
    out: &mut [u8],
    unpack: Unpack<T>,
) -> Result<()> {
    let misfit = || Error::bug(format!("a raw frame does not fit {layout:?} with slice {sig:?}"));
    let (&[row, column], &[rows, columns]) = (sig.origin(), sig.shape()) else {
        return Err(misfit());
    };
    let out: &mut [T] = bytemuck::try_cast_slice_mut(out).map_err(|_| misfit())?;
    let [all_rows, all_columns] = layout.sig_shape();
    let inside = row.checked_add(rows).is_some_and(|end| end <= all_rows)
        && column.checked_add(columns).is_some_and(|end| end <= all_columns);
    if !inside || rows.checked_mul(columns) != Some(out.len()) || columns == 0 {
        return Err(misfit());
    }
    let wanted = column..column + columns;
    for (row, out) in (row..row + rows).zip(out.chunks_exact_mut(columns)) {
        for piece in pieces(layout, row) {
            let start = wanted.start.max(piece.columns.start);
            let end = wanted.end.min(piece.columns.end);
            if start >= end {
                continue;
            }
            let out = out.get_mut(start - wanted.start..end - wanted.start).ok_or_else(misfit)?;
            let pixels = start - piece.columns.start..end - piece.columns.start;
            match piece.source {
                Source::Gap => out.fill(T::zeroed()),
                Source::Chip { offset, direction } => {
                    let end = offset + layout.chip_row_bytes();
                    let words = stored.get(offset..end).ok_or_else(misfit)?;
                    let per_word = layout.depth.pixels_per_word();
                    unpack_part(words, per_word, direction, pixels, out, unpack)
                        .ok_or_else(misfit)?;
                }
            }
        }
    }
    Ok(())
}

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
fn unpack_part<T: bytemuck::Pod>(
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

/// Calls `each` with every word, in the order of the pixels, and the pixels it fills.
fn for_each_word<T>(
    words: &[u8],
    direction: Direction,
    out: &mut [T],
    per_word: usize,
    mut each: impl FnMut(u64, &mut [T]),
) {
    let words = words.as_chunks::<8>().0.iter();
    let out = out.chunks_exact_mut(per_word);
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
    for_each_word(words, direction, out, 64, |word, out| {
        for (byte, out) in word.to_le_bytes().iter().zip(out.as_chunks_mut::<8>().0) {
            let bits = (u64::from(*byte) * 0x0101_0101_0101_0101) & spread;
            // Any set bit carries into the top bit of its byte, and no further.
            let ones = ((bits + 0x7F7F_7F7F_7F7F_7F7F) >> 7) & 0x0101_0101_0101_0101;
            *out = ones.to_le_bytes();
        }
    });
}

fn unpack_6(words: &[u8], direction: Direction, out: &mut [u8]) {
    for_each_word(words, direction, out, 8, |word, out| out.copy_from_slice(&word.to_le_bytes()));
}

fn unpack_12(words: &[u8], direction: Direction, out: &mut [u16]) {
    for_each_word(words, direction, out, 4, |word, out| {
        for (pixel, out) in pixels_of_16_bits(word, direction).into_iter().zip(out) {
            *out = pixel;
        }
    });
}

fn unpack_24_high(words: &[u8], direction: Direction, out: &mut [u32]) {
    for_each_word(words, direction, out, 4, |word, out| {
        for (pixel, out) in pixels_of_16_bits(word, direction).into_iter().zip(out) {
            *out = u32::from(pixel) << 12;
        }
    });
}

fn add_24_low(words: &[u8], direction: Direction, out: &mut [u32]) {
    for_each_word(words, direction, out, 4, |word, out| {
        for (pixel, out) in pixels_of_16_bits(word, direction).into_iter().zip(out) {
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
