//! A running sum for each pixel.

mod merged;

pub(crate) use merged::MergedSums;

use crate::cell::Cell;
use crate::layout::{SigLayout, filled};
use crate::total::add_all;
use framefold_core::{Result, SigSlice, TilingScheme, memory};
use std::ops::Range;
use std::sync::Arc;

/// Sums of each pixel over the frames of a partition.
///
/// They are kept in blocks, which are narrow and take little of the cache. Only when a block could
/// overflow are they folded into totals; few partitions are long enough for that.
pub(crate) struct PixelSums<T: Cell> {
    layout: SigLayout,
    blocks: Vec<T::Block>,
    /// The number of frames in the blocks of each slice.
    terms: Vec<usize>,
    /// Empty until blocks are folded for the first time.
    totals: Vec<T::Total>,
}

impl<T: Cell> PixelSums<T> {
    /// Sums of nothing, for the slices of `tiling`.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them.
    pub(crate) fn try_new(tiling: &Arc<TilingScheme>) -> Result<Self> {
        let layout = SigLayout::try_new(tiling)?;
        Ok(PixelSums {
            blocks: filled(T::Block::default(), layout.len())?,
            terms: memory::zeros(tiling.slices().len())?,
            totals: Vec::new(),
            layout,
        })
    }

    /// Calls `add` with runs of the `depth` frames of a tile, the place of its pixels, and the
    /// blocks that they have to be added to.
    ///
    /// # Errors
    /// Those of `add`, and `Limit` if there is no memory for totals; the sums are of no use then.
    pub(crate) fn add(
        &mut self,
        slice: &SigSlice,
        depth: usize,
        mut add: impl FnMut(Range<usize>, Range<usize>, &mut [T::Block]) -> Result<()>,
    ) -> Result<()> {
        let place = self.layout.range(slice);
        let mut first = 0;
        while first < depth {
            if self.terms[slice.index()] == T::BLOCK_TERMS {
                self.fold(slice)?;
            }
            let terms = &mut self.terms[slice.index()];
            let last = depth.min(first.saturating_add(T::BLOCK_TERMS - *terms));
            *terms += last - first;
            add(first..last, place.clone(), &mut self.blocks[place.clone()])?;
            first = last;
        }
        Ok(())
    }

    /// The sums, slice after slice.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them.
    pub(crate) fn finish(self) -> Result<Vec<T::Total>> {
        let mut totals = memory::collected(self.blocks.into_iter().map(T::total))?;
        if !self.totals.is_empty() {
            add_all(&mut totals, &self.totals)?;
        }
        Ok(totals)
    }

    fn fold(&mut self, slice: &SigSlice) -> Result<()> {
        let place = self.layout.range(slice);
        memory::resize(&mut self.totals, self.layout.len(), T::Total::default())?;
        let blocks = self.blocks[place.clone()].iter_mut();
        for (total, block) in self.totals[place].iter_mut().zip(blocks) {
            *total += T::total(std::mem::take(block));
        }
        self.terms[slice.index()] = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::add_frames;
    use framefold_core::FramesView;
    use framefold_simd::Simd;

    #[test]
    fn blocks_are_folded_before_they_overflow() {
        // Two slices of one pixel, seen at different times, for more frames than a block takes.
        let tiling = Arc::new(TilingScheme::try_new(&[2], &[1], 1).unwrap());
        let depth = (1 << 15) + 5;
        let cells = vec![i16::MIN; depth];
        let frames = FramesView::try_new(&cells, depth, 1, 1).unwrap();
        let mut sums = PixelSums::<i16>::try_new(&tiling).unwrap();
        for (index, tiles) in [(0, 1), (1, 5), (0, 3)] {
            for _ in 0..tiles {
                let added = sums.add(&tiling.slices()[index], depth, |which, place, blocks| {
                    assert_eq!(place, index..index + 1);
                    add_frames(Simd::best(), frames, which, blocks);
                    Ok(())
                });
                added.unwrap();
            }
        }
        let tile = i64::from(i16::MIN) * depth as i64;
        assert_eq!(sums.finish().unwrap(), [4 * tile, 5 * tile]);
    }
}
