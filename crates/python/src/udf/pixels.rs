//! The pixels of a tile as NumPy arrays.

use crate::arrays::{Layout, MAX_DIMS, view};
use crate::errors::to_python;
use crate::memory::{OwnTileMemory, TileMemory};
use crate::moving_view::MovingView;
use framefold::core::{DType, DenseTile, LentBytes, Scratch, Tile};
use numpy::PyArrayDescr;
use numpy::npyffi::npy_intp;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The pixels of a tile, ready to be shown to Python: read-only, since others see them, too, or as a
/// copy that the UDF may write into.
pub(crate) struct Pixels<'py> {
    base: Bound<'py, PyAny>,
    start: *mut u8,
    /// Depth and signal shape; the first entry is dropped for a single frame.
    shape: [npy_intp; MAX_DIMS],
    strides: [npy_intp; MAX_DIMS],
    n_dims: usize,
    writeable: bool,
}

impl<'py> Pixels<'py> {
    /// `own` is where a copy is made, if there is to be one.
    pub(super) fn new(
        py: Python<'py>,
        tile: &Tile<'_>,
        own: Option<&mut Scratch>,
    ) -> PyResult<Self> {
        Self::of(py, &tile.data, tile.position.sig.shape(), own)
    }

    /// The same of a tile whose frames have the shape `sig`.
    pub(crate) fn of(
        py: Python<'py>,
        tile: &DenseTile<'_>,
        sig: &[usize],
        own: Option<&mut Scratch>,
    ) -> PyResult<Self> {
        match (tile.lent_bytes(), own) {
            (_, Some(own)) => Self::copied(py, tile, sig, own),
            (Some(lent), None) => Self::shown(py, tile, sig, lent.clone()),
            // Memory that ends with the call must not be seen after it.
            (None, None) => {
                let copied = Self::copied(py, tile, sig, &mut Scratch::new())?;
                Ok(Pixels { writeable: false, ..copied })
            }
        }
    }

    /// So many frames of zeros, which Python writes into.
    pub(crate) fn zeros(
        py: Python<'py>,
        dtype: DType,
        depth: usize,
        sig: &[usize],
        own: &mut Scratch,
    ) -> PyResult<Self> {
        let len = sig.iter().product::<usize>();
        let len_bytes = depth.checked_mul(len).and_then(|cells| cells.checked_mul(dtype.size()));
        let room =
            own.prepare(len_bytes.unwrap_or(usize::MAX)).map_err(|error| to_python(py, error))?;
        room.fill(0);
        let (start, room_len) = (room.as_mut_ptr(), room.len());
        let base = base_of(py, own, start, room_len)?;
        let zeros = Self::at((dtype, depth, len), sig, start, len, base)?;
        Ok(Pixels { writeable: true, ..zeros })
    }

    /// The frames where they lie.
    fn shown(
        py: Python<'py>,
        tile: &DenseTile<'_>,
        sig: &[usize],
        lent: LentBytes,
    ) -> PyResult<Self> {
        let frames = tile.frames();
        let memory = Bound::new(py, TileMemory::lent(lent))?;
        // Of the owner that the base keeps alive, rather than of the tile.
        let bytes = memory.get().bytes();
        let gaps = frames.depth().checked_sub(1).and_then(|gaps| gaps.checked_mul(frames.stride()));
        let cells = gaps.and_then(|gaps| gaps.checked_add(frames.frame_len()));
        let needed = cells.and_then(|cells| cells.checked_mul(frames.dtype().size()));
        if needed.is_none_or(|needed| needed > bytes.len()) {
            return Err(outside());
        }
        let start = bytes.as_ptr().cast_mut();
        let kind = (frames.dtype(), frames.depth(), frames.frame_len());
        Self::at(kind, sig, start, frames.stride(), memory.into_any())
    }

    /// A copy of the frames, without the gaps between them.
    fn copied(
        py: Python<'py>,
        tile: &DenseTile<'_>,
        sig: &[usize],
        own: &mut Scratch,
    ) -> PyResult<Self> {
        let frames = tile.frames();
        let size = frames.dtype().size();
        let (len, step) = (frames.frame_len() * size, frames.stride() * size);
        let room = own.prepare(frames.depth() * len).map_err(|error| to_python(py, error))?;
        for (to, from) in
            room.chunks_exact_mut(len.max(1)).zip(frames.as_bytes().chunks(step.max(1)))
        {
            to.copy_from_slice(&from[..len]);
        }
        let (start, room_len) = (room.as_mut_ptr(), room.len());
        let base = base_of(py, own, start, room_len)?;
        let kind = (frames.dtype(), frames.depth(), frames.frame_len());
        let copied = Self::at(kind, sig, start, frames.frame_len(), base)?;
        Ok(Pixels { writeable: true, ..copied })
    }

    /// Frames that begin at `start`, `stride` elements apart, in memory that `base` keeps alive;
    /// `kind` is their dtype, how many there are, and how long each is.
    fn at(
        kind: (DType, usize, usize),
        sig: &[usize],
        start: *mut u8,
        stride: usize,
        base: Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        let (dtype, depth, frame_len) = kind;
        let n_dims = sig.len() + 1;
        if n_dims > MAX_DIMS {
            return Err(PyRuntimeError::new_err(format!("more than {MAX_DIMS} axes")));
        }
        // What shows the memory goes by the shape, and the memory was measured by the frames.
        if sig.iter().product::<usize>() != frame_len {
            return Err(outside());
        }
        let (mut shape, mut strides) = ([1; MAX_DIMS], [0; MAX_DIMS]);
        let mut step = dtype.size();
        for (axis, &dim) in sig.iter().enumerate().rev() {
            shape[axis + 1] = intp(dim);
            strides[axis + 1] = intp(step);
            step *= dim;
        }
        shape[0] = intp(depth);
        strides[0] = intp(stride * dtype.size());
        Ok(Pixels { base, start, shape, strides, n_dims, writeable: false })
    }

    /// The whole tile.
    pub(crate) fn tile(&self, descr: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: `shown` and `copied` measured the memory of `start`, which the base keeps alive,
        // by the frames, and `at` the shape; read-only, or a copy that nothing else looks at until
        // no code has the base.
        unsafe { view(self.base.py(), descr, &self.layout(0, self.start), &self.base) }
    }

    /// The `i`-th of the tile's frames, shown by `shown`, which shows frames of this tile only.
    pub(crate) fn frame<'v>(
        &self,
        descr: &Bound<'py, PyArrayDescr>,
        i: usize,
        shown: &'v mut MovingView,
    ) -> PyResult<&'v Py<PyAny>> {
        if intp(i) >= self.shape[0] {
            return Err(outside());
        }
        let start = self.start.wrapping_offset(intp(i) * self.strides[0]);
        // SAFETY: as above, of one of the frames; the base is the tile's.
        let (array, _) = unsafe { shown.show(descr, &self.layout(1, start), &self.base, 0)? };
        Ok(array)
    }

    /// Where the `i`-th frame begins, for those that have seen that there are so many.
    pub(crate) fn start_of(&self, i: usize) -> *const u8 {
        self.start.wrapping_offset(intp(i) * self.strides[0])
    }

    fn layout(&self, first_axis: usize, start: *mut u8) -> Layout<'_> {
        Layout {
            start,
            shape: &self.shape[first_axis..self.n_dims],
            strides: &self.strides[first_axis..self.n_dims],
            writeable: self.writeable,
        }
    }
}

/// The base object of arrays that show what `own` prepared last, `len` bytes at `start`.
fn base_of<'py>(
    py: Python<'py>,
    own: &Scratch,
    start: *mut u8,
    len: usize,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the memory is that of the scratch, which makes a new one at the next call where
    // an owner is still there.
    let memory = unsafe { OwnTileMemory::new(own.owner(), start, len) };
    Ok(Py::new(py, memory)?.into_bound(py).into_any())
}

fn outside() -> PyErr {
    PyRuntimeError::new_err("a tile lies outside of the memory that was lent for it")
}

/// Lengths of things in memory always fit.
fn intp(n: usize) -> npy_intp {
    npy_intp::try_from(n).unwrap_or(npy_intp::MAX)
}
