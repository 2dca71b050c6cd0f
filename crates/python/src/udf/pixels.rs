//! The pixels of a tile as NumPy arrays.

use crate::arrays::{Layout, MAX_DIMS, view};
use crate::errors::to_python;
use crate::memory::{OwnTileMemory, TileMemory};
use crate::moving_view::MovingView;
use framefold::core::{LentBytes, Scratch, Tile};
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
        match (tile.data.lent_bytes(), own) {
            (_, Some(own)) => Self::copied(py, tile, own),
            (Some(lent), None) => Self::shown(py, tile, lent.clone()),
            // Memory that ends with the call must not be seen after it.
            (None, None) => {
                let copied = Self::copied(py, tile, &mut Scratch::new())?;
                Ok(Pixels { writeable: false, ..copied })
            }
        }
    }

    /// The frames where they lie.
    fn shown(py: Python<'py>, tile: &Tile<'_>, lent: LentBytes) -> PyResult<Self> {
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
        Self::at(tile, start, frames.stride(), memory.into_any())
    }

    /// A copy of the frames, without the gaps between them.
    fn copied(py: Python<'py>, tile: &Tile<'_>, own: &mut Scratch) -> PyResult<Self> {
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
        // SAFETY: the memory is that of the scratch, which makes a new one at the next call where
        // an owner is still there.
        let memory = unsafe { OwnTileMemory::new(own.owner(), start, room_len) };
        let base = Py::new(py, memory)?.into_bound(py).into_any();
        let copied = Self::at(tile, start, frames.frame_len(), base)?;
        Ok(Pixels { writeable: true, ..copied })
    }

    /// Frames that begin at `start`, `stride` elements apart, in memory that `base` keeps alive;
    /// there are as many, and as long, as those of the tile.
    fn at(
        tile: &Tile<'_>,
        start: *mut u8,
        stride: usize,
        base: Bound<'py, PyAny>,
    ) -> PyResult<Self> {
        let (frames, sig) = (tile.frames(), tile.position.sig.shape());
        let n_dims = sig.len() + 1;
        if n_dims > MAX_DIMS {
            return Err(PyRuntimeError::new_err(format!("more than {MAX_DIMS} axes")));
        }
        // What shows the memory goes by the position, and the memory was measured by the frames.
        if sig.iter().product::<usize>() != frames.frame_len() {
            return Err(outside());
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
        // SAFETY: `shown` and `copied` measured the memory of `start`, which the base keeps alive,
        // by the frames, and `at` the shape; read-only, or a copy that nothing else looks at until
        // no code has the base.
        unsafe { view(self.base.py(), descr, &self.layout(0, self.start), &self.base) }
    }

    /// The `i`-th of the tile's frames, shown by `shown`, which shows frames of this tile only.
    pub(super) fn frame<'v>(
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

    fn layout(&self, first_axis: usize, start: *mut u8) -> Layout<'_> {
        Layout {
            start,
            shape: &self.shape[first_axis..self.n_dims],
            strides: &self.strides[first_axis..self.n_dims],
            writeable: self.writeable,
        }
    }
}

fn outside() -> PyErr {
    PyRuntimeError::new_err("a tile lies outside of the memory that was lent for it")
}

/// Lengths of things in memory always fit.
fn intp(n: usize) -> npy_intp {
    npy_intp::try_from(n).unwrap_or(npy_intp::MAX)
}
