//! Cuts pieces into chunks and encodes them.

use super::units::{Unit, unravel};
use crate::codec::{Encoder, Step};
use crc32c::crc32c;
use framefold_core::{Result, interrupt, memory};
use std::ops::Range;

/// How an array is cut, and what is done to its chunks.
#[derive(Clone, Debug)]
pub(super) struct ChunkSpec {
    /// The shape of a chunk, on all axes.
    pub(super) shape: Vec<usize>,
    /// Bytes of an element.
    pub(super) size: usize,
    pub(super) steps: Vec<Step>,
    /// Whether chunks in which all bytes are 0 are left out.
    pub(super) skips_zeros: bool,
    /// Whether a checksum follows each chunk, as CRC-32C in little-endian order.
    pub(super) has_checksums: bool,
}

/// One worker's chunks.
pub(super) struct Chunker<'s> {
    spec: &'s ChunkSpec,
    encoder: Encoder,
    /// A piece: positions × cells of the band.
    pub(super) block: Vec<u8>,
    chunk: Vec<u8>,
    pub(super) encoded: Encoded,
}

/// The chunks of one piece.
#[derive(Default)]
pub(super) struct Encoded {
    /// One after the other.
    pub(super) bytes: Vec<u8>,
    /// In C order of the piece's chunks; `None` for those that are left out.
    pub(super) chunks: Vec<Option<Range<usize>>>,
    /// Chunks along each axis of the piece.
    pub(super) grid: Vec<usize>,
}

impl<'s> Chunker<'s> {
    pub(super) fn try_new(spec: &'s ChunkSpec) -> Result<Self> {
        let encoder = Encoder::try_new(&spec.steps)?;
        let len_bytes = spec.shape.iter().fold(spec.size, |n: usize, &len| n.saturating_mul(len));
        Ok(Chunker {
            spec,
            encoder,
            block: Vec::new(),
            chunk: memory::zeros(len_bytes)?,
            encoded: Encoded::default(),
        })
    }

    /// Cuts and encodes what is in the block.
    pub(super) fn encode(&mut self, unit: &Unit<'_>) -> Result<&Encoded> {
        let shape: Vec<usize> = unit.shape.iter().chain(unit.slice.shape()).copied().collect();
        let grid: Vec<usize> =
            shape.iter().zip(&self.spec.shape).map(|(n, chunk)| n.div_ceil(*chunk)).collect();
        let Encoded { bytes, chunks, .. } = &mut self.encoded;
        bytes.clear();
        chunks.clear();
        for i in 0..grid.iter().product() {
            let mut origin = unravel(i, &grid);
            for (at, chunk) in origin.iter_mut().zip(&self.spec.shape) {
                *at *= chunk;
            }
            gather(&self.block, &shape, &origin, &self.spec.shape, self.spec.size, &mut self.chunk);
            if self.spec.skips_zeros && is_zero(&self.chunk) {
                memory::push(chunks, None)?;
                continue;
            }
            let start = bytes.len();
            interrupt::check()?;
            let encoded = self.encoder.encode(&self.chunk)?;
            memory::append(bytes, encoded)?;
            if self.spec.has_checksums {
                bytes.extend(crc32c(encoded).to_le_bytes());
            }
            memory::push(chunks, Some(start..bytes.len()))?;
        }
        self.encoded.grid = grid;
        Ok(&self.encoded)
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<32>();
    words.iter().all(|word| *word == [0; 32]) && rest.iter().all(|byte| *byte == 0)
}

/// Copies the part of `block` (of shape `shape`) from `origin` on to `chunk` (of shape `lens`); what
/// lies beyond the block becomes 0.
fn gather(
    block: &[u8],
    shape: &[usize],
    origin: &[usize],
    lens: &[usize],
    size: usize,
    chunk: &mut [u8],
) {
    let inside: Vec<usize> = shape
        .iter()
        .zip(origin)
        .zip(lens)
        .map(|((n, at), len)| n.saturating_sub(*at).min(*len))
        .collect();
    if inside != lens {
        chunk.fill(0);
    }
    let (Some((n, shape)), Some((start, origin)), Some((len, lens)), Some((run, rows))) =
        (shape.split_last(), origin.split_last(), lens.split_last(), inside.split_last())
    else {
        return;
    };
    let run = run * size;
    let n_rows: usize = rows.iter().product();
    let mut place = vec![0; rows.len()];
    for _ in 0..n_rows {
        let mut from = 0;
        let mut to = 0;
        for (((at, n), start), len) in place.iter().zip(shape).zip(origin).zip(lens) {
            from = from * n + start + at;
            to = to * len + at;
        }
        let from = (from * n + start) * size;
        let to = to * len * size;
        if let (Some(from), Some(to)) = (block.get(from..from + run), chunk.get_mut(to..to + run)) {
            to.copy_from_slice(from);
        }
        for (at, n) in place.iter_mut().zip(rows).rev() {
            *at += 1;
            if *at < *n {
                break;
            }
            *at = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_copied_and_edges_filled() {
        let block: Vec<u8> = (0..24).collect();
        let mut chunk = vec![9; 8];
        gather(&block, &[2, 3, 4], &[1, 1, 2], &[1, 2, 2], 1, &mut chunk[..4]);
        assert_eq!(chunk[..4], [18, 19, 22, 23]);
        gather(&block, &[2, 3, 4], &[1, 2, 3], &[2, 2, 2], 1, &mut chunk);
        assert_eq!(chunk, [23, 0, 0, 0, 0, 0, 0, 0]);
        gather(&block, &[3, 4], &[2, 2], &[1, 2], 2, &mut chunk[..4]);
        assert_eq!(chunk[..4], [20, 21, 22, 23]);
    }
}
