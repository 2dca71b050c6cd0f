//! The sums of a small frame, whose columns are added up in registers.
//!
//! Loading and storing the sums of columns takes longer than adding up what few rows have. Here the
//! sums of some columns stay in registers for all rows, and columns meet once per frame. Sums of
//! integers have the same bits in any order; others are not added up here.

use super::columns::FrameSums;
use super::mass::{ColumnSum, Mass, Moment};
use framefold_simd::prefetch;

/// Columns whose sums are in registers.
const LANES: usize = 16;

/// The most rows and columns: so many pixels of 16 bits, each times its row or column, add up to 31
/// bits in each lane.
const SIDE: usize = 64;
const _: () = assert!(SIDE * (SIDE - 1) / 2 * (SIDE / LANES) < 1 << 15);
const _: () = assert!(SIDE * (SIDE - 1) * (SIDE / LANES) < 1 << 16);

/// Whether whole frames, or parts of frames, of such a shape can be added up here.
pub(crate) fn are_small<T: Mass>(rows: usize, width: usize) -> bool {
    // Sums of 32 bits are those of integers.
    size_of::<T::Sum>() == 4 && rows <= SIDE && width <= SIDE && width.is_multiple_of(LANES)
}

/// The sums over `cells`, in rows of `width` pixels, the first of them in row `first_row` and
/// column `first_column`. The cells of the next frame, if any, are asked for meanwhile.
#[inline(always)]
pub(crate) fn add_up<T: Mass>(
    cells: &[T],
    ahead: &[T],
    width: usize,
    [first_row, first_column]: [usize; 2],
) -> FrameSums<<T::Sum as ColumnSum>::Moment> {
    let mut plain = [T::Sum::default(); LANES];
    let mut by_row = [T::Sum::default(); LANES];
    let mut by_column = [T::Sum::default(); LANES];
    for column in (0..width).step_by(LANES) {
        let (sum, sum_of_sums) = add_columns(cells, ahead, width, column);
        for k in 0..LANES {
            plain[k] += sum[k];
            by_row[k] += sum_of_sums[k];
            by_column[k] += sum[k] * T::Sum::rows((column + k) as u16);
        }
    }
    let plain = total(&plain);
    let (mut by_row, mut by_column) = (total(&by_row), total(&by_column));
    by_row += plain.times(first_row);
    by_column += plain.times(first_column);
    FrameSums { plain, by_row, by_column }
}

/// The sums of the columns from `column` on, of pixels and of pixels times row.
#[inline(always)]
fn add_columns<T: Mass>(
    cells: &[T],
    ahead: &[T],
    width: usize,
    column: usize,
) -> ([T::Sum; LANES], [T::Sum; LANES]) {
    let mut sum = [T::Sum::default(); LANES];
    let mut sum_of_sums = [T::Sum::default(); LANES];
    // From the last row up, each row counts once in every running sum that follows.
    for at in (column..cells.len()).step_by(width).rev() {
        if let Some(next) = ahead.get(at..at + LANES) {
            prefetch(next);
        }
        let Some(row) = cells[at..].first_chunk::<LANES>() else { continue };
        for k in 0..LANES {
            sum_of_sums[k] += sum[k];
            sum[k] += T::sum(row[k].mass());
        }
    }
    (sum, sum_of_sums)
}

/// All lanes together.
#[inline(always)]
fn total<S: ColumnSum>(lanes: &[S; LANES]) -> S::Moment {
    let mut total = S::Fold::default();
    for lane in lanes {
        total += lane.fold();
    }
    S::moment(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_simd::{Simd, run};

    fn check<T: Mass + Into<i128>>(cells: impl Fn(usize) -> T)
    where
        <T::Sum as ColumnSum>::Moment: Into<i128>,
    {
        for [rows, width] in [[1, 16], [5, 16], [16, 48], [SIDE, SIDE]] {
            assert!(are_small::<T>(rows, width));
            let cells: Vec<T> = (0..rows * width).map(&cells).collect();
            let sum = |weight: &dyn Fn(usize) -> usize| -> i128 {
                let weighed = cells.iter().enumerate();
                weighed.map(|(i, &cell)| cell.into() * weight(i) as i128).sum()
            };
            let expected = [sum(&|_| 1), sum(&|i| 3 + i / width), sum(&|i| 1000 + i % width)];
            for simd in Simd::all() {
                for ahead in [&[][..], &cells[..7], &cells] {
                    let FrameSums { plain, by_row, by_column } =
                        run!(simd, add_up(&cells, ahead, width, [3, 1000]));
                    let found = [plain.into(), by_row.into(), by_column.into()];
                    assert_eq!(found, expected, "{rows} {width} {simd:?}");
                }
            }
        }
    }

    #[test]
    fn sums_are_exact() {
        check(|i| (i * 7919 % 256) as u8);
        check(|i| (i * 7919) as i8);
        check(|i| (i * 7919) as u16);
        check(|i| (i * 7919) as i16);
    }

    #[test]
    fn extremes_fit_their_lanes() {
        check(|_| u8::MAX);
        check(|_| i8::MIN);
        check(|_| u16::MAX);
        check(|_| i16::MIN);
        check(|_| i16::MAX);
    }

    #[test]
    fn other_shapes_and_numbers_are_left_to_others() {
        assert!(!are_small::<u16>(SIDE + 1, 16));
        assert!(!are_small::<u16>(16, SIDE + LANES));
        assert!(!are_small::<u16>(16, 17));
        assert!(!are_small::<f32>(16, 16) && !are_small::<u32>(16, 16));
    }
}
