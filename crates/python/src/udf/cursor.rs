//! Where in the run a Python UDF is: what `UDFMeta.slice` is computed from, when it is asked for.

use framefold::core::TilePosition;
use framefold_python_macros::caught;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The position of the tile or frame being processed, in compressed navigation indices.
///
/// Written by the engine before every call of user code; costs nothing unless it is read.
#[pyclass(frozen, module = "framefold._engine")]
pub(crate) struct TileCursor {
    start: AtomicUsize,
    stop: AtomicUsize,
    slice_index: AtomicUsize,
}

impl TileCursor {
    pub(crate) fn set_tile(&self, position: &TilePosition<'_>) {
        self.set(position.frames.start, position.frames.end, position.sig.index());
    }

    pub(crate) fn set(&self, start: usize, stop: usize, slice_index: usize) {
        self.start.store(start, Ordering::Relaxed);
        self.stop.store(stop, Ordering::Relaxed);
        self.slice_index.store(slice_index, Ordering::Relaxed);
    }
}

#[caught]
#[pymethods]
impl TileCursor {
    #[new]
    fn new(start: usize, stop: usize) -> Self {
        let cursor = TileCursor { start: 0.into(), stop: 0.into(), slice_index: 0.into() };
        cursor.set(start, stop, 0);
        cursor
    }

    /// The first frame, counted over all selected frames.
    #[getter]
    fn start(&self) -> usize {
        self.start.load(Ordering::Relaxed)
    }

    /// One past the last frame.
    #[getter]
    fn stop(&self) -> usize {
        self.stop.load(Ordering::Relaxed)
    }

    /// The number of the signal slice in the tiling scheme.
    #[getter]
    fn slice_index(&self) -> usize {
        self.slice_index.load(Ordering::Relaxed)
    }
}
