//! Planes of bytes to planes of bits with AVX2.

use std::arch::x86_64::*;

/// One plane of bytes to eight planes of bits, as far as there are 32 bytes at a time; says how
/// many groups of 8 that were.
#[expect(
    clippy::indexing_slicing,
    reason = "bits has eight rows, of a bit for each byte of the plane"
)]
#[target_feature(enable = "avx2")]
pub(super) fn separate(plane: &[u8], bits: &mut [u8]) -> usize {
    let row = plane.len() / 8;
    let (blocks, _) = plane.as_chunks::<32>();
    for (i, block) in blocks.iter().enumerate() {
        // SAFETY: a block has 32 bytes.
        let mut v = unsafe { _mm256_loadu_si256(block.as_ptr().cast()) };
        for bit in (0..8).rev() {
            // The highest bit of each byte; then the next one is moved there.
            let word = _mm256_movemask_epi8(v).to_le_bytes();
            let start = bit * row + 4 * i;
            bits[start..start + 4].copy_from_slice(&word);
            v = _mm256_add_epi8(v, v);
        }
    }
    4 * blocks.len()
}
