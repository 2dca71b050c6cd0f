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

use super::{Tools, all_of, bitshuffle, blosclz, damaged, grow, lz4, shuffle};
use framefold_core::{Error, Result};

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
        out.copy_from_slice(&rest[..out.len()]);
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
        let decoded = &mut decoded[..out.len()];
        header.streams(block, whole, decoded, tools)?;
        if header.bits && !(out.len() / header.size).is_multiple_of(8) {
            // The library shuffles bits of whole groups only, and otherwise none at all.
            out.copy_from_slice(decoded);
        } else if header.bits {
            let n = out.len() / header.size * header.size;
            let (bits, tail) = decoded.split_at(n);
            let (elements, out_tail) = out.split_at_mut(n);
            bitshuffle::unshuffle_bits(tools.simd, bits, header.size, &mut planes[..n], elements);
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
