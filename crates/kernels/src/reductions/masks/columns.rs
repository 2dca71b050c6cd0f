//! The values of masks in the order in which the product reads them.

use super::lanes::LANES;
use framefold_core::{Result, memory};
use std::ops::Range;

/// Up to so many columns are multiplied one by one, more of them in panels.
///
/// A panel is never less than [`LANES`] columns of work.
const FEW: usize = 11;

/// Cache lines begin at multiples of so many bytes.
const LINE: usize = 64;

/// Columns, one value per pixel each. Few of them lie one after the other; many lie in panels of
/// [`LANES`] columns, pixel after pixel, the last one filled up with zeros.
#[derive(Clone, Debug)]
pub(super) struct Columns<M> {
    values: Vec<M>,
    /// Where the values begin: at a cache line.
    start: usize,
    n_columns: usize,
    n_pixels: usize,
}

impl<M: Copy + Default> Columns<M> {
    /// From `n_columns` columns, one after the other.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them.
    pub(super) fn try_new(values: Vec<M>, n_columns: usize) -> Result<Self> {
        let n_pixels = values.len() / n_columns.max(1);
        let n_panels = n_columns.div_ceil(LANES);
        let few = n_columns <= FEW;
        let per_pixel = if few { n_columns } else { n_panels.saturating_mul(LANES) };
        let len = n_pixels.saturating_mul(per_pixel);
        let (mut aligned, start) = aligned(len)?;
        let target = &mut aligned[start..start + len];
        if few {
            target.copy_from_slice(&values);
        } else {
            for (c, column) in values.chunks_exact(n_pixels.max(1)).enumerate() {
                let (panel, lane) = (c / LANES, c % LANES);
                let lines = target[panel * n_pixels * LANES..].chunks_exact_mut(LANES);
                for (line, &value) in lines.zip(column) {
                    line[lane] = value;
                }
            }
        }
        Ok(Columns { values: aligned, start, n_columns, n_pixels })
    }

    /// Whether there are so few that they lie one after the other.
    pub(super) fn are_few(&self) -> bool {
        self.n_columns <= FEW
    }

    pub(super) fn n_columns(&self) -> usize {
        self.n_columns
    }

    pub(super) fn n_pixels(&self) -> usize {
        self.n_pixels
    }

    pub(super) fn n_panels(&self) -> usize {
        self.n_columns.div_ceil(LANES)
    }

    /// The number of products that a row makes, including those with columns of zeros.
    pub(super) fn n_products(&self) -> usize {
        if self.are_few() { self.n_columns } else { self.n_panels() * LANES }
    }

    /// The values of a column at `pixels`, if columns are few.
    #[inline(always)]
    pub(super) fn column(&self, column: usize, pixels: &Range<usize>) -> &[M] {
        let start = self.start + column * self.n_pixels;
        &self.values[start + pixels.start..start + pixels.end]
    }

    /// The values of a panel at `pixels`, if columns are many.
    #[inline(always)]
    pub(super) fn panel(&self, panel: usize, pixels: &Range<usize>) -> &[[M; LANES]] {
        let start = self.start + panel * self.n_pixels * LANES;
        self.values[start + pixels.start * LANES..start + pixels.end * LANES].as_chunks().0
    }
}

/// Room for `len` values, and where they may begin: at a cache line.
///
/// # Errors
/// `Limit` if there is no memory for them.
pub(super) fn aligned<M: Copy + Default>(len: usize) -> Result<(Vec<M>, usize)> {
    let slack = LINE / size_of::<M>();
    let values = memory::filled(M::default(), len.saturating_add(slack))?;
    let start = values.as_ptr().align_offset(LINE).min(slack);
    Ok((values, start))
}
