//! Frames that a Python function reads, in pieces.

use crate::arrays::memory_of;
use crate::dataset::{PyDataset, shared_bytes};
use crate::ending::{EngineThread, attached};
use crate::errors::{OrRaise, from_python};
use crate::udf::stash_held_gil;
use framefold::core::{
    DType, DataSource, Dataset, DenseTile, Error, FrameIndices, FrameReader, MetadataList,
    Presence, Result, Scratch, SigSlice, SourceInfo, StoredDType, TileFrames,
};
use framefold::io::SharedBytes;
use framefold_python_macros::caught;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// What data sets of such frames are called.
pub(crate) const PIECES: &str = "dask";

/// A data set whose frames are read by `read(piece)`, on the thread of the worker that needs them.
///
/// `starts` are the first frames of all pieces, and their number as the last entry. `read` returns
/// an array in C order with all frames of a piece, of `dtype`; it is kept until another piece is
/// read or the partition is done.
#[caught]
#[pyfunction]
pub(crate) fn from_pieces(
    read: Bound<'_, PyAny>,
    starts: Vec<u64>,
    dtype: &str,
    sig_shape: Vec<usize>,
    nav_shape: Vec<usize>,
    format: &str,
    details: Vec<(String, String)>,
) -> PyResult<PyDataset> {
    let py = read.py();
    let dtype = StoredDType::parse(dtype).or_raise(py)?.dtype;
    let ascending = starts.first() == Some(&0) && starts.is_sorted_by(|a, b| a < b);
    let format = match (format, ascending) {
        (PIECES, true) => PIECES,
        (_, false) => return Err(Error::bug("pieces of frames are not in order")).or_raise(py),
        (other, true) => {
            let error = Error::invalid(format!("there is no format of pieces '{other}'"));
            return Err(error.with_hint(format!("use '{PIECES}'"))).or_raise(py);
        }
    };
    let info = SourceInfo {
        format,
        paths: Vec::new(),
        n_frames: starts.last().copied().unwrap_or(0),
        presence: Presence::All,
        base_shape: vec![1; sig_shape.len()],
        sig_shape,
        nav_shape,
        dtype: StoredDType::native(dtype),
        preferred_depth: 1,
        lends: true,
        metadata: MetadataList::new(),
        details,
        warnings: Vec::new(),
    };
    let source = PythonSource { read: read.unbind(), starts, info };
    Ok(PyDataset::new(Dataset::try_new(Arc::new(source), None, 0).or_raise(py)?, None))
}

#[derive(Debug)]
struct PythonSource {
    read: Py<PyAny>,
    starts: Vec<u64>,
    info: SourceInfo,
}

impl DataSource for PythonSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        let (scratch, thread) = (Scratch::new(), EngineThread::new());
        Ok(Box::new(PieceReader { source: self, piece: None, scratch, _thread: thread }))
    }

    fn pieces(&self) -> Option<&[u64]> {
        self.starts.get(1..self.starts.len().saturating_sub(1))
    }
}

/// The frames of one piece, in C order.
#[derive(Clone)]
struct Piece {
    frames: Range<u64>,
    bytes: Arc<dyn SharedBytes>,
}

struct PieceReader<'s> {
    source: &'s PythonSource,
    piece: Option<Piece>,
    scratch: Scratch,
    /// The interpreter may end while it is used.
    _thread: EngineThread,
}

impl PieceReader<'_> {
    /// The piece with that frame.
    fn piece_of(&mut self, frame: u64) -> Result<&Piece> {
        let cached = self.piece.take().filter(|piece| piece.frames.contains(&frame));
        let piece = match cached {
            Some(piece) => piece,
            None => self.source.piece_of(frame)?,
        };
        Ok(self.piece.insert(piece))
    }
}

impl PythonSource {
    fn piece_of(&self, frame: u64) -> Result<Piece> {
        let index = self.starts.partition_point(|&start| start <= frame).saturating_sub(1);
        let frames = match self.starts.get(index..index + 2) {
            Some(&[start, end]) => start..end,
            _ => {
                let error = format!("there are {} frames, but no such", self.info.n_frames);
                return Err(Error::invalid(error).with_frame(frame));
            }
        };
        let read = |py: Python<'_>| -> PyResult<Result<Piece>> {
            let array = self.read.bind(py).call1((index,))?;
            let array = array.cast_into::<PyUntypedArray>()?;
            let type_string: String = array.dtype().getattr("str")?.extract()?;
            Ok(self.checked(&array, &type_string, frames.clone()))
        };
        stash_held_gil(|| attached(read))
            .map_err(|exception| from_python(exception, format!("reading piece {index}")))?
    }

    fn checked(
        &self,
        array: &Bound<'_, PyUntypedArray>,
        type_string: &str,
        frames: Range<u64>,
    ) -> Result<Piece> {
        let stored = StoredDType::parse(type_string)?;
        let n_frames = usize::try_from(frames.end - frames.start).unwrap_or(usize::MAX);
        let shape: Vec<usize> =
            std::iter::once(n_frames).chain(self.info.sig_shape.iter().copied()).collect();
        let aligned = memory_of(array).start.addr().is_multiple_of(stored.dtype.size().min(16));
        if stored != self.info.dtype
            || array.shape() != shape
            || !array.is_c_contiguous()
            || !aligned
        {
            return Err(Error::bug(format!(
                "frames {frames:?} came as {stored} {:?}, expected {} {shape:?} in C order",
                array.shape(),
                self.info.dtype
            )));
        }
        let size = stored.dtype.size();
        let strides =
            (0..shape.len()).map(|axis| shape[axis + 1..].iter().product::<usize>() * size);
        Ok(Piece { frames, bytes: shared_bytes(array, &strides.collect::<Vec<_>>())? })
    }

    fn frame_len(&self) -> usize {
        self.info.sig_shape.iter().product()
    }
}

impl FrameReader for PieceReader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        let dtype: DType = self.source.info.dtype.dtype;
        let (size, frame_len, depth) = (dtype.size(), self.source.frame_len(), frames.len());
        let first = frames.get(0).ok_or_else(|| Error::bug("a tile of no frames was read"))?;
        let offset = |piece: &Piece, frame: u64| {
            usize::try_from(frame - piece.frames.start).unwrap_or(usize::MAX) * frame_len
        };
        let last = frames.get(depth - 1).unwrap_or(first);
        let in_one = self.piece_of(first)?.frames.contains(&last);
        if let (FrameIndices::Run(_), Some(cells), true) = (&frames, sig.linear(), in_one) {
            let piece = self.piece_of(first)?;
            let start = (offset(piece, first) + cells.start) * size;
            let bytes = piece.bytes.bytes().get(start..).unwrap_or_default();
            let frames = TileFrames::from_bytes(dtype, bytes, depth, cells.len(), frame_len)?;
            return DenseTile::lent(frames, piece.bytes.clone());
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut out = scratch.prepare(depth * sig.len() * size)?;
        for frame in frames.iter() {
            let piece = self.piece_of(frame)?.clone();
            let start = offset(&piece, frame);
            for cells in sig.runs(&self.source.info.sig_shape) {
                let from = (start + cells.start) * size..(start + cells.end) * size;
                let (to, rest) = out.split_at_mut(cells.len() * size);
                to.copy_from_slice(piece.bytes.bytes().get(from).unwrap_or_default());
                out = rest;
            }
        }
        self.scratch = scratch;
        let bytes = self.scratch.bytes();
        let frames = TileFrames::from_bytes(dtype, bytes, depth, sig.len(), sig.len())?;
        DenseTile::lent(frames, self.scratch.owner())
    }

    fn verify(&mut self) -> Result<()> {
        // The partition is done, and so is its piece.
        self.piece = None;
        Ok(())
    }
}
