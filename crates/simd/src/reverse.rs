//! Copies elements in reverse order.

use crate::{Simd, run};

/// Elements that are loaded before any is stored: a vector or two of those that are turned often.
const BLOCK: usize = 16;

/// Writes the elements of `from` to `out`, the last one first, for elements of `size` bytes: 1, 2,
/// 4, 8 or 16. `None`, and nothing written, if it is another size, one is longer than the other, or
/// they end within an element.
// Not generic: a generic one would be compiled where it is used, with the checks of that crate.
pub fn reverse(simd: Simd, size: usize, from: &[u8], out: &mut [u8]) -> Option<()> {
    match size {
        1 => elements::<1>(simd, from, out),
        2 => elements::<2>(simd, from, out),
        4 => elements::<4>(simd, from, out),
        8 => elements::<8>(simd, from, out),
        16 => elements::<16>(simd, from, out),
        _ => None,
    }
}

fn elements<const SIZE: usize>(simd: Simd, from: &[u8], out: &mut [u8]) -> Option<()> {
    let ((from, rest), (out, _)) = (from.as_chunks::<SIZE>(), out.as_chunks_mut::<SIZE>());
    if from.len() != out.len() || !rest.is_empty() {
        return None;
    }
    run!(simd, copy(from, out));
    Some(())
}

#[inline(always)]
fn copy<const SIZE: usize>(from: &[[u8; SIZE]], out: &mut [[u8; SIZE]]) {
    let (first, from) = from.as_rchunks::<BLOCK>();
    let (out, last) = out.as_chunks_mut::<BLOCK>();
    for (out, from) in out.iter_mut().zip(from.iter().rev()) {
        let mut block = *from;
        block.reverse();
        *out = block;
    }
    for (out, from) in last.iter_mut().zip(first.iter().rev()) {
        *out = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const SIZE: usize>() {
        for n in [0, 1, 7, 15, 16, 17, 31, 32, 100] {
            let from: Vec<u8> = (0..n * SIZE).map(|i| (i * i / 3 + i) as u8).collect();
            let expected: Vec<u8> = from.chunks(SIZE).rev().flatten().copied().collect();
            for simd in Simd::all() {
                let mut out = vec![0xAA; n * SIZE];
                reverse(simd, SIZE, &from, &mut out).unwrap();
                assert!(out == expected, "{simd:?}, {n} of {SIZE} bytes");
            }
        }
    }

    #[test]
    fn every_level_puts_the_last_element_first() {
        check::<1>();
        check::<2>();
        check::<4>();
        check::<8>();
        check::<16>();
    }

    #[test]
    fn lengths_that_do_not_fit_are_refused() {
        let run = |n, n_out| reverse(Simd::best(), 2, &vec![0; n], &mut vec![0; n_out]);
        assert!(run(64, 64).is_some());
        assert!(run(64, 62).is_none());
        assert!(run(63, 62).is_none());
    }
}
