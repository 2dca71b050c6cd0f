//! One worker's way through frames that come from other sources.

use super::{ComposedSource, Piece};
use framefold_core::{
    DenseTile, Error, FrameIndices, FrameReader, Result, Scratch, SigSlice, TileFrames,
};
use std::collections::HashMap;

/// Readers that were not used for so many tiles are given up.
const PATIENCE: u64 = 64;
/// So many are kept all the same.
const FEW_READERS: usize = 8;

pub(super) struct ComposedReader<'s> {
    source: &'s ComposedSource,
    scratch: Scratch,
    /// By number of the source: when it was last used, and its reader.
    readers: HashMap<usize, (u64, Box<dyn FrameReader + 's>)>,
    tiles: u64,
}

/// What a tile and a piece have in common.
struct Part {
    source: usize,
    /// Frames of the source, ascending, and their places in the tile.
    frames: Vec<u64>,
    places: Vec<usize>,
    /// The cells, in frames of the source.
    cells: SigSlice,
    /// The same cells, in the tile: their origin and shape.
    origin: Vec<usize>,
    shape: Vec<usize>,
}

impl Part {
    /// Whether it is the slice of all frames of a tile, in the order of the source.
    fn is_all_of(&self, sig: &SigSlice, depth: usize) -> bool {
        self.shape == sig.shape()
            && self.frames.len() == depth
            && self.frames.is_sorted_by(|one, next| one < next)
    }
}

impl<'s> ComposedReader<'s> {
    pub(super) fn new(source: &'s ComposedSource) -> Self {
        ComposedReader { source, scratch: Scratch::new(), readers: HashMap::new(), tiles: 0 }
    }

    /// The parts of a tile, in the order of the pieces.
    fn parts(&self, frames: &FrameIndices<'_>, sig: &SigSlice) -> Result<Vec<Part>> {
        let (Some(first), Some(last)) = (frames.get(0), frames.get(frames.len() - 1)) else {
            return Ok(vec![]);
        };
        let mut parts = vec![];
        for number in self.source.pieces_near(first..last.saturating_add(1)) {
            let piece = usize::try_from(number).ok().and_then(|i| self.source.pieces.get(i));
            let Some(piece) = piece else { continue };
            let Some(source) = piece.source else { continue };
            let Some((origin, shape)) = overlap(piece, sig) else { continue };
            let mut found = vec![];
            for (place, frame) in frames.iter().enumerate() {
                let taken = self.source.taken_frame(piece, frame);
                found.extend(
                    taken.filter(|&t| self.source.has_frame(piece, t)).map(|taken| (taken, place)),
                );
            }
            if found.is_empty() {
                continue;
            }
            let cells = self.cells(piece, source, &origin, &shape)?;
            let from = sig.origin();
            let origin = origin.iter().zip(from).map(|(at, from)| at - from).collect();
            let (frames, places) = found.into_iter().unzip();
            parts.push(Part { source, frames, places, cells, origin, shape });
        }
        Ok(parts)
    }

    /// The cells that begin at `origin`, as the piece's source counts them.
    fn cells(
        &self,
        piece: &Piece,
        source: usize,
        origin: &[usize],
        shape: &[usize],
    ) -> Result<SigSlice> {
        let (mut from, mut lens) = (vec![], vec![]);
        for &(axis, first) in &piece.axes {
            let at = origin.get(axis).zip(piece.origin.get(axis)).map(|(at, start)| at - start);
            let (Some(at), Some(&len)) = (at, shape.get(axis)) else {
                return Err(Error::bug(format!("a piece has no axis {axis}")));
            };
            from.push(first + at);
            lens.push(len);
        }
        let of = self.source.sources.get(source).map(|source| source.info().sig_shape.as_slice());
        SigSlice::try_within(from, lens, of.unwrap_or_default())
    }

    fn reader(&mut self, source: usize) -> Result<&mut Box<dyn FrameReader + 's>> {
        if !self.readers.contains_key(&source) {
            self.give_up()?;
            let from: &'s ComposedSource = self.source;
            let Some(from) = from.sources.get(source) else {
                return Err(Error::bug(format!("there is no source {source}")));
            };
            self.readers.insert(source, (self.tiles, from.reader()?));
        }
        match self.readers.get_mut(&source) {
            Some((used, reader)) => {
                *used = self.tiles;
                Ok(reader)
            }
            None => Err(Error::bug(format!("there is no reader {source}"))),
        }
    }

    /// Frees what has not been used for long.
    fn give_up(&mut self) -> Result<()> {
        let now = self.tiles;
        let old = |used: u64| now - used > PATIENCE;
        if self.readers.len() < FEW_READERS {
            return Ok(());
        }
        for (used, reader) in self.readers.values_mut() {
            if old(*used) {
                reader.verify()?;
            }
        }
        self.readers.retain(|_, (used, _)| !old(*used));
        Ok(())
    }

    /// Copies parts together.
    fn gather(&mut self, parts: &[Part], sig: &SigSlice, depth: usize) -> Result<()> {
        let size = self.source.fill.len();
        let frame_bytes = sig.len() * size;
        let mut scratch = std::mem::take(&mut self.scratch);
        let out = scratch.prepare(depth * frame_bytes)?;
        for cell in out.chunks_exact_mut(size) {
            cell.copy_from_slice(&self.source.fill);
        }
        for part in parts {
            let ascending = part.frames.is_sorted_by(|one, next| one < next);
            // Readers are asked for frames in ascending order.
            let steps = if ascending { part.frames.len() } else { 1 };
            let frames = part.frames.chunks(steps).zip(part.places.chunks(steps));
            for (frames, places) in frames {
                let tile = self.reader(part.source)?.read(indices(frames), &part.cells)?.frames();
                let bytes = tile.as_bytes();
                for (i, &place) in places.iter().enumerate() {
                    let start = i * tile.stride() * size;
                    let from = bytes.get(start..start + tile.frame_len() * size);
                    let to = out.get_mut(place * frame_bytes..(place + 1) * frame_bytes);
                    let copied = from.zip(to).and_then(|(from, to)| {
                        copy_box(from, to, &part.origin, &part.shape, sig.shape(), size)
                    });
                    copied.ok_or_else(|| Error::bug("a part lies outside of its tile"))?;
                }
            }
        }
        self.scratch = scratch;
        Ok(())
    }
}

impl FrameReader for ComposedReader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        let (dtype, depth) = (self.source.info.dtype.dtype, frames.len());
        let len_bytes = depth.checked_mul(sig.len()).and_then(|n| n.checked_mul(dtype.size()));
        let len_bytes = len_bytes.filter(|&len| len > 0);
        let len_bytes =
            len_bytes.ok_or_else(|| Error::bug("a tile that does not fit in memory"))?;
        let last = depth.checked_sub(1).and_then(|last| frames.get(last));
        if last.is_none_or(|last| last >= self.source.info.n_frames) {
            return Err(Error::bug("a frame lies outside of the data set"));
        }
        self.tiles += 1;
        let parts = self.parts(&frames, sig)?;
        if let [part] = parts.as_slice()
            && part.is_all_of(sig, depth)
        {
            return self.reader(part.source)?.read(indices(&part.frames), &part.cells);
        }
        self.gather(&parts, sig, depth)?;
        let bytes = self.scratch.bytes().get(..len_bytes).unwrap_or_default();
        let frames = TileFrames::from_bytes(dtype, bytes, depth, sig.len(), sig.len())?;
        DenseTile::lent(frames, self.scratch.owner())
    }

    fn read_encoded(&mut self, frames: FrameIndices<'_>, out: &mut [u8]) -> Result<Option<usize>> {
        let shape = &self.source.info.sig_shape;
        let sig = SigSlice::try_within(vec![0; shape.len()], shape.clone(), shape)?;
        self.tiles += 1;
        match self.parts(&frames, &sig)?.as_slice() {
            [part] if part.is_all_of(&sig, frames.len()) && part.cells.shape() == sig.shape() => {
                self.reader(part.source)?.read_encoded(indices(&part.frames), out)
            }
            _ => Ok(None),
        }
    }

    fn verify(&mut self) -> Result<()> {
        self.readers.values_mut().try_for_each(|(_, reader)| reader.verify())
    }
}

/// The cells that slice and piece share: origin and shape.
fn overlap(piece: &Piece, sig: &SigSlice) -> Option<(Vec<usize>, Vec<usize>)> {
    let (mut origin, mut shape) = (vec![], vec![]);
    let asked = sig.origin().iter().zip(sig.shape());
    for ((&start, &len), (&at, &n)) in asked.zip(piece.origin.iter().zip(&piece.shape)) {
        let from = start.max(at);
        let to = (start + len).min(at + n);
        origin.push(from);
        shape.push(to.checked_sub(from).filter(|&len| len > 0)?);
    }
    Some((origin, shape))
}

/// Frames as a run, if they are one.
fn indices(frames: &[u64]) -> FrameIndices<'_> {
    match (frames.first(), frames.last()) {
        (Some(&first), Some(&last))
            if u64::try_from(frames.len())
                .is_ok_and(|n| last.checked_sub(first) == Some(n - 1)) =>
        {
            FrameIndices::Run(first..last + 1)
        }
        _ => FrameIndices::List(frames),
    }
}

/// Copies a box of cells, one after the other, to its place in a slice of shape `within`.
fn copy_box(
    from: &[u8],
    to: &mut [u8],
    origin: &[usize],
    shape: &[usize],
    within: &[usize],
    size: usize,
) -> Option<()> {
    let row = shape.last()? * size;
    let outer = shape.split_last()?.1;
    for (number, from) in from.chunks_exact(row).enumerate() {
        let mut rest = number;
        let (mut at, mut stride) = (*origin.last()?, *within.last()?);
        for (axis, len) in outer.iter().enumerate().rev() {
            at += (origin.get(axis)? + rest % len) * stride;
            rest /= len;
            stride *= within.get(axis)?;
        }
        to.get_mut(at * size..at * size + row)?.copy_from_slice(from);
    }
    Some(())
}
