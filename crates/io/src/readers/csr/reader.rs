//! One worker's way through compressed sparse rows.

use super::CsrSource;
use super::duplicates::Sorter;
use super::rows::Rows;
use super::slice::Cells;
use framefold_core::{
    CsrScratch, CsrTile, DenseTile, Error, FrameIndices, FrameReader, Result, Scratch, SigSlice,
    TypedSlice, densify,
};
use std::ops::Range;

pub(super) struct CsrReader<'s> {
    sparse: SparseReader<'s>,
    dense: Scratch,
}

struct SparseReader<'s> {
    source: &'s CsrSource,
    rows: Rows,
    gathered: Gathered,
}

/// Rows that could not be lent.
#[derive(Default)]
struct Gathered {
    scratch: CsrScratch,
    sorter: Sorter,
    /// What was read from a buffered file, before it is decoded.
    buffer: Vec<u8>,
}

impl<'s> CsrReader<'s> {
    pub(super) fn new(source: &'s CsrSource) -> Self {
        let sparse = SparseReader { source, rows: Rows::default(), gathered: Gathered::default() };
        CsrReader { sparse, dense: Scratch::new() }
    }
}

impl FrameReader for CsrReader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        let tile = self.sparse.tile(&frames, sig)?;
        densify(&tile, &mut self.dense)
    }

    fn read_csr(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<CsrTile<'_>> {
        self.sparse.tile(&frames, sig)
    }

    fn verify(&mut self) -> Result<()> {
        self.sparse.source.verify()
    }
}

impl SparseReader<'_> {
    fn tile(&mut self, frames: &FrameIndices<'_>, sig: &SigSlice) -> Result<CsrTile<'_>> {
        let source = self.source;
        self.try_tile(frames, sig).map_err(|error| {
            // A file that shrank reads as zeros, which make no sense: say what really happened.
            let cause = source.verify().err().unwrap_or(error);
            cause.with_format(source.info.format)
        })
    }

    fn try_tile(&mut self, frames: &FrameIndices<'_>, sig: &SigSlice) -> Result<CsrTile<'_>> {
        let source = self.source;
        let cells = Cells::try_new(sig, &source.info.sig_shape, source.frame_len)?;
        self.rows.read(source, frames)?;
        if cells.is_whole()
            && let Some(tile) = lend(source, &self.rows)
        {
            return Ok(tile);
        }
        self.gathered.tile(source, &self.rows, &cells, sig.len())
    }
}

/// The tile as it lies in memory, if it lies there as it is needed and its columns are in order.
fn lend<'t>(source: &'t CsrSource, rows: &'t Rows) -> Option<CsrTile<'t>> {
    let (true, [run]) = (source.lends && rows.n_entries() > 0, rows.runs()) else {
        return None;
    };
    let columns = source.columns.lent(run.entries.clone())?;
    let columns: &[u32] = bytemuck::try_cast_slice(columns).ok()?;
    let values = source.values.lent(run.entries.clone())?;
    let values = TypedSlice::from_bytes(source.info.dtype.dtype, values).ok()?;
    let len = usize::try_from(source.frame_len).ok()?;
    // Checks every column; those that are out of order or out of the frame are sorted out later.
    let tile = CsrTile::try_new(rows.starts(), columns, values, len).ok()?;
    tile.with_owner(source.values.storage().owner()).ok()
}

impl Gathered {
    /// Copies the rows, keeps what is in the slice, and puts it in order.
    #[expect(
        clippy::indexing_slicing,
        reason = "rows were counted before, and n stays at or before the entry at hand"
    )]
    fn tile(
        &mut self,
        source: &CsrSource,
        rows: &Rows,
        cells: &Cells,
        len: usize,
    ) -> Result<CsrTile<'_>> {
        let dtype = source.info.dtype.dtype;
        let size = dtype.size();
        let (starts, columns, values) =
            self.scratch.prepare(rows.n_rows(), rows.n_entries(), dtype)?;
        for run in rows.runs() {
            let to = entries_of(rows, &run.rows);
            let first = run.entries.start;
            let (columns, values) =
                (&mut columns[to.clone()], &mut values[to.start * size..to.end * size]);
            source.columns.read_integers(first, columns, u32::MAX, &mut self.buffer)?;
            source.values.read_elements(first, values, &mut self.buffer)?;
        }
        check_columns(source, rows, columns)?;
        starts[0] = 0;
        let mut n = 0;
        for row in 0..rows.n_rows() {
            let from = entries_of(rows, &(row..row + 1));
            let start = n;
            let mut ascends = true;
            for i in from.clone() {
                let Some(cell) = cells.cell(columns[i]) else { continue };
                ascends &= n == start || columns[n - 1] < cell;
                columns[n] = cell;
                if n != i {
                    values.copy_within(i * size..(i + 1) * size, n * size);
                }
                n += 1;
            }
            if !ascends {
                let values = &mut values[start * size..n * size];
                let sorted = self.sorter.sort(&mut columns[start..n], values, dtype);
                let left = sorted.map_err(|error| {
                    let (frame, entry) = rows.place(from.start);
                    let error = error.with_offset(entry * source.values.size());
                    source.values.storage().locate(error).with_frame(frame)
                })?;
                n = start + left;
            }
            starts[row + 1] = n;
        }
        self.scratch.tile(rows.n_rows(), n, dtype, len)
    }
}

/// The entries of these rows in the tile, before any are left out.
#[expect(clippy::indexing_slicing, reason = "there is one start more than there are rows")]
fn entries_of(rows: &Rows, range: &Range<usize>) -> Range<usize> {
    rows.starts()[range.start]..rows.starts()[range.end]
}

/// Refuses columns outside of the frame.
pub(super) fn check_columns(source: &CsrSource, rows: &Rows, columns: &[u32]) -> Result<()> {
    let outside = |&column: &u32| column >= source.frame_len;
    if !columns.iter().fold(false, |any, column| any | outside(column)) {
        return Ok(());
    }
    let Some(i) = columns.iter().position(outside) else {
        return Err(Error::bug("columns are in the frame after all"));
    };
    let (frame, entry) = rows.place(i);
    let expected =
        format!("0 to {} in a frame of {} pixels", source.frame_len - 1, source.frame_len);
    Err(source.columns.unexpected(entry, &expected).with_frame(frame))
}
