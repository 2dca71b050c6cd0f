//! Gathers single elements block by block, so that no line of memory is fetched twice.
//!
//! Frames of an array in Fortran order are columns of a matrix whose rows are the tile: copying
//! one into the other is a transpose. Where it is walked row by row, each element costs a line of
//! memory; block by block, the lines of a block stay in the first-level cache until all of their
//! elements are used.

use super::places::{Place, to_u64};
use framefold_core::{Error, Result, interrupt, memory};

/// The elements of the walk along memory that make a block.
const INNER: usize = 64;
/// After so many blocks, it is asked whether the tile is still wanted.
const CHECK: usize = 256;
/// Bytes of neighbours in the tile that make a block: a line.
const OUTER_BYTES: usize = 64;

/// Elements next to each other in memory, evenly spaced in the tile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Run {
    /// Bytes from the first element of the array.
    pub(super) offset: u64,
    /// Elements from the start of the tile.
    pub(super) to: usize,
    pub(super) n: usize,
    /// Elements of the tile from one to the next.
    pub(super) step: usize,
}

/// Single elements in the order of memory, as runs of at most a block's length.
///
/// # Errors
/// `Limit` if there is no memory for them; `Cancelled` if the run was stopped.
pub(super) fn runs(places: &[Place], size: usize) -> Result<Vec<Run>> {
    let mut sorted = memory::copied(places)?;
    // In place, so that no more memory is taken; of repeated elements, the first comes first.
    sorted.sort_unstable_by_key(|place| (place.offset, place.to));
    let mut runs: Vec<Run> = Vec::new();
    for place in sorted {
        if let Some(run) = runs.last_mut()
            && run.n < INNER
            && place.offset == run.offset + to_u64(run.n * size)
            && place.to > run.to
        {
            let gap = place.to - run.to;
            if run.n == 1 || gap == run.n * run.step {
                (run.step, run.n) = (if run.n == 1 { gap } else { run.step }, run.n + 1);
                continue;
            }
        }
        memory::push(&mut runs, Run { offset: place.offset, to: place.to, n: 1, step: 1 })?;
    }
    Ok(runs)
}

/// Copies, for each single element of `outer`, all `inner` elements relative to it.
///
/// # Errors
/// `Bug` if one lies outside of `bytes` or `out`; `Cancelled` if the run was stopped.
#[expect(clippy::indexing_slicing, reason = "first and last are numbers of runs")]
pub(super) fn gather<const SIZE: usize>(
    bytes: &[u8],
    outer: &[Place],
    inner: &[Run],
    out: &mut [u8],
) -> Result<()> {
    let (mut first, mut n_blocks) = (0, 0usize);
    while first < inner.len() {
        let mut last = first + 1;
        let mut elements = inner[first].n;
        while last < inner.len() && elements + inner[last].n <= INNER {
            elements += inner[last].n;
            last += 1;
        }
        for outer in outer.chunks(OUTER_BYTES / SIZE) {
            n_blocks += 1;
            if n_blocks.is_multiple_of(CHECK) {
                interrupt::check()?;
            }
            for place in outer {
                for run in &inner[first..last] {
                    copy_run::<SIZE>(bytes, place, run, out)
                        .ok_or_else(|| Error::bug("an element lies outside of the array"))?;
                }
            }
        }
        first = last;
    }
    Ok(())
}

fn copy_run<const SIZE: usize>(
    bytes: &[u8],
    place: &Place,
    run: &Run,
    out: &mut [u8],
) -> Option<()> {
    let from = usize::try_from(place.offset + run.offset).ok()?;
    let from = bytes.get(from..from.checked_add(run.n * SIZE)?)?;
    let (from, _) = from.as_chunks::<SIZE>();
    let (to, _) = out.as_chunks_mut::<SIZE>();
    let to = to.get_mut(place.to + run.to..)?;
    if (run.n - 1) * run.step >= to.len() {
        return None;
    }
    for (to, from) in to.iter_mut().step_by(run.step).zip(from) {
        *to = *from;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_follow_memory() {
        let place = |offset, to| Place { offset, to, n: 1 };
        // Two rows of three, read by columns: y next to each other in memory.
        let places = [0, 2, 4, 1, 3, 5].map(|i| place(2 * (i / 2 + i % 2 * 3), 10 * i as usize));
        let run = |offset, to, n, step| Run { offset, to, n, step };
        assert_eq!(runs(&places, 2).unwrap(), [run(0, 0, 3, 20), run(6, 10, 3, 20)]);
        // Neighbours that come back to front in the tile, and repeated ones, stay single.
        let runs = |places: &[Place]| runs(places, 2).unwrap();
        assert_eq!(runs(&[place(0, 5), place(2, 4)]), [run(0, 5, 1, 1), run(2, 4, 1, 1)]);
        assert_eq!(runs(&[place(0, 0), place(0, 1)]), [run(0, 0, 1, 1), run(0, 1, 1, 1)]);
    }
}
