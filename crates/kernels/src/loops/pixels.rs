//! Sums of each pixel over frames.

use super::{STRIP, groups, stream};
use crate::cell::Cell;
use framefold_core::FramesView;
use framefold_simd::{Simd, run};
use std::ops::Range;

/// Adds up each pixel over some frames of a tile: `sums[p] += Σ_f frame_f[p]`.
///
/// The caller keeps count: no block gets more than [`Cell::BLOCK_TERMS`] pixels.
pub(crate) fn add_frames<T: Cell>(
    simd: Simd,
    frames: FramesView<'_, T>,
    which: Range<usize>,
    sums: &mut [T::Block],
) {
    run!(simd, {
        for group in groups(which) {
            let wide = sums.len() - sums.len() % STRIP;
            let (strips, rest) = sums.split_at_mut(wide);
            add_strips::<T, STRIP>(frames, group.clone(), 0, strips);
            add_strips::<T, 1>(frames, group, wide, rest);
        }
    });
}

/// As [`add_frames`] for a group of frames and the pixels from `first` on, in strips of `W`.
#[inline(always)]
fn add_strips<T: Cell, const W: usize>(
    frames: FramesView<'_, T>,
    group: Range<usize>,
    first: usize,
    sums: &mut [T::Block],
) {
    for (index, sums) in sums.as_chunks_mut::<W>().0.iter_mut().enumerate() {
        let mut blocks = [T::Block::default(); W];
        for i in group.clone() {
            let cells = stream::<T, W>(frames, i, first + index * W);
            for k in 0..W {
                blocks[k] += cells[k].block();
            }
        }
        for k in 0..W {
            sums[k] += blocks[k];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Exact on the extreme values of a type, for lengths around the sizes of strips and groups.
    macro_rules! extremes_are_exact {
        ($($name:ident: $type:ty),*) => {$(
            #[test]
            fn $name() {
                for simd in Simd::all() {
                    for value in [<$type>::MIN, <$type>::MAX] {
                        for (depth, len) in [(1, 1), (7, 31), (8, 32), (9, 33), (70, 100)] {
                            let cells = vec![value; depth * (len + 1)];
                            let frames = FramesView::try_new(&cells, depth, len, len + 1).unwrap();
                            let mut sums = vec![Default::default(); len];
                            add_frames::<$type>(simd, frames, 0..frames.depth(), &mut sums);
                            let expected = value as i128 * depth as i128;
                            assert!(sums.iter().all(|&sum| sum as i128 == expected));
                        }
                    }
                }
            }
        )*};
    }
    extremes_are_exact!(
        u8_extremes: u8, u16_extremes: u16, u32_extremes: u32, u64_extremes: u64,
        i8_extremes: i8, i16_extremes: i16, i32_extremes: i32, i64_extremes: i64
    );

    #[test]
    fn every_level_gives_the_same_bits() {
        let cells: Vec<f32> = (0..3000).map(|i| (i as f32).sin()).collect();
        let frames = FramesView::try_new(&cells, 30, 97, 100).unwrap();
        let sums = |simd| {
            let mut sums = vec![0.0; 97];
            add_frames::<f32>(simd, frames, 0..frames.depth(), &mut sums);
            sums.into_iter().map(f64::to_bits).collect::<Vec<_>>()
        };
        let plain = sums(Simd::plain());
        assert!(Simd::all().into_iter().all(|simd| sums(simd) == plain));
        let naive: f64 = frames.frames().map(|frame| f64::from(frame[96])).sum();
        assert!((f64::from_bits(plain[96]) - naive).abs() < 1e-13);
    }
}
