//! What a detector sees at each position of a grid, before it becomes a picture.

use super::detect::SEEN;
use super::grid::{Grid, Stride};
use framefold::core::{Array, memory};
use framefold::exec::ResultBuffer;
use framefold::{Error, Result, RunResults};

/// `width` numbers for each position, in C order; NaN where there are none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Raw {
    pub(crate) values: Vec<f64>,
    pub(crate) width: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) stride: Stride,
}

impl Raw {
    /// That of a run of `Detect` over every so many positions of a grid.
    ///
    /// # Errors
    /// `Bug` if the run was another one.
    pub(crate) fn of_run(results: &RunResults, grid: &Grid, stride: Stride) -> Result<Self> {
        let bug = || Error::bug("a run of a detector has another result");
        let buffer: &ResultBuffer =
            results.udfs.first().and_then(|u| u.get(SEEN)).ok_or_else(bug)?;
        let Array::Native(array) = &buffer.array else { return Err(bug()) };
        let &[n, width] = array.shape() else { return Err(bug()) };
        let rows = grid.rows.div_ceil(stride.rows);
        let columns = grid.columns.div_ceil(stride.columns);
        if n != rows * columns {
            return Err(bug());
        }
        let mut values = memory::copied(array.as_slice::<f64>()?)?;
        // Those that are not merged are NaN already where rows are kept.
        for (entry, _) in values.chunks_exact_mut(width).zip(&results.valid).filter(|(_, v)| !**v) {
            entry.fill(f64::NAN);
        }
        Ok(Raw { values, width, rows, columns, stride })
    }

    /// One of the numbers of each position.
    pub(crate) fn plane(&self, index: usize) -> impl ExactSizeIterator<Item = f64> + '_ {
        self.values.chunks_exact(self.width).map(move |entry| entry[index])
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        (self.values.len() * size_of::<f64>()) as u64
    }
}
