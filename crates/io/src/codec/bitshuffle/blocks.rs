//! The blocks of a chunk, without decoding them.

use super::GROUP;
use std::ops::Range;

/// Bytes of a block where nothing else is said.
const DEFAULT_BLOCK_BYTES: usize = 8192;

/// What a chunk of bitshuffle with LZ4 should be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    /// Bytes of an element.
    pub(crate) size: usize,
    /// Bytes of a block of pixels, but for the last one.
    pub(crate) block_bytes: usize,
    /// Bytes of all pixels.
    pub(crate) decoded: usize,
}

/// Bytes of a block of `block` elements of `size` bytes, or of the default, a multiple of whole groups,
/// if that is 0.
pub(crate) fn block_bytes(size: usize, block: usize) -> usize {
    let default = (DEFAULT_BLOCK_BYTES / size.max(1) / GROUP * GROUP).max(128);
    (if block == 0 { default } else { block }).saturating_mul(size.max(1))
}

/// Calls `found` with the place of each block of `stored`, and of what is left, in order. `None` if it is
/// not what it should be, or `found` says so.
pub(crate) fn blocks(
    stored: &[u8],
    expected: Blocks,
    mut found: impl FnMut(Range<usize>) -> Option<()>,
) -> Option<()> {
    let Blocks { size, block_bytes, decoded } = expected;
    let (claimed, rest) = stored.split_first_chunk::<8>()?;
    let (block, rest) = rest.split_first_chunk::<4>()?;
    let as_expected = u64::try_from(decoded) == Ok(u64::from_be_bytes(*claimed))
        && u32::try_from(block_bytes) == Ok(u32::from_be_bytes(*block));
    let group = size.checked_mul(GROUP)?;
    let left = decoded.checked_rem(group)?;
    if !as_expected || block_bytes == 0 || !block_bytes.is_multiple_of(group) {
        return None;
    }
    let mut at = stored.len() - rest.len();
    for _ in 0..(decoded - left).div_ceil(block_bytes) {
        let len = stored.get(at..)?.first_chunk::<4>()?;
        at += len.len();
        let end = at.checked_add(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
        found(at..end)?;
        at = end;
    }
    if stored.len().checked_sub(at)? != left {
        return None;
    }
    if left > 0 { found(at..stored.len()) } else { Some(()) }
}

#[cfg(test)]
mod tests {
    use super::super::{decode, encode};
    use super::*;
    use crate::codec::encode_tools::EncodeTools;
    use crate::codec::{Buffers, Inner};
    use proptest::prelude::*;

    /// What is found in a chunk, if anything is.
    fn found(stored: &[u8], size: usize, decoded: usize) -> Option<Vec<Range<usize>>> {
        let mut all = Vec::new();
        let expected = Blocks { size, block_bytes: block_bytes(size, 0), decoded };
        blocks(stored, expected, |place| {
            all.push(place);
            Some(())
        })?;
        Some(all)
    }

    proptest! {
        #[test]
        fn blocks_are_where_the_decoder_finds_them(
            pixels in prop::collection::vec(0u8..4, 1..40_000),
            size in prop::sample::select(vec![1usize, 2, 4, 8, 16]),
            cut in any::<prop::sample::Index>(),
            byte in any::<u8>(),
        ) {
            let mut stored = Vec::new();
            encode(&pixels, size, &mut stored, &mut EncodeTools::new()).unwrap();
            let all = found(&stored, size, pixels.len()).unwrap();
            let rest = pixels.len() % (8 * size);
            let n = (pixels.len() - rest).div_ceil(block_bytes(size, 0)) + usize::from(rest > 0);
            prop_assert_eq!(all.len(), n);
            prop_assert_eq!(all.last().unwrap().end, stored.len());
            if rest > 0 {
                prop_assert_eq!(&stored[all[n - 1].clone()], &pixels[pixels.len() - rest..]);
            }
            // What it accepts of damaged chunks is in bounds, and what it refuses does not decode.
            let cut = cut.index(stored.len());
            for mut damaged in [stored[..cut].to_vec(), stored.clone()] {
                if let Some(at) = damaged.get_mut(cut) {
                    *at = byte;
                }
                match found(&damaged, size, pixels.len()) {
                    Some(all) => for place in all {
                        prop_assert!(damaged.get(place).is_some());
                    },
                    None => {
                        let mut out = vec![0; pixels.len()];
                        let tools = &mut Buffers::new().tools;
                        let read = decode(&damaged, size, 0, Inner::Lz4, &mut out, tools);
                        // Another size of blocks is one that the decoder takes.
                        prop_assert!(read.is_err() || damaged[8..12] != stored[8..12]);
                    }
                }
            }
        }
    }
}
