//! Partitions whose borders are given: by the caller, or by data that come in pieces.

use super::partitions::Cuts;
use crate::PlanOptions;
use framefold_core::{Dataset, Partition, Roi};
use std::ops::Range;

/// The borders that are given, as numbers of selected frames, ascending, and why they are there.
pub(super) fn given(
    dataset: &Dataset,
    roi: Option<&Roi>,
    options: &PlanOptions,
) -> Option<(Vec<usize>, &'static str)> {
    if let Some(cuts) = &options.cuts {
        return Some((cuts.clone(), "as asked for"));
    }
    let pieces = dataset.source().pieces()?;
    let bounds = pieces.iter().map(|&first| {
        let position = i128::from(first) - i128::from(dataset.sync_offset());
        let position = usize::try_from(position.max(0)).unwrap_or(usize::MAX);
        roi.map_or(position, |roi| roi.positions().partition_point(|&p| p < position))
    });
    Some((bounds.collect(), "one for each piece that can only be read as a whole"))
}

/// Cuts runs of selected frames at `bounds`.
pub(super) fn cut(runs: &[Range<usize>], bounds: &[usize], why: &str) -> Cuts {
    let mut frames = Vec::new();
    for run in runs {
        let first = bounds.partition_point(|&bound| bound <= run.start);
        let mut start = run.start;
        for &bound in bounds[first..].iter().take_while(|&&bound| bound < run.end) {
            if bound > start {
                frames.push(Partition { index: frames.len(), frames: start..bound });
                start = bound;
            }
        }
        frames.push(Partition { index: frames.len(), frames: start..run.end });
    }
    Cuts { frames, n_bands: 1, why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_cut_where_it_is_asked_for() {
        let cut = |runs: &[Range<usize>], bounds: &[usize]| {
            let cuts = cut(runs, bounds, "").frames;
            assert!(cuts.iter().enumerate().all(|(i, partition)| partition.index == i));
            cuts.into_iter().map(|partition| partition.frames).collect::<Vec<_>>()
        };
        let one = std::slice::from_ref(&(0..10));
        assert_eq!(cut(one, &[]), one);
        assert_eq!(cut(one, &[3, 7]), [0..3, 3..7, 7..10]);
        // At the ends, twice, and beyond them.
        assert_eq!(cut(one, &[0, 5, 5, 10, 12]), [0..5, 5..10]);
        // Gaps part what is between two bounds.
        assert_eq!(cut(&[1..4, 6..9], &[2, 5, 8]), [1..2, 2..4, 6..8, 8..9]);
        assert_eq!(cut(&[], &[3]), Vec::<Range<usize>>::new());
    }
}
