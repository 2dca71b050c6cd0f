//! Where the entries of the frames of one tile lie.

use super::array::to_u64;
use super::{CsrSource, array::Array};
use framefold_core::{Error, FrameIndices, Result};
use std::ops::Range;

/// Frames that follow each other in the file: so do their entries.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The number of its first frame in the file.
    pub(super) first_frame: u64,
    /// Its rows in the tile.
    pub(super) rows: Range<usize>,
    /// Its entries in the arrays.
    pub(super) entries: Range<u64>,
}

/// The rows of a tile. Memory is used again from tile to tile.
#[derive(Default)]
pub(super) struct Rows {
    /// Where rows begin and end among the entries of the tile.
    starts: Vec<usize>,
    runs: Vec<Run>,
    pointers: Vec<u64>,
    buffer: Vec<u8>,
}

impl Rows {
    /// Reads and checks the row pointers of these frames.
    pub(super) fn read(&mut self, source: &CsrSource, frames: &FrameIndices<'_>) -> Result<()> {
        let Rows { starts, runs, pointers, buffer } = self;
        runs.clear();
        starts.clear();
        starts.push(0);
        let mut row = 0;
        while let Some(first_frame) = frames.get(row) {
            let n_rows = follow(frames, row, first_frame);
            let end = first_frame.checked_add(to_u64(n_rows));
            if end.is_none_or(|end| end > source.info.n_frames) {
                return Err(Error::bug("a frame was read that no file holds")
                    .with_frame(first_frame.max(source.info.n_frames)));
            }
            pointers.resize(n_rows + 1, 0);
            source.row_pointers.read_integers(first_frame, pointers, u64::MAX, buffer)?;
            let entries = check(&source.row_pointers, first_frame, pointers, &source.entries)?;
            let before = starts.last().copied().unwrap_or(0);
            let n_entries = usize::try_from(entries.end - entries.start).ok();
            if n_entries.and_then(|n| n.checked_add(before)).is_none() {
                return Err(Error::limit("a sparse tile does not fit in memory"));
            }
            let ends = pointers.get(1..).unwrap_or_default().iter();
            starts.extend(ends.map(|&end| before + to_usize(end - entries.start)));
            runs.push(Run { first_frame, rows: row..row + n_rows, entries });
            row += n_rows;
        }
        if row == 0 { Err(Error::bug("a tile without frames was asked for")) } else { Ok(()) }
    }

    pub(super) fn starts(&self) -> &[usize] {
        &self.starts
    }

    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    pub(super) fn n_rows(&self) -> usize {
        self.starts.len() - 1
    }

    pub(super) fn n_entries(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }

    /// The frame and the place in the arrays of entry `i` of the tile.
    pub(super) fn place(&self, i: usize) -> (u64, u64) {
        let row = self.starts.partition_point(|&start| start <= i).saturating_sub(1);
        let run = self.runs.partition_point(|run| run.rows.end <= row);
        let Some(run) = self.runs.get(run) else { return (0, 0) };
        let first = self.starts.get(run.rows.start).copied().unwrap_or(0);
        let frame = run.first_frame + to_u64(row.saturating_sub(run.rows.start));
        (frame, run.entries.start + to_u64(i.saturating_sub(first)))
    }
}

/// The number of frames from the `i`-th on, number `first`, that follow each other.
fn follow(frames: &FrameIndices<'_>, i: usize, first: u64) -> usize {
    match frames {
        FrameIndices::Run(_) => frames.len() - i,
        FrameIndices::List(list) => {
            let rest = list.get(i..).unwrap_or_default().iter();
            rest.zip(first..).take_while(|(frame, expected)| *frame == expected).count().max(1)
        }
    }
}

/// The entries that these row pointers enclose.
///
/// # Errors
/// `BadFile` if one is less than the one before, or leaves the entries of the source.
fn check(
    array: &Array,
    first_frame: u64,
    pointers: &[u64],
    entries: &Range<u64>,
) -> Result<Range<u64>> {
    let (first, last) = (pointers.first().copied(), pointers.last().copied());
    let (Some(first), Some(last)) = (first, last) else {
        return Err(Error::bug("no row pointers were read"));
    };
    if pointers.is_sorted() && first >= entries.start && last <= entries.end {
        return Ok(first..last);
    }
    let mut least = entries.start;
    for (pointer, k) in pointers.iter().zip(first_frame..) {
        if !(least..=entries.end).contains(pointer) {
            let expected = format!("{least} to {}: they never fall", entries.end);
            let frame = k.saturating_sub(1).max(first_frame);
            return Err(array.unexpected(k, &expected).with_frame(frame));
        }
        least = *pointer;
    }
    Err(Error::bug("row pointers are in order after all"))
}

/// Numbers of entries are checked to fit before they are converted one by one.
fn to_usize(n: u64) -> usize {
    usize::try_from(n).unwrap_or(usize::MAX)
}
