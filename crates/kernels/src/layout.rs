//! Where the pixels of a signal slice lie in an accumulator.

use framefold_core::{SigSlice, TilingScheme};
use std::ops::Range;
use std::sync::Arc;

/// One value per pixel, kept slice after slice.
///
/// Tiles come as signal slices, whose cells are one run. Keeping the pixels of a slice together
/// makes every inner loop one loop over two runs, whatever the shape of the slice; the order of
/// the frame is restored once, when results are asked for.
#[derive(Clone, Debug)]
pub(crate) struct SigLayout {
    tiling: Arc<TilingScheme>,
    starts: Vec<usize>,
}

impl SigLayout {
    /// The layout for the slices of `tiling`.
    pub(crate) fn new(tiling: &Arc<TilingScheme>) -> Self {
        let starts = tiling
            .slices()
            .iter()
            .scan(0, |next, slice| {
                let start = *next;
                *next += slice.len();
                Some(start)
            })
            .collect();
        SigLayout { tiling: Arc::clone(tiling), starts }
    }

    /// The shape of a frame.
    pub(crate) fn sig_shape(&self) -> &[usize] {
        self.tiling.sig_shape()
    }

    /// The number of pixels of a frame.
    pub(crate) fn len(&self) -> usize {
        self.tiling.sig_shape().iter().product()
    }

    /// The place of the pixels of `slice`, which must be one of the tiling's.
    pub(crate) fn range(&self, slice: &SigSlice) -> Range<usize> {
        let start = self.starts[slice.index()];
        start..start + slice.len()
    }

    /// Values kept slice after slice, in the C order of the frame.
    pub(crate) fn in_frame_order<T: Copy + Default>(&self, values: &[T]) -> Vec<T> {
        let mut frame = vec![T::default(); self.len()];
        let mut rest = values;
        for run in self.tiling.slices().iter().flat_map(|s| s.runs(self.tiling.sig_shape())) {
            let (here, later) = rest.split_at(run.len());
            frame[run].copy_from_slice(here);
            rest = later;
        }
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_frame_is_restored() {
        let sig = [4, 5, 3];
        for tile in [[4, 5, 3], [1, 5, 3], [2, 2, 2], [3, 5, 2], [1, 1, 1]] {
            let tiling = Arc::new(TilingScheme::try_new(&sig, &tile, 1).unwrap());
            let layout = SigLayout::new(&tiling);
            let mut values = vec![0; layout.len()];
            for slice in tiling.slices() {
                let cells = slice.runs(&sig).flatten();
                for (value, cell) in values[layout.range(slice)].iter_mut().zip(cells) {
                    *value = cell;
                }
            }
            assert_eq!(layout.in_frame_order(&values), (0..60).collect::<Vec<_>>());
        }
    }
}
