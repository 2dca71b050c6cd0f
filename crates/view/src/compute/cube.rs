//! Sums of cells of pixels for each position of the scan, cell by cell, and detectors made of them.

use super::binning::Binning;
use super::plane::Plane;
use super::runs::Runs;
use framefold::core::{DType, memory};
use framefold::{Error, Result};
use framefold_simd::{Simd, run};
use std::ops::Range;

/// For each cell of a binning, the sums of its pixels; or, of rings and integers, those of all up to it.
///
/// Of floating-point numbers nothing is taken away: small sums would be what rounding leaves of large ones, and a
/// pixel that is not finite would spoil detectors that it is not in.
#[derive(Debug)]
pub(crate) struct Cube {
    pub(crate) binning: Binning,
    /// Which part of its cell each pixel is.
    parts: Vec<f32>,
    planes: Vec<Plane>,
    /// Whether planes hold sums of all cells up to theirs.
    running: bool,
    len_bytes: u64,
    most_bytes: u64,
    /// The largest magnitude in it.
    largest: i64,
    integers: bool,
}

/// How a detector is made of cells.
#[derive(Debug)]
pub(crate) struct Recipe {
    /// What the whole frame counts.
    pub(crate) base: f64,
    /// What a plane counts: for the sum, and for the moments along rows and columns.
    planes: Vec<(usize, [f64; 3])>,
    /// How far the weights of pixels are from what their cells count, squared and added up.
    pub(crate) residual: f64,
    /// Cells whose pixels differ in weight, in order.
    cut: Vec<usize>,
}

impl Recipe {
    /// Whether there are cells whose pixels differ in weight.
    pub(crate) fn cuts(&self) -> bool {
        !self.cut.is_empty()
    }

    /// The part that cells make whose pixels count alike.
    pub(crate) fn uncut(&self) -> Recipe {
        let uncut = |(cell, _): &&(usize, [f64; 3])| self.cut.binary_search(cell).is_err();
        let planes = self.planes.iter().filter(uncut).copied().collect();
        Recipe { planes, cut: Vec::new(), ..*self }
    }
}

/// Positions that are summed at a time: sums stay in the cache.
const POSITIONS: usize = 2048;
/// Larger factors are not taken as integers.
const MOST_FACTOR: f64 = 65536.0;
/// Fewer sums are not worth a thread.
const SMALLEST_SHARE: usize = 1 << 20;

impl Cube {
    /// For `n_positions`, in `most_bytes` at most.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it.
    pub(crate) fn try_new(
        binning: Binning,
        dtype: DType,
        n_positions: usize,
        most_bytes: u64,
    ) -> Result<Self> {
        let running = binning.block.is_none() && !dtype.is_float();
        let planes = (0..binning.n_cells()).map(|_| Plane::try_new(dtype, n_positions));
        let planes = planes.collect::<Result<Vec<_>>>()?;
        let bytes = planes.iter().map(|plane| plane.len() * plane.size()).sum::<usize>();
        Ok(Cube {
            parts: binning.parts(&[])?,
            binning,
            planes,
            running,
            len_bytes: u64::try_from(bytes).unwrap_or(u64::MAX),
            most_bytes,
            largest: 0,
            integers: !dtype.is_float(),
        })
    }

    /// The bytes of its sums.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Has pixels count in cells that are cut as they do in `frame`, the mean one.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it.
    pub(crate) fn weigh(&mut self, frame: &[f64]) -> Result<()> {
        self.parts = self.binning.parts(frame)?;
        Ok(())
    }

    /// Puts the sums of `n` positions from `first` on: those of each cell after one another.
    ///
    /// # Errors
    /// `Limit` if they would take more memory than there may be.
    pub(crate) fn put(&mut self, first: usize, n: usize, sums: &[i64]) -> Result<()> {
        for (plane, values) in self.planes.iter_mut().zip(sums.chunks_exact(n.max(1))) {
            let (least, most) = values.iter().fold((0, 0), |(a, b), &v| (v.min(a), v.max(b)));
            self.len_bytes = self.len_bytes.saturating_add(plane.growth(least, most));
            if self.len_bytes > self.most_bytes {
                return Err(Error::limit(format!(
                    "sums of cells take more than the {} bytes that there may be",
                    self.most_bytes
                )));
            }
            plane.put(first, values)?;
            self.largest = self.largest.max(most).max(least.saturating_neg());
        }
        Ok(())
    }

    /// The same of floating-point numbers, which are rounded.
    pub(crate) fn put_floats(&mut self, first: usize, n: usize, sums: &[f64]) {
        for (plane, values) in self.planes.iter_mut().zip(sums.chunks_exact(n.max(1))) {
            plane.put_floats(first, values);
        }
    }

    /// How to make a detector of cells; with its moments, if they are wanted.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it.
    pub(crate) fn recipe(&self, runs: &Runs, moments: bool) -> Result<Recipe> {
        let n = self.binning.n_cells();
        let mut cells: Vec<Weighed> = memory::filled(Weighed::default(), n)?;
        let pixels = self.binning.of_pixel.iter().zip(&self.parts).zip(&runs.weights);
        for ((&cell, &part), &weight) in pixels {
            cells[cell as usize].add(weight, f64::from(part));
        }
        let residual = cells.iter().zip(&self.binning.sizes);
        let residual = residual.map(|(cell, &size)| cell.spread() * f64::from(size)).sum();
        let cut = cells.iter().enumerate().filter(|(_, cell)| !cell.is_uniform());
        let cut = cut.map(|(cell, _)| cell).collect();
        let means: Vec<f64> = cells.iter().map(Weighed::mean).collect();
        // Where most cells count alike, it is less work to take the others away from all.
        let alike = |value: f64| means.iter().filter(|mean| **mean == value).count();
        let most = if self.integers { alike(0.0) } else { n.saturating_sub(1) };
        // Sums of whole frames are rounded: no digit is lost where all of them fit, or where nothing is taken away.
        let sure = !self.integers || i128::from(self.largest).saturating_mul(n as i128) < 1 << 53;
        let n_full = alike(1.0);
        let base = if n_full > most && (sure || n_full == n) { 1.0 } else { 0.0 };
        let mut of_cells: Vec<[f64; 3]> =
            means.iter().map(|mean| [mean - base, 0.0, 0.0]).collect();
        if moments {
            let columns = runs.columns.max(1);
            let pixels = self.binning.of_pixel.iter().zip(&self.parts);
            let pixels = pixels.zip(&runs.weights).enumerate();
            for (pixel, ((&cell, &part), &weight)) in pixels {
                let weight = (f64::from(weight) - base) * f64::from(part);
                of_cells[cell as usize][1] += weight * (pixel / columns) as f64;
                of_cells[cell as usize][2] += weight * (pixel % columns) as f64;
            }
        }
        if self.running {
            // The sum of a ring is what there is up to it, less what there is up to the one before.
            for cell in 0..n.saturating_sub(1) {
                let next = of_cells[cell + 1];
                of_cells[cell].iter_mut().zip(next).for_each(|(factor, next)| *factor -= next);
            }
        }
        let planes = of_cells.into_iter().enumerate().filter(|(_, factors)| *factors != [0.0; 3]);
        Ok(Recipe { base, planes: planes.collect(), residual, cut })
    }

    /// Whether a detector made this way is exact.
    pub(crate) fn is_exact(&self, recipe: &Recipe, moments: bool) -> bool {
        if moments {
            // Where in its cell a pixel lies is not known.
            return !recipe.cuts() && recipe.planes.is_empty();
        }
        let whole = recipe.planes.iter().all(|(_, factors)| is_whole(factors[0]));
        let integers = self.integers && whole && self.fits_integers(recipe);
        !recipe.cuts() && (recipe.planes.is_empty() || integers)
    }

    /// Whether sums of planes, times whole factors, fit integers of 64 bits.
    fn fits_integers(&self, recipe: &Recipe) -> bool {
        let largest = i128::from(self.largest) * MOST_FACTOR as i128;
        self.integers && largest.saturating_mul(recipe.planes.len() as i128) < 1 << 62
    }

    /// What a detector sees at `positions`: the sum, or all three moments. `whole` are those of whole
    /// frames at all positions.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it.
    pub(crate) fn seen(
        &self,
        recipe: &Recipe,
        width: usize,
        positions: Range<usize>,
        whole: &[[f64; 3]],
    ) -> Result<Vec<f64>> {
        let mut seen: Vec<f64> = memory::zeros(positions.len().saturating_mul(width))?;
        let work = positions.len().saturating_mul(recipe.planes.len());
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let n_threads = cores.min(work / SMALLEST_SHARE).max(1);
        let share = positions.len().div_ceil(n_threads).next_multiple_of(POSITIONS).max(1);
        let part = |number: usize, seen: &mut [f64]| {
            let first = positions.start + number * share;
            for (number, seen) in seen.chunks_mut(POSITIONS * width).enumerate() {
                let first = first + number * POSITIONS;
                let here = first..first + seen.len() / width;
                match width {
                    1 => run!(Simd::best(), self.see_sums(recipe, here, whole, seen)),
                    _ => run!(Simd::best(), self.see(recipe, width, here, whole, seen)),
                }
            }
        };
        std::thread::scope(|scope| {
            let mut parts = seen.chunks_mut(share * width).enumerate();
            let own = parts.next();
            for (number, seen) in parts {
                let part = &part;
                scope.spawn(move || part(number, seen));
            }
            if let Some((number, seen)) = own {
                part(number, seen);
            }
        });
        Ok(seen)
    }

    /// Sums alone: in integers where cells count fully, which is most of the work.
    #[inline(always)]
    fn see_sums(
        &self,
        recipe: &Recipe,
        positions: Range<usize>,
        whole: &[[f64; 3]],
        seen: &mut [f64],
    ) {
        let n = positions.len();
        let (mut sums, mut shares) = ([0i64; POSITIONS], [0f64; POSITIONS]);
        let (sums, shares) = (&mut sums[..n], &mut shares[..n]);
        let (mut plus, mut minus) = ([0u32; POSITIONS], [0u32; POSITIONS]);
        let fits = self.fits_integers(recipe);
        // Narrow numbers in narrow sums, of no more planes than those hold.
        let mut n_narrow = 0;
        for (plane, factors) in &recipe.planes {
            match (&self.planes[*plane], factors[0]) {
                (Plane::U16(values), 1.0) => add_narrow(&values[positions.clone()], &mut plus),
                (Plane::U16(values), -1.0) => add_narrow(&values[positions.clone()], &mut minus),
                (plane, factor) if fits && is_whole(factor) => {
                    plane.add_whole(positions.clone(), factor as i64, sums);
                    continue;
                }
                (plane, factor) => {
                    plane.add_times(positions.clone(), factor, shares);
                    continue;
                }
            }
            n_narrow += 1;
            if n_narrow == 1 << 16 {
                n_narrow = 0;
                flush(sums, &mut plus, &mut minus);
            }
        }
        flush(sums, &mut plus, &mut minus);
        let parts = sums.iter().zip(shares).zip(&whole[positions]);
        for (seen, ((&sum, share), whole)) in seen.iter_mut().zip(parts) {
            let base = if recipe.base == 0.0 { 0.0 } else { recipe.base * whole[0] };
            *seen = sum as f64 + *share + base;
        }
    }

    /// Moments, in double precision.
    #[inline(always)]
    fn see(
        &self,
        recipe: &Recipe,
        width: usize,
        positions: Range<usize>,
        whole: &[[f64; 3]],
        seen: &mut [f64],
    ) {
        let mut sums = [0.0f64; POSITIONS];
        let sums = &mut sums[..positions.len()];
        for moment in 0..width.min(3) {
            sums.fill(0.0);
            for (plane, factors) in &recipe.planes {
                self.planes[*plane].add_times(positions.clone(), factors[moment], sums);
            }
            let whole = &whole[positions.clone()];
            for ((seen, sum), whole) in seen.chunks_exact_mut(width).zip(&*sums).zip(whole) {
                let base = if recipe.base == 0.0 { 0.0 } else { recipe.base * whole[moment] };
                seen[moment] = sum + base;
            }
        }
    }
}

/// The weights of the pixels of a cell.
#[derive(Clone, Copy, Debug)]
struct Weighed {
    least: f32,
    most: f32,
    sum: f64,
    squares: f64,
}

impl Default for Weighed {
    fn default() -> Self {
        Weighed { least: f32::INFINITY, most: f32::NEG_INFINITY, sum: 0.0, squares: 0.0 }
    }
}

impl Weighed {
    fn add(&mut self, weight: f32, part: f64) {
        self.least = self.least.min(weight);
        self.most = self.most.max(weight);
        self.sum += f64::from(weight) * part;
        self.squares += f64::from(weight) * f64::from(weight) * part;
    }

    fn is_uniform(&self) -> bool {
        self.least >= self.most
    }

    /// Their mean: to the last bit what all of them are, if they are the same. A cell without pixels has none.
    fn mean(&self) -> f64 {
        match self.is_uniform() {
            true if self.least.is_finite() => f64::from(self.least),
            true => 0.0,
            false => self.sum,
        }
    }

    /// How far they are from their mean, squared.
    fn spread(&self) -> f64 {
        match self.is_uniform() {
            true => 0.0,
            false => (self.squares - self.sum * self.sum).max(0.0),
        }
    }
}

/// Whether a factor is a whole number that is not too large.
fn is_whole(factor: f64) -> bool {
    factor.fract() == 0.0 && factor.abs() <= MOST_FACTOR
}

#[inline(always)]
fn add_narrow(values: &[u16], sums: &mut [u32]) {
    for (sum, &value) in sums.iter_mut().zip(values) {
        *sum += u32::from(value);
    }
}

#[inline(always)]
fn flush(sums: &mut [i64], plus: &mut [u32], minus: &mut [u32]) {
    for ((sum, plus), minus) in sums.iter_mut().zip(plus).zip(minus) {
        *sum += i64::from(std::mem::take(plus)) - i64::from(std::mem::take(minus));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::detector::Weights;

    #[test]
    fn sums_beyond_what_double_precision_holds_are_rounded_once() {
        const EDGE: usize = 32;
        let mut values: Vec<i64> = (0..(EDGE * EDGE) as i64).map(|i| (1 << 45) + 3 * i).collect();
        values[7] += 5;
        let total: i64 = values.iter().sum();
        let binning = Binning::blocks(EDGE, EDGE, [1, 1]).unwrap();
        let mut cube = Cube::try_new(binning, DType::U64, 1, 1 << 20).unwrap();
        cube.put(0, 1, &values).unwrap();
        for without in [None, Some(0), Some(500), Some(EDGE * EDGE - 1)] {
            let mut weights = vec![1.0; EDGE * EDGE];
            without.into_iter().for_each(|pixel: usize| weights[pixel] = 0.0);
            let weights = Weights { rows: EDGE, columns: EDGE, values: weights };
            let recipe = cube.recipe(&Runs::try_new(weights).unwrap(), false).unwrap();
            let seen = cube.seen(&recipe, 1, 0..1, &[[total as f64, 0.0, 0.0]]).unwrap();
            let expected = (total - without.map_or(0, |pixel| values[pixel])) as f64;
            assert!(!cube.is_exact(&recipe, false) || seen == [expected], "{without:?} {seen:?}");
        }
    }

    /// Frames of 8 × 8 that are multiples of one, in which brightness ends within blocks; in blocks of 4 × 4.
    fn cube(bright: &[f64], times: &[i64]) -> Cube {
        let mut cube =
            Cube::try_new(Binning::blocks(8, 8, [4, 4]).unwrap(), DType::U16, times.len(), 1 << 20)
                .unwrap();
        let of = |cell: usize, times: i64| -> i64 {
            let pixels = (0..64).filter(|&pixel| cube.binning.of_pixel[pixel] as usize == cell);
            pixels.map(|pixel| bright[pixel] as i64 * times).sum()
        };
        let sums: Vec<i64> =
            (0..4).flat_map(|cell| times.iter().map(move |&times| of(cell, times))).collect();
        cube.put(0, times.len(), &sums).unwrap();
        cube
    }

    #[test]
    fn blocks_that_are_cut_count_by_the_brightness_of_their_pixels() {
        let bright: Vec<f64> = (0..64).map(|pixel| [5.0, 0.0, 1.0][pixel % 8 % 3]).collect();
        let times = [1, 7, 0, 30];
        let mut cube = cube(&bright, &times);
        // Columns 0 to 4: the second one of each row of blocks is cut.
        let values: Vec<f32> = (0..64).map(|pixel| f32::from(u8::from(pixel % 8 < 5))).collect();
        let sum = |weight: &dyn Fn(usize) -> f64| -> f64 {
            (0..64).map(|pixel| f64::from(values[pixel]) * bright[pixel] * weight(pixel)).sum()
        };
        let exact = [sum(&|_| 1.0), sum(&|p| (p / 8) as f64), sum(&|p| (p % 8) as f64)];
        let runs = Runs::try_new(Weights { rows: 8, columns: 8, values: values.clone() }).unwrap();
        let whole = [[0.0; 3]; 4];
        let seen = |cube: &Cube, width: usize| {
            let recipe = cube.recipe(&runs, width > 1).unwrap();
            assert!(!cube.is_exact(&recipe, width > 1));
            cube.seen(&recipe, width, 0..4, &whole).unwrap()
        };
        let by_area = seen(&cube, 1);
        assert!((by_area[1] - 7.0 * exact[0]).abs() > 0.1 * exact[0], "{by_area:?}");
        cube.weigh(&bright).unwrap();
        for (found, &times) in seen(&cube, 1).iter().zip(&times) {
            let expected = times as f64 * exact[0];
            assert!((found - expected).abs() <= 1e-6 * expected, "{found} {expected}");
        }
        for (found, &times) in seen(&cube, 3).chunks(3).zip(&times) {
            for (found, exact) in found.iter().zip(exact) {
                let expected = times as f64 * exact;
                assert!((found - expected).abs() <= 1e-6 * expected, "{found} {expected}");
            }
        }
        // Where nothing is bright, and with what says nothing: by area.
        for odd in [vec![0.0; 64], vec![f64::NAN; 64], vec![-3.0; 64], vec![f64::INFINITY; 64]] {
            cube.weigh(&odd).unwrap();
            assert_eq!(seen(&cube, 1), by_area);
        }
        // Whole blocks are exact, whatever the mean is.
        let left: Vec<f32> = (0..64).map(|pixel| f32::from(u8::from(pixel % 8 < 4))).collect();
        let runs = Runs::try_new(Weights { rows: 8, columns: 8, values: left }).unwrap();
        cube.weigh(&bright).unwrap();
        let recipe = cube.recipe(&runs, false).unwrap();
        assert!(cube.is_exact(&recipe, false));
        // A pixel without brightness is cut off: no residual, and yet no proof.
        let dark: Vec<f32> = (0..64).map(|p| f32::from(u8::from(bright[p] > 0.0))).collect();
        let runs = Runs::try_new(Weights { rows: 8, columns: 8, values: dark }).unwrap();
        assert!(!cube.is_exact(&cube.recipe(&runs, false).unwrap(), false));
        // Weights that add up to nothing in each block.
        let sign = |p: usize| if (p / 8 + p % 8).is_multiple_of(2) { 1.0 } else { -1.0 };
        let values = (0..64).map(sign).collect();
        let runs = Runs::try_new(Weights { rows: 8, columns: 8, values }).unwrap();
        cube.weigh(&[-3.0; 64]).unwrap();
        for moments in [false, true] {
            let recipe = cube.recipe(&runs, moments).unwrap();
            assert!(recipe.planes.is_empty() && !cube.is_exact(&recipe, moments));
        }
    }
}
