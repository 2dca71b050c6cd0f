//! One worker's way through the blocks of a set.

use super::block::{self, COLUMNS, Header, LEN, ROW_LEN, ROWS, SECTOR_COLUMNS};
use super::sector::{Place, Sector};
use super::sync::Sectors;
use super::{FRAME, sync, unpack};
use framefold_core::{
    DType, DenseTile, Error, FrameIndices, FrameReader, Result, Scratch, SigSlice, SourceInfo,
    TileFrames,
};
use framefold_simd::{Simd, prefetch};
use std::ops::Range;

/// So many bytes of a block are asked for before it is its turn: as far as unpacking looks ahead.
const PREFETCHED: u64 = (block::HEADER_LEN + unpack::AHEAD) as u64;
/// So many frames are decoded side by side: memory is read faster from several pages at a time.
const TOGETHER: usize = 8;
/// The rows of a block that are decoded before it is the next frame's turn: about a KiB.
const ROWS_AT_A_TIME: usize = 42;
/// Of how many frames the ids are remembered.
const REMEMBERED: u64 = 256;

pub(super) struct K2Reader<'s> {
    info: &'s SourceInfo,
    sectors: &'s Sectors,
    simd: Simd,
    scratch: Scratch,
    /// A block of a buffered file.
    buffer: Vec<u8>,
    /// Frames, and what their headers call them.
    ids: Vec<Option<(u64, u32)>>,
}

/// Part of a frame.
#[derive(Clone, Debug)]
struct Part {
    rows: Range<usize>,
    columns: Range<usize>,
}

impl<'s> K2Reader<'s> {
    pub(super) fn try_new(info: &'s SourceInfo, sectors: &'s Sectors, simd: Simd) -> Result<Self> {
        for sector in &sectors.sectors {
            sector.storage.prepare()?;
        }
        let ids = (0..REMEMBERED).map(|_| None).collect();
        Ok(K2Reader { info, sectors, simd, scratch: Scratch::new(), buffer: Vec::new(), ids })
    }

    fn decode_frame(&mut self, frame: u64, sig: &SigSlice, out: &mut [u16]) -> Result<()> {
        let id = self.id(frame)?;
        if let Some(part) = self.part_of(sig) {
            return self.decode_part(frame, id, &part, out);
        }
        // Frames of another shape, one piece of a row after the other.
        let mut rest = out;
        for run in sig.runs(&self.info.sig_shape) {
            let mut at = run.start;
            while at < run.end {
                let (row, column) = (at / FRAME[1], at % FRAME[1]);
                let n = (FRAME[1] - column).min(run.end - at);
                let (now, later) = rest.split_at_mut_checked(n).ok_or_else(too_small)?;
                let part = Part { rows: row..row + 1, columns: column..column + n };
                self.decode_part(frame, id, &part, now)?;
                (at, rest) = (at + n, later);
            }
        }
        Ok(())
    }

    /// A slice of frames that have the shape of the detector.
    fn part_of(&self, sig: &SigSlice) -> Option<Part> {
        let is_native = self.info.sig_shape == FRAME;
        let ([row, column], [n_rows, n_columns]) = (sig.origin(), sig.shape()) else { return None };
        let part = Part { rows: *row..row + n_rows, columns: *column..column + n_columns };
        is_native.then_some(part)
    }

    /// What all blocks of a frame call it.
    fn id(&mut self, frame: u64) -> Result<u32> {
        let slot = usize::try_from(frame % REMEMBERED).unwrap_or(0);
        if let Some((_, id)) = self.ids.get(slot).copied().flatten().filter(|(of, _)| *of == frame)
        {
            return Ok(id);
        }
        let sector = self.sector(0)?;
        let header = sector.header(self.sectors.number(frame, 0));
        let id = header.map_err(|error| error.with_frame(frame))?.frame;
        if let Some(known) = self.ids.get_mut(slot) {
            *known = Some((frame, id));
        }
        Ok(id)
    }

    fn sector(&self, index: usize) -> Result<&'s Sector> {
        let sector = self.sectors.sectors.get(index);
        sector.ok_or_else(|| Error::bug("a column beyond the last sector"))
    }

    /// Decodes a part of a frame, block by block.
    fn decode_part(&mut self, frame: u64, id: u32, part: &Part, out: &mut [u16]) -> Result<()> {
        let width = part.columns.len();
        for half in part.halves() {
            let first_row = half * ROWS;
            let rows = part.rows.start.max(first_row)..part.rows.end.min(first_row + ROWS);
            // As they lie in the file: from right to left.
            for column_block in part.column_blocks().rev() {
                let first_column = column_block * COLUMNS;
                let columns = part.columns.start.max(first_column)
                    ..part.columns.end.min(first_column + COLUMNS);
                let place = BlockOf { frame, id, half, column_block };
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
        place: BlockOf,
        part: &Part,
        out: &mut [u16],
        width: usize,
    ) -> Result<()> {
        let simd = self.simd;
        if let Some(rows) = self.lent_rows(place, &part.rows)? {
            return unpack::rows(simd, rows, part.columns.clone(), out, width)
                .ok_or_else(too_small);
        }
        let sector = self.sector(place.sector())?;
        let found = self.place(sector, place)?;
        self.buffer.resize(usize::try_from(LEN).unwrap_or(0), 0);
        sector.storage.read_at(found.offset, &mut self.buffer)?;
        let rows = checked_rows(sector, found, place, &self.buffer, &part.rows)?;
        unpack::rows(simd, rows, part.columns.clone(), out, width).ok_or_else(too_small)
    }

    /// Where a block lies in its sector.
    fn place(&self, sector: &Sector, block: BlockOf) -> Result<Place> {
        let number = self.sectors.number(block.frame, block.index());
        sector.place(number).ok_or_else(|| {
            let error = Error::bug(format!("block {number}, which was lost, was asked for"));
            sector.storage.locate(error).with_frame(block.frame)
        })
    }

    /// Some rows of a block of a mapped file, as they are stored.
    fn lent_rows(&self, block: BlockOf, rows: &Range<usize>) -> Result<Option<&'s [u8]>> {
        let sector = self.sector(block.sector())?;
        let place = self.place(sector, block)?;
        match sector.storage.bytes(place.offset..place.offset + LEN) {
            Some(bytes) => checked_rows(sector, place, block, bytes, rows).map(Some),
            None => Ok(None),
        }
    }

    /// Decodes the same part of several frames, at most [`TOGETHER`], if it is one of a block and the
    /// file is mapped.
    fn decode_together(&mut self, frames: &[u64], part: &Part, out: &mut [u16]) -> Result<bool> {
        let (halves, columns) = (part.halves(), part.column_blocks());
        if halves.len() != 1 || columns.len() != 1 {
            return Ok(false);
        }
        for &frame in frames {
            self.announce(frame, part);
        }
        let (half, column_block) = (halves.start, columns.start);
        let rows = part.rows.start - half * ROWS..part.rows.end - half * ROWS;
        let first_column = column_block * COLUMNS;
        let columns = part.columns.start - first_column..part.columns.end - first_column;
        let mut stored: [&[u8]; TOGETHER] = [&[]; TOGETHER];
        for (&frame, stored) in frames.iter().zip(&mut stored) {
            let id = self.id(frame)?;
            let block = BlockOf { frame, id, half, column_block };
            let Some(bytes) = self.lent_rows(block, &rows)? else { return Ok(false) };
            *stored = bytes;
        }
        let (simd, width) = (self.simd, columns.len());
        for first in (0..rows.len()).step_by(ROWS_AT_A_TIME) {
            let last = rows.len().min(first + ROWS_AT_A_TIME);
            let outs = out.chunks_exact_mut(rows.len() * width);
            for (stored, out) in stored.iter().take(frames.len()).zip(outs) {
                let stored = stored.get(first * ROW_LEN..last * ROW_LEN);
                let out = out.get_mut(first * width..last * width);
                stored
                    .zip(out)
                    .and_then(|(from, to)| unpack::rows(simd, from, columns.clone(), to, width))
                    .ok_or_else(too_small)?;
            }
        }
        Ok(true)
    }

    /// Asks for the start of the block with which a part of a frame begins: it lies far from those
    /// of other frames.
    fn announce(&self, frame: u64, part: &Part) {
        let (Some(half), Some(column_block)) =
            (part.halves().next(), part.column_blocks().next_back())
        else {
            return;
        };
        let place = BlockOf { frame, id: 0, half, column_block };
        let number = self.sectors.number(frame, place.index());
        if let Ok(sector) = self.sector(place.sector())
            && let Some(Place { offset, .. }) = sector.place(number)
            && let Some(bytes) = sector.storage.bytes(offset..offset.saturating_add(PREFETCHED))
        {
            prefetch(bytes);
        }
    }
}

impl Part {
    /// The halves of the frame that it is in.
    fn halves(&self) -> Range<usize> {
        self.rows.start / ROWS..self.rows.end.div_ceil(ROWS)
    }

    /// The columns of blocks that it is in.
    fn column_blocks(&self) -> Range<usize> {
        self.columns.start / COLUMNS..self.columns.end.div_ceil(COLUMNS)
    }
}

/// A block of a frame.
#[derive(Clone, Copy)]
struct BlockOf {
    frame: u64,
    /// What its header calls the frame.
    id: u32,
    half: usize,
    column_block: usize,
}

impl BlockOf {
    fn sector(&self) -> usize {
        self.column_block * COLUMNS / SECTOR_COLUMNS
    }

    /// Which of the blocks of its sector and frame it is: each half comes from right to left.
    fn index(&self) -> u64 {
        let of_sector = self.column_block % (SECTOR_COLUMNS / COLUMNS);
        let index = SECTOR_COLUMNS / COLUMNS * (self.half + 1) - 1 - of_sector;
        u64::try_from(index).unwrap_or(u64::MAX)
    }
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
            let out: &mut [u16] = bytemuck::try_cast_slice_mut(scratch.prepare(len_bytes)?)
                .map_err(|_| Error::bug("a buffer that is not aligned"))?;
            let part = self.part_of(sig);
            let mut group = Vec::with_capacity(TOGETHER);
            for (i, out) in out.chunks_mut(TOGETHER * len).enumerate() {
                group.clear();
                group.extend((i * TOGETHER..(i + 1) * TOGETHER).map_while(|i| frames.get(i)));
                if let Some(&frame) = group.iter().find(|&&f| f >= self.info.n_frames) {
                    return Err(Error::bug("a frame beyond the last was read").with_frame(frame));
                }
                if let Some(part) = &part
                    && self.decode_together(&group, part, out)?
                {
                    continue;
                }
                for (&frame, out) in group.iter().zip(out.chunks_exact_mut(len)) {
                    self.decode_frame(frame, sig, out)?;
                }
            }
            Ok(())
        })();
        self.scratch = scratch;
        result.map_err(|error: Error| error.with_format(self.info.format))?;
        let bytes = self.scratch.bytes().get(..len_bytes).unwrap_or_default();
        let frames = TileFrames::from_bytes(DType::U16, bytes, depth, len, len)?;
        DenseTile::lent(frames, self.scratch.owner())
    }

    fn verify(&mut self) -> Result<()> {
        let format = self.info.format;
        let mut sectors = self.sectors.sectors.iter();
        sectors
            .try_for_each(|sector| sector.storage.verify())
            .map_err(|error| error.with_format(format))
    }
}

/// Some rows of a block, after a look at its header.
fn checked_rows<'b>(
    sector: &Sector,
    place: Place,
    block: BlockOf,
    bytes: &'b [u8],
    rows: &Range<usize>,
) -> Result<&'b [u8]> {
    let located = |error: Error| {
        sector.storage.locate(error).with_offset(place.offset).with_frame(block.frame)
    };
    let header = Header::parse(bytes).ok_or_else(|| located(block::not_a_block(bytes)))?;
    sync::check(&header, block.index(), block.id, place.stored).map_err(located)?;
    bytes
        .get(block::HEADER_LEN + rows.start * ROW_LEN..)
        .and_then(|bytes| bytes.get(..rows.len() * ROW_LEN))
        .ok_or_else(|| Error::bug("rows beyond the end of a block"))
}

fn too_small() -> Error {
    Error::bug("a tile is smaller than the part of the frame that it is for")
}
