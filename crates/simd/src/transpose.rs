//! Transposes matrices of elements: rows that lie anywhere become columns that lie evenly.
//!
//! What costs time is not the exchange of elements but the memory behind it. Blocks have as many
//! rows as make a line of the output, but 32 at most, and a line of each row: both are fetched once,
//! used whole and left. Within a block, squares of 16 bytes a side are exchanged in registers, by
//! interleaving the first half of the rows with the second half until each vector holds a column.

use crate::Simd;
#[cfg(target_arch = "x86_64")]
use crate::{Found, prefetch_beyond};

/// Bytes of a line of memory.
const LINE: usize = 64;
/// Rows of a block: rows often lie in pages of their own, of which few can be found at once.
const MAX_ROWS: usize = 32;

/// Writes element `c` of `rows[r]` to element `c * step + r` of `out`, for elements of `SIZE` bytes:
/// 1, 2, 4, 8 or 16. `None`, and nothing written, if rows differ in length, are more than `step`,
/// or do not fit into `out`.
pub fn transpose<const SIZE: usize>(
    simd: Simd,
    rows: &[&[u8]],
    out: &mut [u8],
    step: usize,
) -> Option<()> {
    let len = rows.first()?.len();
    let n = len / SIZE;
    let needed = n.checked_sub(1)?.checked_mul(step)?.checked_add(rows.len())?;
    let fits = rows.len() <= step && needed.checked_mul(SIZE)? <= out.len();
    if !fits || len % SIZE != 0 || rows.iter().any(|row| row.len() != len) {
        return None;
    }
    let n_rows = (LINE / SIZE).min(MAX_ROWS);
    for (i, rows) in rows.chunks(n_rows).enumerate() {
        let out = out.get_mut(i * n_rows * SIZE..)?;
        let done = match simd.found() {
            #[cfg(target_arch = "x86_64")]
            Found::Avx2(_) | Found::Avx512(_) if SIZE < 16 && rows.len() % (16 / SIZE) == 0 => {
                // SAFETY: the processor has these instructions, as `found` says. All rows have `n`
                // elements, and `out` has room for all of their columns.
                unsafe { x86::transpose::<SIZE>(rows, n, out, step) }
            }
            _ => 0,
        };
        plain::<SIZE>(rows, done, n, out, step)?;
    }
    Some(())
}

/// The same for columns from `first` to `end`, one element after the other.
fn plain<const SIZE: usize>(
    rows: &[&[u8]],
    first: usize,
    end: usize,
    out: &mut [u8],
    step: usize,
) -> Option<()> {
    let (out, _) = out.as_chunks_mut::<SIZE>();
    let mut start = first;
    while start < end {
        let stop = end.min(start + LINE.div_ceil(SIZE));
        for (r, row) in rows.iter().enumerate() {
            let (row, _) = row.as_chunks::<SIZE>();
            let to = out.get_mut(start * step + r..)?;
            for (to, from) in to.iter_mut().step_by(step).zip(row.get(start..stop)?) {
                *to = *from;
            }
        }
        start = stop;
    }
    Some(())
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{LINE, prefetch_beyond};
    use std::arch::x86_64::*;

    /// Bytes of a row that are exchanged at a time: two squares.
    const WIDE: usize = 32;
    /// How far ahead of the block at hand memory is asked for.
    const AHEAD: usize = 256;

    /// Transposes whole blocks of columns, and says how many columns those were.
    ///
    /// # Safety
    /// There are as many rows as make whole squares; each has `n` elements, and `out` has room for
    /// `n` columns of that many, `step` apart.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn transpose<const SIZE: usize>(
        rows: &[&[u8]],
        n: usize,
        out: &mut [u8],
        step: usize,
    ) -> usize {
        let side = 16 / SIZE;
        let n_wide = n * SIZE / WIDE;
        let per_line = LINE / WIDE;
        let mut first = 0;
        while first < n_wide {
            let last = n_wide.min(first + per_line);
            for (i, square) in rows.chunks_exact(side).enumerate() {
                for row in square {
                    prefetch_beyond(&row[..1], first * WIDE + AHEAD);
                }
                for wide in first..last {
                    let place = wide * (WIDE / SIZE) * step * SIZE + i * 16;
                    // SAFETY: `wide` is within the rows, and so are its columns in `out`.
                    unsafe {
                        let out = out.as_mut_ptr().add(place);
                        squares::<SIZE>(square, wide * WIDE, out, step * SIZE);
                    }
                }
            }
            first = last;
        }
        n_wide * (WIDE / SIZE)
    }

    /// Transposes two squares side by side; columns go to places that are `apart` bytes apart.
    ///
    /// # Safety
    /// `WIDE` bytes from `at` on are within each of the rows, and `16` bytes of each column within
    /// the memory behind `out`.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn squares<const SIZE: usize>(rows: &[&[u8]], at: usize, out: *mut u8, apart: usize) {
        let side = 16 / SIZE;
        let mut v = [_mm256_setzero_si256(); 16];
        for (v, row) in v.iter_mut().zip(rows) {
            // SAFETY: these bytes are within the row.
            *v = unsafe { _mm256_loadu_si256(row.as_ptr().add(at).cast()) };
        }
        // Each round turns the bits of an element's place, row and column, by one.
        let mut rounds = side;
        while rounds > 1 {
            let from = v;
            for i in 0..side / 2 {
                let (a, b) = (from[i], from[i + side / 2]);
                (v[2 * i], v[2 * i + 1]) = match SIZE {
                    1 => (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)),
                    2 => (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)),
                    4 => (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)),
                    _ => (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)),
                };
            }
            rounds /= 2;
        }
        for (i, v) in v.iter().take(side).enumerate() {
            // SAFETY: these are the places of the columns.
            unsafe {
                _mm_storeu_si128(out.add(i * apart).cast(), _mm256_castsi256_si128(*v));
                let upper = _mm256_extracti128_si256::<1>(*v);
                _mm_storeu_si128(out.add((side + i) * apart).cast(), upper);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const SIZE: usize>() {
        let shapes =
            [(1, 1), (33, 17), (16, 64), (64, 64), (65, 63), (7, 200), (40, 33), (130, 17)];
        // Miri takes minutes for each of the others.
        let n_shapes = if cfg!(miri) { 2 } else { shapes.len() };
        for &(n_rows, n) in &shapes[..n_shapes] {
            let bytes = |i: usize| (i * i / 3 + i / 7) as u8;
            // Rows begin at any address.
            let len = n * SIZE;
            let stored: Vec<u8> = (0..n_rows * (len + 3) + 1).map(bytes).collect();
            let rows: Vec<&[u8]> =
                (0..n_rows).map(|r| &stored[1 + r * (len + 3)..][..len]).collect();
            for step in [n_rows, n_rows + 5] {
                let n_out = ((n - 1) * step + n_rows) * SIZE;
                let mut expected = vec![0xAA; n_out];
                for (r, row) in rows.iter().enumerate() {
                    for c in 0..n {
                        let to = (c * step + r) * SIZE;
                        expected[to..to + SIZE].copy_from_slice(&row[c * SIZE..][..SIZE]);
                    }
                }
                for simd in Simd::all() {
                    let mut out = vec![0xAA; n_out];
                    transpose::<SIZE>(simd, &rows, &mut out, step).unwrap();
                    assert!(out == expected, "{simd:?}, {n_rows} rows of {n} of {SIZE} bytes");
                }
            }
        }
    }

    #[test]
    fn every_level_puts_every_element_in_its_place() {
        check::<1>();
        check::<2>();
        check::<4>();
        check::<8>();
        check::<16>();
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let simd = Simd::best();
        let run = |rows: &[&[u8]], n_out: usize, step| {
            transpose::<2>(simd, rows, &mut vec![0; n_out], step)
        };
        let (long, short, odd): (&[u8], &[u8], &[u8]) = (&[0; 64], &[0; 62], &[0; 63]);
        assert!(run(&[long; 8], 512, 8).is_some());
        assert!(run(&[long; 8], 511, 8).is_none());
        assert!(run(&[long; 8], 512, 7).is_none());
        assert!(run(&[long, short], 512, 8).is_none());
        assert!(run(&[odd], 512, 1).is_none());
        assert!(run(&[], 512, 1).is_none());
        assert!(run(&[&[]], 512, 1).is_none());
    }
}
