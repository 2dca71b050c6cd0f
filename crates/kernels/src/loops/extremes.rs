//! Largest pixels.

use super::{STRIP, groups, stream};
use crate::cell::Real;
use framefold_core::FramesView;
use framefold_simd::{Simd, run};
use std::ops::Range;

/// Raises each of `tops` to the largest of its pixels in the frames of a tile, or NaN.
pub(crate) fn raise_frames<T: Real>(simd: Simd, frames: FramesView<'_, T>, tops: &mut [T]) {
    run!(simd, {
        for group in groups(0..frames.depth()) {
            let wide = tops.len() - tops.len() % STRIP;
            let (strips, rest) = tops.split_at_mut(wide);
            raise_strips::<T, STRIP>(frames, group.clone(), 0, strips);
            raise_strips::<T, 1>(frames, group, wide, rest);
        }
    });
}

#[inline(always)]
fn raise_strips<T: Real, const W: usize>(
    frames: FramesView<'_, T>,
    group: Range<usize>,
    first: usize,
    tops: &mut [T],
) {
    for (index, tops) in tops.as_chunks_mut::<W>().0.iter_mut().enumerate() {
        let mut highest = *tops;
        for i in group.clone() {
            let cells = stream::<T, W>(frames, i, first + index * W);
            for k in 0..W {
                highest[k] = highest[k].larger(cells[k]);
            }
        }
        *tops = highest;
    }
}

/// Raises each of `tops` to the pixel where that is larger, or NaN.
pub(crate) fn raise<T: Real>(tops: &mut [T], cells: &[T]) {
    for (top, &cell) in tops.iter_mut().zip(cells) {
        *top = top.larger(cell);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_wins_wherever_it_stands() {
        for simd in Simd::all() {
            for at in 0..40 {
                let mut cells = vec![1.0f32; 40];
                cells[at] = f32::NAN;
                let mut tops = vec![f32::NEG_INFINITY; 40];
                raise_frames(simd, FramesView::try_new(&cells, 1, 40, 40).unwrap(), &mut tops);
                let twos = [2.0; 40];
                raise_frames(simd, FramesView::try_new(&twos, 1, 40, 40).unwrap(), &mut tops);
                raise(&mut tops, &[2.0; 40]);
                assert!(tops.iter().enumerate().all(|(i, top)| top.is_nan() == (i == at)));
                assert!(tops.iter().all(|&top| top.is_nan() || top == 2.0));
            }
        }
    }

    #[test]
    fn the_largest_pixel_is_found_anywhere() {
        for simd in Simd::all() {
            for (depth, len) in [(1, 1), (31, 1), (7, 33), (17, 64)] {
                for at in 0..depth * len {
                    let mut cells = vec![5i16; depth * len];
                    cells[at] = 7;
                    let frames = FramesView::try_new(&cells, depth, len, len).unwrap();
                    let mut tops = vec![i16::MIN; len];
                    raise_frames(simd, frames, &mut tops);
                    assert!(tops.iter().enumerate().all(|(p, &top)| (top == 7) == (p == at % len)));
                }
            }
        }
    }
}
