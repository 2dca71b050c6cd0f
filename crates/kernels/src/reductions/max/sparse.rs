//! The largest value of each pixel, from the pixels that are not zero.

use super::partial;
use crate::cell::Real;
use crate::entries::{Entries, scatter};
use crate::layout::{SigLayout, filled};
use framefold_core::{
    Accumulator, CsrTile, Error, Partial, Partition, Result, RunMeta, Tile, TilePosition,
    TilingScheme,
};
use std::sync::Arc;

/// The largest values of a partition.
///
/// What has no entry is zero. Where zero is not the smallest value anyhow, each pixel counts its
/// entries: if there are fewer of them than frames, zero is among its values.
pub(super) struct SparseTops<T> {
    tiling: Arc<TilingScheme>,
    layout: SigLayout,
    tops: Vec<T>,
    /// The entries of each pixel; empty where zero is the smallest value.
    n_entries: Vec<u32>,
    /// The frames seen of each slice.
    n_frames: Vec<usize>,
}

impl<T: Real> SparseTops<T> {
    pub(super) fn try_new(run: &RunMeta, partition: &Partition) -> Result<Self> {
        if u32::try_from(partition.n_frames()).is_err() {
            return Err(Error::limit(format!(
                "a partition of {} frames has more than {} of them",
                partition.n_frames(),
                u32::MAX
            ))
            .with_hint("ask for more partitions"));
        }
        let layout = SigLayout::try_new(&run.tiling)?;
        let counted = if T::LOWEST == T::default() { 0 } else { layout.len() };
        Ok(SparseTops {
            tiling: Arc::clone(&run.tiling),
            tops: filled(T::LOWEST, layout.len())?,
            n_entries: filled(0, counted)?,
            n_frames: filled(0, run.tiling.slices().len())?,
            layout,
        })
    }
}

impl<T: Real> Accumulator for SparseTops<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let depth = tile.frames().depth();
        Err(Error::bug(format!("a dense tile of {depth} frames came where a sparse one was due")))
    }

    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        let entries = Entries::<T>::of(tile)?;
        let entries = entries.frames(0..entries.depth());
        self.n_frames[position.sig.index()] += tile.depth();
        let place = self.layout.range(position.sig);
        let raise = |top: &mut T, value| *top = top.larger(value);
        scatter(&mut self.tops[place.clone()], entries, raise)?;
        if let Some(counts) = self.n_entries.get_mut(place) {
            scatter(counts, entries, |n, _| *n = n.saturating_add(1))?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let SparseTops { tiling, layout, mut tops, n_entries, n_frames } = *self;
        if !n_entries.is_empty() {
            for slice in tiling.slices() {
                let (place, n_frames) = (layout.range(slice), n_frames[slice.index()]);
                for (top, &n) in tops[place.clone()].iter_mut().zip(&n_entries[place]) {
                    if (n as usize) < n_frames {
                        *top = top.larger(T::default());
                    }
                }
            }
        }
        partial(tops)
    }
}
