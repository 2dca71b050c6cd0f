//! The sums of the columns of a frame, from which its centre of mass follows.
//!
//! A centre of mass needs three sums over a frame: of the pixels, of pixels times row and of pixels
//! times column. Here each column is summed first, with and without the distance of each pixel from
//! the first row: two additions per pixel, none of them between columns. What depends on the column
//! comes once per frame. No sum of floating-point numbers is split into lanes, so results have the
//! same bits whatever the width of the vectors.

use super::mass::{ColumnSum, FOLD_COLUMNS, Mass, Moment};
use super::rectangles::{ROWS, Rectangle};
use framefold_core::{Result, memory};
use framefold_simd::prefetch;

/// Sums over a frame: of the pixels, of pixels times row, and of pixels times column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct FrameSums<M> {
    pub(crate) plain: M,
    pub(crate) by_row: M,
    pub(crate) by_column: M,
}

/// The sums of each column of a band.
#[derive(Default)]
pub(crate) struct Columns<S> {
    plain: Vec<S>,
    /// Of the pixels times their distance from the first row.
    by_row: Vec<S>,
}

/// What to look at in at most [`super::mass::BAND_ROWS`] rows.
pub(crate) struct Band {
    /// The first of its rows, counted over the frame.
    pub(crate) first_row: usize,
    /// Whether all of its pixels count.
    pub(crate) is_whole: bool,
    /// Their rows are counted from the first of the band.
    pub(crate) rectangles: Vec<Rectangle>,
}

impl<S: ColumnSum> Columns<S> {
    /// Makes room for the sums of `width` columns, so that [`Columns::add_band`] needs none.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them.
    pub(crate) fn make_room(&mut self, width: usize) -> Result<()> {
        memory::resize(&mut self.plain, width, S::default())?;
        memory::resize(&mut self.by_row, width, S::default())
    }

    /// The sums over the pixels of a band: `cells` are its rows, of `width` pixels each, the first
    /// of which is in column `first_column`.
    #[inline(always)]
    pub(crate) fn add_band<T: Mass<Sum = S>>(
        &mut self,
        band: &Band,
        cells: &[T],
        width: usize,
        first_column: usize,
    ) -> FrameSums<S::Moment> {
        self.plain.clear();
        self.plain.resize(width, S::default());
        self.by_row.clear();
        self.by_row.resize(width, S::default());
        for Rectangle { row, gap, columns } in &band.rectangles {
            let start = row * width + columns.start;
            let plain = &mut self.plain[columns.clone()];
            let by_row = &mut self.by_row[columns.clone()];
            let distance = S::rows(*row as u16);
            if let Some(gap) = *gap {
                add_rows(&cells[start..], width, gap, distance, plain, by_row);
            } else {
                add_row(&cells[start..start + plain.len()], distance, plain, by_row);
            }
        }
        self.fold(band.first_row, first_column)
    }

    /// The sums over the band, given its first row and column.
    #[inline(always)]
    fn fold(&self, first_row: usize, first_column: usize) -> FrameSums<S::Moment> {
        let mut sums = FrameSums::<S::Moment>::default();
        let parts = self.plain.chunks(FOLD_COLUMNS).zip(self.by_row.chunks(FOLD_COLUMNS));
        for (part, (plain, by_row)) in parts.enumerate() {
            let plain_sum = S::moment(sum_of(plain, |_, sum| sum.fold()));
            sums.plain += plain_sum;
            sums.by_row += S::moment(sum_of(by_row, |_, sum| sum.fold()));
            sums.by_column += S::moment(sum_of(plain, |i, sum| sum.fold() * S::columns(i)));
            sums.by_column += plain_sum.times(first_column + part * FOLD_COLUMNS);
        }
        sums.by_row += sums.plain.times(first_row);
        sums
    }
}

impl<M: Moment> FrameSums<M> {
    /// Adds the sums over another part of the frame.
    pub(crate) fn add(&mut self, other: FrameSums<M>) {
        self.plain += other.plain;
        self.by_row += other.by_row;
        self.by_column += other.by_column;
    }
}

/// Adds [`ROWS`] rows, which lie `gap` rows of `width` pixels apart, the first of them at
/// `distance`.
#[inline(always)]
fn add_rows<T: Mass>(
    cells: &[T],
    width: usize,
    gap: usize,
    distance: T::Sum,
    plain: &mut [T::Sum],
    by_row: &mut [T::Sum],
) {
    /// Few enough columns to ask for the memory of the next ones between them.
    const COLUMNS: usize = 128;
    let ahead = ahead::<T>(width, gap);
    let weight = T::Sum::rows(gap as u16);
    let parts = plain.chunks_mut(COLUMNS).zip(by_row.chunks_mut(COLUMNS));
    for (part, (plain, by_row)) in parts.enumerate() {
        let n = plain.len();
        let by_row = &mut by_row[..n];
        let start = |row: usize| row * gap * width + part * COLUMNS;
        for row in 0..ROWS {
            let next = start(row) + ahead;
            prefetch(cells.get(next..next + n).unwrap_or_default());
        }
        let rows: [&[T]; ROWS] = std::array::from_fn(|row| &cells[start(row)..start(row) + n]);
        for i in 0..n {
            // From the last row up, each row counts once in every running sum that follows.
            let mut sum = rows[ROWS - 1][i].mass();
            let mut sum_of_sums = sum;
            for row in rows[1..ROWS - 1].iter().rev() {
                sum += row[i].mass();
                sum_of_sums += sum;
            }
            sum += rows[0][i].mass();
            let sum = T::sum(sum);
            plain[i] += sum;
            by_row[i] += T::sum(sum_of_sums) * weight + sum * distance;
        }
    }
}

/// How far ahead memory is asked for, in pixels: about what is read while it answers.
#[inline(always)]
fn ahead<T>(width: usize, gap: usize) -> usize {
    const ROW_BYTES: usize = 1024;
    const NARROW_BYTES: usize = 4096;
    if gap == 1 && ROWS * width * size_of::<T>() <= NARROW_BYTES {
        // Next to these rows lie others that are being read, too.
        ROWS * width
    } else {
        ROW_BYTES / size_of::<T>()
    }
}

/// Adds a row at `distance`.
#[inline(always)]
fn add_row<T: Mass>(cells: &[T], distance: T::Sum, plain: &mut [T::Sum], by_row: &mut [T::Sum]) {
    for ((cell, plain), by_row) in cells.iter().zip(plain).zip(by_row) {
        let mass = T::sum(cell.mass());
        *plain += mass;
        *by_row += mass * distance;
    }
}

/// The sum of `term` of at most [`FOLD_COLUMNS`] columns, in a fixed order.
#[inline(always)]
fn sum_of<S: ColumnSum>(sums: &[S], term: impl Fn(u16, S) -> S::Fold) -> S::Fold {
    const LANES: usize = 8;
    let mut lanes = [S::Fold::default(); LANES];
    let mut column = 0;
    let (groups, rest) = sums.as_chunks::<LANES>();
    for group in groups {
        for (lane, &sum) in lanes.iter_mut().zip(group) {
            *lane += term(column, sum);
            column += 1;
        }
    }
    for (lane, &sum) in lanes.iter_mut().zip(rest) {
        *lane += term(column, sum);
        column += 1;
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    ((a + b) + (c + d)) + ((e + f) + (g + h))
}

#[cfg(test)]
mod tests {
    use super::super::mass::BAND_ROWS;
    use super::super::rectangles::rectangles;
    use super::*;
    use crate::reductions::masks::geometry::row_spans;
    use framefold_simd::{Simd, run};
    use std::fmt::Debug;

    fn sums<T: Mass>(
        simd: Simd,
        cells: &[T],
        [rows, width]: [usize; 2],
        r: f64,
    ) -> FrameSums<<T::Sum as ColumnSum>::Moment> {
        let spans = row_spans([rows, width], [rows as f64 / 2.0, 2.0], r, None).unwrap();
        let rectangles = rectangles(&spans, &(0..width)).unwrap();
        let band = Band { first_row: 0, is_whole: r.is_infinite(), rectangles };
        let mut columns = Columns::default();
        run!(simd, columns.add_band(&band, cells, width, 0))
    }

    #[test]
    fn more_columns_than_there_is_memory_for_are_an_error() {
        let mut columns = Columns::<f64>::default();
        memory::within(800, || {
            assert!(columns.make_room(100).is_ok());
            assert!(columns.make_room(101).is_err());
        });
    }

    /// Twins of the definition, on the extreme values of a type.
    macro_rules! extremes_are_exact {
        ($($name:ident: $type:ty),*) => {$(
            #[test]
            fn $name() {
                for value in [<$type>::MIN, <$type>::MAX] {
                    for [rows, width] in [[1, 1], [3, 7], [4, 64], [BAND_ROWS, 37], [7, 700]] {
                        let cells = vec![value; rows * width];
                        let of = |n: usize| (0..n as i128).sum::<i128>() * value as i128;
                        let expected = FrameSums {
                            plain: value as i128 * cells.len() as i128,
                            by_row: of(rows) * width as i128,
                            by_column: of(width) * rows as i128,
                        };
                        for simd in Simd::all() {
                            let sums = sums(simd, &cells, [rows, width], f64::INFINITY);
                            assert_eq!(sums, expected, "{value} {rows} {width} {simd:?}");
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

    fn every_level_agrees<T: Mass>(cell: impl Fn(usize) -> T)
    where
        <T::Sum as ColumnSum>::Moment: Debug + PartialEq,
    {
        for [rows, width] in [[1, 1], [9, 31], [13, 300], [30, 64]] {
            let cells: Vec<T> = (0..rows * width).map(&cell).collect();
            for r in [f64::INFINITY, 5.5] {
                let plain = sums(Simd::plain(), &cells, [rows, width], r);
                for simd in Simd::all() {
                    assert_eq!(sums(simd, &cells, [rows, width], r), plain, "{simd:?}");
                }
            }
        }
    }

    #[test]
    fn every_level_gives_the_same_bits() {
        every_level_agrees(|i| (i * 7919 % 256) as u8);
        every_level_agrees(|i| (i * 7919) as u16);
        every_level_agrees(|i| (i * 7919) as i16);
        every_level_agrees(|i| (i * 7919) as u32);
        every_level_agrees(|i| (i as f32).sin());
        every_level_agrees(|i| (i as f64).sin() * 1e10);
    }
}
