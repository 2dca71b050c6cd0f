//! Bitshuffle: bits of elements, from one plane for each bit to one element after the other.
//!
//! Compressed chunks begin with their decoded size (8 bytes, big endian) and the size of a block
//! in bytes (4, big endian); then, for each block, its stored size (4, big endian) and LZ4 or
//! Zstandard. The last block may be shorter; fewer than 8 elements that are left follow as they are.
//! In a block of n elements, plane `8 · byte + bit` has n / 8 bytes, element i at bit `i mod 8` of
//! byte `i / 8`.

use super::{Inner, Tools, all_of, damaged, lz4, shuffle};
use framefold_core::Result;
use framefold_simd::{Simd, run};

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
        run!(simd, transpose(bits, out));
        return;
    }
    for (bits, plane) in bits.chunks_exact(n).zip(planes.chunks_exact_mut(n)) {
        run!(simd, transpose(bits, plane));
    }
    shuffle::unshuffle(simd, planes, size, out);
}

/// Eight planes of bits to one plane of bytes of as many elements.
#[inline(always)]
fn transpose(bits: &[u8], out: &mut [u8]) {
    /// Groups at a time.
    const BLOCK: usize = 32;
    let row = out.len() / 8;
    let rows: [&[u8]; 8] =
        std::array::from_fn(|bit| bits.get(bit * row..(bit + 1) * row).unwrap_or_default());
    let (groups, _) = out.as_chunks_mut::<8>();
    let (blocks, rest) = groups.as_chunks_mut::<BLOCK>();
    let n_blocks = blocks.len();
    for (i, block) in blocks.iter_mut().enumerate() {
        let mut words = [0u64; BLOCK];
        for (bit, row) in rows.iter().enumerate() {
            let bytes = row.get(i * BLOCK..).and_then(|row| row.first_chunk::<BLOCK>());
            let Some(bytes) = bytes else { return };
            for (word, byte) in words.iter_mut().zip(bytes) {
                *word |= u64::from(*byte) << (8 * bit);
            }
        }
        for (word, out) in words.iter().zip(block) {
            *out = transpose_word(*word).to_le_bytes();
        }
    }
    for (j, out) in rest.iter_mut().enumerate() {
        let mut word = 0;
        for (bit, row) in rows.iter().enumerate() {
            word |= u64::from(row[n_blocks * BLOCK + j]) << (8 * bit);
        }
        *out = transpose_word(word).to_le_bytes();
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
