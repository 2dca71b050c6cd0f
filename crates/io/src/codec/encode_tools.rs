//! Compressors, and what encoders of several kinds share.

use framefold_core::{Error, Result, memory};
use framefold_simd::Simd;

/// What encoders keep from chunk to chunk.
pub(super) struct EncodeTools {
    pub(super) simd: Simd,
    pub(super) deflate: Option<libdeflater::Compressor>,
    pub(super) zstd: Option<zstd::bulk::Compressor<'static>>,
    /// Blocks on their way.
    pub(super) planes: Vec<u8>,
    pub(super) bits: Vec<u8>,
}

impl EncodeTools {
    pub(super) fn new() -> Self {
        EncodeTools {
            simd: Simd::best(),
            deflate: None,
            zstd: None,
            planes: Vec::new(),
            bits: Vec::new(),
        }
    }

    pub(super) fn deflate(&mut self, input: &[u8], gzip: bool, out: &mut Vec<u8>) -> Result<()> {
        let compressor = self.deflate.as_mut().ok_or_else(|| Error::bug("no deflate"))?;
        let (bound, done);
        if gzip {
            bound = compressor.gzip_compress_bound(input.len());
            memory::resize(out, bound, 0)?;
            done = compressor.gzip_compress(input, out);
        } else {
            bound = compressor.zlib_compress_bound(input.len());
            memory::resize(out, bound, 0)?;
            done = compressor.zlib_compress(input, out);
        }
        let n = done.map_err(|error| Error::bug(format!("deflate: {error}")))?;
        out.truncate(n);
        Ok(())
    }

    /// Appends a Zstandard frame.
    pub(super) fn zstd(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let compressor = self.zstd.as_mut().ok_or_else(|| Error::bug("no Zstandard"))?;
        let start = out.len();
        memory::resize(out, start + zstd::zstd_safe::compress_bound(input.len()), 0)?;
        let n = compressor
            .compress_to_buffer(input, out.get_mut(start..).unwrap_or_default())
            .map_err(|error| Error::io("compress with Zstandard", error))?;
        out.truncate(start + n);
        Ok(())
    }

    /// Appends a block of LZ4.
    pub(super) fn lz4(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<()> {
        let failed = |error| Error::io("compress with LZ4", error);
        let bound = lz4::block::compress_bound(input.len()).map_err(failed)?;
        let start = out.len();
        memory::resize(out, start + bound, 0)?;
        let room = out.get_mut(start..).unwrap_or_default();
        let n = lz4::block::compress_to_buffer(input, None, false, room).map_err(failed)?;
        out.truncate(start + n);
        Ok(())
    }
}
