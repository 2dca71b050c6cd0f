//! Blosc, version 1 of its format.
//!
//! | offset | bytes | content (little endian) |
//! |---|---|---|
//! | 0 | 1 + 1 | version of the format (2), version of the compressor's format |
//! | 2 | 1 | flags: 0 shuffled, 1 stored as it is, 2 shuffled by bits, 4 blocks not split, 5–7 compressor |
//! | 3 | 1 | bytes of an element |
//! | 4 | 4 + 4 + 4 | decoded size, size of a block, stored size |
//! | 16 | 4 each | where each block begins |
//!
//! A block holds one stream, or one for each byte of an element: 4 bytes of length, then the
//! compressed bytes; as long as decoded means not compressed.

use super::encode_tools::EncodeTools;
use super::{Tools, all_of, bitshuffle, blosclz, damaged, grow, lz4, shuffle};
use framefold_core::{Error, Result, memory};

const HEADER: usize = 16;
/// Blocks are split into streams only if those are at least that long.
const SMALLEST_STREAM: usize = 128;
const LONGEST_ELEMENT: usize = 16;

struct Header {
    compressor: u8,
    shuffled: bool,
    bits: bool,
    split: bool,
    size: usize,
    block: usize,
}

pub(super) fn decode(stored: &[u8], out: &mut [u8], tools: &mut Tools) -> Result<()> {
    let Some((head, rest)) = stored.split_first_chunk::<HEADER>() else {
        return Err(damaged("Blosc", "it is shorter than its header"));
    };
    let word = |at: usize| {
        let bytes = head.get(at..).and_then(|bytes| bytes.first_chunk::<4>());
        bytes.map_or(0, |bytes| usize::try_from(u32::from_le_bytes(*bytes)).unwrap_or(usize::MAX))
    };
    let (version, flags) = (head[0], head[2]);
    if version != 2 && version != 1 {
        return Err(Error::unsupported(format!(
            "a chunk is in version {version} of Blosc's format, of which 1 and 2 are known"
        ))
        .with_hint("rewrite the data with version 1 of the Blosc library, or with Zstandard"));
    }
    all_of("Blosc", word(4), out.len())?;
    if flags & 2 != 0 {
        all_of("Blosc", rest.len().min(out.len()), out.len())?;
        out.copy_from_slice(rest.get(..out.len()).unwrap_or_default());
        return Ok(());
    }
    let header = Header {
        compressor: flags >> 5,
        shuffled: flags & 1 != 0 && head[3] > 1,
        bits: flags & 4 != 0,
        split: flags & 16 == 0,
        size: usize::from(head[3]).max(1),
        block: word(8),
    };
    if header.block == 0 {
        return if out.is_empty() { Ok(()) } else { Err(damaged("Blosc", "blocks have no bytes")) };
    }
    let block_bytes = header.block.min(out.len());
    let (mut decoded, mut planes) =
        (std::mem::take(&mut tools.block), std::mem::take(&mut tools.planes));
    grow(&mut decoded, block_bytes)?;
    grow(&mut planes, block_bytes)?;
    for (i, out) in out.chunks_mut(header.block).enumerate() {
        let start = rest.get(4 * i..).and_then(|starts| starts.first_chunk::<4>());
        let start = start.and_then(|start| usize::try_from(u32::from_le_bytes(*start)).ok());
        let block = start.and_then(|start| stored.get(start..));
        let block = block.ok_or_else(|| damaged("Blosc", "a block begins after its end"))?;
        let whole = out.len() == header.block;
        if !header.shuffled && !header.bits {
            header.streams(block, whole, out, tools)?;
            continue;
        }
        let decoded = decoded.get_mut(..out.len()).unwrap_or_default();
        header.streams(block, whole, decoded, tools)?;
        if header.bits && !(out.len() / header.size).is_multiple_of(8) {
            // The library shuffles bits of whole groups only, and otherwise none at all.
            out.copy_from_slice(decoded);
        } else if header.bits {
            let n = out.len() / header.size * header.size;
            let (bits, tail) = decoded.split_at(n);
            let (elements, out_tail) = out.split_at_mut(n);
            let planes = planes.get_mut(..n).unwrap_or_default();
            bitshuffle::unshuffle_bits(tools.simd, bits, header.size, planes, elements);
            out_tail.copy_from_slice(tail);
        } else {
            shuffle::unshuffle(tools.simd, decoded, header.size, out);
        }
    }
    (tools.block, tools.planes) = (decoded, planes);
    Ok(())
}

impl Header {
    /// Decodes the streams of one block.
    fn streams(&self, block: &[u8], whole: bool, out: &mut [u8], tools: &mut Tools) -> Result<()> {
        let too_short = || damaged("Blosc", "it ends within a block");
        let splits = self.split
            && whole
            && self.size <= LONGEST_ELEMENT
            && self.block / self.size >= SMALLEST_STREAM
            && out.len().is_multiple_of(self.size);
        let n_streams = if splits { self.size } else { 1 };
        let mut rest = block;
        for out in out.chunks_mut((out.len() / n_streams).max(1)) {
            let (len, after) = rest.split_first_chunk::<4>().ok_or_else(too_short)?;
            let len = usize::try_from(u32::from_le_bytes(*len)).unwrap_or(usize::MAX);
            let (stored, after) = after.split_at_checked(len).ok_or_else(too_short)?;
            rest = after;
            if len == out.len() {
                out.copy_from_slice(stored);
                continue;
            }
            match self.compressor {
                0 => blosclz::decode(stored, out)?,
                1 => lz4::decode_block(stored, out)?,
                3 => tools.deflate(stored, out)?,
                4 => tools.zstd(stored, out)?,
                other => {
                    let name = if other == 2 { "Snappy".into() } else { format!("number {other}") };
                    return Err(Error::unsupported(format!(
                        "a chunk is compressed by Blosc with {name}, which framefold does not know"
                    ))
                    .with_hint("rewrite the data with LZ4 or Zstandard"));
                }
            }
        }
        Ok(())
    }
}

/// Blocks that are written have about so many bytes: they fit the cache, shuffled and not.
const BLOCK_BYTES: usize = 256 << 10;

/// Appends `chunk` as a frame of shuffled bits, compressed with Zstandard or LZ4.
pub(super) fn encode(
    chunk: &[u8],
    size: usize,
    zstd: bool,
    out: &mut Vec<u8>,
    tools: &mut EncodeTools,
) -> Result<()> {
    const BITS_SHUFFLED: u8 = 4;
    const NOT_SPLIT: u8 = 16;
    let too_large = |_| Error::limit("Blosc has no chunks of 2 GB and more");
    let len = i32::try_from(chunk.len()).map_err(too_large)?;
    let group = 8 * size.max(1);
    let block = (BLOCK_BYTES / group * group).min(chunk.len().max(1));
    let start = out.len();
    let compressor: u8 = if zstd { 4 } else { 1 };
    out.extend([2, 1, compressor << 5 | BITS_SHUFFLED | NOT_SPLIT]);
    out.push(u8::try_from(size).unwrap_or(1));
    out.extend(len.to_le_bytes());
    out.extend(i32::try_from(block).map_err(too_large)?.to_le_bytes());
    out.extend([0; 4]);
    let n_blocks = chunk.len().div_ceil(block);
    memory::resize(out, start + HEADER + 4 * n_blocks, 0)?;
    let mut bits = std::mem::take(&mut tools.bits);
    let mut planes = std::mem::take(&mut tools.planes);
    let write = |out: &mut Vec<u8>, at: usize, n: usize| -> Result<()> {
        let n = i32::try_from(n).map_err(too_large)?;
        if let Some(place) = out.get_mut(start + at..start + at + 4) {
            place.copy_from_slice(&n.to_le_bytes());
        }
        Ok(())
    };
    for (i, chunk) in chunk.chunks(block).enumerate() {
        let at = out.len() - start;
        write(out, HEADER + 4 * i, at)?;
        out.extend([0; 4]);
        memory::resize(&mut bits, chunk.len(), 0)?;
        memory::resize(&mut planes, chunk.len(), 0)?;
        let n = chunk.len() / size.max(1) * size.max(1);
        if (chunk.len() / size.max(1)).is_multiple_of(8) {
            let (elements, tail) = chunk.split_at(n);
            let (shuffled, rest) = bits.split_at_mut(n);
            rest.copy_from_slice(tail);
            let planes = planes.get_mut(..n).unwrap_or_default();
            bitshuffle::shuffle_bits(tools.simd, elements, size.max(1), planes, shuffled);
        } else {
            // The library shuffles bits of whole groups only, and otherwise none at all.
            bits.copy_from_slice(chunk);
        }
        if zstd {
            tools.zstd(&bits, out)?
        } else {
            tools.lz4(&bits, out)?
        }
        let mut stored = out.len() - start - at - 4;
        if stored >= bits.len() {
            // As long as decoded means not compressed.
            out.truncate(start + at + 4);
            memory::append(out, &bits)?;
            stored = bits.len();
        }
        write(out, at, stored)?;
    }
    (tools.bits, tools.planes) = (bits, planes);
    let n = out.len() - start;
    write(out, 12, n)
}
