//! Weights of a detector as loops want them: runs of pixels that count alike.

use super::detector::Weights;
use framefold::core::memory;
use framefold::{Error, Result};
use std::ops::Range;

/// A run of pixels within a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) row: usize,
    /// Of the flattened frame.
    pub(crate) pixels: Range<usize>,
}

/// All runs of one weight.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) weight: i64,
    /// Row by row.
    pub(crate) runs: Vec<Run>,
    /// The same pixels, where runs of whole rows are one.
    pub(crate) joined: Vec<Range<usize>>,
    /// The columns that it has pixels in, and some between.
    pub(crate) columns: Range<usize>,
}

/// A detector, ready for use.
#[derive(Debug)]
pub(crate) struct Runs {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// One for each pixel.
    pub(crate) weights: Vec<f32>,
    /// Whether all weights are integers that are not too large.
    pub(crate) integral: bool,
    /// All that counts, where all weights are integers, few of them different, and runs are long.
    pub(crate) groups: Option<Vec<Group>>,
    /// The part of each row from the first to the last pixel that counts; rows without any are left out.
    pub(crate) lines: Vec<Range<usize>>,
    /// Pixels with a weight other than 0.
    pub(crate) n_pixels: usize,
    /// The sum of the absolute weights.
    pub(crate) total: f64,
}

/// Shorter runs, on average, are not worth the trouble.
const SHORT: usize = 4;
/// Weights beyond it are not taken as integers.
const LARGEST: f32 = 1024.0;
/// More different weights are not kept apart.
const MOST_GROUPS: usize = 8;

impl Runs {
    /// # Errors
    /// `Limit` if there is no memory for them.
    pub(crate) fn try_new(weights: Weights) -> Result<Self> {
        let Weights { rows, columns, values } = weights;
        if u32::try_from(values.len()).is_err() {
            return Err(Error::limit(format!("frames of {} pixels are too large", values.len())));
        }
        let counts = |value: &&f32| **value != 0.0;
        let n_pixels = values.iter().filter(counts).count();
        let total = values.iter().map(|&value| f64::from(value).abs()).sum();
        let integral = values.iter().all(|v| v.fract() == 0.0 && v.abs() <= LARGEST);
        let mut lines = memory::with_room(rows)?;
        let mut groups = integral.then(|| Groups::new((n_pixels / SHORT).max(2 * rows)));
        for (row, line) in values.chunks_exact(columns.max(1)).enumerate() {
            let start = row * columns;
            let first = line.iter().position(|value| *value != 0.0);
            let last = line.iter().rposition(|value| *value != 0.0);
            let (Some(first), Some(last)) = (first, last) else { continue };
            lines.push(start + first..start + last + 1);
            let mut at = first;
            for run in line[first..=last].chunk_by(|a, b| a == b) {
                let columns = at..at + run.len();
                at = columns.end;
                if run[0] != 0.0 {
                    groups = match groups {
                        Some(groups) => groups.with(run[0] as i64, row, start, columns)?,
                        None => break,
                    };
                }
            }
        }
        let groups = groups.map(|groups| groups.groups);
        Ok(Runs { rows, columns, weights: values, integral, groups, lines, n_pixels, total })
    }
}

/// Groups that are being made.
struct Groups {
    groups: Vec<Group>,
    /// How many more runs there may be.
    left: usize,
}

impl Groups {
    fn new(most: usize) -> Self {
        Groups { groups: Vec::new(), left: most }
    }

    /// With one more run; `None` if that is too many.
    fn with(
        mut self,
        weight: i64,
        row: usize,
        start: usize,
        columns: Range<usize>,
    ) -> Result<Option<Self>> {
        let index = match self.groups.iter().position(|group| group.weight == weight) {
            Some(index) => index,
            None if self.groups.len() == MOST_GROUPS => return Ok(None),
            None => {
                let (runs, joined) = (Vec::new(), Vec::new());
                self.groups.push(Group { weight, runs, joined, columns: columns.clone() });
                self.groups.len() - 1
            }
        };
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let group = &mut self.groups[index];
        let (from, to) = (group.columns.start, group.columns.end);
        group.columns = from.min(columns.start)..to.max(columns.end);
        let pixels = start + columns.start..start + columns.end;
        match group.joined.last_mut() {
            Some(last) if last.end == pixels.start => last.end = pixels.end,
            _ => memory::push(&mut group.joined, pixels.clone())?,
        }
        memory::push(&mut group.runs, Run { row, pixels })?;
        Ok(Some(self))
    }
}
