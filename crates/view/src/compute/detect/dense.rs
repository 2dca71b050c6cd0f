//! A detector over a frame of which each pixel is there.

use super::What;
use crate::compute::pixel::{Pixel, Total, add_each, largest, sum, sum_of};
use crate::compute::runs::{Group, Runs};
use framefold_simd::{Simd, run};

/// Puts what is seen of `frame` into `seen`. `columns` is room for a sum of each column.
pub(super) fn see<T: Pixel>(
    what: What,
    runs: &Runs,
    frame: &[T],
    columns: &mut [T::Block],
    seen: &mut [f64],
) {
    let simd = Simd::best();
    match (what, &runs.groups) {
        (What::Sum, Some(groups)) => seen[0] = run!(simd, whole_sum(groups, frame)),
        (What::Sum, None) if runs.integral && T::IS_WIDE => seen[0] = wide_sum(runs, frame),
        (What::Sum, None) => seen[0] = run!(simd, weighted_sum(runs, frame)),
        (What::Moments, Some(groups)) => {
            seen.copy_from_slice(&run!(simd, whole_moments(groups, runs.columns, frame, columns)));
        }
        (What::Moments, None) => seen.copy_from_slice(&run!(simd, weighted_moments(runs, frame))),
        (What::Std, _) => seen[0] = run!(simd, spread(runs, frame)),
        (What::Max, _) => seen[0] = run!(simd, top(runs, frame)),
    }
}

#[inline(always)]
fn whole_sum<T: Pixel>(groups: &[Group], frame: &[T]) -> f64 {
    let mut total = T::Total::default();
    for group in groups {
        let mut of_group = T::Total::default();
        for pixels in &group.joined {
            of_group += sum(&frame[pixels.clone()]);
        }
        total += of_group.times(group.weight);
    }
    total.value()
}

#[inline(always)]
fn weighted_sum<T: Pixel>(runs: &Runs, frame: &[T]) -> f64 {
    let mut total = 0.0;
    for line in &runs.lines {
        let weights = &runs.weights[line.clone()];
        total += sum_of(&frame[line.clone()], weights, weighted);
    }
    total
}

/// The weighted sum where double precision does not hold pixels.
fn wide_sum<T: Pixel>(runs: &Runs, frame: &[T]) -> f64 {
    let mut total = T::Total::default();
    for line in &runs.lines {
        for (pixel, &weight) in frame[line.clone()].iter().zip(&runs.weights[line.clone()]) {
            total += T::total(pixel.block()).times(weight as i64);
        }
    }
    total.value()
}

/// Pixels without weight do not count, whatever they are.
#[inline(always)]
fn weighted(pixel: f64, weight: f32) -> f64 {
    if weight == 0.0 { 0.0 } else { pixel * f64::from(weight) }
}

#[inline(always)]
fn whole_moments<T: Pixel>(
    groups: &[Group],
    width: usize,
    frame: &[T],
    columns: &mut [T::Block],
) -> [f64; 3] {
    let mut moments = [T::Total::default(); 3];
    for group in groups {
        let mut of_group = [T::Total::default(); 3];
        let first = group.columns.start;
        let columns = &mut columns[group.columns.clone()];
        columns.fill(T::Block::default());
        let mut since = 0;
        for run in &group.runs {
            if run.row - since >= T::BLOCK {
                of_group[2] += flush::<T>(columns, first);
                since = run.row;
            }
            let pixels = &frame[run.pixels.clone()];
            let of_run = sum(pixels);
            of_group[0] += of_run;
            of_group[1] += of_run.times(run.row as i64);
            let start = run.pixels.start - run.row * width - first;
            add_each(&mut columns[start..start + pixels.len()], pixels);
        }
        of_group[2] += flush::<T>(columns, first);
        for (moment, of_group) in moments.iter_mut().zip(of_group) {
            *moment += of_group.times(group.weight);
        }
    }
    moments.map(Total::value)
}

/// The moment of sums of columns, which begin anew.
#[inline(always)]
fn flush<T: Pixel>(columns: &mut [T::Block], first: usize) -> T::Total {
    let mut moment = T::Total::default();
    for (column, sum) in (first..).zip(columns) {
        moment += T::total(std::mem::take(sum)).times(column as i64);
    }
    moment
}

#[inline(always)]
fn weighted_moments<T: Pixel>(runs: &Runs, frame: &[T]) -> [f64; 3] {
    let mut moments = [0.0; 3];
    for line in &runs.lines {
        let row = line.start / runs.columns.max(1);
        let first = line.start - row * runs.columns;
        let weights = &runs.weights[line.clone()];
        let pixels = &frame[line.clone()];
        let of_line = sum_of(pixels, weights, weighted);
        moments[0] += of_line;
        moments[1] += of_line * row as f64;
        for ((column, pixel), &weight) in (first..).zip(pixels).zip(weights) {
            moments[2] += weighted(pixel.value(), weight) * column as f64;
        }
    }
    moments
}

/// The standard deviation of the pixels that count.
#[inline(always)]
fn spread<T: Pixel>(runs: &Runs, frame: &[T]) -> f64 {
    let n = runs.n_pixels as f64;
    let mean = sum_by(runs, frame, |pixel| pixel) / n;
    let squares = sum_by(runs, frame, |pixel| (pixel - mean) * (pixel - mean));
    (squares / n).sqrt()
}

/// `Σ term(pixel)` over the pixels that count.
#[inline(always)]
fn sum_by<T: Pixel>(runs: &Runs, frame: &[T], term: impl Fn(f64) -> f64 + Copy) -> f64 {
    let mut total = 0.0;
    if let Some(groups) = &runs.groups {
        for pixels in groups.iter().flat_map(|group| &group.joined) {
            let pixels = &frame[pixels.clone()];
            // As many weights, which do not matter.
            total += sum_of(pixels, &runs.weights[..pixels.len()], |pixel, _| term(pixel));
        }
        return total;
    }
    for line in &runs.lines {
        let weights = &runs.weights[line.clone()];
        let counted = |pixel, weight| if weight == 0.0 { 0.0 } else { term(pixel) };
        total += sum_of(&frame[line.clone()], weights, counted);
    }
    total
}

/// The largest of the pixels that count.
#[inline(always)]
fn top<T: Pixel>(runs: &Runs, frame: &[T]) -> f64 {
    let mut top: Option<T> = None;
    if let Some(groups) = &runs.groups {
        for pixels in groups.iter().flat_map(|group| &group.joined) {
            let start = top.unwrap_or(frame[pixels.start]);
            top = Some(largest(&frame[pixels.clone()], start));
        }
    } else {
        for line in &runs.lines {
            let pixels = frame[line.clone()].iter().zip(&runs.weights[line.clone()]);
            for (&pixel, _) in pixels.filter(|(_, weight)| **weight != 0.0) {
                top = Some(top.map_or(pixel, |top| top.larger(pixel)));
            }
        }
    }
    top.map_or(f64::NAN, Pixel::value)
}
