//! LZ4 as the HDF5 filter 32004 writes it.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | decoded size, big endian |
//! | 4 | decoded size of a block, big endian; the last one may be shorter |
//! | 4, then n, for each block | stored size n, big endian; as long as decoded: not compressed |

use super::{all_of, damaged};
use framefold_core::{Error, Result};

pub(super) fn decode(stored: &[u8], out: &mut [u8]) -> Result<()> {
    let too_short = || damaged("LZ4", "it ends within a block");
    let (size, rest) = stored.split_first_chunk::<8>().ok_or_else(too_short)?;
    let (block, mut rest) = rest.split_first_chunk::<4>().ok_or_else(too_short)?;
    let size = usize::try_from(u64::from_be_bytes(*size)).unwrap_or(usize::MAX);
    all_of("LZ4", size, out.len())?;
    let block = usize::try_from(u32::from_be_bytes(*block)).unwrap_or(usize::MAX).max(1);
    for out in out.chunks_mut(block) {
        let (len, after) = rest.split_first_chunk::<4>().ok_or_else(too_short)?;
        let len = usize::try_from(u32::from_be_bytes(*len)).unwrap_or(usize::MAX);
        let (stored, after) = after.split_at_checked(len).ok_or_else(too_short)?;
        if len == out.len() {
            out.copy_from_slice(stored);
        } else {
            decode_block(stored, out)?;
        }
        rest = after;
    }
    Ok(())
}

/// One block behind its decoded size: 4 bytes, little endian.
pub(super) fn decode_sized(stored: &[u8], out: &mut [u8]) -> Result<()> {
    let Some((size, stored)) = stored.split_first_chunk::<4>() else {
        return Err(damaged("LZ4", "it is shorter than its header"));
    };
    all_of("LZ4", usize::try_from(u32::from_le_bytes(*size)).unwrap_or(usize::MAX), out.len())?;
    decode_block(stored, out)
}

/// One bare block of LZ4, decoded to just as many bytes as `out` has.
pub(super) fn decode_block(stored: &[u8], out: &mut [u8]) -> Result<()> {
    let too_large = || Error::limit("a block of LZ4 does not fit in 2 GB");
    let size = i32::try_from(out.len()).map_err(|_| too_large())?;
    i32::try_from(stored.len()).map_err(|_| too_large())?;
    let n = lz4::block::decompress_to_buffer(stored, Some(size), out);
    let n = n.map_err(|error| damaged("LZ4", &error.to_string()))?;
    all_of("LZ4", n, out.len())
}
