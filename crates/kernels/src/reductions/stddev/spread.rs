//! Squared distances from means, merged pairwise: for data whose squares do not fit an integer.

mod sparse;

pub(super) use sparse::SparseWorker;

use super::{Report, Seen, partial_of, take_n_frames};
use crate::cell::Cell;
use crate::layout::{SigLayout, filled};
use crate::loops::{groups, stream, strip};
use crate::total::{Total, Value, add_all, pack};
use framefold_core::{
    Accumulator, Array, FramesView, Merger, Partial, Partition, Result, RunMeta, Tile,
};
use framefold_simd::{Simd, run};
use std::ops::Range;

/// The number of pixels whose statistics stay in registers.
const STRIP: usize = 16;

/// Sum and sum of squared distances from the mean, for every pixel.
struct Moments<A> {
    sums: Vec<A>,
    varsums: Vec<f64>,
}

impl<A: Total> Moments<A> {
    fn zeros(len: usize) -> Result<Self> {
        Ok(Moments { sums: filled(A::default(), len)?, varsums: filled(0.0, len)? })
    }
}

/// Folding the statistics of `n_b` frames into those of `n_a` frames (Chan et al., eq. 2.1).
///
/// The difference of the means is taken as `(n_a * sum_b - n_b * sum_a) / (n_a * n_b)`: this
/// needs no division per pixel, and is exactly zero for a pixel that never changes, as long as its
/// sums are exact.
#[derive(Clone, Copy)]
struct Fold {
    n_a: usize,
    n_b: usize,
    weight: f64,
}

impl Fold {
    /// `None` if either has no frames: then there is nothing between them.
    fn new(n_a: usize, n_b: usize) -> Option<Self> {
        let (a, b) = (n_a as f64, n_b as f64);
        let product = a * b * (a + b);
        (product > 0.0).then(|| Fold { n_a, n_b, weight: 1.0 / product })
    }

    /// What the difference of the means adds to the sum of squared distances.
    #[inline(always)]
    fn between<A: Total>(self, sum_a: A, sum_b: A) -> f64 {
        sum_b.difference(self.n_a, sum_a, self.n_b).norm_sqr() * self.weight
    }
}

/// Folds a tile into the statistics of the `seen` frames before it, a group of frames at a time.
fn fold_tile<T: Cell>(
    simd: Simd,
    frames: FramesView<'_, T>,
    seen: usize,
    sums: &mut [T::Total],
    varsums: &mut [f64],
) {
    run!(simd, {
        for group in groups(0..frames.depth()) {
            // Two loops, because a choice inside of one would keep the compiler from making
            // vectors of it.
            match Fold::new(seen + group.start, group.len()) {
                Some(fold) => fold_group::<T>(
                    frames,
                    group,
                    sums,
                    varsums,
                    #[inline(always)]
                    |a, b| fold.between(a, b),
                ),
                None => fold_group::<T>(
                    frames,
                    group,
                    sums,
                    varsums,
                    #[inline(always)]
                    |_, _| 0.0,
                ),
            }
        }
    });
}

#[inline(always)]
fn fold_group<T: Cell>(
    frames: FramesView<'_, T>,
    group: Range<usize>,
    sums: &mut [T::Total],
    varsums: &mut [f64],
    between: impl Fn(T::Total, T::Total) -> f64 + Copy,
) {
    let wide = sums.len() - sums.len() % STRIP;
    let (sums, rest_sums) = sums.split_at_mut(wide);
    let (varsums, rest_varsums) = varsums.split_at_mut(wide);
    fold_strips::<T, STRIP>(frames, group.clone(), 0, sums, varsums, between);
    fold_strips::<T, 1>(frames, group, wide, rest_sums, rest_varsums, between);
}

/// Folds a group of frames, for the pixels from `first` on, in strips of `W`.
#[inline(always)]
fn fold_strips<T: Cell, const W: usize>(
    frames: FramesView<'_, T>,
    group: Range<usize>,
    first: usize,
    sums: &mut [T::Total],
    varsums: &mut [f64],
    between: impl Fn(T::Total, T::Total) -> f64 + Copy,
) {
    let strips = sums.as_chunks_mut::<W>().0.iter_mut().zip(varsums.as_chunks_mut::<W>().0);
    for (index, (sums, varsums)) in strips.enumerate() {
        let at = first + index * W;
        let mut blocks = [T::Block::default(); W];
        for i in group.clone() {
            let cells = stream::<T, W>(frames, i, at);
            for k in 0..W {
                blocks[k] += cells[k].block();
            }
        }
        // The second pass finds the pixels in the cache. A frame on its own takes part: it is its
        // mean, but for NaN and infinities, which must leave a trace.
        let added = blocks.map(T::total);
        let means = added.map(|sum| sum.mean(group.len()));
        let mut distances = [0.0; W];
        for i in group.clone() {
            let cells = strip::<T, W>(frames, i, at);
            for k in 0..W {
                let cell = T::total(cells[k].block());
                distances[k] += cell.distance(means[k]).norm_sqr();
            }
        }
        // Copies stay in registers.
        let (mut folded_sums, mut folded_varsums) = (*sums, *varsums);
        for k in 0..W {
            folded_varsums[k] += distances[k] + between(folded_sums[k], added[k]);
            folded_sums[k] += added[k];
        }
        (*sums, *varsums) = (folded_sums, folded_varsums);
    }
}

pub(super) struct Worker<T: Cell> {
    layout: SigLayout,
    seen: Seen,
    moments: Moments<T::Total>,
}

impl<T: Cell> Worker<T> {
    pub(super) fn try_new(run: &RunMeta, seen: Seen) -> Result<Self> {
        let layout = SigLayout::try_new(&run.tiling)?;
        Ok(Worker { moments: Moments::zeros(layout.len())?, layout, seen })
    }
}

impl<T: Cell> Accumulator for Worker<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let slice = tile.position.sig;
        let place = self.layout.range(slice);
        let frames = T::view(tile.frames())?;
        let seen = self.seen.add(slice, frames.depth());
        let sums = &mut self.moments.sums[place.clone()];
        fold_tile(Simd::best(), frames, seen, sums, &mut self.moments.varsums[place]);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        partial(&self.seen, self.moments.sums, self.moments.varsums)
    }
}

fn partial<A: Total>(seen: &Seen, sums: Vec<A>, varsums: Vec<f64>) -> Result<Partial> {
    with_moments(seen.partial()?, sums, varsums)
}

fn with_moments<A: Total>(partial: Partial, sums: Vec<A>, varsums: Vec<f64>) -> Result<Partial> {
    Ok(partial.with("sums", pack(sums)?).with("varsums", pack(varsums)?))
}

pub(super) struct Merged<A> {
    report: Report,
    n_frames: usize,
    moments: Moments<A>,
}

impl<A: Total> Merged<A> {
    pub(super) fn try_new(report: Report) -> Result<Self> {
        Ok(Merged { moments: Moments::zeros(report.layout.len())?, report, n_frames: 0 })
    }
}

impl<A: Total> Merger for Merged<A> {
    fn merge(&mut self, _partition: &Partition, mut partial: Partial) -> Result<()> {
        let n_frames = take_n_frames(&mut partial)?;
        let sums = A::unpack(partial.take_native("sums")?)?;
        let varsums = f64::unpack(partial.take_native("varsums")?)?;
        if let Some(fold) = Fold::new(self.n_frames, n_frames) {
            let pairs = self.moments.sums.iter().zip(&sums);
            for (varsum, (&sum_a, &sum_b)) in self.moments.varsums.iter_mut().zip(pairs) {
                *varsum += fold.between(sum_a, sum_b);
            }
        }
        add_all(&mut self.moments.varsums, &varsums)?;
        add_all(&mut self.moments.sums, &sums)?;
        self.n_frames += n_frames;
        Ok(())
    }

    fn results(&self) -> Result<Vec<Array>> {
        self.report.results(self.n_frames, &self.moments.sums, &self.moments.varsums)
    }

    fn take_partials(&mut self) -> Result<Option<Vec<Partial>>> {
        let count = partial_of(std::mem::take(&mut self.n_frames))?;
        let Moments { sums, varsums } = &mut self.moments;
        let taken = with_moments(count, std::mem::take(sums), std::mem::take(varsums))?;
        Ok(Some(vec![taken]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_gives_the_same_bits() {
        let cells: Vec<f32> = (0..4000).map(|i| 1e4 + (i as f32).sin()).collect();
        let frames = FramesView::try_new(&cells, 37, 101, 105).unwrap();
        let moments = |simd| {
            let mut moments = Moments::<f64>::zeros(101).unwrap();
            fold_tile(simd, frames, 0, &mut moments.sums, &mut moments.varsums);
            fold_tile(simd, frames, 37, &mut moments.sums, &mut moments.varsums);
            [moments.sums, moments.varsums]
                .map(|v| v.into_iter().map(f64::to_bits).collect::<Vec<_>>())
        };
        let plain = moments(Simd::plain());
        assert!(Simd::all().into_iter().all(|simd| moments(simd) == plain));
        let pixel = || frames.frames().map(|frame| f64::from(frame[100]));
        let mean = pixel().sum::<f64>() / 37.0;
        let varsum: f64 = 2.0 * pixel().map(|x| (x - mean).powi(2)).sum::<f64>();
        let found = f64::from_bits(plain[1][100]);
        assert!((found - varsum).abs() < 1e-9, "{found} {varsum}");
    }
}
