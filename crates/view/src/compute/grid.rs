//! The part of a scan that is shown: its last two axes, at one index of each other.

use super::detector::{ArrayMasks, Canvas, Cells, paint};
use crate::Signed;
use framefold::core::memory;
use framefold::{Dataset, Error, Result, Roi};
use std::sync::Arc;

/// Positions in rows and columns, which follow each other. A scan of one axis is one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Grid {
    /// The flat position of the first one.
    pub(crate) first: usize,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// How many positions the whole scan has.
    pub(crate) n_all: usize,
    /// How many axes it has.
    pub(crate) n_axes: usize,
}

/// Every so many rows and columns of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stride {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
}

impl Stride {
    pub(crate) const ONE: Stride = Stride { rows: 1, columns: 1 };

    /// How many positions one stands for.
    pub(crate) fn area(self) -> usize {
        self.rows.saturating_mul(self.columns)
    }
}

impl Grid {
    /// # Errors
    /// `InvalidArgument` if `slice` is not one index for each axis in front of the last two.
    pub(crate) fn try_new(dataset: &Dataset, slice: &[usize]) -> Result<Grid> {
        let nav = dataset.shape().nav();
        let n_all = dataset.shape().n_frames();
        let n_front = nav.len().saturating_sub(2);
        // Where it does not say, the first of each.
        let slice = if slice.is_empty() { vec![0; n_front] } else { slice.to_vec() };
        if slice.len() != n_front {
            return Err(Error::invalid(format!(
                "the slice {slice:?} has {} numbers, but a scan of shape {nav:?} has {n_front} axes \
                 in front of the last two",
                slice.len()
            )));
        }
        let mut first = 0;
        for (axis, (&index, &len)) in slice.iter().zip(nav).enumerate() {
            if index >= len {
                return Err(Error::invalid(format!(
                    "index {index} of the slice is outside of axis {axis} of the scan, which has \
                     {len} positions"
                )));
            }
            first = first * len + index;
        }
        let (rows, columns) = match nav {
            [.., rows, columns] => (*rows, *columns),
            [columns] => (1, *columns),
            [] => return Err(Error::bug("a scan without axes")),
        };
        Ok(Grid { first: first * rows * columns, rows, columns, n_all, n_axes: nav.len() })
    }

    pub(crate) fn len(&self) -> usize {
        self.rows * self.columns
    }

    /// The shape of pictures of it, of every so many positions.
    pub(crate) fn shape(&self, stride: Stride) -> Vec<usize> {
        let columns = self.columns.div_ceil(stride.columns);
        match self.n_axes {
            1 => vec![columns],
            _ => vec![self.rows.div_ceil(stride.rows), columns],
        }
    }

    /// What regions are drawn on.
    pub(crate) fn canvas(&self) -> Canvas {
        let (rows, columns) = (self.rows, self.columns);
        Canvas { rows, columns, what: Cells::Positions(self.n_axes.min(2)) }
    }

    /// Its positions, every so many of them: `None` for all of the scan.
    ///
    /// # Errors
    /// `Limit` if there is no memory for one truth value for each position.
    pub(crate) fn roi(&self, stride: Stride) -> Result<Option<Arc<Roi>>> {
        if stride == Stride::ONE && self.len() == self.n_all {
            return Ok(None);
        }
        let mut mask: Vec<bool> = memory::zeros(self.n_all)?;
        let lines = mask[self.first..self.first + self.len()].chunks_exact_mut(self.columns);
        for line in lines.step_by(stride.rows) {
            line.iter_mut().step_by(stride.columns).for_each(|position| *position = true);
        }
        Ok(Some(Arc::new(Roi::from_mask(&mask)?)))
    }

    /// The positions of a region, those whose weight is above 0: `None` for all of the scan.
    ///
    /// # Errors
    /// As [`paint`]; `InvalidArgument` if no weight is above 0.
    pub(crate) fn region(
        &self,
        shapes: &[Signed],
        arrays: &ArrayMasks,
    ) -> Result<Option<Arc<Roi>>> {
        if shapes.is_empty() {
            return self.roi(Stride::ONE);
        }
        let weights = paint(shapes, self.canvas(), arrays)?;
        if !weights.values.iter().any(|&weight| weight > 0.0) {
            return Err(Error::invalid("no position of the region has a weight above 0")
                .with_hint("add a shape with the sign plus"));
        }
        let mut mask: Vec<bool> = memory::zeros(self.n_all)?;
        let here = mask[self.first..self.first + self.len()].iter_mut().zip(&weights.values);
        here.for_each(|(position, &weight)| *position = weight > 0.0);
        Ok(Some(Arc::new(Roi::from_mask(&mask)?)))
    }

    /// Every so many rows and columns of the positions of a region, counted from its first row and
    /// column; the whole region where that would leave none.
    ///
    /// # Errors
    /// `Limit` if there is no memory.
    pub(crate) fn thinned(&self, roi: &Roi, stride: Stride) -> Result<Arc<Roi>> {
        let at = |position: usize| {
            let here = position.saturating_sub(self.first);
            (here / self.columns, here % self.columns)
        };
        let row = roi.positions().first().map_or(0, |&position| at(position).0);
        let column = roi.positions().iter().map(|&position| at(position).1).min().unwrap_or(0);
        let mut thinned = memory::with_room(roi.n_selected())?;
        thinned.extend(roi.positions().iter().copied().filter(|&position| {
            let (y, x) = at(position);
            (y - row).is_multiple_of(stride.rows) && (x - column).is_multiple_of(stride.columns)
        }));
        if thinned.is_empty() {
            return Ok(Arc::new(roi.clone()));
        }
        Ok(Arc::new(Roi::from_positions(thinned, self.n_all)?))
    }
}
