//! How many bytes stored ones can decode to at most: a chunk that claims more is damaged, or made to
//! exhaust the memory, and is refused before any is taken.

use super::{Filter, Inner, Pipeline, damaged};
use framefold_core::Result;

/// Bytes that one stored byte can stand for.
const DEFLATE: usize = 1032;
/// A reference of three bytes repeats up to 264.
const LZF: usize = 88;
/// A length goes on by 255 with each byte.
const LZ4: usize = 255;
/// A block of four bytes repeats one of them up to 128 KiB.
const ZSTD: usize = 1 << 15;
/// A code of nine bits or more stands for a string that is no longer than the table.
const LZW: usize = 1 << 12;
/// A count and a byte stand for up to 128.
const PACK_BITS: usize = 64;
/// A block of some thirty bytes or more holds 900 kB, in which five bytes stand for up to 259.
const BZIP2: usize = 1 << 21;
/// A repetition of 273 bytes takes a third of a bit at the least.
const LZMA: usize = 1 << 14;
/// What is lost by rounding, for short chunks.
const SLACK: usize = 1 << 10;

impl Pipeline {
    /// Refuses stored bytes that are too few to decode to `decoded`; bit `i` of `mask` says that
    /// filter `i` was left out.
    ///
    /// # Errors
    /// `BadFile`.
    pub(crate) fn check_reach(&self, mask: u32, stored: usize, decoded: usize) -> Result<()> {
        let mut reach = stored;
        for (i, filter) in self.0.iter().enumerate().rev() {
            if i < 32 && mask >> i & 1 == 1 {
                continue;
            }
            let Some(ratio) = filter.ratio() else { return Ok(()) };
            if ratio > 1 {
                reach = reach.saturating_mul(ratio).saturating_add(SLACK);
            }
        }
        if decoded <= reach {
            return Ok(());
        }
        Err(damaged(
            "the filters",
            &format!("{stored} bytes cannot become the {decoded} that the chunk's shape needs"),
        ))
    }
}

impl Filter {
    /// The most bytes that each stored byte can decode to; `None` if there is no such number.
    fn ratio(&self) -> Option<usize> {
        Some(match self {
            Filter::Shuffle { .. }
            | Filter::Fletcher32
            | Filter::Crc32c
            | Filter::Predict(_)
            | Filter::Bitshuffle { inner: Inner::Nothing, .. } => 1,
            Filter::Delta(delta) => delta.ratio(),
            Filter::Recast(recast) => recast.ratio(),
            Filter::Bits => 8,
            Filter::Unpack(unpack) => unpack.ratio(),
            Filter::Bzip2 => BZIP2,
            Filter::Lzma(_) => LZMA,
            Filter::Deflate | Filter::Gzip => DEFLATE,
            Filter::Lzf => LZF,
            Filter::Lzw => LZW,
            Filter::PackBits => PACK_BITS,
            Filter::Lz4 | Filter::SizedLz4 | Filter::Bitshuffle { inner: Inner::Lz4, .. } => LZ4,
            // Blosc holds any compressor, among them Zstandard.
            Filter::Zstd | Filter::Blosc | Filter::Bitshuffle { inner: Inner::Zstd, .. } => ZSTD,
            // Elements that are all the same take no bits.
            Filter::Library(..) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Buffers;

    fn zeros_by_deflate(n: usize) -> Vec<u8> {
        let mut deflate = libdeflater::Compressor::new(libdeflater::CompressionLvl::best());
        let mut stored = vec![0; deflate.zlib_compress_bound(n)];
        let len = deflate.zlib_compress(&vec![0; n], &mut stored).unwrap();
        stored.truncate(len);
        stored
    }

    fn decodes(filter: Filter, stored: &[u8], n: usize) {
        let pipeline = Pipeline(vec![Filter::Shuffle { size: 2 }, filter]);
        let mut out = vec![7; n];
        pipeline.decode(0, stored, &mut out, &mut Buffers::new()).unwrap();
        assert!(out.iter().all(|&byte| byte == 0));
        pipeline.check_reach(0, stored.len(), n).unwrap();
    }

    #[test]
    fn what_compresses_best_is_within_reach() {
        for n in [2, 1000, 1 << 16, 1 << 22] {
            decodes(Filter::Deflate, &zeros_by_deflate(n), n);
            decodes(Filter::Zstd, &zstd::bulk::compress(&vec![0; n], 19).unwrap(), n);
            let mut sized = u32::try_from(n).unwrap().to_le_bytes().to_vec();
            sized.extend(lz4::block::compress(&vec![0; n], None, false).unwrap());
            decodes(Filter::SizedLz4, &sized, n);
        }
    }

    #[test]
    fn what_is_beyond_reach_is_refused() {
        let limits = [(Filter::Deflate, DEFLATE), (Filter::Lzf, LZF), (Filter::Zstd, ZSTD)];
        for (filter, ratio) in limits {
            let pipeline = Pipeline(vec![filter, Filter::Fletcher32]);
            assert!(pipeline.check_reach(0, 100, 100 * ratio).is_ok());
            let error = pipeline.check_reach(0, 100, 101 * ratio + SLACK).unwrap_err();
            assert!(error.message().contains("100 bytes cannot become"), "{error}");
            // Left out, the filter reaches nothing.
            assert!(pipeline.check_reach(1, 100, 101).is_err());
            assert!(pipeline.check_reach(1, 100, 100).is_ok());
        }
    }
}
