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
        let mut ways: Vec<(f64, &Cube, Recipe)> = Vec::new();
        for cube in &self.cubes {
            // Where in a ring a pixel lies says nothing of its row and column.
            if cube.binning.block.is_none() && moments {
                continue;
            }
            let recipe = cube.recipe(runs, moments)?;
            // What lies around the bright disk is seen as it is by blocks, and as its mean by rings.
            let weight = if cube.binning.block.is_some() { 1.0 } else { RINGS_WEIGHT };
            ways.push((weight * recipe.residual, cube, recipe));
        }
        ways.sort_by(|(a, ..), (b, ..)| a.total_cmp(b));
        for (_, cube, recipe) in ways {
            if let Some(seen) = self.seen_by(cube, &recipe, what.width(), grid)? {
                return Ok(Some(seen));
            }
        }
        Ok(None)
    }

    /// What a detector that is made of cells sees; `None` if pixels that are not finite are in cells that it cuts, and in
    /// no other cells of it.
    fn seen_by(
        &self,
        cube: &Cube,
        recipe: &Recipe,
        width: usize,
        grid: &Grid,
    ) -> Result<Option<Seen>> {
        let positions = grid.first..grid.first + grid.len();
        let see = |recipe: &Recipe| -> Result<Vec<f64>> {
            let mut values = cube.seen(recipe, width, positions.clone(), &self.whole)?;
            for missing in &self.missing {
                let here = missing.start.max(positions.start)..missing.end.min(positions.end);
                if !here.is_empty() {
                    let first = (here.start - positions.start) * width;
                    values[first..first + here.len() * width].fill(f64::NAN);
                }
            }
            Ok(values)
        };
        let values = see(recipe)?;
        if recipe.cuts() && values.iter().any(|value| !value.is_finite()) {
            let uncut = see(&recipe.uncut())?;
            let mut both = values.iter().zip(uncut);
            if both.any(|(value, uncut)| !value.is_finite() && uncut.is_finite()) {
                return Ok(None);
            }
        }
        let exact = cube.is_exact(recipe, width > 1);
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
