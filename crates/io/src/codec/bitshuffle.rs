//! Bitshuffle: bits of elements, from one plane for each bit to one element after the other.
//!
//! Compressed chunks begin with their decoded size (8 bytes, big endian) and the size of a block
//! in bytes (4, big endian); then, for each block, its stored size (4, big endian) and LZ4 or
//! Zstandard. The last block may be shorter; fewer than 8 elements that are left follow as they are.
//! In a block of n elements, plane `8 · byte + bit` has n / 8 bytes, element i at bit `i mod 8` of
//! byte `i / 8`.

mod blocks;
#[cfg(target_arch = "x86_64")]
mod separate;
#[cfg(target_arch = "x86_64")]
mod x86;

pub(crate) use blocks::{Blocks, block_bytes, blocks};

use super::encode_tools::EncodeTools;
use super::{Inner, Tools, all_of, damaged, grow, lz4, shuffle};
use framefold_core::{Result, memory};
#[cfg(target_arch = "x86_64")]
use framefold_simd::Level;
use framefold_simd::Simd;

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
        block_bytes(size, block)
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
    grow(&mut decoded, block_bytes.min(shuffled))?;
    grow(&mut planes, block_bytes.min(shuffled))?;
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
            let decoded = decoded.get_mut(..out.len()).unwrap_or_default();
            match inner {
                Inner::Zstd => tools.zstd(stored, decoded)?,
                Inner::Lz4 | Inner::Nothing => lz4::decode_block(stored, decoded)?,
            }
            decoded
        };
        let planes = planes.get_mut(..out.len()).unwrap_or_default();
        unshuffle_bits(tools.simd, bits, size, planes, out);
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
    let whole = match size {
        _ if !n.is_multiple_of(256) => 0,
        1 => elements::<1>(simd, bits, out),
        2 => elements::<2>(simd, bits, out),
        4 => elements::<4>(simd, bits, out),
        _ => 0,
    };
    if whole == n {
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

/// Appends `chunk` with its bits shuffled, in blocks of LZ4, behind the header.
pub(super) fn encode(
    chunk: &[u8],
    size: usize,
    out: &mut Vec<u8>,
    tools: &mut EncodeTools,
) -> Result<()> {
    let block = block_bytes(size, 0);
    out.extend((chunk.len() as u64).to_be_bytes());
    out.extend(u32::try_from(block).unwrap_or(u32::MAX).to_be_bytes());
    let whole = chunk.len() / (size * GROUP).max(1) * size * GROUP;
    let (whole, tail) = chunk.split_at(whole);
    let mut bits = std::mem::take(&mut tools.bits);
    let mut planes = std::mem::take(&mut tools.planes);
    for chunk in whole.chunks(block) {
        memory::resize(&mut bits, chunk.len(), 0)?;
        memory::resize(&mut planes, chunk.len(), 0)?;
        shuffle_bits(tools.simd, chunk, size, &mut planes, &mut bits);
        let start = out.len();
        out.extend([0; 4]);
        tools.lz4(&bits, out)?;
        let len = u32::try_from(out.len() - start - 4).unwrap_or(u32::MAX);
        if let Some(place) = out.get_mut(start..start + 4) {
            place.copy_from_slice(&len.to_be_bytes());
        }
    }
    (tools.bits, tools.planes) = (bits, planes);
    memory::append(out, tail)?;
    Ok(())
}

/// Shuffles the bits of one block of whole groups. All three have the same length; `planes` is
/// scratch memory.
#[expect(
    clippy::indexing_slicing,
    reason = "bits has eight rows, of a bit for each byte of the plane"
)]
pub(super) fn shuffle_bits(
    simd: Simd,
    elements: &[u8],
    size: usize,
    planes: &mut [u8],
    bits: &mut [u8],
) {
    let n = elements.len() / size.max(1);
    if n == 0 {
        return;
    }
    shuffle::shuffle(simd, elements, size, planes);
    for (plane, bits) in planes.chunks_exact(n).zip(bits.chunks_exact_mut(n)) {
        let done = separate(simd, plane, bits);
        let row = n / GROUP;
        for (i, group) in plane.as_chunks::<GROUP>().0.iter().enumerate().skip(done) {
            let rows = transpose_word(u64::from_le_bytes(*group)).to_le_bytes();
            for (bit, byte) in rows.iter().enumerate() {
                bits[bit * row + i] = *byte;
            }
        }
    }
}

/// Eight planes of bits to one plane of bytes of as many elements.
fn transpose(simd: Simd, bits: &[u8], out: &mut [u8]) {
    let row = out.len() / 8;
    let rows: [&[u8]; 8] =
        std::array::from_fn(|bit| bits.get(bit * row..(bit + 1) * row).unwrap_or_default());
    let done = elements::<1>(simd, bits, out) / 8;
    let (groups, _) = out.as_chunks_mut::<8>();
    for (i, group) in groups.iter_mut().enumerate().skip(done) {
        let mut word = 0;
        for (bit, row) in rows.iter().enumerate() {
            word |= u64::from(row.get(i).copied().unwrap_or(0)) << (8 * bit);
        }
        *group = transpose_word(word).to_le_bytes();
    }
}

/// Turns a plane of bytes to planes of bits as far as vector instructions can do that: says how many
/// groups.
fn separate(simd: Simd, plane: &[u8], bits: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if simd.level() >= Level::Avx2 {
        // SAFETY: a `Simd` of this level means that the processor has these instructions.
        return unsafe { separate::separate(plane, bits) };
    }
    let _ = (simd, plane, bits);
    0
}

/// Turns bits to elements as far as vector instructions can do that: says how many elements.
fn elements<const SIZE: usize>(simd: Simd, bits: &[u8], out: &mut [u8]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if simd.level() >= Level::Avx2 {
        return if x86::has_gfni() {
            // SAFETY: the processor has these instructions: the former were asked for when the
            // `Simd` was made, and the latter just now.
            unsafe { x86::gfni::elements::<SIZE>(bits, out) }
        } else {
            // SAFETY: a `Simd` of this level means that the processor has these instructions.
            unsafe { x86::avx2::elements::<SIZE>(bits, out) }
        };
    }
    let _ = (simd, bits, out);
    0
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
