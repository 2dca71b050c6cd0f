//! How frames are cut into tiles: sealed, so that cover and disjointness are proven once.

use crate::{Error, Result, checked_product, interrupt};
use std::ops::Range;

/// A rectangular part of the signal axes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigSlice {
    origin: Vec<usize>,
    shape: Vec<usize>,
    linear: Option<Range<usize>>,
    index: usize,
}

impl SigSlice {
    /// The part of frames of shape `sig` that starts at `origin`.
    pub(crate) fn new(origin: Vec<usize>, shape: Vec<usize>, sig: &[usize], index: usize) -> Self {
        let mut runs = Runs::new(&origin, &shape, sig);
        let linear = if runs.extents.is_empty() { runs.next() } else { None };
        SigSlice { origin, shape, linear, index }
    }

    /// A slice of frames of shape `sig` that is part of no scheme: for sources that read from other
    /// sources.
    ///
    /// # Errors
    /// `Bug` if it is empty or reaches beyond the frame, or that has more cells than memory.
    pub fn try_within(origin: Vec<usize>, shape: Vec<usize>, sig: &[usize]) -> Result<Self> {
        let fits = |((&origin, &len), &of): ((&usize, &usize), &usize)| {
            len > 0 && origin.checked_add(len).is_some_and(|end| end <= of)
        };
        if sig.is_empty()
            || origin.len() != sig.len()
            || shape.len() != sig.len()
            || !origin.iter().zip(&shape).zip(sig).all(fits)
            || checked_product(sig).is_none_or(|n| isize::try_from(n).is_err())
        {
            return Err(Error::bug(format!("a slice of {shape:?} at {origin:?} of {sig:?}")));
        }
        Ok(SigSlice::new(origin, shape, sig, 0))
    }

    /// The first cell of the slice on each signal axis.
    pub fn origin(&self) -> &[usize] {
        &self.origin
    }

    /// The length of the slice on each signal axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of cells.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Always false: a slice holds at least one cell.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The cells as one run of the C-order frame, where the slice is one.
    pub fn linear(&self) -> Option<Range<usize>> {
        self.linear.clone()
    }

    /// The number of this slice in its scheme.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The runs of the C-order frame of shape `sig` that make up the slice, in order.
    pub fn runs(&self, sig: &[usize]) -> impl Iterator<Item = Range<usize>> + use<> {
        Runs::new(&self.origin, &self.shape, sig)
    }
}

/// The runs of a slice, one at a time: there may be as many as a frame has rows.
struct Runs {
    /// Where the next one starts.
    start: Option<usize>,
    /// How long each is.
    len: usize,
    /// The axes along which runs follow each other: cells of the slice, cells of the frame from one
    /// to the next, and how far the next run is.
    extents: Vec<usize>,
    strides: Vec<usize>,
    at: Vec<usize>,
}

impl Runs {
    fn new(origin: &[usize], shape: &[usize], sig: &[usize]) -> Self {
        let stride_of = |axis: usize| sig[axis + 1..].iter().product::<usize>();
        let first = origin.iter().enumerate().map(|(axis, at)| at * stride_of(axis)).sum();
        // Trailing axes that are taken in full join the run; so does the first one that is not.
        let cut = (0..sig.len()).rev().find(|&axis| shape[axis] != sig[axis]).unwrap_or(0);
        let axes: Vec<usize> = (0..cut).filter(|&axis| shape[axis] > 1).collect();
        Runs {
            start: Some(first),
            len: shape[cut..].iter().product(),
            extents: axes.iter().map(|&axis| shape[axis]).collect(),
            strides: axes.iter().map(|&axis| stride_of(axis)).collect(),
            at: vec![0; axes.len()],
        }
    }
}

impl Iterator for Runs {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let start = self.start.take()?;
        let mut next = start;
        let axes = self.at.iter_mut().zip(&self.extents).zip(&self.strides);
        for ((at, extent), stride) in axes.rev() {
            *at += 1;
            next += stride;
            if *at < *extent {
                self.start = Some(next);
                break;
            }
            *at = 0;
            next -= extent * stride;
        }
        Some(start..start + self.len)
    }
}

/// So many slices a frame has at most: those of a plan are held in memory.
const MOST_SLICES: usize = 1 << 20;

/// After so many slices, those who watch are asked whether the plan is still wanted.
const SLICES_BETWEEN_CHECKS: usize = 4096;

/// A tiling of every frame of a run: a grid of signal slices and a depth in frames.
///
/// There is no way to make one but [`TilingScheme::try_new`], which cuts a grid; the slices
/// therefore always cover the frame and never overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TilingScheme {
    sig_shape: Vec<usize>,
    tile_shape: Vec<usize>,
    depth: usize,
    slices: Vec<SigSlice>,
}

impl TilingScheme {
    /// Cuts frames of `sig_shape` into slices of at most `tile_shape`, `depth` frames at a time.
    ///
    /// Slices are numbered in C order; those at the far borders may be smaller.
    ///
    /// # Errors
    /// `InvalidArgument` if the shapes differ in length, or an axis or the depth is 0; `Limit` if
    /// there are more than a million slices.
    pub fn try_new(sig_shape: &[usize], tile_shape: &[usize], depth: usize) -> Result<Self> {
        if sig_shape.is_empty() || sig_shape.len() != tile_shape.len() {
            return Err(Error::invalid(format!(
                "a tile of shape {tile_shape:?} does not fit frames of shape {sig_shape:?}"
            )));
        }
        if depth == 0 || sig_shape.contains(&0) || tile_shape.contains(&0) {
            return Err(Error::invalid(format!(
                "tile shape {tile_shape:?} with depth {depth} has an axis of length 0"
            )));
        }
        if checked_product(sig_shape).is_none_or(|n| isize::try_from(n).is_err()) {
            return Err(Error::invalid(format!("frames of shape {sig_shape:?} are too large")));
        }
        let tile_shape: Vec<usize> =
            tile_shape.iter().zip(sig_shape).map(|(&tile, &sig)| tile.min(sig)).collect();
        let counts = tile_shape.iter().zip(sig_shape).map(|(&tile, &sig)| sig.div_ceil(tile));
        let n_slices = counts.fold(1usize, usize::saturating_mul);
        if n_slices > MOST_SLICES {
            return Err(Error::limit(format!(
                "frames of shape {sig_shape:?} would be cut into {n_slices} parts of shape \
                 {tile_shape:?}, and there can be {MOST_SLICES} at most"
            ))
            .with_hint("check the shape of the data set, or use larger tiles"));
        }
        let mut corners = vec![Vec::new()];
        for (&tile, &sig) in tile_shape.iter().zip(sig_shape) {
            corners = corners
                .into_iter()
                .flat_map(|corner: Vec<usize>| {
                    (0..sig).step_by(tile).map(move |start| {
                        let mut corner = corner.clone();
                        corner.push(start);
                        corner
                    })
                })
                .collect();
        }
        let slices = corners
            .into_iter()
            .enumerate()
            .map(|(index, origin)| {
                if index % SLICES_BETWEEN_CHECKS == 0 {
                    interrupt::check()?;
                }
                let shape: Vec<usize> = origin
                    .iter()
                    .zip(tile_shape.iter().zip(sig_shape))
                    .map(|(&start, (&tile, &sig))| tile.min(sig - start))
                    .collect();
                Ok(SigSlice::new(origin, shape, sig_shape, index))
            })
            .collect::<Result<_>>()?;
        Ok(TilingScheme { sig_shape: sig_shape.to_vec(), tile_shape, depth, slices })
    }

    /// The shape of a whole frame.
    pub fn sig_shape(&self) -> &[usize] {
        &self.sig_shape
    }

    /// The shape of an inner slice; those at the borders may be smaller.
    pub fn tile_shape(&self) -> &[usize] {
        &self.tile_shape
    }

    /// The largest number of frames in a tile.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The slices, in C order.
    pub fn slices(&self) -> &[SigSlice] {
        &self.slices
    }

    /// Whether every tile holds whole frames.
    pub fn is_full_frame(&self) -> bool {
        self.slices.len() == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiling_of_many_slices_can_be_stopped() {
        let stopped = || {
            interrupt::watched(
                || Err(Error::cancelled()),
                || TilingScheme::try_new(&[1 << 18], &[1], 1),
            )
        };
        assert_eq!(stopped().unwrap_err().kind(), Error::cancelled().kind());
        assert_eq!(TilingScheme::try_new(&[1 << 13], &[1], 1).unwrap().slices().len(), 1 << 13);
    }
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_cell_is_in_exactly_one_slice(
            dims in prop::collection::vec((1usize..7, 1usize..9), 1..4),
        ) {
            let sig: Vec<usize> = dims.iter().map(|d| d.0).collect();
            let tile: Vec<usize> = dims.iter().map(|d| d.1).collect();
            let scheme = TilingScheme::try_new(&sig, &tile, 3).unwrap();
            let mut seen = vec![0; sig.iter().product()];
            for (index, slice) in scheme.slices().iter().enumerate() {
                prop_assert_eq!(slice.index(), index);
                let runs: Vec<_> = slice.runs(&sig).collect();
                prop_assert_eq!(runs.iter().map(|run| run.len()).sum::<usize>(), slice.len());
                if let Some(linear) = slice.linear() {
                    prop_assert_eq!(&runs, &[linear]);
                }
                for cell in runs.into_iter().flatten() {
                    seen[cell] += 1;
                }
            }
            prop_assert!(seen.iter().all(|&n| n == 1));
        }
    }

    #[test]
    fn runs_follow_the_c_order_of_the_frame() {
        let scheme = TilingScheme::try_new(&[4, 6], &[2, 3], 1).unwrap();
        let slice = &scheme.slices()[3];
        assert_eq!((slice.origin(), slice.shape()), (&[2, 3][..], &[2, 3][..]));
        assert_eq!(slice.runs(&[4, 6]).collect::<Vec<_>>(), [15..18, 21..24]);
        assert_eq!(slice.linear(), None);
    }

    #[test]
    fn runs_need_no_memory() {
        let sig = [6, usize::MAX >> 8, 6];
        let scheme = TilingScheme::try_new(&sig, &[6, sig[1], 3], 1).unwrap();
        let runs = scheme.slices()[1].runs(&sig);
        assert_eq!(runs.take(3).collect::<Vec<_>>(), [3..6, 9..12, 15..18]);
    }

    #[test]
    fn full_rows_are_one_run() {
        let scheme = TilingScheme::try_new(&[5, 6], &[2, 6], 1).unwrap();
        assert_eq!(scheme.slices()[1].linear(), Some(12..24));
        assert_eq!(scheme.slices()[2].linear(), Some(24..30));
    }
}
