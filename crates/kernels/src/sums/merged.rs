//! Sums of each pixel over all partitions so far.

use super::PixelSums;
use crate::cell::Cell;
use crate::layout::SigLayout;
use crate::total::{Total, add_all, pack, round};
use framefold_core::{DType, Error, NativeArray, Partial, Result, memory};
use std::borrow::Cow;

const BLOCKS: &str = "blocks";
const TERMS: &str = "terms";
const TOTALS: &str = "totals";

impl<T: Cell> PixelSums<T> {
    /// The sums as a partial result: as blocks where none of them was folded, since they are
    /// narrow, and merging is bound by memory.
    pub(crate) fn into_partial(self) -> Result<Partial> {
        if !self.totals.is_empty() {
            return Ok(Partial::new().with(TOTALS, pack(self.finish()?)?));
        }
        let terms = self.terms.iter().copied().max().unwrap_or(0);
        blocks_partial(self.blocks, terms)
    }
}

fn blocks_partial<B: Total>(blocks: Vec<B>, terms: usize) -> Result<Partial> {
    let terms = NativeArray::try_new(&[1], vec![u64::try_from(terms).unwrap_or(u64::MAX)])?;
    Ok(Partial::new().with(BLOCKS, pack(blocks)?).with(TERMS, terms))
}

/// The sum of what [`PixelSums::into_partial`] gave for each partition.
pub(crate) struct MergedSums<T: Cell> {
    layout: SigLayout,
    /// Empty until there is something to keep in them.
    blocks: Vec<T::Block>,
    /// The number of frames in the blocks.
    terms: usize,
    /// Empty until blocks are folded for the first time.
    totals: Vec<T::Total>,
}

impl<T: Cell> MergedSums<T> {
    /// Sums of nothing.
    pub(crate) fn new(layout: SigLayout) -> Self {
        MergedSums { layout, blocks: Vec::new(), terms: 0, totals: Vec::new() }
    }

    /// Adds a partial result.
    ///
    /// # Errors
    /// `Bug` if it is not one of these sums.
    pub(crate) fn add(&mut self, mut partial: Partial) -> Result<()> {
        if partial.has(TOTALS) {
            let totals = T::Total::unpack(partial.take_native(TOTALS)?)?;
            return add_or_keep(&mut self.totals, totals, self.layout.len());
        }
        let blocks = T::Block::unpack(partial.take_native(BLOCKS)?)?;
        let terms = match partial.take_native(TERMS)?.as_slice::<u64>()? {
            [terms] => usize::try_from(*terms).unwrap_or(usize::MAX),
            _ => return Err(Error::bug("sums of pixels without their number of frames")),
        };
        if terms > T::BLOCK_TERMS - self.terms {
            let blocks = std::mem::take(&mut self.blocks).into_iter();
            let folded = memory::collected(blocks.map(T::total))?;
            add_or_keep(&mut self.totals, folded, self.layout.len())?;
            self.terms = 0;
        }
        self.terms = self.terms.saturating_add(terms);
        add_or_keep(&mut self.blocks, blocks, self.layout.len())
    }

    /// Partial results whose sum this is, totals and blocks apart as they are.
    ///
    /// # Errors
    /// `Bug` if there are too many pixels for an array.
    pub(crate) fn take_partials(&mut self) -> Result<Vec<Partial>> {
        let mut partials = Vec::new();
        if !self.totals.is_empty() {
            partials.push(Partial::new().with(TOTALS, pack(std::mem::take(&mut self.totals))?));
        }
        if !self.blocks.is_empty() {
            partials.push(blocks_partial(std::mem::take(&mut self.blocks), self.terms)?);
        }
        self.terms = 0;
        Ok(partials)
    }

    /// The sums in the C order of the frame, as values of a result buffer of `dtype`, each
    /// rounded once.
    ///
    /// # Errors
    /// `Bug` if the dtype cannot hold sums.
    pub(crate) fn results(&self, dtype: DType) -> Result<NativeArray> {
        let values = match (self.blocks.is_empty(), self.totals.is_empty()) {
            (false, true) => round(&self.layout.in_frame_order(&self.blocks)?, dtype)?,
            _ => round(&self.layout.in_frame_order(&self.totals()?)?, dtype)?,
        };
        NativeArray::try_new(self.layout.sig_shape(), values)
    }

    fn totals(&self) -> Result<Cow<'_, [T::Total]>> {
        match (self.blocks.is_empty(), self.totals.is_empty()) {
            (true, true) => Ok(Cow::Owned(memory::filled(T::Total::default(), self.layout.len())?)),
            (true, false) => Ok(Cow::Borrowed(&self.totals)),
            (false, _) => {
                let mut sums = memory::collected(self.blocks.iter().copied().map(T::total))?;
                if !self.totals.is_empty() {
                    add_all(&mut sums, &self.totals)?;
                }
                Ok(Cow::Owned(sums))
            }
        }
    }
}

/// Adds to the sums so far; what comes first is kept as it is, which spares memory and a pass.
fn add_or_keep<A: Total>(sums: &mut Vec<A>, others: Vec<A>, len: usize) -> Result<()> {
    if sums.is_empty() && others.len() == len {
        *sums = others;
        return Ok(());
    }
    memory::resize(sums, len, A::default())?;
    add_all(sums, &others)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loops::add_frames;
    use framefold_core::{FramesView, TilingScheme};
    use framefold_simd::Simd;
    use std::sync::Arc;

    /// The partial result of `depth` frames of one pixel, cut into two tiles.
    fn partial(tiling: &Arc<TilingScheme>, value: u16, depth: usize) -> Partial {
        let cells = vec![value; depth];
        let frames = FramesView::try_new(&cells, depth, 1, 1).unwrap();
        let mut sums = PixelSums::<u16>::try_new(tiling).unwrap();
        let added = sums.add(&tiling.slices()[0], depth, |which, _, blocks| {
            add_frames(Simd::best(), frames, which, blocks);
            Ok(())
        });
        added.unwrap();
        sums.into_partial().unwrap()
    }

    #[test]
    fn merged_sums_do_not_overflow() {
        let tiling = Arc::new(TilingScheme::try_new(&[1], &[1], 1).unwrap());
        let mut merged = MergedSums::<u16>::new(SigLayout::try_new(&tiling).unwrap());
        let result = |merged: &MergedSums<u16>| {
            merged.results(DType::F64).unwrap().as_slice::<f64>().unwrap()[0]
        };
        assert_eq!(result(&merged), 0.0);
        let mut frames = 0;
        // Narrow sums that fill a block exactly, that overflow it, and that were wide already.
        for depth in [1, (1 << 16) - 1, 1, 40_000, 40_000, 1 << 17, 5, (1 << 16) + 1, 7] {
            let partial = partial(&tiling, u16::MAX, depth);
            assert_eq!(partial.has(BLOCKS), depth <= 1 << 16, "{depth}");
            merged.add(partial).unwrap();
            frames += depth;
            assert_eq!(result(&merged), 65535.0 * frames as f64, "{depth}");
            let (blocks, totals, terms) =
                (merged.blocks.clone(), merged.totals.clone(), merged.terms);
            let mut moved = MergedSums::<u16>::new(SigLayout::try_new(&tiling).unwrap());
            for partial in merged.take_partials().unwrap() {
                moved.add(partial).unwrap();
            }
            merged = moved;
            assert_eq!((&merged.blocks, &merged.totals, merged.terms), (&blocks, &totals, terms));
            assert_eq!(result(&merged), 65535.0 * frames as f64, "asked twice");
        }
    }

    #[test]
    fn sums_of_other_pixels_are_refused() {
        let one = Arc::new(TilingScheme::try_new(&[1], &[1], 1).unwrap());
        let two = Arc::new(TilingScheme::try_new(&[2], &[2], 1).unwrap());
        let mut merged = MergedSums::<u16>::new(SigLayout::try_new(&two).unwrap());
        assert!(merged.add(partial(&one, 1, 1)).is_err());
        assert!(merged.add(Partial::new()).is_err());
    }
}
