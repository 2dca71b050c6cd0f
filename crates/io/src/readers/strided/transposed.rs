//! Reads arrays in which the values of a cell in consecutive frames lie together.
//!
//! That is how a scan is stored whose scan axes are the fast ones. A tile is then a transposed part
//! of the file: each cell is a row, whose pieces are as long as the tile is deep.

use super::blocked::Run;
use super::places::{Place, offset_of, to_u64};
use crate::readers::recut::Axis;
use framefold_core::{Error, Result, interrupt, memory};
use framefold_simd::{Simd, transpose};
use std::ops::Range;

/// What is read of a cell at a time, so that a page of the file need not be found again and again.
pub(super) const PAGE: usize = 4096;
/// Where tiles are shallower than this many bytes of a cell, deeper ones are read ahead of them.
const SHALLOW: usize = 512;
/// What a reader keeps of frames that were read ahead.
const AHEAD_BYTES: usize = 32 << 20;

/// Frames that follow each other, as runs of neighbours; `None` if they are no neighbours.
///
/// # Errors
/// `Limit` if there is no memory for them.
pub(super) fn runs(
    frames: &Range<u64>,
    nav_axes: &[Axis],
    size: usize,
    frame_len: usize,
) -> Result<Option<Vec<Run>>> {
    let Some((last, outer)) = nav_axes.split_last() else { return Ok(None) };
    if last.stride != to_u64(size) {
        return Ok(None);
    }
    let len = to_u64(last.len);
    let mut runs = Vec::new();
    let (mut at, mut to) = (frames.start, 0);
    while at < frames.end {
        let (row, column) = (at / len, at % len);
        let n = (len - column).min(frames.end - at);
        let n = usize::try_from(n).map_err(|_| Error::bug("a tile does not fit in memory"))?;
        let offset = offset_of(row, outer) + column * last.stride;
        memory::push(&mut runs, Run { offset, to, n, step: frame_len })?;
        (at, to) = (at + to_u64(n), to + n * frame_len);
    }
    Ok(Some(runs))
}

/// The frames to read for the sake of `frames`, all of which will be asked for one after the other.
pub(super) fn widened(
    frames: &Range<u64>,
    n_frames: u64,
    frame_len: usize,
    size: usize,
) -> Range<u64> {
    let depth = AHEAD_BYTES / frame_len.saturating_mul(size).max(1);
    let depth = to_u64(depth.min(PAGE / size));
    if frames.end - frames.start >= to_u64(SHALLOW / size).min(depth) {
        return frames.clone();
    }
    let start = frames.start / depth * depth;
    start..start.saturating_add(depth).max(frames.end).min(n_frames)
}

/// Copies all `cells`, which are next to each other in the tile, of all frames.
///
/// # Errors
/// `Bug` if one lies outside of `bytes` or `out`; `Limit` if there is no memory for a list of the
/// cells; `Cancelled` if the run was stopped.
pub(super) fn gather(
    simd: Simd,
    size: usize,
    bytes: &[u8],
    cells: &[Place],
    runs: &[Run],
    out: &mut [u8],
) -> Result<()> {
    let mut rows = memory::with_room(cells.len())?;
    for run in runs {
        interrupt::check()?;
        rows.clear();
        for cell in cells {
            let row = usize::try_from(cell.offset + run.offset).ok();
            let row = row.and_then(|from| bytes.get(from..from.checked_add(run.n * size)?));
            rows.push(row.ok_or_else(outside)?);
        }
        let out = out.get_mut(run.to * size..).ok_or_else(outside)?;
        match size {
            1 => transpose::<1>(simd, &rows, out, run.step),
            2 => transpose::<2>(simd, &rows, out, run.step),
            4 => transpose::<4>(simd, &rows, out, run.step),
            8 => transpose::<8>(simd, &rows, out, run.step),
            _ => transpose::<16>(simd, &rows, out, run.step),
        }
        .ok_or_else(outside)?;
    }
    Ok(())
}

fn outside() -> Error {
    Error::bug("an element lies outside of the array")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_runs_of_neighbours() {
        let axes = [Axis { len: 3, stride: 100 }, Axis { len: 10, stride: 2 }];
        let run = |offset, to, n| Run { offset, to, n, step: 7 };
        let found = runs(&(8..21), &axes, 2, 7);
        assert_eq!(found.unwrap().unwrap(), [run(16, 0, 2), run(100, 14, 10), run(200, 84, 1)]);
        assert!(runs(&(8..21), &axes, 4, 7).unwrap().is_none());
        assert!(runs(&(0..1), &[], 2, 7).unwrap().is_none());
    }

    #[test]
    fn shallow_tiles_are_read_ahead() {
        let wide = |frames, frame_len| widened(&frames, 1000, frame_len, 2);
        assert_eq!(wide(8..16, 1 << 16), 0..256);
        assert_eq!(wide(250..260, 1 << 16), 0..260);
        assert_eq!(wide(992..1000, 1 << 16), 768..1000);
        assert_eq!(wide(8..264, 1 << 16), 8..264);
        // Large frames are not, as they do not fit; of small ones, a page.
        assert_eq!(wide(8..9, 1 << 25), 8..9);
        assert_eq!(wide(8..9, 16), 0..1000);
    }
}
