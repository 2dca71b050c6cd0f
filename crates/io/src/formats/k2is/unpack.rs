//! From 12 bits to 16, one row of a block at a time: 24 bytes become 16 pixels.

use super::block::{COLUMNS, ROW_LEN};
#[cfg(target_arch = "x86_64")]
use framefold_simd::{Level, prefetch_beyond};
use framefold_simd::{Simd, run};
use std::ops::Range;

/// How far ahead of the row at hand memory is asked for.
pub(super) const AHEAD: usize = 1 << 10;

/// Unpacks `columns` of the rows of a block into rows that are `width` apart; `None` if the lengths
/// do not fit.
pub(super) fn rows(
    simd: Simd,
    stored: &[u8],
    columns: Range<usize>,
    out: &mut [u16],
    width: usize,
) -> Option<()> {
    let (rows, _) = stored.as_chunks::<ROW_LEN>();
    let needed = rows.len().checked_sub(1)?.checked_mul(width)?.checked_add(columns.len())?;
    if out.len() < needed || columns.len() > width || columns.end > COLUMNS {
        return None;
    }
    if columns == (0..COLUMNS) {
        #[cfg(target_arch = "x86_64")]
        if simd.level() >= Level::Avx2 {
            // SAFETY: the processor has these instructions.
            return unsafe { avx2::whole_rows(rows, out, width) };
        }
        run!(simd, whole_rows(rows, out, width))
    } else {
        parts_of_rows(rows, columns, out, width)
    }
}

#[inline(always)]
fn whole_rows(rows: &[[u8; ROW_LEN]], out: &mut [u16], width: usize) -> Option<()> {
    if width == COLUMNS {
        let (out, _) = out.as_chunks_mut::<COLUMNS>();
        for (row, out) in rows.iter().zip(out) {
            *out = unpack(row);
        }
        return Some(());
    }
    for (row, out) in rows.iter().zip(out.chunks_mut(width)) {
        *out.first_chunk_mut()? = unpack(row);
    }
    Some(())
}

fn parts_of_rows(
    rows: &[[u8; ROW_LEN]],
    columns: Range<usize>,
    out: &mut [u16],
    width: usize,
) -> Option<()> {
    for (row, out) in rows.iter().zip(out.chunks_mut(width)) {
        out.get_mut(..columns.len())?.copy_from_slice(unpack(row).get(columns.clone())?);
    }
    Some(())
}

/// Each pair of bytes that holds a pixel, and the pixel out of it.
#[inline(always)]
#[expect(
    clippy::indexing_slicing,
    reason = "both arrays have known lengths, which no index leaves"
)]
fn unpack(row: &[u8; ROW_LEN]) -> [u16; COLUMNS] {
    let mut pixels = [0; COLUMNS];
    for (i, pixel) in pixels.iter_mut().enumerate() {
        let at = i / 2 * 3 + i % 2;
        let pair = u16::from_le_bytes([row[at], row[at + 1]]);
        *pixel = if i % 2 == 0 { pair & 0x0FFF } else { pair >> 4 };
    }
    pixels
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::{AHEAD, COLUMNS, ROW_LEN, prefetch_beyond};
    use std::arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_blend_epi16, _mm256_set_m128i,
        _mm256_set1_epi16, _mm256_setr_epi8, _mm256_shuffle_epi8, _mm256_srli_epi16,
        _mm256_storeu_si256,
    };

    /// As the plain function: a row is two halves of a vector, in which a shuffle makes a pair of
    /// bytes for each pixel.
    #[target_feature(enable = "avx2")]
    #[expect(clippy::indexing_slicing, reason = "out was cut to as many rows")]
    pub(super) fn whole_rows(rows: &[[u8; ROW_LEN]], out: &mut [u16], width: usize) -> Option<()> {
        if width == COLUMNS {
            let out = out.as_chunks_mut::<COLUMNS>().0.get_mut(..rows.len())?;
            for (i, row) in rows.iter().enumerate() {
                prefetch_beyond(&row[..1], AHEAD);
                store(unpack(row), &mut out[i]);
            }
            return Some(());
        }
        for (row, out) in rows.iter().zip(out.chunks_mut(width)) {
            prefetch_beyond(row.get(..1)?, AHEAD);
            store(unpack(row), out.first_chunk_mut()?);
        }
        Some(())
    }

    #[target_feature(enable = "avx2")]
    fn unpack(row: &[u8; ROW_LEN]) -> __m256i {
        // The first 12 bytes begin the first half; the last 12 end the second one.
        let first: *const u8 = row.as_ptr();
        // SAFETY: 16 bytes from the first one on, and from the ninth one on, are within the 24.
        let halves = unsafe {
            _mm256_set_m128i(_mm_loadu_si128(first.add(8).cast()), _mm_loadu_si128(first.cast()))
        };
        let pairs = _mm256_setr_epi8(
            0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11, //
            4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11, 12, 13, 14, 14, 15,
        );
        let pairs = _mm256_shuffle_epi8(halves, pairs);
        let even = _mm256_and_si256(pairs, _mm256_set1_epi16(0x0FFF));
        _mm256_blend_epi16::<0b1010_1010>(even, _mm256_srli_epi16::<4>(pairs))
    }

    #[target_feature(enable = "avx2")]
    fn store(pixels: __m256i, out: &mut [u16; COLUMNS]) {
        // SAFETY: 16 pixels are 32 bytes.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), pixels) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule of the format, word for word.
    fn plain(bytes: &[u8]) -> Vec<u16> {
        let pair = |b: &[u8]| {
            let [b0, b1, b2] = [b[0], b[1], b[2]].map(u16::from);
            [b0 | (b1 & 0x0F) << 8, b1 >> 4 | b2 << 4]
        };
        bytes.chunks(3).flat_map(pair).collect()
    }

    #[test]
    fn every_level_equals_the_rule() {
        let n_rows = if cfg!(miri) { 5 } else { 930 };
        let stored: Vec<u8> = (0..n_rows * 24u32).map(|i| (i * i / 7 % 251) as u8).collect();
        let expected = plain(&stored);
        for simd in Simd::all() {
            for columns in [0..16, 0..3, 5..16, 15..16] {
                for width in [columns.len(), 16, 17, 40] {
                    if width < columns.len() {
                        continue;
                    }
                    let mut out = vec![0xAAAA; (n_rows as usize - 1) * width + columns.len()];
                    rows(simd, &stored, columns.clone(), &mut out, width).unwrap();
                    for (row, out) in out.chunks(width).enumerate() {
                        let expected = &expected[row * 16..][columns.clone()];
                        assert_eq!(&out[..columns.len()], expected, "{simd:?}, row {row}");
                        assert!(out[columns.len()..].iter().all(|&rest| rest == 0xAAAA));
                    }
                }
            }
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let simd = Simd::plain();
        assert!(rows(simd, &[0; 48], 0..16, &mut [0; 31], 16).is_none());
        assert!(rows(simd, &[0; 48], 0..17, &mut [0; 99], 17).is_none());
        assert!(rows(simd, &[0; 48], 0..16, &mut [0; 99], 15).is_none());
        assert!(rows(simd, &[], 0..16, &mut [0; 99], 16).is_none());
    }
}
