//! From single bits to bytes that are 0 or 1.
//!
//! Bit `i` of a word, counted from its least significant one, is pixel `i`. No loop over bits
//! becomes good vector code by itself, hence the intrinsics; the plain loop is what they are
//! tested against.

use super::chips::Direction;
use framefold_simd::{Level, Simd};

/// Unpacks 64 pixels from each word, in the order of the pixels: backwards, the last word is the
/// first one.
pub(super) fn unpack_bits(
    simd: Simd,
    words: &[[u8; 8]],
    direction: Direction,
    out: &mut [[u8; 64]],
) {
    match simd.level() {
        Level::Plain => plain(words, direction, out),
        // SAFETY: a `Simd` of this level means that the processor has these instructions.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { x86::avx2(words, direction, out) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { x86::avx512(words, direction, out) },
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 | Level::Avx512 => plain(words, direction, out),
    }
}

fn plain(words: &[[u8; 8]], direction: Direction, out: &mut [[u8; 64]]) {
    match direction {
        Direction::Forward => words.iter().zip(out).for_each(|(word, out)| {
            // Byte i of the constant keeps one bit of the byte that was copied to all places.
            spread(word.iter().rev(), 0x8040_2010_0804_0201, out);
        }),
        Direction::Backward => words.iter().rev().zip(out).for_each(|(word, out)| {
            spread(word.iter(), 0x0102_0408_1020_4080, out);
        }),
    }
}

/// Makes 8 pixels out of each byte.
#[inline(always)]
fn spread<'b>(bytes: impl Iterator<Item = &'b u8>, kept: u64, out: &mut [u8; 64]) {
    for (byte, out) in bytes.zip(out.as_chunks_mut::<8>().0) {
        let bits = (u64::from(*byte) * 0x0101_0101_0101_0101) & kept;
        // Any set bit carries into the top bit of its byte, and no further.
        let ones = ((bits + 0x7F7F_7F7F_7F7F_7F7F) >> 7) & 0x0101_0101_0101_0101;
        *out = ones.to_le_bytes();
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Direction;
    use std::arch::x86_64::*;

    /// Each of 64 pixels: the byte of its word, and the bit in there.
    #[expect(clippy::indexing_slicing, reason = "a constant function can do no other")]
    const fn places(direction: Direction) -> ([u8; 64], [u8; 64]) {
        let (mut bytes, mut bits) = ([0; 64], [0; 64]);
        let mut i = 0;
        while i < 64 {
            let pixel = match direction {
                Direction::Forward => i,
                Direction::Backward => 63 - i,
            };
            bytes[i] = 7 - (pixel / 8) as u8;
            bits[i] = 1 << (pixel % 8);
            i += 1;
        }
        (bytes, bits)
    }

    const FORWARD: ([u8; 64], [u8; 64]) = places(Direction::Forward);
    const BACKWARD: ([u8; 64], [u8; 64]) = places(Direction::Backward);

    #[target_feature(enable = "avx2")]
    #[inline]
    pub(super) fn avx2(words: &[[u8; 8]], direction: Direction, out: &mut [[u8; 64]]) {
        let (bytes, bits) = match direction {
            Direction::Forward => &FORWARD,
            Direction::Backward => &BACKWARD,
        };
        let ([bytes_0, bytes_1], [bits_0, bits_1]) = (load_pair(bytes), load_pair(bits));
        let each = |word: &[u8; 8], out: &mut [u8; 64]| {
            let word = _mm256_set1_epi64x(i64::from_le_bytes(*word));
            let one = _mm256_set1_epi8(1);
            let pixels = |bytes, bits| {
                _mm256_min_epu8(_mm256_and_si256(_mm256_shuffle_epi8(word, bytes), bits), one)
            };
            let [low, high] = [pixels(bytes_0, bits_0), pixels(bytes_1, bits_1)];
            let out = out.as_mut_ptr();
            // SAFETY: there are 64 bytes at `out`, which need no alignment.
            unsafe {
                _mm256_storeu_si256(out.cast(), low);
                _mm256_storeu_si256(out.add(32).cast(), high);
            }
        };
        match direction {
            Direction::Forward => words.iter().zip(out).for_each(|(word, out)| each(word, out)),
            Direction::Backward => {
                words.iter().rev().zip(out).for_each(|(word, out)| each(word, out));
            }
        }
    }

    #[target_feature(enable = "avx2")]
    #[inline]
    fn load_pair(table: &[u8; 64]) -> [__m256i; 2] {
        let table = table.as_ptr();
        // SAFETY: there are 64 bytes at `table`, which need no alignment.
        unsafe { [_mm256_loadu_si256(table.cast()), _mm256_loadu_si256(table.add(32).cast())] }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    #[inline]
    pub(super) fn avx512(words: &[[u8; 8]], direction: Direction, out: &mut [[u8; 64]]) {
        let store = |out: &mut [u8; 64], pixels: __m512i| {
            // SAFETY: there are 64 bytes at `out`, which need no alignment.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), pixels) }
        };
        match direction {
            Direction::Forward => words.iter().zip(out).for_each(|(word, out)| {
                store(out, _mm512_maskz_set1_epi8(u64::from_be_bytes(*word), 1));
            }),
            Direction::Backward => {
                let last_first: [u8; 64] = std::array::from_fn(|i| 63 - i as u8);
                // SAFETY: there are 64 bytes, which need no alignment.
                let last_first = unsafe { _mm512_loadu_si512(last_first.as_ptr().cast()) };
                words.iter().rev().zip(out).for_each(|(word, out)| {
                    let pixels = _mm512_maskz_set1_epi8(u64::from_be_bytes(*word), 1);
                    store(out, _mm512_permutexvar_epi8(last_first, pixels));
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_gives_what_bits_say() {
        // Every byte in every place of a word.
        let words: Vec<[u8; 8]> =
            (0..256usize).map(|i| std::array::from_fn(|k| (i + 41 * k) as u8)).collect();
        let bit = |word: [u8; 8], i: usize| ((u64::from_be_bytes(word) >> i) & 1) as u8;
        let forward: Vec<[u8; 64]> =
            words.iter().map(|&word| std::array::from_fn(|i| bit(word, i))).collect();
        let backward: Vec<[u8; 64]> =
            words.iter().rev().map(|&word| std::array::from_fn(|i| bit(word, 63 - i))).collect();
        for simd in Simd::all() {
            let expected = [(Direction::Forward, &forward), (Direction::Backward, &backward)];
            for (direction, expected) in expected {
                let mut out = vec![[0xAA; 64]; words.len()];
                unpack_bits(simd, &words, direction, &mut out);
                assert_eq!(&out, expected, "{simd:?} {direction:?}");
            }
        }
    }
}
