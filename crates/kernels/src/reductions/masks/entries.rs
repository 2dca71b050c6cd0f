//! The product of sparse frames with masks: each entry finds the values of all masks together.
//!
//! Few masks lie pixel after pixel for this, as a second copy that is made when the first sparse
//! tile comes; many lie in panels of neighbouring masks anyway. Of sparse masks, each pixel knows
//! those that have a value there. Sums run in double precision.

use super::columns::{Columns, aligned};
use super::lanes::LANES;
use super::number::Number;
use super::sparse::SparseColumns;
use super::stack::{MaskStack, Weights};
use crate::entries::Entries;
use framefold_core::{Error, Result, memory, stray_column};
use framefold_simd::{Simd, run};

/// The values of masks where an entry looks for them.
#[derive(Clone, Debug)]
pub(super) enum ByPixel {
    Single(Lines<f32>),
    Double(Lines<f64>),
    /// In the panels of the dense masks.
    Panels,
    Sparse(Lists),
}

impl ByPixel {
    pub(super) fn try_new(weights: &Weights, n_pixels: usize) -> Result<Self> {
        Ok(match weights {
            Weights::Single(columns) if columns.are_few() => {
                ByPixel::Single(Lines::try_new(columns)?)
            }
            Weights::Double(columns) if columns.are_few() => {
                ByPixel::Double(Lines::try_new(columns)?)
            }
            Weights::Single(_) | Weights::Double(_) => ByPixel::Panels,
            Weights::Sparse(columns) => ByPixel::Sparse(Lists::try_new(columns, n_pixels)?),
        })
    }
}

/// Where the products of some frames belong.
pub(super) struct Place<'t> {
    /// The first total of each frame that counts.
    pub(super) row: usize,
    /// The totals of a frame.
    pub(super) per_frame: usize,
    pub(super) totals: &'t mut [f64],
}

impl Place<'_> {
    /// The totals from number `first` of each row on.
    #[inline(always)]
    fn frames(&mut self, first: usize) -> impl Iterator<Item = &mut [f64]> {
        let first = self.row + first;
        let frames = self.totals.chunks_exact_mut(self.per_frame);
        frames.map(
            #[inline(always)]
            move |totals| &mut totals[first..],
        )
    }
}

/// Adds the products of the entries of some frames with each mask to their totals.
///
/// # Errors
/// `BadFile` if a column lies outside of the frame.
pub(super) fn add_frames(
    simd: Simd,
    stack: &MaskStack,
    entries: Entries<'_, f64>,
    place: Place<'_>,
) -> Result<()> {
    match (stack.by_pixel()?, stack.weights()) {
        (ByPixel::Single(lines), _) => lines.add(simd, entries, place),
        (ByPixel::Double(lines), _) => lines.add(simd, entries, place),
        (ByPixel::Sparse(lists), _) => lists.add(entries, place),
        (ByPixel::Panels, Weights::Single(masks)) => add_panels(simd, masks, entries, place),
        (ByPixel::Panels, Weights::Double(masks)) => add_panels(simd, masks, entries, place),
        (ByPixel::Panels, Weights::Sparse(_)) => Err(Error::bug("sparse masks in panels")),
    }
}

fn add_panels<M: Number>(
    simd: Simd,
    masks: &Columns<M>,
    entries: Entries<'_, f64>,
    mut place: Place<'_>,
) -> Result<()> {
    for panel in 0..masks.n_panels() {
        let lines = masks.panel(panel, &(0..masks.n_pixels()));
        add_lines(simd, lines, LANES, entries, &mut place, panel * LANES)?;
    }
    Ok(())
}

/// Adds the products with the first `n` masks of `lines` to the totals from number `first` on.
fn add_lines<M: Number, const W: usize>(
    simd: Simd,
    lines: &[[M; W]],
    n: usize,
    entries: Entries<'_, f64>,
    place: &mut Place<'_>,
    first: usize,
) -> Result<()> {
    run!(simd, {
        for (totals, (columns, values)) in place.frames(first).zip(entries.by_frame()) {
            let sums = products(lines, columns, values)?;
            for (total, sum) in totals[..n].iter_mut().zip(sums) {
                *total += sum;
            }
        }
        Ok(())
    })
}

/// The values of a few masks, pixel after pixel: as many for each as a power of two, which
/// therefore lie in one cache line.
#[derive(Clone, Debug)]
pub(super) struct Lines<M> {
    values: Vec<M>,
    /// Where the values begin: at a cache line.
    start: usize,
    width: usize,
    n_columns: usize,
}

impl<M: Number> Lines<M> {
    fn try_new(columns: &Columns<M>) -> Result<Self> {
        let width = columns.n_columns().next_power_of_two();
        let pixels = 0..columns.n_pixels();
        let (mut values, start) = aligned(pixels.len().saturating_mul(width))?;
        for c in 0..columns.n_columns() {
            let places = values[start..].iter_mut().skip(c).step_by(width);
            for (place, &value) in places.zip(columns.column(c, &pixels)) {
                *place = value;
            }
        }
        values.truncate(start + pixels.len() * width);
        Ok(Lines { values, start, width, n_columns: columns.n_columns() })
    }

    fn add(&self, simd: Simd, entries: Entries<'_, f64>, mut place: Place<'_>) -> Result<()> {
        match self.width {
            1 => self.add_with::<1>(simd, entries, &mut place),
            2 => self.add_with::<2>(simd, entries, &mut place),
            4 => self.add_with::<4>(simd, entries, &mut place),
            8 => self.add_with::<8>(simd, entries, &mut place),
            _ => self.add_with::<16>(simd, entries, &mut place),
        }
    }

    fn add_with<const W: usize>(
        &self,
        simd: Simd,
        entries: Entries<'_, f64>,
        place: &mut Place<'_>,
    ) -> Result<()> {
        let lines = self.values[self.start..].as_chunks::<W>().0;
        add_lines(simd, lines, self.n_columns, entries, place, 0)
    }
}

/// `Σ_i values[i] * lines[columns[i]][m]` for each of `W` masks.
///
/// # Errors
/// `BadFile` if there is no line of that number.
#[inline(always)]
fn products<M: Number, const W: usize>(
    lines: &[[M; W]],
    columns: &[u32],
    values: &[f64],
) -> Result<[f64; W]> {
    // Two sums at a time, since an addition takes as long as several entries.
    let mut sums = [[0.0; W]; 2];
    let (pairs, last) = columns.as_chunks::<2>();
    let (pairs_of_values, last_value) = values.as_chunks::<2>();
    for (pair, pair_of_values) in pairs.iter().zip(pairs_of_values) {
        for i in 0..2 {
            let Some(line) = lines.get(pair[i] as usize) else {
                return Err(stray_column(pair[i], lines.len()));
            };
            for m in 0..W {
                sums[i][m] += line[m].wide() * pair_of_values[i];
            }
        }
    }
    for (&column, &value) in last.iter().zip(last_value) {
        let Some(line) = lines.get(column as usize) else {
            return Err(stray_column(column, lines.len()));
        };
        for m in 0..W {
            sums[0][m] += line[m].wide() * value;
        }
    }
    let [mut sum, others] = sums;
    for m in 0..W {
        sum[m] += others[m];
    }
    Ok(sum)
}

/// For each pixel, the sparse masks that have a value there.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    /// Where the list of each pixel begins and ends; one more than there are pixels.
    starts: Vec<usize>,
    /// The number of a mask's column, and its value.
    list: Vec<(u32, f64)>,
}

impl Lists {
    fn try_new(columns: &SparseColumns, n_pixels: usize) -> Result<Self> {
        let mut starts: Vec<usize> = memory::zeros(n_pixels.saturating_add(1))?;
        for (pixel, ..) in columns.entries() {
            starts[pixel + 1] += 1;
        }
        for pixel in 0..n_pixels {
            starts[pixel + 1] += starts[pixel];
        }
        let mut next = memory::copied(&starts)?;
        let mut list = memory::filled((0, 0.0), starts[n_pixels])?;
        for (pixel, column, value) in columns.entries() {
            list[next[pixel]] = (column, value);
            next[pixel] += 1;
        }
        Ok(Lists { starts, list })
    }

    fn add(&self, entries: Entries<'_, f64>, mut place: Place<'_>) -> Result<()> {
        for (totals, (columns, values)) in place.frames(0).zip(entries.by_frame()) {
            for (&pixel, &value) in columns.iter().zip(values) {
                let at = pixel as usize;
                let Some(&[start, end]) = self.starts.get(at..).and_then(|s| s.first_chunk())
                else {
                    return Err(stray_column(pixel, self.starts.len() - 1));
                };
                for &(column, weight) in &self.list[start..end] {
                    totals[column as usize] += weight * value;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_gives_the_same_bits() {
        let lines: Vec<[f32; 8]> =
            (0..500).map(|p| std::array::from_fn(|m| ((p * 8 + m) as f32).sin())).collect();
        let columns: Vec<u32> = (0..333).map(|i| i * 7 % 500).collect();
        let values: Vec<f64> = (0..333).map(|i| f64::from(i).cos()).collect();
        for n in [0, 1, 2, 333] {
            let of = |simd| {
                let sums = run!(simd, products(&lines, &columns[..n], &values[..n])).unwrap();
                sums.map(f64::to_bits)
            };
            let plain = of(Simd::plain());
            assert!(Simd::all().into_iter().all(|simd| of(simd) == plain));
        }
    }

    #[test]
    fn columns_outside_are_errors() {
        let lines = [[1.0f64; 2]; 3];
        for columns in [&[3][..], &[0, 3], &[0, 1, u32::MAX], &[3, 0, 1]] {
            let error = products(&lines, columns, &[1.0; 3][..columns.len()]).unwrap_err();
            assert!(error.to_string().contains("0 to 2"), "{error}");
        }
        let masks = SparseColumns::try_new(&[0, 1], &[2], vec![1.0], 3).unwrap();
        let lists = Lists::try_new(&masks, 3).unwrap();
        let mut totals = [0.0];
        let mut add = |columns: &[u32]| {
            let starts = [0, columns.len()];
            let values = &[5.0, 7.0][..columns.len()];
            let place = Place { row: 0, per_frame: 1, totals: &mut totals };
            lists.add(Entries::new(&starts, columns, values), place)
        };
        add(&[2, 1]).unwrap();
        assert!(add(&[3]).is_err());
        assert!(add(&[u32::MAX]).is_err());
        assert_eq!(totals, [5.0]);
    }

    #[test]
    fn lines_begin_at_cache_lines() {
        for n in 1..=11 {
            let masks = Columns::try_new((0..n * 40).map(|i| i as f32).collect(), n).unwrap();
            let lines = Lines::try_new(&masks).unwrap();
            assert!(lines.values[lines.start..].as_ptr().addr() % 64 == 0);
            let mut totals = vec![0.0; n];
            let entries = Entries::new(&[0, 2], &[39, 3], &[1.0, 2.0]);
            let place = Place { row: 0, per_frame: n, totals: &mut totals };
            lines.add(Simd::best(), entries, place).unwrap();
            let expected: Vec<f64> =
                (0..n).map(|m| (m * 40 + 39 + 2 * (m * 40 + 3)) as f64).collect();
            assert_eq!(totals, expected);
        }
    }
}
