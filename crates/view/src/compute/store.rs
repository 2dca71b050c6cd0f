//! What a pass in the background has left: cubes, and the statistics of all frames.

use super::cube::{Cube, Recipe};
use super::detect::What;
use super::grid::{Grid, Stride};
use super::pattern;
use super::raw::Raw;
use super::runs::Runs;
use framefold::Result;
use std::ops::Range;
use std::sync::Arc;

/// Of the whole scan.
#[derive(Debug, Default)]
pub(crate) struct Store {
    /// Sum, and sums of rows and columns, of each whole frame; NaN where there is none.
    pub(crate) whole: Vec<[f64; 3]>,
    /// Blocks, and rings around the bright disk, as far as there was memory for them.
    pub(crate) cubes: Vec<Cube>,
    /// The statistics of each pixel, by channel.
    pub(crate) patterns: Vec<(pattern::What, Arc<Vec<f64>>)>,
    /// Positions without data.
    pub(crate) missing: Vec<Range<usize>>,
}

/// By how much better than blocks rings have to be where both are not exact.
const RINGS_WEIGHT: f64 = 16.0;

/// A detector as a store has it.
pub(crate) struct Seen {
    pub(crate) raw: Raw,
    pub(crate) exact: bool,
    /// How, in words.
    pub(crate) label: String,
}

impl Store {
    /// What a detector sees at each position of a grid; `None` if that does not follow from the store.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it.
    pub(crate) fn seen(&self, what: What, runs: &Runs, grid: &Grid) -> Result<Option<Seen>> {
        let moments = match what {
            What::Sum => false,
            What::Moments => true,
            What::Std | What::Max => return Ok(None),
        };
        let mut best: Option<(&Cube, Recipe)> = None;
        for cube in &self.cubes {
            let recipe = cube.recipe(runs, moments)?;
            // What lies around the bright disk is seen as it is by blocks, and as its mean by rings.
            let weight = if cube.binning.block.is_some() { 1.0 } else { RINGS_WEIGHT };
            let better = |(_, other): &(&Cube, Recipe)| weight * recipe.residual < other.residual;
            // Where in a ring a pixel lies says nothing of its row and column.
            let fits = !moments || cube.binning.block.is_some();
            if fits && best.as_ref().is_none_or(better) {
                best = Some((cube, recipe));
            }
        }
        let Some((cube, recipe)) = best else { return Ok(None) };
        let width = what.width();
        let positions = grid.first..grid.first + grid.len();
        let mut values = cube.seen(&recipe, width, positions.clone(), &self.whole)?;
        for missing in &self.missing {
            let here = missing.start.max(positions.start)..missing.end.min(positions.end);
            if !here.is_empty() {
                let place =
                    (here.start - positions.start) * width..(here.end - positions.start) * width;
                values[place].fill(f64::NAN);
            }
        }
        let exact = cube.is_exact(&recipe, moments);
        let label = if exact { "exact".to_owned() } else { cube.binning.label.clone() };
        let (rows, columns, stride) = (grid.rows, grid.columns, Stride::ONE);
        Ok(Some(Seen { raw: Raw { values, width, rows, columns, stride }, exact, label }))
    }

    /// The bytes of all of it.
    pub(crate) fn len_bytes(&self) -> u64 {
        let cubes: u64 = self.cubes.iter().map(Cube::len_bytes).sum();
        let pixels: usize = self.patterns.iter().map(|(_, values)| values.len()).sum();
        let others = self.whole.len() * size_of::<[f64; 3]>() + pixels * size_of::<f64>();
        cubes.saturating_add(u64::try_from(others).unwrap_or(u64::MAX))
    }

    /// The statistics of all frames.
    pub(crate) fn pattern(&self, what: pattern::What) -> Option<Arc<Vec<f64>>> {
        self.patterns.iter().find(|(known, _)| *known == what).map(|(_, values)| values.clone())
    }
}
