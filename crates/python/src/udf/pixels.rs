//! The pixels of a tile as NumPy arrays.

use crate::arrays::{Layout, MAX_DIMS, view};
use crate::errors::to_python;
use crate::memory::TileMemory;
use crate::moving_view::MovingView;
use framefold::Error;
use framefold::core::{Scratch, Tile, TileFrames};
use numpy::PyArrayDescr;
use numpy::npyffi::npy_intp;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// The pixels of a tile, ready to be shown to Python.
pub(super) struct Pixels<'py> {
    base: Bound<'py, PyAny>,
    start: *mut u8,
    /// Depth and signal shape; the first entry is dropped for a single frame.
    shape: [npy_intp; MAX_DIMS],
    strides: [npy_intp; MAX_DIMS],
    n_dims: usize,
}

impl<'py> Pixels<'py> {
    pub(super) fn new(py: Python<'py>, tile: &Tile<'_>) -> PyResult<Self> {
        let frames = tile.data.frames;
        match &tile.data.owner {
            Some(owner) => {
                let base = Py::new(py, TileMemory::new(owner.clone()))?.into_bound(py).into_any();
                Self::from_frames(tile, &frames, base)
            }
            None => {
                // Memory that ends with the call must not be seen after it: show a copy.
                let bytes = frames.as_bytes();
                let mut copy = Scratch::new();
                let room = copy.prepare(bytes.len()).map_err(|error| to_python(py, error))?;
                room.copy_from_slice(bytes);
                let owner = TileMemory::new(copy.owner());
                let base = Py::new(py, owner)?.into_bound(py).into_any();
                let (depth, len, stride) = (frames.depth(), frames.frame_len(), frames.stride());
                let copied = &copy.bytes()[..bytes.len()];
                let frames = TileFrames::from_bytes(frames.dtype(), copied, depth, len, stride)
                    .map_err(|error: Error| PyRuntimeError::new_err(error.to_string()))?;
                Self::from_frames(tile, &frames, base)
            }
        }
    }

    fn from_frames(
        tile: &Tile<'_>,
        frames: &TileFrames<'_>,
        base: Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        let sig = tile.position.sig.shape();
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
        strides[0] = intp(frames.stride() * frames.dtype().size());
        let start = frames.as_bytes().as_ptr().cast_mut();
        Ok(Pixels { base, start, shape, strides, n_dims })
    }

    /// The whole tile.
    pub(super) fn tile(&self, descr: &Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyAny>> {
        // SAFETY: the shape is that of the tile's own bytes, which the base keeps alive and
        // unchanged; read-only.
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
            writeable: false,
        }
    }
}

/// Lengths of things in memory always fit.
fn intp(n: usize) -> npy_intp {
    npy_intp::try_from(n).unwrap_or(npy_intp::MAX)
}
