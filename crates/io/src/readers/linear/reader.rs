//! One worker's way through a set of linear files.

use super::pieces::{SHORTEST, TOGETHER, decode_together};
use super::{LinearFile, LinearSource};
use framefold_core::{
    DType, DenseTile, Error, FrameIndices, FrameReader, Result, Scratch, SigSlice, TileFrames,
    memory,
};
use std::collections::BTreeSet;

/// The largest piece that is read at once from a buffered file, unless one frame takes more.
const MAX_READ: usize = 8 << 20;
/// Gaps between frames up to this size are read along rather than skipped.
const MAX_GAP: u64 = 64 << 10;

pub(super) struct LinearReader<'s> {
    source: &'s LinearSource,
    scratch: Scratch,
    /// What was read from a buffered file, before it is decoded.
    buffer: Vec<u8>,
    /// Which files were read from since the last [`FrameReader::verify`].
    touched: BTreeSet<usize>,
    /// The frames whose marks were seen last.
    marked: Vec<u64>,
}

/// Frames of one file, next to each other in the file and in the tile.
#[derive(Clone, Copy)]
struct Run<'f> {
    file: &'f LinearFile,
    /// Counted in the file.
    first: u64,
    n_frames: usize,
}

impl<'f> Run<'f> {
    /// What is needed of the `i`-th frame, which lies in memory.
    fn stored(&self, i: usize, slice: Slice<'_>) -> Result<&'f [u8]> {
        let start = self.file.pixel(self.first + to_u64(i), slice.start)?;
        let end = overflow(start.checked_add(to_u64(slice.len)))?;
        self.file.storage.bytes(start..end).ok_or_else(|| {
            let error = Error::bug("a frame lies outside of its file");
            self.file.storage.locate(error).with_offset(start)
        })
    }

    /// The error of the `i`-th frame, with its place.
    fn locate(&self, i: usize, error: Error) -> Error {
        let in_file = self.first + to_u64(i);
        let error = error.with_frame(self.file.frames.start + in_file);
        match self.file.pixel(in_file, 0) {
            Ok(offset) => self.file.storage.locate(error).with_offset(offset),
            Err(_) => self.file.storage.locate(error),
        }
    }
}

/// What one call asks for, in bytes.
#[derive(Clone, Copy)]
struct Slice<'a> {
    sig: &'a SigSlice,
    /// Where the needed bytes start in a stored frame, and how many there are.
    start: u64,
    len: usize,
    /// Bytes of one frame's cells in the tile.
    out_len: usize,
}

impl<'s> LinearReader<'s> {
    pub(super) fn try_new(source: &'s LinearSource) -> Result<Self> {
        if let Some(file) = source.files.first() {
            file.storage.prepare()?;
        }
        Ok(LinearReader {
            source,
            scratch: Scratch::new(),
            buffer: Vec::new(),
            touched: BTreeSet::new(),
            marked: Vec::new(),
        })
    }

    /// The file that holds `frame`.
    fn file_of(&self, frame: u64) -> Result<usize> {
        let files = &self.source.files;
        let index = files.partition_point(|file| file.frames.end <= frame);
        match files.get(index) {
            Some(file) if file.frames.contains(&frame) => Ok(index),
            _ => Err(Error::bug("a frame was read that no file holds").with_frame(frame)),
        }
    }

    /// Has the system begin to read frames from here and there, all that are asked for at a time.
    fn announce(&self, frames: &FrameIndices<'_>, slice: Slice<'_>) -> Result<()> {
        let FrameIndices::List(list) = frames else { return Ok(()) };
        let mut behind = 0;
        for &frame in list.iter() {
            let Some(file) = self.source.files.get(self.file_of(frame)?) else { break };
            let start = file.pixel(frame - file.frames.start, slice.start)?;
            let end = start.saturating_add(to_u64(slice.len));
            if start.abs_diff(behind) > MAX_GAP {
                file.storage.will_need(start..end);
            }
            behind = end;
        }
        Ok(())
    }

    /// Sees that frames are there, once for all parts of them that are read one after the other.
    fn check_marks(&mut self, frames: &FrameIndices<'_>) -> Result<()> {
        let Some(mark) = self.source.mark else { return Ok(()) };
        if frames.iter().eq(self.marked.iter().copied()) {
            return Ok(());
        }
        self.marked.clear();
        for frame in frames.iter() {
            let Some(file) = self.source.files.get(self.file_of(frame)?) else { break };
            mark.check(file, frame - file.frames.start)
                .map_err(|error| error.with_format(self.source.info.format))?;
        }
        memory::make_room(&mut self.marked, frames.len())?;
        self.marked.extend(frames.iter());
        Ok(())
    }

    /// The tile as it lies in memory, if it lies there as it is needed.
    fn lend(&mut self, frames: &FrameIndices<'_>, slice: Slice<'_>) -> Result<Option<Lent<'s>>> {
        let source = self.source;
        let dtype = source.info.dtype.dtype;
        let (Some((first, step)), true) = (spacing(frames), source.as_stored) else {
            return Ok(None);
        };
        let index = self.file_of(first)?;
        let Some(file) = source.files.get(index) else {
            return Ok(None);
        };
        let depth = frames.len();
        let last = to_u64(depth - 1).checked_mul(step).and_then(|gap| first.checked_add(gap));
        if slice.sig.linear().is_none() || last.is_none_or(|last| last >= file.frames.end) {
            return Ok(None);
        }
        // A single frame has no neighbour; any stride will do.
        let stride =
            if depth == 1 { to_u64(slice.len) } else { overflow(file.stride.checked_mul(step))? };
        let start = file.pixel(first - file.frames.start, slice.start)?;
        let end = to_u64(depth - 1).checked_mul(stride);
        let end = end.and_then(|gaps| gaps.checked_add(start)?.checked_add(to_u64(slice.len)));
        let Some(bytes) = file.storage.bytes(start..overflow(end)?) else {
            return Ok(None);
        };
        let size = dtype.size();
        let stride = usize::try_from(stride).map_err(|_| Error::bug("a stride beyond memory"))?;
        if !(bytes.as_ptr() as usize).is_multiple_of(dtype.swap_size())
            || !stride.is_multiple_of(size)
        {
            return Ok(None);
        }
        self.touched.insert(index);
        Ok(Some(Lent { file, bytes, dtype, depth, len: slice.len / size, stride: stride / size }))
    }

    /// Decodes all frames into the scratch buffer.
    fn gather(&mut self, frames: &FrameIndices<'_>, slice: Slice<'_>) -> Result<()> {
        let total = overflow(slice.out_len.checked_mul(frames.len()))?;
        let mut scratch = std::mem::take(&mut self.scratch);
        let out = scratch.prepare(total);
        let result = out.and_then(|out| self.decode_all(frames, slice, out));
        self.scratch = scratch;
        result
    }

    /// Decodes all frames into `out`, one run after the other.
    fn decode_all(
        &mut self,
        frames: &FrameIndices<'_>,
        slice: Slice<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        let source = self.source;
        let mut rest = out;
        let mut position = 0;
        while let Some(frame) = frames.get(position) {
            let index = self.file_of(frame)?;
            self.touched.insert(index);
            let Some(file) = source.files.get(index) else { break };
            let mut n_frames = 1;
            while frames.get(position + n_frames) == Some(frame + to_u64(n_frames))
                && frame + to_u64(n_frames) < file.frames.end
            {
                n_frames += 1;
            }
            let run = Run { file, first: frame - file.frames.start, n_frames };
            let (out, after) = rest.split_at_mut(n_frames * slice.out_len);
            if file.storage.lends() {
                self.decode_in_place(&run, slice, out)?;
            } else {
                self.decode_read(&run, slice, out)?;
            }
            rest = after;
            position += n_frames;
        }
        Ok(())
    }

    /// Decodes frames from a mapped file or from memory, several side by side where that helps.
    fn decode_in_place(&self, run: &Run<'_>, slice: Slice<'_>, out: &mut [u8]) -> Result<()> {
        let pieces = self.source.decoder.by_pieces(slice.sig).filter(|_| slice.len >= SHORTEST);
        for (group, out) in out.chunks_mut(TOGETHER * slice.out_len).enumerate() {
            let first = group * TOGETHER;
            let n_frames = out.len() / slice.out_len;
            let mut frames: [&[u8]; TOGETHER] = [&[]; TOGETHER];
            for (i, stored) in frames.iter_mut().enumerate().take(n_frames) {
                *stored = run.stored(first + i, slice)?;
            }
            let frames = frames.get(..n_frames).unwrap_or_default();
            if let Some(decoder) = pieces {
                decode_together(decoder, frames, out).map_err(|error| run.locate(first, error))?;
                continue;
            }
            let outs = out.chunks_exact_mut(slice.out_len);
            for ((i, stored), out) in frames.iter().enumerate().zip(outs) {
                self.decode(run, first + i, stored, slice.sig, out)?;
            }
        }
        Ok(())
    }

    /// Reads frames from a buffered file, several at a time where they lie close together.
    fn decode_read(&mut self, run: &Run<'_>, slice: Slice<'_>, out: &mut [u8]) -> Result<()> {
        let file = run.file;
        let len = to_u64(slice.len);
        let straight = self.source.as_stored && slice.sig.linear().is_some();
        if straight && (file.stride == len || run.n_frames == 1) {
            return file.storage.read_at(file.pixel(run.first, slice.start)?, out);
        }
        let gap = file.stride.saturating_sub(len);
        let at_once = if gap <= len.max(MAX_GAP) {
            (to_u64(MAX_READ) / file.stride.max(1)).max(1)
        } else {
            1
        };
        let at_once = usize::try_from(at_once).unwrap_or(usize::MAX).min(run.n_frames);
        for (i, out) in out.chunks_mut(at_once * slice.out_len).enumerate() {
            let first = run.first + to_u64(i * at_once);
            let piece = Run { file, first, n_frames: out.len() / slice.out_len };
            let start = file.pixel(piece.first, slice.start)?;
            if straight && piece.n_frames == 1 {
                file.storage.read_at(start, out)?;
            } else {
                self.read_piece(&piece, start, slice, out)?;
            }
        }
        Ok(())
    }

    /// Reads a run that starts at offset `start`, in one piece, and decodes it.
    fn read_piece(
        &mut self,
        run: &Run<'_>,
        start: u64,
        slice: Slice<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        let stride = if run.n_frames == 1 { 0 } else { run.file.stride };
        let stride = overflow(usize::try_from(stride).ok())?;
        let span =
            (run.n_frames - 1).checked_mul(stride).and_then(|gaps| gaps.checked_add(slice.len));
        let span = overflow(span)?;
        if self.buffer.len() < span {
            self.buffer.resize(span, 0);
        }
        run.file.storage.read_at(start, self.buffer.get_mut(..span).unwrap_or_default())?;
        for (i, out) in out.chunks_exact_mut(slice.out_len).enumerate() {
            let stored = self.buffer.get(i * stride..i * stride + slice.len);
            let stored = stored.ok_or_else(|| Error::bug("a frame lies beyond what was read"))?;
            self.decode(run, i, stored, slice.sig, out)?;
        }
        Ok(())
    }

    /// Decodes the `i`-th frame of a run.
    fn decode(
        &self,
        run: &Run<'_>,
        i: usize,
        stored: &[u8],
        sig: &SigSlice,
        out: &mut [u8],
    ) -> Result<()> {
        let decoded = self.source.decoder.decode(stored, sig, out);
        decoded.map_err(|error| run.locate(i, error))
    }
}

/// A tile that lies in memory as it is needed.
struct Lent<'s> {
    file: &'s LinearFile,
    bytes: &'s [u8],
    dtype: DType,
    depth: usize,
    len: usize,
    stride: usize,
}

impl FrameReader for LinearReader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        let dtype = self.source.info.dtype.dtype;
        let depth = frames.len();
        let range = self.source.decoder.stored_range(sig);
        let slice = Slice {
            sig,
            start: to_u64(range.start),
            len: range.len(),
            out_len: overflow(sig.len().checked_mul(dtype.size()))?,
        };
        if depth == 0 || slice.out_len == 0 {
            return Err(Error::bug("a tile without cells was asked for"));
        }
        self.announce(&frames, slice)?;
        self.check_marks(&frames)?;
        if let Some(lent) = self.lend(&frames, slice)? {
            let Lent { bytes, depth, len, stride, .. } = lent;
            let frames = TileFrames::from_bytes(lent.dtype, bytes, depth, len, stride)?;
            return DenseTile::lent(frames, lent.file.storage.owner());
        }
        self.gather(&frames, slice).map_err(|e| e.with_format(self.source.info.format))?;
        let bytes = self.scratch.bytes().get(..depth * slice.out_len).unwrap_or_default();
        let frames = TileFrames::from_bytes(dtype, bytes, depth, sig.len(), sig.len())?;
        DenseTile::lent(frames, self.scratch.owner())
    }

    fn verify(&mut self) -> Result<()> {
        for file in self.touched.iter().filter_map(|&index| self.source.files.get(index)) {
            file.storage.verify().map_err(|e| e.with_format(self.source.info.format))?;
        }
        self.touched.clear();
        Ok(())
    }
}

impl LinearFile {
    /// The offset of byte `within` of the `frame`-th frame of this file.
    pub(super) fn pixel(&self, frame: u64, within: u64) -> Result<u64> {
        let offset = frame.checked_mul(self.stride);
        overflow(offset.and_then(|o| o.checked_add(self.first_pixel)?.checked_add(within)))
    }
}

/// The first frame and the constant distance between frames, if there is one.
fn spacing(frames: &FrameIndices<'_>) -> Option<(u64, u64)> {
    let first = frames.get(0)?;
    match frames {
        FrameIndices::Run(_) => Some((first, 1)),
        FrameIndices::List(list) => {
            let step = list.get(1).map_or(Some(1), |second| second.checked_sub(first))?;
            let even = list.windows(2).all(|pair| match pair {
                [a, b] => b.checked_sub(*a) == Some(step),
                _ => true,
            });
            (even && step > 0).then_some((first, step))
        }
    }
}

fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Offsets were checked against the files when they were opened, so this cannot happen.
fn overflow<T>(value: Option<T>) -> Result<T> {
    value.ok_or_else(|| Error::bug("an offset or size does not fit in 64 bits"))
}
