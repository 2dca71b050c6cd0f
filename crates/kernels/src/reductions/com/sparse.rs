//! The moments of frames of which only some pixels are not zero.
//!
//! Rows and columns follow from the number of a pixel, without a division and without a table: all
//! of it becomes vector instructions. Moments of integers of up to 32 bits are summed in double
//! precision as long as they are exact there, a chunk of entries at a time.

use super::columns::FrameSums;
use super::mass::{ColumnSum, Mass, Moment};
use super::region::Region;
use crate::entries::Entries;
use crate::total::Value;
use framefold_core::{DType, Result, stray_column};
use framefold_simd::{Simd, run};

/// The number of independent sums.
const LANES: usize = 8;

/// Up to here, all integers have double precision.
const EXACT: u64 = 1 << 53;

/// Sums over the frames of sparse tiles.
pub(super) struct Moments {
    region: Region,
    /// Some values in double precision.
    values: Vec<f64>,
}

impl Moments {
    /// Of the pixels of `region`.
    pub(super) fn new(region: Region) -> Self {
        Moments { region, values: Vec::new() }
    }

    /// From now on of the pixels of another region.
    pub(super) fn set_region(&mut self, region: Region) {
        self.region = region;
    }

    /// Adds each frame of a tile, whose columns are pixels of the frame, to its sums.
    ///
    /// # Errors
    /// `BadFile` if a column lies outside of the frame.
    pub(super) fn add_tile<T: Mass>(
        &mut self,
        simd: Simd,
        entries: Entries<'_, T>,
        sums: &mut [FrameSums<<T::Sum as ColumnSum>::Moment>],
    ) -> Result<()> {
        let Moments { region, values } = self;
        let n_terms = terms::<T>(region.largest_coordinate);
        if n_terms < LANES {
            add_wide(region, entries, sums);
        } else {
            entries.in_double(
                simd,
                values,
                |value| value.value().complex().re,
                |frames, entries| {
                    let frames = sums[frames].iter_mut().zip(entries.by_frame());
                    run!(
                        simd,
                        for (sums, (columns, values)) in frames {
                            if region.is_whole() {
                                add_frame::<_, true>(region, n_terms, columns, values, sums);
                            } else {
                                add_frame::<_, false>(region, n_terms, columns, values, sums);
                            }
                        }
                    );
                    Ok(())
                },
            )?;
        }
        let (columns, _) = entries.frames(0..entries.depth());
        let largest = run!(simd, columns.iter().fold(0, |largest, &c| largest.max(c)));
        if largest as usize >= region.n_pixels {
            return Err(stray_column(largest, region.n_pixels));
        }
        Ok(())
    }
}

/// Adds the moments of a frame, `n_terms` entries at a time.
#[inline(always)]
fn add_frame<M: Moment, const WHOLE: bool>(
    region: &Region,
    n_terms: usize,
    columns: &[u32],
    values: &[f64],
    sums: &mut FrameSums<M>,
) {
    // Most frames are one chunk: to find that out by a division would take longer than to add it.
    let (mut columns, mut values) = (columns, values);
    loop {
        let n = n_terms.min(columns.len());
        let [plain, by_row, by_column] = moments::<WHOLE>(region, &columns[..n], &values[..n]);
        sums.plain += Moment::from_f64(plain);
        sums.by_row += Moment::from_f64(by_row);
        sums.by_column += Moment::from_f64(by_column);
        (columns, values) = (&columns[n..], &values[n..]);
        if columns.is_empty() {
            return;
        }
    }
}

/// Adds entries one by one, in what the sums of a frame are kept in.
fn add_wide<T: Mass>(
    region: &Region,
    entries: Entries<'_, T>,
    sums: &mut [FrameSums<<T::Sum as ColumnSum>::Moment>],
) {
    for (sums, (columns, values)) in sums.iter_mut().zip(entries.by_frame()) {
        for (&pixel, &value) in columns.iter().zip(values) {
            let (row, column, counts) = region.place::<false>(pixel);
            if counts {
                let value = T::Sum::moment(T::sum(value.mass()).fold());
                sums.plain += value;
                sums.by_row += value.times(row as usize);
                sums.by_column += value.times(column as usize);
            }
        }
    }
}

/// The number of pixels whose moments add up exactly in double precision; any number where that
/// does not matter.
fn terms<T: Mass>(largest_coordinate: u64) -> usize {
    let bits = match T::DTYPE {
        DType::Bool => 1,
        DType::U8 | DType::I8 => 8,
        DType::U16 | DType::I16 => 16,
        DType::U32 | DType::I32 => 32,
        DType::U64 | DType::I64 => return 0,
        _ => return usize::MAX,
    };
    let terms = (EXACT >> bits) / largest_coordinate.max(1);
    usize::try_from(terms).unwrap_or(usize::MAX)
}

/// The sums of the pixels, of pixels times row, and of pixels times column.
#[inline(always)]
fn moments<const WHOLE: bool>(region: &Region, columns: &[u32], values: &[f64]) -> [f64; 3] {
    let (whole, rest) = columns.as_chunks::<LANES>();
    let (whole_values, rest_values) = values.as_chunks::<LANES>();
    let mut last = [0.0; 3];
    for (&column, &value) in rest.iter().zip(rest_values) {
        for (sum, moment) in last.iter_mut().zip(of_pixel::<WHOLE>(region, column, value)) {
            *sum += moment;
        }
    }
    if whole.is_empty() {
        return last;
    }
    let mut sums = [[0.0; LANES]; 3];
    for (columns, values) in whole.iter().zip(whole_values) {
        for k in 0..LANES {
            let [plain, by_row, by_column] = of_pixel::<WHOLE>(region, columns[k], values[k]);
            sums[0][k] += plain;
            sums[1][k] += by_row;
            sums[2][k] += by_column;
        }
    }
    for (sum, [a, b, c, d, e, f, g, h]) in last.iter_mut().zip(sums) {
        *sum += ((a + b) + (c + d)) + ((e + f) + (g + h));
    }
    last
}

/// A pixel, and itself times row and column; zeros if it does not count.
#[inline(always)]
fn of_pixel<const WHOLE: bool>(region: &Region, pixel: u32, value: f64) -> [f64; 3] {
    let (row, column, counts) = region.place::<WHOLE>(pixel);
    let value = if counts { value } else { 0.0 };
    [value, value * row, value * column]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums<T: Mass>(
        region: Region,
        simd: Simd,
        pixels: &[u32],
        values: &[T],
    ) -> Result<FrameSums<<T::Sum as ColumnSum>::Moment>> {
        let mut sums = [FrameSums::default()];
        let starts = [0, pixels.len()];
        let entries = Entries::new(&starts, pixels, values);
        Moments::new(region).add_tile(simd, entries, &mut sums)?;
        Ok(sums[0])
    }

    /// Twins of the definition, on the extreme values of a type, and on every level.
    macro_rules! extremes_are_exact {
        ($($name:ident: $type:ty),*) => {$(
            #[test]
            fn $name() {
                for value in [<$type>::MIN, <$type>::MAX] {
                    // The last frame has more rows than 32 bits times its row would be exact.
                    for [rows, width] in [[1, 1], [3, 7], [70, 37], [3_000_000, 1]] {
                        let n = (rows * width).min(5000);
                        let pixels: Vec<u32> = ((rows * width - n) as u32..(rows * width) as u32).collect();
                        let sum = |term: &dyn Fn(u32) -> u32| {
                            pixels.iter().map(|&p| i128::from(term(p)) * value as i128).sum::<i128>()
                        };
                        let expected = FrameSums {
                            plain: sum(&|_| 1),
                            by_row: sum(&|p| p / width as u32),
                            by_column: sum(&|p| p % width as u32),
                        };
                        let region = Region::new([rows, width], [0.0, 0.0], f64::INFINITY, None);
                        for simd in Simd::all() {
                            let found = sums(region, simd, &pixels, &vec![value; n]).unwrap();
                            assert_eq!(found, expected, "{value} {rows} {width} {simd:?}");
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
        let pixels: Vec<u32> = (0..3000).map(|i| i * 3).collect();
        let values: Vec<f32> = (0..3000).map(|i| (i as f32).sin()).collect();
        for (r, ri) in [(f64::INFINITY, None), (30.5, Some(7.0)), (40.0, None)] {
            let region = Region::new([90, 100], [44.5, 51.0], r, ri);
            for n in [0, 1, 7, 8, 9, 1024, 1025, 3000] {
                let of = |simd| sums(region, simd, &pixels[..n], &values[..n]).unwrap();
                let plain = of(Simd::plain());
                assert!(Simd::all().into_iter().all(|simd| of(simd) == plain));
            }
        }
    }

    #[test]
    fn columns_outside_are_errors() {
        let region = Region::new([3, 5], [0.0, 0.0], f64::INFINITY, None);
        assert!(sums::<u8>(region, Simd::best(), &[3, 14], &[1, 1]).is_ok());
        let error = sums::<u8>(region, Simd::best(), &[15], &[1]).unwrap_err();
        assert!(error.to_string().contains("0 to 14"), "{error}");
        assert!(sums::<u64>(region, Simd::best(), &[u32::MAX], &[1]).is_err());
    }
}
