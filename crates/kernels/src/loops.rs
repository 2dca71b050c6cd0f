//! The inner loops over pixels: free functions on slices, without allocation or branches.

use crate::cell::{Cell, Real};
use framefold_core::FramesView;
use std::ops::Range;

/// The number of pixels whose sums a loop over frames keeps at hand: few enough for the
/// first-level cache, enough to read each frame in runs of some KiB.
pub(crate) const COLUMN_CELLS: usize = 1024;

/// The number of independent sums in a loop along a frame, so that additions can overlap.
const LANES: usize = 8;

/// Below this depth, adding to the totals directly beats folding blocks.
const SHALLOW: usize = 4;

/// Adds up each pixel over the frames of a tile: `totals[p] += Σ_f frame_f[p]`.
pub(crate) fn add_frames<T: Cell>(frames: FramesView<'_, T>, totals: &mut [T::Total]) {
    for (block, totals) in totals.chunks_mut(COLUMN_CELLS).enumerate() {
        let start = block * COLUMN_CELLS;
        add_columns(frames, start..start + totals.len(), totals);
    }
}

/// As [`add_frames`] for at most [`COLUMN_CELLS`] pixels of each frame.
pub(crate) fn add_columns<T: Cell>(
    frames: FramesView<'_, T>,
    cells: Range<usize>,
    totals: &mut [T::Total],
) {
    if frames.depth() < SHALLOW {
        for frame in frames.frames() {
            for (total, &cell) in totals.iter_mut().zip(&frame[cells.clone()]) {
                *total += T::total(cell.block());
            }
        }
        return;
    }
    let mut blocks = [T::Block::default(); COLUMN_CELLS];
    let blocks = &mut blocks[..totals.len()];
    let mut first = 0;
    while first < frames.depth() {
        let last = frames.depth().min(first.saturating_add(T::BLOCK_TERMS));
        blocks.fill(T::Block::default());
        for i in first..last {
            for (block, &cell) in blocks.iter_mut().zip(&frames.frame(i)[cells.clone()]) {
                *block += cell.block();
            }
        }
        for (total, &block) in totals.iter_mut().zip(blocks.iter()) {
            *total += T::total(block);
        }
        first = last;
    }
}

/// The sum of a row of pixels.
pub(crate) fn sum_cells<T: Cell>(cells: &[T]) -> T::Total {
    // Short enough for any block, long enough to make the folding cheap.
    const CELLS: usize = 4096;
    let mut total = T::Total::default();
    for cells in cells.chunks(CELLS) {
        let mut lanes = [T::Block::default(); LANES];
        let (eights, rest) = cells.as_chunks::<LANES>();
        for eight in eights {
            for (lane, &cell) in lanes.iter_mut().zip(eight) {
                *lane += cell.block();
            }
        }
        for (lane, &cell) in lanes.iter_mut().zip(rest) {
            *lane += cell.block();
        }
        total += T::total(join(lanes));
    }
    total
}

/// Raises each of `tops` to the pixel where that is larger, or NaN.
pub(crate) fn raise<T: Real>(tops: &mut [T], cells: &[T]) {
    for (top, &cell) in tops.iter_mut().zip(cells) {
        *top = top.larger(cell);
    }
}

/// The smallest pixel of a row, or NaN if there is one.
pub(crate) fn smallest<T: Real>(cells: &[T]) -> Option<T> {
    let (&first, _) = cells.split_first()?;
    let mut lanes = [first; LANES];
    let (eights, rest) = cells.as_chunks::<LANES>();
    for eight in eights {
        for (lane, &cell) in lanes.iter_mut().zip(eight) {
            *lane = lane.smaller(cell);
        }
    }
    for (lane, &cell) in lanes.iter_mut().zip(rest) {
        *lane = lane.smaller(cell);
    }
    Some(lanes.into_iter().fold(first, Real::smaller))
}

/// Lanes added in pairs, always in the same order.
fn join<B: Copy + std::ops::Add<Output = B>>(lanes: [B; LANES]) -> B {
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plain twins on the extreme values of a type, for lengths around the block sizes.
    macro_rules! extremes_are_exact {
        ($($name:ident: $type:ty),*) => {$(
            #[test]
            fn $name() {
                for value in [<$type>::MIN, <$type>::MAX] {
                    for n in [1, 7, 8, 255, 256, 257, 4095, 4097, 70_000] {
                        let cells = vec![value; n];
                        let wide = value as i128;
                        assert_eq!(sum_cells(&cells) as i128, wide * n as i128);
                        // The same values as frames of one pixel and as frames of seven.
                        for len in [1, 7] {
                            let depth = n.div_ceil(len);
                            let cells = vec![value; depth * len];
                            let frames = FramesView::try_new(&cells, depth, len, len).unwrap();
                            let mut totals = vec![Default::default(); len];
                            add_frames(frames, &mut totals);
                            assert!(totals.iter().all(|&t| t as i128 == wide * depth as i128));
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
    fn nan_wins_wherever_it_stands() {
        for at in 0..20 {
            let mut cells = vec![1.0f32; 20];
            cells[at] = f32::NAN;
            assert!(smallest(&cells).unwrap().is_nan());
            let mut tops = vec![f32::INFINITY; 20];
            raise(&mut tops, &cells);
            raise(&mut tops, &[2.0; 20]);
            assert!(tops.iter().enumerate().all(|(i, top)| top.is_nan() == (i == at)));
        }
    }

    #[test]
    fn the_smallest_pixel_is_found_anywhere() {
        for n in [1, 8, 9, 30] {
            for at in 0..n {
                let mut cells = vec![5i16; n];
                cells[at] = -3;
                assert_eq!(smallest(&cells), Some(-3));
            }
        }
        assert_eq!(smallest::<u8>(&[]), None);
    }
}
