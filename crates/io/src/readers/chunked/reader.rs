//! One worker's way through an array in chunks.

use super::cache::Cache;
use super::geometry::{Part, Row};
use super::{CACHE_BYTES, CHECK, ChunkedSource, Segment, encoded};
use crate::codec::{Buffers, check_memory};
use crate::readers::linear::{lies_as_in_a_tile, normalise_in_place, swap_in_place};
use framefold_core::{
    DenseTile, Error, FrameIndices, FrameReader, Result, Scratch, SigSlice, TileFrames, interrupt,
};
use std::ops::Range;

/// Of larger tiles, whether there is memory is asked first.
const LARGE: usize = 64 << 20;

pub(super) struct ChunkedReader<'s> {
    source: &'s ChunkedSource,
    scratch: Scratch,
    cache: Cache,
    buffers: Buffers,
    /// Stored bytes of a chunk that its store cannot lend.
    stored: Vec<u8>,
    /// The slice that `parts` is about.
    slice: Option<SigSlice>,
    /// Of each segment, once one of its frames was read.
    parts: Vec<Option<Vec<Part>>>,
    runs: Vec<Run>,
    /// Of each frame of the tile: elements before it in its chunk.
    inner: Vec<usize>,
}

/// Frames of a tile that follow each other and lie in the same chunks.
struct Run {
    segment: usize,
    /// The chunk of the frame's first cell.
    chunk: u64,
    /// Their places in the tile.
    frames: Range<usize>,
    /// The first of them, in the order of the file.
    first: u64,
}

impl<'s> ChunkedReader<'s> {
    pub(super) fn try_new(source: &'s ChunkedSource) -> Result<Self> {
        for segment in &source.segments {
            segment.store.prepare()?;
        }
        Ok(ChunkedReader {
            source,
            scratch: Scratch::new(),
            cache: Cache::new(),
            buffers: Buffers::new(),
            stored: Vec::new(),
            slice: None,
            parts: Vec::new(),
            runs: Vec::new(),
            inner: Vec::new(),
        })
    }

    /// Finds the chunks of a tile; remembers what the last slice has in common with it.
    fn locate(&mut self, frames: &FrameIndices<'_>, sig: &SigSlice) -> Result<()> {
        if self.slice.as_ref() != Some(sig) {
            self.slice = Some(sig.clone());
            self.parts.clear();
            self.parts.resize_with(self.source.segments.len(), || None);
        }
        self.runs.clear();
        self.inner.clear();
        let (mut number, mut segment) = self.source.segment_of(frames.get(0).unwrap_or(0))?;
        for (i, frame) in frames.iter().enumerate() {
            if !segment.frames.contains(&frame) {
                (number, segment) = self.source.segment_of(frame)?;
            }
            let (chunk, inner) = segment.geometry.locate(frame - segment.frames.start);
            if let Some(parts @ None) = self.parts.get_mut(number) {
                if n_rows(sig) > MANY_ROWS {
                    let chunk = chunk + segment.geometry.offset_to(sig);
                    let size = self.source.info.dtype.dtype.size();
                    check_reach(segment, chunk, segment.chunk_bytes(size), &mut self.stored)
                        .map_err(|error| segment.store.locate(chunk, error).with_frame(frame))?;
                }
                let len_bytes = segment.geometry.parts_bytes(sig);
                if len_bytes > LARGE {
                    check_memory(len_bytes)?;
                }
                *parts = Some(segment.geometry.parts(sig)?);
            }
            self.inner.push(inner);
            match self.runs.last_mut() {
                Some(run) if run.segment == number && run.chunk == chunk => run.frames.end = i + 1,
                _ => self.runs.push(Run { segment: number, chunk, frames: i..i + 1, first: frame }),
            }
        }
        Ok(())
    }

    /// Where the tile lies in one decoded chunk, if it does so in the order of a tile: the chunk,
    /// elements before the tile, and elements from one frame to the next.
    fn within_one_chunk(&self) -> Option<(&Run, u64, usize, usize)> {
        let [run] = self.runs.as_slice() else { return None };
        let segment = self.source.segments.get(run.segment)?;
        let [part] = self.parts.get(run.segment)?.as_deref()? else { return None };
        let [row] = part.rows.as_slice() else { return None };
        let in_order = segment.geometry.in_order() && lies_as_in_a_tile(self.source.info.dtype);
        let stride = segment.geometry.chunk_frame_cells();
        let even = self.inner.is_sorted_by(|one, next| next.checked_sub(*one) == Some(stride));
        // Chunks that are all of the tile are decoded in its place instead.
        let whole = part.whole && run.frames.len() == segment.geometry.chunk_frames();
        let start = self.inner.first()? + row.from;
        (in_order && even && !whole).then(|| (run, run.chunk + part.grid_offset, start, stride))
    }

    /// Copies the cells of the tile to where it is made.
    fn gather(&mut self, len: usize, len_bytes: usize) -> Result<()> {
        let size = self.source.info.dtype.dtype.size();
        check_memory(len_bytes)?;
        let out = self.scratch.prepare(len_bytes)?;
        let mut n_chunks = 0usize;
        for run in &self.runs {
            let Some(segment) = self.source.segments.get(run.segment) else { continue };
            let parts = self.parts.get(run.segment).and_then(Option::as_deref).unwrap_or_default();
            let inner = self.inner.get(run.frames.clone()).unwrap_or_default();
            let chunk_bytes = segment.chunk_bytes(size);
            let located = |chunk, error| segment.store.locate(chunk, error).with_frame(run.first);
            for part in parts {
                n_chunks += 1;
                if n_chunks.is_multiple_of(CHECK) {
                    interrupt::check()?;
                }
                let chunk = run.chunk + part.grid_offset;
                let start = run.frames.start * len * size;
                if part.whole
                    && inner.len() == segment.geometry.chunk_frames()
                    && inner.first() == Some(&0)
                {
                    let out =
                        start.checked_add(chunk_bytes).and_then(|end| out.get_mut(start..end));
                    let out = out.ok_or_else(|| Error::bug("a chunk is larger than its tile"))?;
                    match segment.store.fetch(chunk, &mut self.stored)? {
                        None => fill(out, &segment.fill),
                        Some(stored) => segment
                            .pipeline
                            .decode(stored.mask, stored.bytes, out, &mut self.buffers)
                            .map_err(|error| located(chunk, error))?,
                    }
                    continue;
                }
                let copy = Copy { part, inner, len, size, first: run.frames.start };
                let memory = (&mut self.cache, &mut self.buffers, &mut self.stored);
                match find(segment, (run.segment, chunk), chunk_bytes, memory)
                    .map_err(|error| located(chunk, error))?
                {
                    Found::Nowhere => copy.fill(&segment.fill, out)?,
                    Found::Lent(bytes) => copy.run(bytes, out)?,
                    Found::Kept(slot) => {
                        let (memory, used) = kept(&self.cache, slot)?;
                        copy.run(memory.bytes().get(..used).unwrap_or_default(), out)?;
                    }
                }
            }
        }
        swap_in_place(self.source.info.dtype, out);
        normalise_in_place(self.source.info.dtype, out);
        Ok(())
    }
}

impl FrameReader for ChunkedReader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        let format = self.source.info.format;
        let dtype = self.source.info.dtype.dtype;
        let (depth, len) = (frames.len(), sig.len());
        let len_bytes = depth.checked_mul(len).and_then(|n| n.checked_mul(dtype.size()));
        let len_bytes = len_bytes.ok_or_else(|| Error::bug("a tile does not fit in memory"))?;
        if len_bytes == 0 {
            return Err(Error::bug("a tile without cells was asked for"));
        }
        // Asked before the slice is cut along the chunks: there can be as many as it has cells.
        if len_bytes > LARGE {
            check_memory(len_bytes).map_err(|error| error.with_format(format))?;
        }
        self.locate(&frames, sig).map_err(|error| error.with_format(format))?;
        if let Some((run, chunk, start, stride)) = self.within_one_chunk() {
            let (number, first) = (run.segment, run.first);
            let source = self.source;
            if let Some(segment) = source.segments.get(number) {
                let size = segment.chunk_bytes(dtype.size());
                let memory = (&mut self.cache, &mut self.buffers, &mut self.stored);
                let found = find(segment, (number, chunk), size, memory).map_err(|error| {
                    segment.store.locate(chunk, error).with_frame(first).with_format(format)
                })?;
                if let Found::Kept(slot) = found {
                    let (memory, used) = kept(&self.cache, slot)?;
                    let bytes = memory.bytes().get(start * dtype.size()..used).unwrap_or_default();
                    let frames = TileFrames::from_bytes(dtype, bytes, depth, len, stride)?;
                    return DenseTile::lent(frames, memory.owner());
                }
            }
        }
        self.gather(len, len_bytes).map_err(|error| error.with_format(format))?;
        let bytes = self.scratch.bytes().get(..len_bytes).unwrap_or_default();
        let frames = TileFrames::from_bytes(dtype, bytes, depth, len, len)?;
        DenseTile::lent(frames, self.scratch.owner())
    }

    fn read_encoded(&mut self, frames: FrameIndices<'_>, out: &mut [u8]) -> Result<Option<usize>> {
        let copied = encoded::copy(self.source, &frames, out, &mut self.stored);
        copied.map_err(|error| error.with_format(self.source.info.format))
    }

    fn verify(&mut self) -> Result<()> {
        for segment in &self.source.segments {
            segment.store.verify().map_err(|error| error.with_format(self.source.info.format))?;
        }
        Ok(())
    }
}

/// More rows than frames have in earnest, so many that a list of them takes a lot of memory.
const MANY_ROWS: usize = 1 << 20;

/// How many rows of a frame a slice cuts.
fn n_rows(sig: &SigSlice) -> usize {
    sig.shape().split_last().map_or(1, |(_, outer)| outer.iter().product())
}

/// Refuses a chunk that its stored bytes cannot become.
fn check_reach(segment: &Segment, chunk: u64, len: usize, stored: &mut Vec<u8>) -> Result<()> {
    match segment.store.fetch(chunk, stored)? {
        None => Ok(()),
        Some(found) => {
            let len = segment.store.decoded_len(chunk, len).min(len);
            segment.pipeline.check_reach(found.mask, found.bytes.len(), len)
        }
    }
}

/// Where the cells of a chunk are.
enum Found<'b> {
    /// It was never written.
    Nowhere,
    /// Where the store has them.
    Lent(&'b [u8]),
    /// In this slot of the cache.
    Kept(usize),
}

/// Finds a chunk; keeps it if it had to be read or decoded.
fn find<'b>(
    segment: &'b Segment,
    key: (usize, u64),
    len: usize,
    (cache, buffers, stored): (&mut Cache, &mut Buffers, &'b mut Vec<u8>),
) -> Result<Found<'b>> {
    if let Some(slot) = cache.find(key) {
        return Ok(Found::Kept(slot));
    }
    let Some(found) = segment.store.fetch(key.1, stored)? else { return Ok(Found::Nowhere) };
    let budget = len.saturating_mul(segment.geometry.row_chunks()).min(CACHE_BYTES);
    let part = segment.store.decoded_len(key.1, len).min(len);
    if segment.pipeline.is_empty() {
        let bytes = found.bytes.get(..len).unwrap_or(found.bytes);
        if bytes.len() < part {
            return Err(too_short(bytes.len(), len));
        }
        if found.lent {
            return Ok(Found::Lent(bytes));
        }
        let copy = |out: &mut [u8]| {
            out.copy_from_slice(bytes);
            Ok(())
        };
        return cache.insert(key, bytes.len(), budget, copy).map(Found::Kept);
    }
    segment.pipeline.check_reach(found.mask, found.bytes.len(), part)?;
    let decode = |out: &mut [u8]| {
        let first = out.get_mut(..part).unwrap_or_default();
        let done = segment.pipeline.decode(found.mask, found.bytes, first, buffers);
        // Some programs store whole chunks even there.
        if part == len || done.is_ok() {
            return done;
        }
        segment.pipeline.decode(found.mask, found.bytes, out, buffers).or(done)
    };
    cache.insert(key, len, budget, decode).map(Found::Kept)
}

fn kept(cache: &Cache, slot: usize) -> Result<(&Scratch, usize)> {
    cache.get(slot).ok_or_else(|| Error::bug("a chunk that is kept cannot be found"))
}

fn too_short(found: usize, expected: usize) -> Error {
    Error::bad_file(format!("a chunk has {found} bytes, but its shape needs {expected}"))
        .with_hint("the file is damaged; copy it again")
}

/// Repeats one element all over.
fn fill(out: &mut [u8], element: &[u8]) {
    let (Some(first), false) = (out.get_mut(..element.len()), element.is_empty()) else { return };
    first.copy_from_slice(element);
    // What is filled is copied behind itself: each time twice as much.
    let mut filled = element.len();
    while filled < out.len() {
        let n = filled.min(out.len() - filled);
        out.copy_within(..n, filled);
        filled += n;
    }
}

/// From a chunk to a tile.
struct Copy<'a> {
    part: &'a Part,
    /// Of each frame: elements before it in the chunk.
    inner: &'a [usize],
    /// Cells of a frame of the tile.
    len: usize,
    /// Bytes of an element.
    size: usize,
    /// The place of the first frame in the tile.
    first: usize,
}

impl Copy<'_> {
    fn run(&self, chunk: &[u8], out: &mut [u8]) -> Result<()> {
        let done = match (self.part.step, self.size) {
            (1, _) => self.each_row(|from, row, to| copy_row(chunk, from, row, self.size, out, to)),
            (step, 1) => self.each_row(|from, row, to| pick::<1>(chunk, from, row, step, out, to)),
            (step, 2) => self.each_row(|from, row, to| pick::<2>(chunk, from, row, step, out, to)),
            (step, 4) => self.each_row(|from, row, to| pick::<4>(chunk, from, row, step, out, to)),
            (step, 8) => self.each_row(|from, row, to| pick::<8>(chunk, from, row, step, out, to)),
            (step, _) => self.each_row(|from, row, to| pick::<16>(chunk, from, row, step, out, to)),
        };
        done.ok_or_else(|| Error::bug("a cell lies outside of its chunk"))
    }

    /// Writes the element that stands for what was never written.
    fn fill(&self, element: &[u8], out: &mut [u8]) -> Result<()> {
        let size = self.size;
        let done = self.each_row(|_, row, to| {
            fill(out.get_mut(to * size..(to + row.n) * size)?, element);
            Some(())
        });
        done.ok_or_else(|| Error::bug("a cell lies outside of its tile"))
    }

    /// Calls `copy` with the elements before a row in the chunk, the row, and its place in the tile.
    #[inline(always)]
    fn each_row(&self, mut copy: impl FnMut(usize, &Row, usize) -> Option<()>) -> Option<()> {
        for (i, inner) in self.inner.iter().enumerate() {
            let frame = (self.first + i) * self.len;
            for row in &self.part.rows {
                copy(inner + row.from, row, frame + row.to)?;
            }
        }
        Some(())
    }
}

#[inline(always)]
fn copy_row(
    chunk: &[u8],
    from: usize,
    row: &Row,
    size: usize,
    out: &mut [u8],
    to: usize,
) -> Option<()> {
    let from = chunk.get(from * size..(from + row.n) * size)?;
    out.get_mut(to * size..(to + row.n) * size)?.copy_from_slice(from);
    Some(())
}

/// Copies elements that lie `step` apart.
#[inline(always)]
fn pick<const SIZE: usize>(
    chunk: &[u8],
    from: usize,
    row: &Row,
    step: usize,
    out: &mut [u8],
    to: usize,
) -> Option<()> {
    let (chunk, _) = chunk.as_chunks::<SIZE>();
    let (out, _) = out.as_chunks_mut::<SIZE>();
    let from = chunk.get(from..)?;
    let out = out.get_mut(to..to + row.n)?;
    if (row.n - 1).checked_mul(step)? >= from.len() {
        return None;
    }
    for (out, from) in out.iter_mut().zip(from.iter().step_by(step)) {
        *out = *from;
    }
    Some(())
}
