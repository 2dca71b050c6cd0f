//! Sums along a row of pixels.

use crate::cell::Cell;

/// The number of independent sums of floating-point pixels: so many that the compiler keeps the
/// loop over them, and makes vectors of it, instead of unrolling it into single additions.
const SUMS: usize = 64;

/// The sum of a row of pixels.
#[inline(always)]
pub(crate) fn sum_cells<T: Cell>(cells: &[T]) -> T::Total {
    // Short enough for any block, long enough to make the folding cheap.
    const CELLS: usize = 1 << 14;
    let mut total = T::Total::default();
    for cells in cells.chunks(CELLS) {
        total += T::total(if T::DTYPE.is_integer() { any_order(cells) } else { in_lanes(cells) });
    }
    total
}

/// The sum of integers: exact, so that the compiler may choose its order.
#[inline(always)]
fn any_order<T: Cell>(cells: &[T]) -> T::Block {
    let mut sum = T::Block::default();
    for &cell in cells {
        sum += cell.block();
    }
    sum
}

/// The sum of floating-point numbers, always in the same order.
#[inline(always)]
fn in_lanes<T: Cell>(cells: &[T]) -> T::Block {
    let mut sums = [T::Block::default(); SUMS];
    let (rows, rest) = cells.as_chunks::<SUMS>();
    for row in rows {
        for (sum, &cell) in sums.iter_mut().zip(row) {
            *sum += cell.block();
        }
    }
    for (sum, &cell) in sums.iter_mut().zip(rest) {
        *sum += cell.block();
    }
    join(sums)
}

/// The sum of all, by halves: always in the same order.
#[inline(always)]
fn join<B: Copy + std::ops::AddAssign>(mut sums: [B; SUMS]) -> B {
    let mut half = SUMS / 2;
    while half > 0 {
        for k in 0..half {
            let other = sums[k + half];
            sums[k] += other;
        }
        half /= 2;
    }
    sums[0]
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
                    for n in [1, 31, 32, 33, 16_383, 16_385, 70_000] {
                        let cells = vec![value; n];
                        for simd in Simd::all() {
                            let sum = run!(simd, sum_cells(&cells));
                            assert_eq!(sum as i128, value as i128 * n as i128);
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
        let cells: Vec<f32> = (0..40_000).map(|i| (i as f32).sin()).collect();
        let plain = sum_cells(&cells);
        for simd in Simd::all() {
            let sum = run!(simd, sum_cells(&cells));
            assert_eq!(sum.to_bits(), plain.to_bits());
        }
        let naive: f64 = cells.iter().map(|&cell| f64::from(cell)).sum();
        assert!((plain - naive).abs() < 1e-10);
    }
}
