//! Loops along a row of pixels.

use crate::cell::{Cell, Real};

/// The number of independent results: as many as fill four vectors of the widest kind.
const LANES: usize = 32;

/// What is read in one go: short enough for any block of sums, long enough to be read in streams.
const CHUNK_BYTES: usize = 1 << 16;

/// The sum of a row of pixels.
#[inline(always)]
pub(crate) fn sum_cells<T: Cell>(cells: &[T]) -> T::Total {
    const { assert!(CHUNK_BYTES / size_of::<T>() <= T::BLOCK_TERMS) };
    let mut total = T::Total::default();
    for cells in cells.chunks(CHUNK_BYTES / size_of::<T>()) {
        let lanes = fold_lanes(
            cells,
            T::Block::default(),
            #[inline(always)]
            |sum, cell| sum + cell.block(),
        );
        total += T::total(join(
            lanes,
            #[inline(always)]
            |a, b| a + b,
        ));
    }
    total
}

/// As [`sum_cells`], and fast where there are only a few.
#[inline(always)]
pub(crate) fn sum_few<T: Cell>(cells: &[T]) -> T::Total {
    if cells.len() > 2 * LANES {
        return sum_cells(cells);
    }
    T::total(cells.iter().fold(T::Block::default(), |sum, cell| sum + cell.block()))
}

/// The smallest pixel of a row, or NaN if there is one.
#[inline(always)]
pub(crate) fn smallest<T: Real>(cells: &[T]) -> Option<T> {
    let (&first, _) = cells.split_first()?;
    Some(join(fold_lanes(cells, first, T::smaller), T::smaller))
}

/// Results for every pixel in [`LANES`], each starting from `start`.
///
/// Memory is faster when several of its pages are read at the same time, so long rows are read as
/// several streams side by side. The order follows from the length alone.
#[inline(always)]
fn fold_lanes<T: Copy, A: Copy>(cells: &[T], start: A, add: impl Fn(A, T) -> A) -> [A; LANES] {
    const PAGE: usize = 1 << 12;
    let (rows, rest) = cells.as_chunks::<LANES>();
    // The function returns its lanes, and does not update those of its caller, so that they are
    // kept in registers: for the rest, they have to be in memory.
    let mut lanes = match size_of_val(cells) / PAGE {
        0..4 => fold_streams::<T, A, 1>(rows, start, &add),
        4..8 => fold_streams::<T, A, 4>(rows, start, &add),
        _ => fold_streams::<T, A, 8>(rows, start, &add),
    };
    for (lane, &cell) in lanes.iter_mut().zip(rest) {
        *lane = add(*lane, cell);
    }
    lanes
}

#[inline(always)]
fn fold_streams<T: Copy, A: Copy, const STREAMS: usize>(
    rows: &[[T; LANES]],
    start: A,
    add: impl Fn(A, T) -> A,
) -> [A; LANES] {
    let mut lanes = [start; LANES];
    let len = rows.len() / STREAMS;
    let (streams, rest) = rows.split_at(len * STREAMS);
    for i in 0..len {
        for stream in 0..STREAMS {
            let row = &streams[stream * len + i];
            for k in 0..LANES {
                lanes[k] = add(lanes[k], row[k]);
            }
        }
    }
    for row in rest {
        for k in 0..LANES {
            lanes[k] = add(lanes[k], row[k]);
        }
    }
    lanes
}

/// All lanes as one, by halves: always in the same order.
#[inline(always)]
fn join<A: Copy>(mut lanes: [A; LANES], add: impl Fn(A, A) -> A) -> A {
    let mut half = LANES / 2;
    while half > 0 {
        for k in 0..half {
            lanes[k] = add(lanes[k], lanes[k + half]);
        }
        half /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_simd::{Simd, run};

    /// Exact on the extreme values of a type, for lengths around the block sizes.
    macro_rules! extremes_are_exact {
        ($($name:ident: $type:ty),*) => {$(
            #[test]
            fn $name() {
                for value in [<$type>::MIN, <$type>::MAX] {
                    for n in [1, 31, 32, 33, 2_100, 16_383, 16_385, 40_000, 70_000, 140_000] {
                        let cells = vec![value; n];
                        for simd in Simd::all() {
                            let sum = run!(simd, sum_cells(&cells));
                            assert_eq!(sum as i128, value as i128 * n as i128);
                            assert_eq!(run!(simd, sum_few(&cells)), sum);
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
        let cells: Vec<f32> = (0..40_100).map(|i| (i as f32).sin()).collect();
        let plain = sum_cells(&cells);
        for simd in Simd::all() {
            let sum = run!(simd, sum_cells(&cells));
            assert_eq!(sum.to_bits(), plain.to_bits());
        }
        let naive: f64 = cells.iter().map(|&cell| f64::from(cell)).sum();
        assert!((plain - naive).abs() < 1e-10);
    }

    #[test]
    fn the_smallest_pixel_is_found_anywhere() {
        for simd in Simd::all() {
            for n in [1usize, 31, 33, 100, 9_000, 20_000] {
                for at in (0..n).step_by(n.div_ceil(100)).chain([n - 1]) {
                    let mut cells = vec![5i16; n];
                    cells[at] = -3;
                    assert_eq!(run!(simd, smallest(&cells)), Some(-3));
                    let mut cells = vec![5.0f32; n];
                    cells[at] = f32::NAN;
                    assert!(run!(simd, smallest(&cells)).unwrap().is_nan());
                }
            }
        }
        assert_eq!(smallest::<u8>(&[]), None);
    }
}
