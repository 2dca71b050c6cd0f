//! Bitshuffle: bits of elements, from one plane for each bit to one element after the other.
//!
//! Compressed chunks begin with their decoded size (8 bytes, big endian) and the size of a block
//! in bytes (4, big endian); then, for each block, its stored size (4, big endian) and LZ4 or
//! Zstandard. The last block may be shorter; fewer than 8 elements that are left follow as they are.
//! In a block of n elements, plane `8 · byte + bit` has n / 8 bytes, element i at bit `i mod 8` of
//! byte `i / 8`.

use super::{Inner, Tools, all_of, damaged, lz4, shuffle};
use framefold_core::Result;
use framefold_simd::{Level, Simd};

/// Bytes of a block where nothing else is said.
const DEFAULT_BLOCK_BYTES: usize = 8192;
/// Elements come in groups of as many.
const GROUP: usize = 8;

pub(super) fn decode(
    stored: &[u8],
    size: usize,
    block: usize,
    inner: Inner,
    out: &mut [u8],
    tools: &mut Tools,
) -> Result<()> {
    let too_short = || damaged("bitshuffle", "it ends within a block");
    let mut rest = stored;
    let block_bytes = if inner == Inner::Nothing {
        all_of("bitshuffle", stored.len(), out.len())?;
        let default = (DEFAULT_BLOCK_BYTES / size.max(1) / GROUP * GROUP).max(128);
        (if block == 0 { default } else { block }).saturating_mul(size)
    } else {
        let (decoded, after) = stored.split_first_chunk::<8>().ok_or_else(too_short)?;
        let (block, after) = after.split_first_chunk::<4>().ok_or_else(too_short)?;
        let decoded = usize::try_from(u64::from_be_bytes(*decoded)).unwrap_or(usize::MAX);
        all_of("bitshuffle", decoded, out.len())?;
        rest = after;
        usize::try_from(u32::from_be_bytes(*block)).unwrap_or(usize::MAX)
    };
    let group = size.saturating_mul(GROUP);
    if group == 0 || block_bytes == 0 || !block_bytes.is_multiple_of(group) {
        return Err(damaged(
            "bitshuffle",
            &format!("blocks of {block_bytes} bytes hold no whole groups of 8 elements of {size}"),
        ));
    }
    let shuffled = out.len() / group * group;
    let (out, tail) = out.split_at_mut(shuffled);
    let Tools { block: decoded, planes, .. } = tools;
    let mut decoded = std::mem::take(decoded);
    let mut planes = std::mem::take(planes);
    if decoded.len() < block_bytes.min(shuffled) {
        decoded.resize(block_bytes.min(shuffled), 0);
        planes.resize(block_bytes.min(shuffled), 0);
    }
    for out in out.chunks_mut(block_bytes) {
        let bits = if inner == Inner::Nothing {
            let (bits, after) = rest.split_at_checked(out.len()).ok_or_else(too_short)?;
            rest = after;
            bits
        } else {
            let (len, after) = rest.split_first_chunk::<4>().ok_or_else(too_short)?;
            let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
            let (stored, after) = after.split_at_checked(len).ok_or_else(too_short)?;
            rest = after;
            let decoded = &mut decoded[..out.len()];
            match inner {
                Inner::Zstd => tools.zstd(stored, decoded)?,
                Inner::Lz4 | Inner::Nothing => lz4::decode_block(stored, decoded)?,
            }
            decoded
        };
        unshuffle_bits(tools.simd, bits, size, &mut planes[..out.len()], out);
    }
    (tools.block, tools.planes) = (decoded, planes);
    all_of("bitshuffle", rest.len(), tail.len())?;
    tail.copy_from_slice(rest);
    Ok(())
}

/// Undoes the bit shuffle of one block of whole groups. All three have the same length; `planes`
/// is scratch memory.
pub(super) fn unshuffle_bits(
    simd: Simd,
    bits: &[u8],
    size: usize,
    planes: &mut [u8],
    out: &mut [u8],
) {
    let n = out.len() / size.max(1);
    if n == 0 {
        return;
    }
    if size == 1 {
        transpose(simd, bits, out);
        return;
    }
    for (bits, plane) in bits.chunks_exact(n).zip(planes.chunks_exact_mut(n)) {
        transpose(simd, bits, plane);
    }
    shuffle::unshuffle(simd, planes, size, out);
}

/// Eight planes of bits to one plane of bytes of as many elements.
fn transpose(simd: Simd, bits: &[u8], out: &mut [u8]) {
    let row = out.len() / 8;
    let rows: [&[u8]; 8] =
        std::array::from_fn(|bit| bits.get(bit * row..(bit + 1) * row).unwrap_or_default());
    let done = match simd.level() {
        Level::Plain => 0,
        // SAFETY: a `Simd` of this level means that the processor has these instructions.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 | Level::Avx512 => unsafe { x86::transpose(&rows, out) },
        #[cfg(not(target_arch = "x86_64"))]
        Level::Avx2 | Level::Avx512 => 0,
    };
    let (groups, _) = out.as_chunks_mut::<8>();
    for (i, group) in groups.iter_mut().enumerate().skip(done) {
        let mut word = 0;
        for (bit, row) in rows.iter().enumerate() {
            word |= u64::from(row.get(i).copied().unwrap_or(0)) << (8 * bit);
        }
        *group = transpose_word(word).to_le_bytes();
    }
}

/// Transposes a matrix of 8 × 8 bits, one byte a row.
#[inline(always)]
fn transpose_word(mut x: u64) -> u64 {
    let mut swap = |shift: u32, mask: u64| {
        let t = (x ^ (x >> shift)) & mask;
        x ^= t ^ (t << shift);
    };
    swap(7, 0x00AA_00AA_00AA_00AA);
    swap(14, 0x0000_CCCC_0000_CCCC);
    swap(28, 0x0000_0000_F0F0_F0F0);
    x
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! Interleaves eight rows of bytes, and transposes the bits of each group.

    use std::arch::x86_64::*;

    /// Groups at a time: one byte of each row makes a group.
    const BLOCK: usize = 32;

    /// Transposes whole blocks and says how many groups those were.
    #[target_feature(enable = "avx2")]
    pub(super) fn transpose(rows: &[&[u8]; 8], out: &mut [u8]) -> usize {
        let (blocks, _) = out.as_chunks_mut::<{ 8 * BLOCK }>();
        let shortest = rows.iter().map(|row| row.len()).min().unwrap_or(0);
        let n_blocks = blocks.len().min(shortest / BLOCK);
        for (i, block) in blocks.iter_mut().take(n_blocks).enumerate() {
            // Written out: closures are not compiled for these instructions everywhere.
            let mut r = [_mm256_setzero_si256(); 8];
            for (r, row) in r.iter_mut().zip(rows) {
                // SAFETY: block `i` lies within the shortest row.
                *r = unsafe { _mm256_loadu_si256(row.as_ptr().add(i * BLOCK).cast()) };
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
            for k in 0..8 {
                let (a, b) = (fours[k / 2], fours[4 + k / 2]);
                let words = if k % 2 == 0 {
                    _mm256_unpacklo_epi32(a, b)
                } else {
                    _mm256_unpackhi_epi32(a, b)
                };
                let words = transpose_words(words);
                // Each half holds two groups that follow each other; the halves lie 16 groups apart.
                let place = block[16 * k..].as_mut_ptr();
                // SAFETY: 16 · 7 + 128 + 16 bytes are those of a block.
                unsafe {
                    _mm_storeu_si128(place.cast(), _mm256_castsi256_si128(words));
                    let upper = _mm256_extracti128_si256::<1>(words);
                    _mm_storeu_si128(place.add(4 * BLOCK).cast(), upper);
                }
            }
        }
        n_blocks * BLOCK
    }

    /// As [`super::transpose_word`], of four words.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn transpose_words(x: __m256i) -> __m256i {
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
}
