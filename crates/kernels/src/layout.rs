//! Where the pixels of a signal slice lie in an accumulator.

use framefold_core::{Result, SigSlice, TilingScheme, memory};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// `len` times `value`, in memory that is there.
///
/// Zeroed memory from the system is not: its pages are found missing when they are first read, and
/// again when they are first written, which costs more than adding a few frames to them.
///
/// # Errors
/// `Limit` if the system has not so much.
pub(crate) fn filled<T: Copy>(value: T, len: usize) -> Result<Vec<T>> {
    // A value that the compiler knew to be zero would be left to the system.
    memory::filled(std::hint::black_box(value), len)
}

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
    ///
    /// # Errors
    /// `Limit` if there is no memory for as many numbers as there are slices.
    pub(crate) fn try_new(tiling: &Arc<TilingScheme>) -> Result<Self> {
        let mut next = 0;
        let starts = tiling.slices().iter().map(|slice| {
            let start = next;
            next += slice.len();
            start
        });
        Ok(SigLayout { tiling: Arc::clone(tiling), starts: memory::collected(starts)? })
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

    /// Whether one slice after the other is the C order of the frame: slices are whole rows.
    fn is_in_frame_order(&self) -> bool {
        let (sig, tile) = (self.tiling.sig_shape(), self.tiling.tile_shape());
        tile.iter().zip(sig).skip(1).all(|(tile, sig)| tile == sig)
    }

    /// Values kept slice after slice, in the C order of the frame.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them.
    pub(crate) fn in_frame_order<'v, T: Copy + Default>(
        &self,
        values: &'v [T],
    ) -> Result<Cow<'v, [T]>> {
        if self.is_in_frame_order() {
            return Ok(Cow::Borrowed(values));
        }
        let mut frame = memory::filled(T::default(), self.len())?;
        let sig = self.sig_shape();
        // Row by row of slices that are neighbours: their rows are written one after the other, and
        // each slice is read from its start to its end.
        let last = sig.len() - 1;
        let neighbours = |a: &SigSlice, b: &SigSlice| a.origin()[..last] == b.origin()[..last];
        for slices in self.tiling.slices().chunk_by(neighbours) {
            for (row, first) in slices[0].runs(sig).enumerate() {
                let mut rest = &mut frame[first.start..];
                for slice in slices {
                    let n = if slices.len() == 1 { first.len() } else { slice.shape()[last] };
                    let (here, later) = rest.split_at_mut(n);
                    here.copy_from_slice(&values[self.starts[slice.index()] + row * n..][..n]);
                    rest = later;
                }
            }
        }
        Ok(Cow::Owned(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_slices_than_there_is_memory_for_are_an_error() {
        let tiling = Arc::new(TilingScheme::try_new(&[100], &[1], 1).unwrap());
        assert!(memory::within(800, || SigLayout::try_new(&tiling)).is_ok());
        assert!(memory::within(799, || SigLayout::try_new(&tiling)).is_err());
    }

    #[test]
    fn the_order_of_the_frame_is_restored() {
        let sig = [4, 5, 3];
        for tile in [[4, 5, 3], [1, 5, 3], [3, 5, 3], [2, 2, 2], [3, 5, 2], [4, 1, 3], [1, 1, 1]] {
            let tiling = Arc::new(TilingScheme::try_new(&sig, &tile, 1).unwrap());
            let layout = SigLayout::try_new(&tiling).unwrap();
            let mut values = vec![0; layout.len()];
            for slice in tiling.slices() {
                let cells = slice.runs(&sig).flatten();
                for (value, cell) in values[layout.range(slice)].iter_mut().zip(cells) {
                    *value = cell;
                }
            }
            assert_eq!(
                layout.in_frame_order(&values).unwrap().as_ref(),
                (0..60).collect::<Vec<_>>()
            );
            assert_eq!(layout.is_in_frame_order(), tile[1..] == sig[1..], "{tile:?}");
        }
    }
}
