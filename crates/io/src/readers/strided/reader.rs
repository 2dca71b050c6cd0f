//! One worker's way through an array of arbitrary axis order.

use super::blocked::{self, Run};
use super::places::{Place, offset_of, to_u64};
use super::transposed;
use super::{StridedLayout, StridedSource};
use crate::access::Storage;
use crate::readers::linear::{normalise_in_place, swap_in_place};
use framefold_core::{
    DenseTile, Error, FrameIndices, FrameReader, Result, Scratch, SigSlice, TileFrames, interrupt,
    memory,
};
use framefold_simd::Simd;
use std::ops::Range;

/// After so many places, it is asked whether the tile is still wanted.
const CHECK: usize = 4096;

/// The longest piece of a buffered file that is read for the sake of the elements in it.
const MAX_WINDOW: u64 = 1 << 20;

pub(super) struct StridedReader<'s> {
    source: &'s StridedSource,
    scratch: Scratch,
    /// Pieces of a buffered file.
    buffer: Vec<u8>,
    /// The slice that `cells` is about.
    slice: Option<SigSlice>,
    cells: Vec<Place>,
    /// The frames that `frames` is about, if they follow each other.
    range: Option<Range<u64>>,
    frames: Vec<Place>,
    /// Cells (`true`) or frames, whichever lie closer together, in the order of memory.
    inner: Option<(bool, Vec<Run>)>,
    /// The frames that are in the scratch memory, with all of `slice`, if that is known.
    ahead: Option<Range<u64>>,
    simd: Simd,
}

impl<'s> StridedReader<'s> {
    pub(super) fn try_new(source: &'s StridedSource) -> Result<Self> {
        source.storage.prepare()?;
        Ok(StridedReader {
            source,
            scratch: Scratch::new(),
            buffer: Vec::new(),
            slice: None,
            cells: Vec::new(),
            range: None,
            frames: Vec::new(),
            inner: None,
            ahead: None,
            simd: Simd::best(),
        })
    }

    /// Finds the places of the cells of a slice; remembers those of the last one.
    fn locate_cells(&mut self, sig: &SigSlice) -> Result<()> {
        if self.slice.as_ref() == Some(sig) {
            return Ok(());
        }
        self.slice = None;
        let layout = &self.source.layout;
        let size = to_u64(layout.stored.dtype.size());
        self.cells.clear();
        let cells = sig.runs(&self.source.info.sig_shape).flatten();
        for (to, cell) in cells.enumerate() {
            check_now_and_then(to)?;
            let offset = offset_of(to_u64(cell), &layout.sig_axes);
            match self.cells.last_mut() {
                Some(last) if last.offset + to_u64(last.n) * size == offset => last.n += 1,
                _ => memory::push(&mut self.cells, Place { offset, to, n: 1 })?,
            }
        }
        self.slice = Some(sig.clone());
        // Frames lie in the tile as far apart as the slice is long.
        (self.range, self.inner, self.ahead) = (None, None, None);
        Ok(())
    }

    fn locate_frames(&mut self, frames: &FrameIndices<'_>, frame_len: usize) -> Result<()> {
        let range = match frames {
            FrameIndices::Run(range) => Some(range.clone()),
            FrameIndices::List(_) => None,
        };
        if range.is_some() && self.range == range {
            return Ok(());
        }
        self.inner.take_if(|(of_cells, _)| !*of_cells);
        self.range = None;
        self.frames.clear();
        memory::make_room(&mut self.frames, frames.len())?;
        for (i, frame) in frames.iter().enumerate() {
            check_now_and_then(i)?;
            if frame >= self.source.info.n_frames {
                return Err(Error::bug("a frame beyond the last was read").with_frame(frame));
            }
            let offset = offset_of(frame, &self.source.layout.nav_axes);
            self.frames.push(Place { offset, to: i * frame_len, n: 1 });
        }
        self.range = range;
        Ok(())
    }

    /// Reads frames that are neighbours in the file, cell by cell, and others ahead of them; says
    /// where in the scratch memory the first one is, or nothing if they are no neighbours.
    fn read_transposed(
        &mut self,
        frames: &FrameIndices<'_>,
        frame_len: usize,
    ) -> Result<Option<usize>> {
        let FrameIndices::Run(range) = frames else { return Ok(None) };
        let place = |ahead: &Range<u64>| {
            let before = usize::try_from(range.start.checked_sub(ahead.start)?).ok()?;
            (range.end <= ahead.end).then(|| before * frame_len)
        };
        if let Some(found) = self.ahead.as_ref().and_then(place) {
            return Ok(Some(found));
        }
        let source = self.source;
        let StridedLayout { stored, nav_axes, first_byte, .. } = &source.layout;
        let (size, n_frames) = (stored.dtype.size(), source.info.n_frames);
        let single = self.cells.iter().all(|cell| cell.n == 1);
        let Some(bytes) = source.storage.bytes(*first_byte..source.storage.len()) else {
            return Ok(None);
        };
        if !single || range.end > n_frames {
            return Ok(None);
        }
        let wide = transposed::widened(range, n_frames, frame_len, size);
        let Some(runs) = transposed::runs(&wide, nav_axes, size, frame_len)? else {
            return Ok(None);
        };
        let len_bytes = usize::try_from(wide.end - wide.start)
            .ok()
            .and_then(|n| n.checked_mul(frame_len)?.checked_mul(size))
            .ok_or_else(|| Error::bug("a tile does not fit in memory"))?;
        self.ahead = None;
        let out = self.scratch.prepare(len_bytes)?;
        transposed::gather(self.simd, size, bytes, &self.cells, &runs, out)?;
        self.finish(len_bytes)?;
        self.ahead = Some(wide);
        Ok(self.ahead.as_ref().and_then(place))
    }

    fn gather(&mut self, len_bytes: usize) -> Result<()> {
        self.ahead = None;
        let stored = self.source.layout.stored;
        let cell_span = span(&self.cells, 0);
        let frame_span = span(&self.frames, 0);
        let cells_lie_closer = cell_span.end - cell_span.start <= frame_span.end - frame_span.start;
        let (outer, inner) = if cells_lie_closer {
            (&self.frames, &self.cells)
        } else {
            (&self.cells, &self.frames)
        };
        let single = self.cells.iter().all(|cell| cell.n == 1);
        let array =
            self.source.storage.bytes(self.source.layout.first_byte..self.source.storage.len());
        if let (Some(bytes), true) = (array, single) {
            let size = stored.dtype.size();
            self.inner.take_if(|(of_cells, _)| *of_cells != cells_lie_closer);
            if self.inner.is_none() {
                self.inner = Some((cells_lie_closer, blocked::runs(inner, size)?));
            }
            let inner = self.inner.as_ref().map_or(&[][..], |(_, runs)| runs);
            let out = self.scratch.prepare(len_bytes)?;
            match size {
                1 => blocked::gather::<1>(bytes, outer, inner, out),
                2 => blocked::gather::<2>(bytes, outer, inner, out),
                4 => blocked::gather::<4>(bytes, outer, inner, out),
                8 => blocked::gather::<8>(bytes, outer, inner, out),
                _ => blocked::gather::<16>(bytes, outer, inner, out),
            }?;
            self.finish(len_bytes)?;
            return Ok(());
        }
        let out = self.scratch.prepare(len_bytes)?;
        let mut copy = Copy {
            storage: &self.source.storage,
            first_byte: self.source.layout.first_byte,
            buffer: &mut self.buffer,
            outer,
            inner,
            out,
        };
        match stored.dtype.size() {
            1 => copy.run::<1>(),
            2 => copy.run::<2>(),
            4 => copy.run::<4>(),
            8 => copy.run::<8>(),
            _ => copy.run::<16>(),
        }?;
        self.finish(len_bytes)?;
        Ok(())
    }

    /// Turns elements as they were stored into those of a tile.
    fn finish(&mut self, len_bytes: usize) -> Result<()> {
        let layout = &self.source.layout;
        let out = self.scratch.prepare(len_bytes)?;
        swap_in_place(layout.stored, out);
        normalise_in_place(layout.stored, out);
        Ok(())
    }
}

impl FrameReader for StridedReader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        let dtype = self.source.layout.stored.dtype;
        let (depth, len) = (frames.len(), sig.len());
        let len_bytes = depth.checked_mul(len).and_then(|n| n.checked_mul(dtype.size()));
        let len_bytes = len_bytes.ok_or_else(|| Error::bug("a tile does not fit in memory"))?;
        if len_bytes == 0 {
            return Err(Error::bug("a tile without cells was asked for"));
        }
        // Asked first: where its cells lie is a list as well.
        if len_bytes > 64 << 20 {
            crate::codec::check_memory(len_bytes)?;
        }
        let format = self.source.info.format;
        self.locate_cells(sig).map_err(|error| error.with_format(format))?;
        let found =
            self.read_transposed(&frames, len).map_err(|error| error.with_format(format))?;
        if found.is_none() {
            self.locate_frames(&frames, len)?;
            self.gather(len_bytes).map_err(|error| error.with_format(format))?;
        }
        let start = found.unwrap_or(0) * dtype.size();
        let bytes = self.scratch.bytes().get(start..start + len_bytes).unwrap_or_default();
        let frames = TileFrames::from_bytes(dtype, bytes, depth, len, len)?;
        DenseTile::lent(frames, self.scratch.owner())
    }

    fn verify(&mut self) -> Result<()> {
        self.source.storage.verify().map_err(|error| error.with_format(self.source.info.format))
    }
}

fn check_now_and_then(done: usize) -> Result<()> {
    if done % CHECK == CHECK - 1 { interrupt::check() } else { Ok(()) }
}

/// Copies, for each place of `outer`, all places of `inner` relative to it.
struct Copy<'a> {
    storage: &'a Storage,
    first_byte: u64,
    buffer: &'a mut Vec<u8>,
    outer: &'a [Place],
    inner: &'a [Place],
    out: &'a mut [u8],
}

impl Copy<'_> {
    fn run<const SIZE: usize>(&mut self) -> Result<()> {
        let lends = self.storage.lends();
        let mut rest = self.inner;
        while !rest.is_empty() {
            // Mapped files need no windows: all of them is in memory anyway.
            let n = if lends { rest.len() } else { window(rest, SIZE) };
            let (inner, after) = rest.split_at(n);
            for (i, outer) in self.outer.iter().enumerate() {
                check_now_and_then(i)?;
                let span = span(inner, SIZE * outer.n);
                let start = self.first_byte + outer.offset;
                let range = start + span.start..start + span.end;
                let storage = self.storage;
                let bytes = match storage.bytes(range.clone()) {
                    Some(bytes) => bytes,
                    None => fill(self.buffer, storage, range)?,
                };
                copy_places::<SIZE>(bytes, span.start, inner, outer, self.out)?;
            }
            rest = after;
        }
        Ok(())
    }
}

/// Copies elements of `SIZE` bytes from a window that begins at offset `base`.
fn copy_places<const SIZE: usize>(
    window: &[u8],
    base: u64,
    places: &[Place],
    outer: &Place,
    out: &mut [u8],
) -> Result<()> {
    for place in places {
        let from = usize::try_from(place.offset - base).unwrap_or(usize::MAX);
        let to = (outer.to + place.to) * SIZE;
        // One of the two is a frame and counts 1; the other is a run of cells.
        let n = outer.n * place.n;
        // Single elements are the common case, and a copy of known size is a single move.
        let done = if n == 1 {
            let from = window.get(from..).and_then(|window| window.first_chunk::<SIZE>());
            let to = out.get_mut(to..).and_then(|out| out.first_chunk_mut::<SIZE>());
            from.zip(to).map(|(from, to)| *to = *from)
        } else {
            let len = n * SIZE;
            let from = from.checked_add(len).and_then(|end| window.get(from..end));
            from.zip(out.get_mut(to..to + len)).map(|(from, to)| to.copy_from_slice(from))
        };
        done.ok_or_else(|| Error::bug("an element lies outside of its window"))?;
    }
    Ok(())
}

/// Reads a piece of a buffered file.
fn fill<'b>(buffer: &'b mut Vec<u8>, storage: &Storage, range: Range<u64>) -> Result<&'b [u8]> {
    let len = usize::try_from(range.end - range.start)
        .map_err(|_| Error::limit("a window does not fit in memory"))?;
    if buffer.len() < len {
        memory::resize(buffer, len, 0)?;
    }
    let bytes = buffer.get_mut(..len).unwrap_or_default();
    storage.read_at(range.start, bytes)?;
    Ok(bytes)
}

/// From the first to the last byte of all places.
fn span(places: &[Place], size: usize) -> Range<u64> {
    let start = places.iter().map(|place| place.offset).min().unwrap_or(0);
    let end = places.iter().map(|place| place.offset + to_u64(place.n * size)).max().unwrap_or(0);
    start..end
}

/// How many of the first places lie within one window; at least one.
fn window(places: &[Place], size: usize) -> usize {
    let mut whole: Option<Range<u64>> = None;
    for (i, place) in places.iter().enumerate() {
        let own = place.offset..place.offset + to_u64(place.n * size);
        let joined = whole.map_or(own.clone(), |w| w.start.min(own.start)..w.end.max(own.end));
        if i > 0 && joined.end - joined.start > MAX_WINDOW {
            return i;
        }
        whole = Some(joined);
    }
    places.len()
}
