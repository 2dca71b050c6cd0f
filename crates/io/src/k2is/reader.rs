//! One worker's way through the blocks of a set.

use super::block::{self, COLUMNS, Header, LEN, PER_FRAME, ROW_LEN, ROWS, SECTOR_COLUMNS};
use super::source::K2Source;
use super::{FRAME, sync, unpack};
use framefold_core::{
    DType, DataSource, DenseTile, Error, FrameIndices, FrameReader, Result, Scratch, SigSlice,
    TileFrames,
};
use std::ops::Range;

pub(super) struct K2Reader<'s> {
    source: &'s K2Source,
    scratch: Scratch,
    /// A block of a buffered file.
    buffer: Vec<u8>,
}

/// Part of a frame.
#[derive(Clone, Debug)]
struct Part {
    rows: Range<usize>,
    columns: Range<usize>,
}

impl<'s> K2Reader<'s> {
    pub(super) fn try_new(source: &'s K2Source) -> Result<Self> {
        for sector in &source.sectors {
            sector.storage.prepare()?;
        }
        Ok(K2Reader { source, scratch: Scratch::new(), buffer: Vec::new() })
    }

    fn decode_frame(&mut self, frame: u64, sig: &SigSlice, out: &mut [u16]) -> Result<()> {
        let number = self.number(frame)?;
        if self.source.info().sig_shape == FRAME
            && let ([row, column], [n_rows, n_columns]) = (sig.origin(), sig.shape())
        {
            let part = Part { rows: *row..row + n_rows, columns: *column..column + n_columns };
            return self.decode_part(frame, number, &part, out);
        }
        // Frames of another shape, one piece of a row after the other.
        let mut rest = out;
        for run in sig.runs(&self.source.info().sig_shape) {
            let mut at = run.start;
            while at < run.end {
                let (row, column) = (at / FRAME[1], at % FRAME[1]);
                let n = (FRAME[1] - column).min(run.end - at);
                let (now, later) = rest.split_at_mut_checked(n).ok_or_else(too_small)?;
                let part = Part { rows: row..row + 1, columns: column..column + n };
                self.decode_part(frame, number, &part, now)?;
                (at, rest) = (at + n, later);
            }
        }
        Ok(())
    }

    /// The number that all blocks of a frame have.
    fn number(&self, frame: u64) -> Result<u32> {
        let sector = self.source.sectors.first();
        let sector = sector.ok_or_else(|| Error::bug("a set without sectors"))?;
        let header = sector.header(frame * PER_FRAME);
        header.map(|header| header.frame).map_err(|error| error.with_frame(frame))
    }

    /// Decodes a part of a frame, block by block.
    fn decode_part(&mut self, frame: u64, number: u32, part: &Part, out: &mut [u16]) -> Result<()> {
        let width = part.columns.len();
        for half in part.rows.start / ROWS..part.rows.end.div_ceil(ROWS) {
            let first_row = half * ROWS;
            let rows = part.rows.start.max(first_row)..part.rows.end.min(first_row + ROWS);
            for column_block in part.columns.start / COLUMNS..part.columns.end.div_ceil(COLUMNS) {
                let first_column = column_block * COLUMNS;
                let columns = part.columns.start.max(first_column)
                    ..part.columns.end.min(first_column + COLUMNS);
                let place = Place { frame, number, half, column_block };
                let within = Part {
                    rows: rows.start - first_row..rows.end - first_row,
                    columns: columns.start - first_column..columns.end - first_column,
                };
                let start =
                    (rows.start - part.rows.start) * width + columns.start - part.columns.start;
                let out = out.get_mut(start..).ok_or_else(too_small)?;
                self.decode_block(place, &within, out, width)?;
            }
        }
        Ok(())
    }

    /// Decodes a part of a block into rows that are `width` apart.
    fn decode_block(
        &mut self,
        place: Place,
        part: &Part,
        out: &mut [u16],
        width: usize,
    ) -> Result<()> {
        let sector = place.column_block * COLUMNS / SECTOR_COLUMNS;
        let sector = self.source.sectors.get(sector);
        let sector = sector.ok_or_else(|| Error::bug("a column beyond the last sector"))?;
        let of_sector = place.column_block % (SECTOR_COLUMNS / COLUMNS);
        // Each half comes from right to left.
        let index = SECTOR_COLUMNS / COLUMNS * (place.half + 1) - 1 - of_sector;
        let index = u64::try_from(index).unwrap_or(u64::MAX);
        let offset = sector.offset_of(place.frame * PER_FRAME + index);
        let located =
            |error: Error| sector.storage.locate(error).with_offset(offset).with_frame(place.frame);
        let bytes = match sector.storage.bytes(offset..offset + LEN) {
            Some(bytes) => bytes,
            None => {
                self.buffer.resize(usize::try_from(LEN).unwrap_or(0), 0);
                sector.storage.read_at(offset, &mut self.buffer)?;
                &self.buffer
            }
        };
        let header = Header::parse(bytes).ok_or_else(|| located(block::not_a_block(bytes)))?;
        sync::check(&header, index, place.number).map_err(located)?;
        let rows = bytes
            .get(block::HEADER_LEN + part.rows.start * ROW_LEN..)
            .and_then(|bytes| bytes.get(..part.rows.len() * ROW_LEN))
            .ok_or_else(|| Error::bug("rows beyond the end of a block"))?;
        unpack::rows(self.source.simd, rows, part.columns.clone(), out, width).ok_or_else(too_small)
    }
}

/// A block of a frame.
#[derive(Clone, Copy)]
struct Place {
    frame: u64,
    /// What its header calls the frame.
    number: u32,
    half: usize,
    column_block: usize,
}

impl FrameReader for K2Reader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        let (depth, len) = (frames.len(), sig.len());
        let len_bytes = depth.checked_mul(len).and_then(|n| n.checked_mul(2));
        let len_bytes = len_bytes.ok_or_else(|| Error::bug("a tile does not fit in memory"))?;
        if len_bytes == 0 {
            return Err(Error::bug("a tile without cells was asked for"));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let result = (|| {
            let out: &mut [u16] = bytemuck::try_cast_slice_mut(scratch.prepare(len_bytes))
                .map_err(|_| Error::bug("a buffer that is not aligned"))?;
            for (frame, out) in frames.iter().zip(out.chunks_exact_mut(len)) {
                if frame >= self.source.info().n_frames {
                    return Err(Error::bug("a frame beyond the last was read").with_frame(frame));
                }
                self.decode_frame(frame, sig, out)?;
            }
            Ok(())
        })();
        self.scratch = scratch;
        result.map_err(|error: Error| error.with_format(self.source.info().format))?;
        let bytes = &self.scratch.bytes()[..len_bytes];
        let frames = TileFrames::from_bytes(DType::U16, bytes, depth, len, len)?;
        Ok(DenseTile { frames, owner: Some(self.scratch.owner()) })
    }

    fn verify(&mut self) -> Result<()> {
        let format = self.source.info().format;
        let mut sectors = self.source.sectors.iter();
        sectors
            .try_for_each(|sector| sector.storage.verify())
            .map_err(|error| error.with_format(format))
    }
}

fn too_small() -> Error {
    Error::bug("a tile is smaller than the part of the frame that it is for")
}
