//! Masks of which most pixels are zero: only the others are stored and multiplied.
//!
//! What is not zero lies in runs of neighbouring pixels, such as the rows of a disk. A run is
//! multiplied as a whole, in double precision.

use super::rows::rows_per_frame;
use crate::cell::Cell;
use crate::total::Value;
use framefold_core::{Error, FramesView, Result, memory};
use framefold_simd::{Simd, run};
use std::ops::Range;

/// The number of independent sums per frame and mask.
const LANES: usize = 4;

/// Columns of values that are not zero, and where they lie.
#[derive(Clone, Debug)]
pub(super) struct SparseColumns {
    /// Where each run begins: a pixel, and the place of its first value.
    runs: Vec<(usize, usize)>,
    /// The runs of each column, in the order of pixels.
    columns: Vec<Range<usize>>,
    values: Vec<f64>,
}

impl SparseColumns {
    /// From compressed rows: the values of column `c` are those from `starts[c]` to
    /// `starts[c + 1]`, at the pixels that `pixels` names, in rising order.
    ///
    /// # Errors
    /// `InvalidArgument` if the three do not fit together, or a pixel is not below `n_pixels`.
    pub(super) fn try_new(
        starts: &[usize],
        pixels: &[usize],
        values: Vec<f64>,
        n_pixels: usize,
    ) -> Result<Self> {
        let fits = starts.first() == Some(&0)
            && starts.last() == Some(&values.len())
            && starts.is_sorted()
            && values.len() == pixels.len();
        if !fits {
            return Err(Error::invalid("the parts of a sparse stack of masks do not fit together"));
        }
        let mut runs: Vec<(usize, usize)> = Vec::new();
        let mut columns = Vec::new();
        for pair in starts.windows(2) {
            let column = pair[0]..pair[1];
            let here = &pixels[column.clone()];
            let rising = here.windows(2).all(|pair| pair[0] < pair[1]);
            if !rising || here.last().is_some_and(|&last| last >= n_pixels) {
                return Err(Error::invalid(format!(
                    "the pixels of a sparse mask are to be in rising order and below {n_pixels}"
                )));
            }
            let first = runs.len();
            for (i, &pixel) in column.zip(here) {
                let follows = runs[first..].last().is_some_and(|&(p, at)| p + (i - at) == pixel);
                if !follows {
                    memory::push(&mut runs, (pixel, i))?;
                }
            }
            memory::push(&mut columns, first..runs.len())?;
        }
        Ok(SparseColumns { runs, columns, values })
    }

    pub(super) fn n_columns(&self) -> usize {
        self.columns.len()
    }

    /// Pixel, column and value of all that is stored.
    pub(super) fn entries(&self) -> impl Iterator<Item = (usize, u32, f64)> {
        (0u32..).zip(&self.columns).flat_map(move |(column, runs)| {
            runs.clone().flat_map(move |run| {
                let (pixels, at) = self.pixels(run);
                pixels.zip(&self.values[at..]).map(move |(pixel, &value)| (pixel, column, value))
            })
        })
    }

    /// A run's pixels, and the place of its first value.
    fn pixels(&self, run: usize) -> (Range<usize>, usize) {
        let (pixel, at) = self.runs[run];
        let end = self.runs.get(run + 1).map_or(self.values.len(), |&(_, next)| next);
        (pixel..pixel + (end - at), at)
    }
}

/// Some pixels of one mask that a tile has: its cells, and the values for them.
struct Segment {
    cells: Range<usize>,
    values: Range<usize>,
}

/// The segments of the part of the frame that was asked for last.
#[derive(Default)]
pub(super) struct Segments {
    part: Option<(Range<usize>, usize)>,
    segments: Vec<Segment>,
    /// Those of each column.
    columns: Vec<Range<usize>>,
}

impl Segments {
    /// Finds what masks have at the pixels `part`, of which the first is `cell` in the tile.
    fn find(&mut self, masks: &SparseColumns, part: &Range<usize>, cell: usize) {
        let key = (part.clone(), cell);
        if self.part.as_ref() == Some(&key) {
            return;
        }
        self.segments.clear();
        self.columns.clear();
        for column in &masks.columns {
            let first = self.segments.len();
            // The run before may reach into the part.
            let after = masks.runs[column.clone()].partition_point(|&(p, _)| p < part.start);
            for run in column.start + after.saturating_sub(1)..column.end {
                let (pixels, at) = masks.pixels(run);
                if pixels.start >= part.end {
                    break;
                }
                let (start, end) = (pixels.start.max(part.start), pixels.end.min(part.end));
                if start < end {
                    let cells = cell + (start - part.start)..cell + (end - part.start);
                    let values = at + (start - pixels.start)..at + (end - pixels.start);
                    self.segments.push(Segment { cells, values });
                }
            }
            self.columns.push(first..self.segments.len());
        }
        self.part = Some(key);
    }

    /// Adds the products of the pixels `part` of each frame, which begin at its cell `cell`, with
    /// each mask to `totals`, row by row.
    pub(super) fn add<T: Cell>(
        &mut self,
        simd: Simd,
        frames: FramesView<'_, T>,
        cell: usize,
        masks: &SparseColumns,
        part: &Range<usize>,
        totals: &mut [f64],
    ) {
        self.find(masks, part, cell);
        let n_columns = self.columns.len();
        let values = &masks.values;
        let rows = totals.chunks_exact_mut(n_columns * rows_per_frame::<T>());
        for (totals, frame) in rows.zip(frames.frames()) {
            let (re, im) = totals.split_at_mut(n_columns);
            run!(simd, self.multiply(frame, values, real, re));
            if !im.is_empty() {
                run!(simd, self.multiply(frame, values, imaginary, im));
            }
        }
    }

    #[inline(always)]
    fn multiply<T: Cell>(
        &self,
        frame: &[T],
        values: &[f64],
        part: impl Fn(T) -> f64,
        totals: &mut [f64],
    ) {
        for (total, column) in totals.iter_mut().zip(&self.columns) {
            let mut sums = [0.0f64; LANES];
            for Segment { cells, values: place } in &self.segments[column.clone()] {
                let (fours, rest) = frame[cells.clone()].as_chunks::<LANES>();
                let (weights, last) = values[place.clone()].as_chunks::<LANES>();
                for (cells, weights) in fours.iter().zip(weights) {
                    for lane in 0..LANES {
                        sums[lane] = part(cells[lane]).mul_add(weights[lane], sums[lane]);
                    }
                }
                for (lane, (&cell, &weight)) in rest.iter().zip(last).enumerate() {
                    sums[lane] = part(cell).mul_add(weight, sums[lane]);
                }
            }
            *total += (sums[0] + sums[1]) + (sums[2] + sums[3]);
        }
    }
}

#[inline(always)]
fn real<T: Cell>(cell: T) -> f64 {
    cell.value().complex().re
}

#[inline(always)]
fn imaginary<T: Cell>(cell: T) -> f64 {
    cell.value().complex().im
}
