//! Bit planes to elements with AVX2, and with GFNI where the processor has it.
//!
//! Eight planes make bytes: a byte of each is put side by side, and the 8 × 8 bits that they are
//! get transposed. GFNI multiplies such a matrix by a vector; that of each unit vector is a column.
//! Bytes of elements of 2 and 4 bytes meet in registers, without a plane of bytes in between.

#![expect(
    clippy::indexing_slicing,
    reason = "blocks and groups of fixed lengths; bounds are checked once, around the loops"
)]

use std::arch::x86_64::*;

/// Groups of eight elements at a time: one byte of each plane of bits makes a byte of a group.
const GROUPS: usize = 32;
/// Elements of as many groups.
pub(super) const BLOCK: usize = 8 * GROUPS;

/// Whether the processor has GFNI besides AVX2.
pub(super) fn has_gfni() -> bool {
    std::arch::is_x86_feature_detected!("gfni")
}

/// Makes one function for AVX2 alone, and one for GFNI, of code that differs in one place.
macro_rules! both {
    ($module:ident, $features:literal, $transposed:path) => {
        pub(super) mod $module {
            use super::{BLOCK, GROUPS};
            use std::arch::x86_64::*;

            /// Turns whole blocks of elements of 1, 2 or 4 bytes from bits to elements, and says how
            /// many elements those were. `bits` and `out` have the same length.
            #[target_feature(enable = $features)]
            pub(in super::super) fn elements<const SIZE: usize>(
                bits: &[u8],
                out: &mut [u8],
            ) -> usize {
                let n_groups = bits.len().min(out.len()) / (8 * SIZE);
                let n_blocks = n_groups / GROUPS;
                for i in 0..n_blocks {
                    let mut planes = [[_mm256_setzero_si256(); 8]; SIZE];
                    for (byte, plane) in planes.iter_mut().enumerate() {
                        // SAFETY: each of the 8 · SIZE rows has `n_groups` bytes, of which block
                        // `i` takes 32.
                        *plane = unsafe {
                            bytes(bits.as_ptr().add(8 * byte * n_groups + i * GROUPS), n_groups)
                        };
                    }
                    // SAFETY: block `i` of the elements lies within `out`.
                    let out = unsafe { out.as_mut_ptr().add(i * BLOCK * SIZE) };
                    for k in 0..8 {
                        // 16 elements from 16 k on in the lower half, 128 later in the upper one.
                        let mut parts = [_mm256_setzero_si256(); SIZE];
                        for (part, plane) in parts.iter_mut().zip(&planes) {
                            *part = plane[k];
                        }
                        let from = parts;
                        if SIZE == 2 {
                            parts[0] = _mm256_unpacklo_epi8(from[0], from[1]);
                            parts[1] = _mm256_unpackhi_epi8(from[0], from[1]);
                        } else if SIZE == 4 {
                            let (a, b) = (
                                _mm256_unpacklo_epi8(from[0], from[1]),
                                _mm256_unpackhi_epi8(from[0], from[1]),
                            );
                            let (c, d) = (
                                _mm256_unpacklo_epi8(from[2], from[3]),
                                _mm256_unpackhi_epi8(from[2], from[3]),
                            );
                            parts[0] = _mm256_unpacklo_epi16(a, c);
                            parts[1] = _mm256_unpackhi_epi16(a, c);
                            parts[2] = _mm256_unpacklo_epi16(b, d);
                            parts[3] = _mm256_unpackhi_epi16(b, d);
                        }
                        for (j, part) in parts.iter().enumerate() {
                            let place = 16 * k * SIZE + 16 * j;
                            let upper = _mm256_extracti128_si256::<1>(*part);
                            // SAFETY: 112 · SIZE + 16 · SIZE + 128 · SIZE bytes are those of a block.
                            unsafe {
                                _mm_storeu_si128(
                                    out.add(place).cast(),
                                    _mm256_castsi256_si128(*part),
                                );
                                _mm_storeu_si128(out.add(place + BLOCK / 2 * SIZE).cast(), upper);
                            }
                        }
                    }
                }
                n_blocks * BLOCK
            }

            /// Eight rows of bits, `apart` bytes from each other, to bytes: each half holds 16 that
            /// follow each other; the halves lie 128 apart.
            ///
            /// # Safety
            /// 32 bytes of each row can be read.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn bytes(row: *const u8, apart: usize) -> [__m256i; 8] {
                let mut r = [_mm256_setzero_si256(); 8];
                for (bit, r) in r.iter_mut().enumerate() {
                    // SAFETY: see above.
                    *r = unsafe { _mm256_loadu_si256(row.add(bit * apart).cast()) };
                }
                let mut pairs = r;
                for k in 0..4 {
                    pairs[2 * k] = _mm256_unpacklo_epi8(r[2 * k], r[2 * k + 1]);
                    pairs[2 * k + 1] = _mm256_unpackhi_epi8(r[2 * k], r[2 * k + 1]);
                }
                // Of rows 0 to 3 first, then of rows 4 to 7.
                let mut fours = r;
                for k in 0..4 {
                    let (a, b) = (pairs[k / 2 * 4 + k % 2], pairs[k / 2 * 4 + 2 + k % 2]);
                    fours[2 * k] = _mm256_unpacklo_epi16(a, b);
                    fours[2 * k + 1] = _mm256_unpackhi_epi16(a, b);
                }
                for k in 0..4 {
                    let (a, b) = (fours[k], fours[4 + k]);
                    r[2 * k] = $transposed(_mm256_unpacklo_epi32(a, b));
                    r[2 * k + 1] = $transposed(_mm256_unpackhi_epi32(a, b));
                }
                r
            }
        }
    };
}

both!(avx2, "avx2", super::transposed);
both!(gfni, "avx2,gfni", super::transposed_by_gfni);

/// Transposes four matrices of 8 × 8 bits, one byte a row.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed(x: __m256i) -> __m256i {
    let x = swap::<7>(x, 0x00AA_00AA_00AA_00AA);
    let x = swap::<14>(x, 0x0000_CCCC_0000_CCCC);
    swap::<28>(x, 0x0000_0000_F0F0_F0F0)
}

#[inline]
#[target_feature(enable = "avx2")]
fn swap<const SHIFT: i32>(x: __m256i, mask: i64) -> __m256i {
    let t = _mm256_xor_si256(x, _mm256_srli_epi64::<SHIFT>(x));
    let t = _mm256_and_si256(t, _mm256_set1_epi64x(mask));
    _mm256_xor_si256(x, _mm256_xor_si256(t, _mm256_slli_epi64::<SHIFT>(t)))
}

/// The same: multiplied by each unit vector, a matrix gives each of its columns. The instruction
/// takes the last byte for the first row, so that bits come back to front.
#[inline]
#[target_feature(enable = "avx2,gfni")]
fn transposed_by_gfni(x: __m256i) -> __m256i {
    let unit_vectors = _mm256_set1_epi64x(i64::from_le_bytes([1, 2, 4, 8, 16, 32, 64, 128]));
    let last_first = _mm256_setr_epi8(
        7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8, //
        7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8,
    );
    _mm256_gf2p8affine_epi64_epi8::<0>(unit_vectors, _mm256_shuffle_epi8(x, last_first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::bitshuffle::unshuffle_bits;
    use framefold_simd::Simd;

    fn check<const SIZE: usize>() {
        let bits: Vec<u8> = (0..(3 * BLOCK + 8) * SIZE).map(|i| (i * i / 11 + i) as u8).collect();
        for n in [8, BLOCK - 8, BLOCK, BLOCK + 8, 3 * BLOCK] {
            let bits = &bits[..n * SIZE];
            let (mut planes, mut expected) = (bits.to_vec(), bits.to_vec());
            unshuffle_bits(Simd::plain(), bits, SIZE, &mut planes, &mut expected);
            let mut found = vec![vec![0; bits.len()]];
            // SAFETY: the processor was asked for these instructions.
            let mut done = vec![unsafe { avx2::elements::<SIZE>(bits, &mut found[0]) }];
            if has_gfni() {
                found.push(vec![0; bits.len()]);
                // SAFETY: as above.
                done.push(unsafe { gfni::elements::<SIZE>(bits, &mut found[1]) });
            }
            for (found, done) in found.iter().zip(done) {
                assert_eq!(done, n / BLOCK * BLOCK);
                assert!(found[..done * SIZE] == expected[..done * SIZE], "{SIZE} {n}");
                assert!(found[done * SIZE..].iter().all(|&rest| rest == 0));
            }
        }
    }

    #[test]
    fn both_ways_equal_the_plain_one() {
        if std::arch::is_x86_feature_detected!("avx2") {
            check::<1>();
            check::<2>();
            check::<4>();
        }
    }
}
