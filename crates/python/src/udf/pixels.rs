//! The pixels of a tile as NumPy arrays.

use crate::arrays::{Layout, MAX_DIMS, view};
use crate::errors::to_python;
use crate::memory::{OwnTileMemory, TileMemory};
use crate::moving_view::MovingView;
use framefold::core::{Scratch, Tile};
use numpy::PyArrayDescr;
use numpy::npyffi::npy_intp;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The pixels of a tile, ready to be shown to Python: read-only, since others see them, too, or as a
/// copy that the UDF may write into.
pub(super) struct Pixels<'py> {
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
        let frames = tile.data.frames;
        match (&tile.data.owner, own) {
            (_, Some(own)) => Self::copied(py, tile, own),
            (Some(owner), None) => {
                let base = Py::new(py, TileMemory::new(owner.clone()))?.into_bound(py).into_any();
                let start = frames.as_bytes().as_ptr().cast_mut();
                Self::at(tile, start, frames.stride(), base)
            }
            // Memory that ends with the call must not be seen after it.
            (None, None) => {
                let copied = Self::copied(py, tile, &mut Scratch::new())?;
                Ok(Pixels { writeable: false, ..copied })
            }
        }
    }

    /// A copy of the frames, without the gaps between them.
    fn copied(py: Python<'py>, tile: &Tile<'_>, own: &mut Scratch) -> PyResult<Self> {
        let frames = tile.data.frames;
        let size = frames.dtype().size();
        let (len, step) = (frames.frame_len() * size, frames.stride() * size);
        let room = own.prepare(frames.depth() * len).map_err(|error| to_python(py, error))?;
        for (to, from) in
            room.chunks_exact_mut(len.max(1)).zip(frames.as_bytes().chunks(step.max(1)))
        {
            to.copy_from_slice(&from[..len]);
        }
        let (start, room_len) = (room.as_mut_ptr(), room.len());
        // SAFETY: the memory is that of the scratch, which makes a new one at the next call where
        // an owner is still there.
        let memory = unsafe { OwnTileMemory::new(own.owner(), start, room_len) };
        let base = Py::new(py, memory)?.into_bound(py).into_any();
        let copied = Self::at(tile, start, frames.frame_len(), base)?;
        Ok(Pixels { writeable: true, ..copied })
    }

    /// Frames that begin at `start`, `stride` elements apart, in memory that `base` keeps alive.
    fn at(
        tile: &Tile<'_>,
        start: *mut u8,
        stride: usize,
        base: Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        let (frames, sig) = (tile.data.frames, tile.position.sig.shape());
        let n_dims = sig.len() + 1;
        if n_dims > MAX_DIMS {
            return Err(PyRuntimeError::new_err(format!("more than {MAX_DIMS} axes")));
        }
        let (mut shape, mut strides) = ([1; MAX_DIMS], [0; MAX_DIMS]);
        let mut step = frames.dtype().size();
        for (axis, &dim) in sig.iter().enumerate().rev() {
            shape[axis + 1] = intp(dim);
            strides[axis + 1] = intp(step);
            step *= dim;
        }
        shape[0] = intp(frames.depth());
        strides[0] = intp(stride * frames.dtype().size());
        Ok(Pixels { base, start, shape, strides, n_dims, writeable: false })
    }

    /// The whole tile.
    pub(super) fn tile(&self, descr: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the shape is that of the tile's own bytes, which the base keeps alive; read-only,
        // or a copy that nothing else looks at until the base is gone.
        unsafe { view(self.base.py(), descr, &self.layout(0, self.start), &self.base) }
    }

    /// The `i`-th frame, shown by `shown`, which shows frames of this tile only.
    pub(super) fn frame<'v>(
        &self,
        descr: &Bound<'py, PyArrayDescr>,
        i: usize,
        shown: &'v mut MovingView,
    ) -> PyResult<&'v Py<PyAny>> {
        let start = self.start.wrapping_offset(intp(i) * self.strides[0]);
        // SAFETY: as above; the base is the tile's.
        let (array, _) = unsafe { shown.show(descr, &self.layout(1, start), &self.base, 0)? };
        Ok(array)
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

/// Lengths of things in memory always fit.
fn intp(n: usize) -> npy_intp {
    npy_intp::try_from(n).unwrap_or(npy_intp::MAX)
}
