//! Squared distances from means, from the pixels that are not zero.

use super::{Fold, Seen, partial};
use crate::cell::Cell;
use crate::entries::{Entries, scatter};
use crate::layout::{SigLayout, filled};
use crate::total::{Total, Value};
use framefold_core::{
    Accumulator, CsrTile, Error, Partial, Partition, Result, RunMeta, Tile, TilePosition,
    TilingScheme, memory,
};
use std::sync::Arc;

/// What is known of a pixel: of its entries only, until a partition is done.
#[derive(Clone, Copy, Default)]
struct Pixel<A> {
    n: u32,
    sum: A,
    varsum: f64,
}

impl<A: Total> Pixel<A> {
    /// Folds one entry in, as [`Fold`] does with two groups of frames.
    #[inline(always)]
    fn add<T: Cell<Total = A>>(&mut self, value: T) {
        // Zero, but for NaN and infinities, which must leave a trace.
        let value = T::total(value.block());
        let mut spread = value.distance(value.mean(1)).norm_sqr();
        if self.n > 0 {
            let n = f64::from(self.n);
            let difference = value.difference(self.n as usize, self.sum, 1);
            spread += difference.norm_sqr() / (n * (n + 1.0));
        }
        self.n = self.n.wrapping_add(1);
        self.sum += value;
        self.varsum += spread;
    }

    /// Folds as many zeros in as there are frames without an entry.
    fn complete(&mut self, n_frames: usize) {
        let n = self.n as usize;
        if let Some(fold) = Fold::new(n, n_frames.saturating_sub(n)) {
            self.varsum += fold.between(self.sum, A::default());
        }
    }
}

/// Statistics of a partition.
pub(in super::super) struct SparseWorker<T: Cell> {
    tiling: Arc<TilingScheme>,
    layout: SigLayout,
    seen: Seen,
    pixels: Vec<Pixel<T::Total>>,
}

impl<T: Cell> SparseWorker<T> {
    /// For the frames of `partition`.
    ///
    /// # Errors
    /// `Limit` if 32 bits do not count them, or there is no memory for what is known of each pixel.
    pub(in super::super) fn try_new(
        run: &RunMeta,
        partition: &Partition,
        seen: Seen,
    ) -> Result<Self> {
        if u32::try_from(partition.n_frames()).is_err() {
            let n_frames = partition.n_frames();
            return Err(Error::limit(format!("a partition of {n_frames} frames is too long"))
                .with_hint("ask for more partitions"));
        }
        let layout = SigLayout::try_new(&run.tiling)?;
        let pixels = filled(Pixel::default(), layout.len())?;
        Ok(SparseWorker { tiling: Arc::clone(&run.tiling), layout, seen, pixels })
    }
}

impl<T: Cell> Accumulator for SparseWorker<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let depth = tile.frames().depth();
        Err(Error::bug(format!("a dense tile of {depth} frames came where a sparse one was due")))
    }

    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        let entries = Entries::<T>::of(tile)?;
        self.seen.add(position.sig, entries.depth());
        let pixels = &mut self.pixels[self.layout.range(position.sig)];
        scatter(pixels, entries.frames(0..entries.depth()), |pixel, value| pixel.add(value))
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let SparseWorker { tiling, layout, seen, mut pixels } = *self;
        for slice in tiling.slices() {
            let n_frames = seen.of(slice);
            for pixel in &mut pixels[layout.range(slice)] {
                pixel.complete(n_frames);
            }
        }
        let sums = memory::collected(pixels.iter().map(|pixel| pixel.sum))?;
        partial(&seen, sums, memory::collected(pixels.iter().map(|pixel| pixel.varsum))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn varsum<T: Cell>(entries: &[T], n_frames: usize) -> f64 {
        let mut pixel = Pixel::default();
        entries.iter().for_each(|&entry| pixel.add(entry));
        pixel.complete(n_frames);
        pixel.varsum
    }

    #[test]
    fn zeros_without_an_entry_count() {
        assert_eq!(varsum::<f64>(&[], 5), 0.0);
        assert_eq!(varsum(&[3.0], 1), 0.0);
        // 3, 0, 0: mean 1.
        assert_eq!(varsum(&[3.0], 3), 6.0);
        // 1, 3, 0, 0: mean 1.
        assert_eq!(varsum(&[1.0, 3.0], 4), 6.0);
    }

    #[test]
    fn a_small_variance_on_a_large_mean_is_not_lost() {
        assert_eq!(varsum(&[4.0, 7.0, 13.0, 16.0].map(|x| 1e9 + x), 4), 90.0);
        assert_eq!(varsum(&[1e15; 7], 7), 0.0);
        assert_eq!(varsum(&[4, 7, 13, 16].map(|x| u64::MAX - x), 4), 90.0);
    }

    #[test]
    fn nan_and_infinities_leave_their_trace() {
        for odd in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            for entries in [[odd, 1.0], [1.0, odd]] {
                assert!(varsum(&entries, 2).is_nan() && varsum(&entries, 3).is_nan());
            }
            assert!(varsum(&[odd], 1).is_nan());
        }
    }
}
