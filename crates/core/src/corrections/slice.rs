//! What has to be read so that a slice can be corrected.

use super::Corrections;
use crate::{Error, Result, SigSlice};
use std::ops::Range;

/// A slice, the part of the frame to read for it, and the repairs in it.
///
/// Repairing a pixel at the edge of a slice takes neighbours beyond that edge. Only then is more
/// read than the slice: up to the next multiple of what the source reads best. So tiles can be
/// cut wherever they like, whatever pixels are excluded.
#[derive(Clone, Debug)]
pub struct CorrectedSlice {
    read: SigSlice,
    /// The runs of the read part that make up the slice; `None` if it is all of it.
    kept: Option<Vec<Range<usize>>>,
    /// Cells within the read part: the excluded one, and where in `neighbours` its own end.
    repairs: Vec<(u32, u32)>,
    neighbours: Vec<u32>,
}

impl CorrectedSlice {
    /// Prepares `slice`, for a source that reads multiples of `base_shape` best.
    ///
    /// # Errors
    /// `Limit` if there are more excluded pixels or cells than 32 bits can count.
    pub fn try_new(
        corrections: &Corrections,
        slice: &SigSlice,
        base_shape: &[usize],
    ) -> Result<Self> {
        let sig = corrections.sig_shape();
        let excluded = excluded_in(corrections, slice);
        let mut bounds: Vec<Range<usize>> =
            slice.origin().iter().zip(slice.shape()).map(|(&o, &n)| o..o + n).collect();
        let mut repaired = Vec::new();
        for cell in excluded {
            let good = corrections.good_neighbours(cell);
            for &neighbour in &good {
                let place = super::coordinates(neighbour, sig);
                for (bound, at) in bounds.iter_mut().zip(place) {
                    *bound = bound.start.min(at)..bound.end.max(at + 1);
                }
            }
            if !good.is_empty() {
                repaired.push((cell, good));
            }
        }
        for (axis, bound) in bounds.iter_mut().enumerate() {
            let (first, len) = (slice.origin()[axis], slice.shape()[axis]);
            let unit = base_shape.get(axis).copied().unwrap_or(1).max(1);
            if bound.start < first {
                bound.start -= bound.start % unit;
            }
            if bound.end > first + len {
                bound.end = bound.end.next_multiple_of(unit).min(sig[axis]);
            }
        }
        let read = SigSlice::new(
            bounds.iter().map(|b| b.start).collect(),
            bounds.iter().map(|b| b.len()).collect(),
            sig,
            slice.index(),
        );
        let within = |cell: usize| {
            let place = super::coordinates(cell, sig);
            let flat =
                bounds.iter().zip(place).fold(0, |flat, (b, at)| flat * b.len() + at - b.start);
            small(flat)
        };
        let (mut repairs, mut neighbours) = (Vec::new(), Vec::new());
        for (cell, good) in repaired {
            for neighbour in good {
                neighbours.push(within(neighbour)?);
            }
            repairs.push((within(cell)?, small(neighbours.len())?));
        }
        let kept = (read.shape() != slice.shape()).then(|| {
            let inside: Vec<usize> =
                slice.origin().iter().zip(&bounds).map(|(&o, b)| o - b.start).collect();
            let part = SigSlice::new(inside, slice.shape().to_vec(), read.shape(), slice.index());
            part.runs(read.shape()).collect()
        });
        Ok(CorrectedSlice { read, kept, repairs, neighbours })
    }

    /// The part of the frame to read: the slice, or more.
    pub fn read(&self) -> &SigSlice {
        &self.read
    }

    /// The runs of the read part that make up the slice, in order; `None` if it is all of it.
    pub(super) fn kept(&self) -> Option<&[Range<usize>]> {
        self.kept.as_deref()
    }

    /// Cells to repair and their good neighbours, within the read part.
    pub(super) fn repairs(&self) -> impl Iterator<Item = (usize, &[u32])> {
        let mut start = 0;
        self.repairs.iter().map(move |&(cell, end)| {
            let own = start..end as usize;
            start = own.end;
            (cell as usize, &self.neighbours[own])
        })
    }
}

/// The excluded cells in `slice`, ascending.
fn excluded_in(corrections: &Corrections, slice: &SigSlice) -> Vec<usize> {
    let excluded = corrections.excluded();
    let mut found = Vec::new();
    if excluded.is_empty() {
        return found;
    }
    for run in slice.runs(corrections.sig_shape()) {
        let from = excluded.partition_point(|&cell| cell < run.start);
        let to = excluded.partition_point(|&cell| cell < run.end);
        found.extend_from_slice(&excluded[from..to]);
    }
    found
}

fn small(n: usize) -> Result<u32> {
    u32::try_from(n).map_err(|_| {
        Error::limit("there are too many pixels to repair in one part of the frame")
            .with_hint("exclude fewer pixels")
    })
}
