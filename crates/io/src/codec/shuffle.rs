//! Bytes of elements: from one plane for each byte to one element after the other.

#![expect(
    clippy::indexing_slicing,
    reason = "blocks of fixed lengths, and planes of n elements each"
)]

use framefold_simd::{Simd, run};

/// Undoes the shuffle of whole elements of `size` bytes; bytes after the last one stay as they are.
/// Both slices have the same length.
pub(super) fn unshuffle(simd: Simd, stored: &[u8], size: usize, out: &mut [u8]) {
    let n = if size < 2 { 0 } else { out.len().min(stored.len()) / size };
    if n == 0 {
        out.copy_from_slice(stored);
        return;
    }
    let (planes, rest) = stored.split_at(n * size);
    let (elements, out_rest) = out.split_at_mut(n * size);
    out_rest.copy_from_slice(rest);
    match size {
        2 => run!(simd, interleave::<2>(planes, n, elements)),
        4 => run!(simd, interleave::<4>(planes, n, elements)),
        8 => run!(simd, interleave::<8>(planes, n, elements)),
        16 => run!(simd, interleave::<16>(planes, n, elements)),
        _ => {
            for (byte, plane) in planes.chunks_exact(n).enumerate() {
                for (element, value) in elements.chunks_exact_mut(size).zip(plane) {
                    element[byte] = *value;
                }
            }
        }
    }
}

/// The same for elements of a known size.
#[inline(always)]
fn interleave<const SIZE: usize>(planes: &[u8], n: usize, out: &mut [u8]) {
    /// Elements at a time: what the compiler turns into shuffles of vectors.
    const BLOCK: usize = 64;
    let (elements, _) = out.as_chunks_mut::<SIZE>();
    let (blocks, rest) = elements.as_chunks_mut::<BLOCK>();
    let n_blocks = blocks.len();
    for (i, block) in blocks.iter_mut().enumerate() {
        let mut bytes = [[0u8; BLOCK]; SIZE];
        for (plane, bytes) in bytes.iter_mut().enumerate() {
            let start = plane * n + i * BLOCK;
            if let Some(from) = planes.get(start..).and_then(|from| from.first_chunk()) {
                *bytes = *from;
            }
        }
        for (j, element) in block.iter_mut().enumerate() {
            for (plane, bytes) in bytes.iter().enumerate() {
                element[plane] = bytes[j];
            }
        }
    }
    for (j, element) in rest.iter_mut().enumerate() {
        for (plane, byte) in element.iter_mut().enumerate() {
            *byte = planes[plane * n + n_blocks * BLOCK + j];
        }
    }
}

/// Shuffles whole elements of `size` bytes; bytes after the last one stay as they are. Both slices
/// have the same length.
pub(super) fn shuffle(simd: Simd, elements: &[u8], size: usize, out: &mut [u8]) {
    let n = if size < 2 { 0 } else { out.len().min(elements.len()) / size };
    if n == 0 {
        out.copy_from_slice(elements);
        return;
    }
    let (whole, rest) = elements.split_at(n * size);
    let (planes, out_rest) = out.split_at_mut(n * size);
    out_rest.copy_from_slice(rest);
    match size {
        2 => run!(simd, separate::<2>(whole, n, planes)),
        4 => run!(simd, separate::<4>(whole, n, planes)),
        8 => run!(simd, separate::<8>(whole, n, planes)),
        _ => {
            for (byte, plane) in planes.chunks_exact_mut(n).enumerate() {
                for (element, value) in whole.chunks_exact(size).zip(plane) {
                    *value = element[byte];
                }
            }
        }
    }
}

/// The same for elements of a known size.
#[inline(always)]
fn separate<const SIZE: usize>(elements: &[u8], n: usize, planes: &mut [u8]) {
    /// Elements at a time: what the compiler turns into shuffles of vectors.
    const BLOCK: usize = 64;
    let (elements, _) = elements.as_chunks::<SIZE>();
    let (blocks, rest) = elements.as_chunks::<BLOCK>();
    for (i, block) in blocks.iter().enumerate() {
        let mut bytes = [[0u8; BLOCK]; SIZE];
        for (j, element) in block.iter().enumerate() {
            for (plane, bytes) in bytes.iter_mut().enumerate() {
                bytes[j] = element[plane];
            }
        }
        for (plane, bytes) in bytes.iter().enumerate() {
            let start = plane * n + i * BLOCK;
            if let Some(to) = planes.get_mut(start..start + BLOCK) {
                to.copy_from_slice(bytes);
            }
        }
    }
    for (j, element) in rest.iter().enumerate() {
        for (plane, byte) in element.iter().enumerate() {
            planes[plane * n + blocks.len() * BLOCK + j] = *byte;
        }
    }
}
