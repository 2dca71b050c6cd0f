//! One partition of a Python UDF: feeds it tiles or frames.

use super::PyForeign;
use super::binding::Binding;
use super::cursor::TileCursor;
use crate::arrays::{Layout, MAX_DIMS, descr, view};
use crate::errors::from_python;
use crate::memory::TileMemory;
use framefold::core::{
    Accumulator, Array, BufferKind, Method, Partial, Partition, RunMeta, Scratch, Tile, TileFrames,
};
use framefold::{Cancel, Error, Result};
use numpy::PyArrayDescr;
use numpy::npyffi::npy_intp;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

/// The worker for one partition.
pub(super) struct PyAccumulator {
    /// A `framefold.udf._bridge.PartitionTask`.
    task: Py<PyAny>,
    process: Py<PyAny>,
    method: Method,
    bindings: Vec<Binding>,
    cursor: Py<TileCursor>,
    descr: Py<PyArrayDescr>,
    cancel: Cancel,
}

impl PyAccumulator {
    pub(super) fn try_new(
        run: &Bound<'_, PyAny>,
        meta: &RunMeta,
        partition: &Partition,
        cancel: Cancel,
    ) -> PyResult<Self> {
        let py = run.py();
        let frames = &partition.frames;
        let task = run.call_method1("partition", (partition.index, frames.start, frames.end))?;
        let method = match task.getattr("method")?.extract::<String>()?.as_str() {
            "tile" => Method::Tile,
            "frame" => Method::Frame,
            _ => Method::Partition,
        };
        let mut bindings = Vec::new();
        for description in task.getattr("bindings")?.cast::<PyList>()? {
            bindings.push(Binding::try_new(description.cast::<PyTuple>()?)?);
        }
        Ok(PyAccumulator {
            process: task.getattr("process")?.unbind(),
            cursor: task.getattr("cursor")?.cast_into::<TileCursor>()?.unbind(),
            task: task.unbind(),
            method,
            bindings,
            descr: descr(py, meta.job.input_dtype)?.unbind(),
            cancel,
        })
    }

    fn process_tile(&self, py: Python<'_>, tile: &Tile<'_>, pixels: &Pixels<'_>) -> PyResult<()> {
        self.cursor.get().set_tile(&tile.position);
        for binding in &self.bindings {
            binding.show_tile(py, &tile.position)?;
        }
        let array = pixels.tile(py, self.descr.bind(py))?;
        self.process.call1(py, (array,)).map(drop)
    }

    fn process_frame(
        &self,
        py: Python<'_>,
        tile: &Tile<'_>,
        pixels: &Pixels<'_>,
        i: usize,
    ) -> PyResult<()> {
        let position = &tile.position;
        let index = position.frames.start + i;
        self.cursor.get().set(index, index + 1, position.sig.index());
        for binding in &self.bindings {
            if binding.kind() == BufferKind::Nav {
                binding.show_frame(py, position.in_partition.start + i)?;
            }
        }
        let array = pixels.frame(py, self.descr.bind(py), i)?;
        self.process.call1(py, (array,)).map(drop)
    }
}

impl Accumulator for PyAccumulator {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let frames = &tile.position.frames;
        Python::attach(|py| {
            let pixels = Pixels::new(py, tile)
                .map_err(|exception| from_python(exception, "handing over a tile"))?;
            if self.method != Method::Frame {
                return self.process_tile(py, tile, &pixels).map_err(|exception| {
                    let place = tile.position.sig.origin();
                    let frames = format!("frames {} to {}", frames.start, frames.end - 1);
                    from_python(exception, format!("tile of {frames} at {place:?}"))
                });
            }
            for i in 0..frames.len() {
                self.cancel.check()?;
                self.process_frame(py, tile, &pixels, i).map_err(|exception| {
                    from_python(exception, format!("frame {}", frames.start + i))
                })?;
            }
            Ok(())
        })
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        Python::attach(|py| {
            let finished = self.task.call_method0(py, "finish");
            let partial = finished.and_then(|result| result.extract::<(Py<PyAny>, usize)>(py));
            let (buffers, len_bytes) =
                partial.map_err(|exception| from_python(exception, "postprocess"))?;
            let array = Array::Foreign(Box::new(PyForeign::new(buffers, len_bytes)));
            Ok(Partial::new().with("buffers", array))
        })
    }
}

/// The pixels of a tile, ready to be shown to Python.
struct Pixels<'py> {
    base: Bound<'py, PyAny>,
    start: *mut u8,
    /// Depth and signal shape; the first entry is dropped for a single frame.
    shape: [npy_intp; MAX_DIMS],
    strides: [npy_intp; MAX_DIMS],
    n_dims: usize,
}

impl<'py> Pixels<'py> {
    fn new(py: Python<'py>, tile: &Tile<'_>) -> PyResult<Self> {
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
                copy.prepare(bytes.len()).copy_from_slice(bytes);
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

    fn tile(
        &self,
        py: Python<'py>,
        descr: &Bound<'py, PyArrayDescr>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.show(py, descr, 0, self.start)
    }

    fn frame(
        &self,
        py: Python<'py>,
        descr: &Bound<'py, PyArrayDescr>,
        i: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.show(py, descr, 1, self.start.wrapping_offset(intp(i) * self.strides[0]))
    }

    fn show(
        &self,
        py: Python<'py>,
        descr: &Bound<'py, PyArrayDescr>,
        first_axis: usize,
        start: *mut u8,
    ) -> PyResult<Bound<'py, PyAny>> {
        let layout = Layout {
            start,
            shape: &self.shape[first_axis..self.n_dims],
            strides: &self.strides[first_axis..self.n_dims],
            writeable: false,
        };
        // SAFETY: the shape is that of the tile's own bytes, which the base keeps alive and
        // unchanged; read-only.
        unsafe { view(py, descr, &layout, &self.base) }
    }
}

/// Lengths of things in memory always fit.
fn intp(n: usize) -> npy_intp {
    npy_intp::try_from(n).unwrap_or(npy_intp::MAX)
}
