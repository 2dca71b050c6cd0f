//! One partition of a Python UDF: feeds it tiles or frames.

use super::PyForeign;
use super::attached::Attached;
use super::binding::Binding;
use super::cursor::TileCursor;
use super::pixels::Pixels;
use super::rows::Rows;
use crate::errors::{OrRaise, from_python, is_about_read_only};
use crate::moving_view::MovingView;
use crate::words::{Processing, Word};
use framefold::core::{
    Accumulator, Array, BufferKind, CsrTile, EncodedTile, Encoding, Partial, Partition, Scratch,
    StagedTile, Tile, TilePosition,
};
use framefold::{Cancel, Error, Result};
use numpy::PyArrayDescr;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The worker for one partition.
pub(super) struct PyAccumulator {
    task: Task,
    attached: Attached,
}

impl PyAccumulator {
    pub(super) fn new((task, attached): (Task, Attached)) -> Self {
        PyAccumulator { task, attached }
    }
}

impl Accumulator for PyAccumulator {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let task = &mut self.task;
        self.attached.with(|py| {
            let given = !task.give.is_none(py);
            // What is made of shared tiles is copied afterwards.
            let own = match &mut task.own {
                _ if given => None,
                None if task.method != Processing::Frame && has_gaps(tile) => {
                    Some(&mut task.packed)
                }
                own => own.as_mut(),
            };
            let pixels = Pixels::new(py, tile, own)
                .map_err(|exception| from_python(exception, "handing over a tile"))?;
            if given {
                let given = task
                    .given_of_dense(py, &tile.position, &pixels)
                    .map_err(|exception| from_python(exception, "converting a tile"))?;
                return task.process_given(py, &tile.position, given);
            }
            match task.method {
                Processing::Frame => task.process_frames(py, &tile.position, &pixels),
                Processing::Tile | Processing::Frames | Processing::Partition => {
                    task.process_tile(py, &tile.position, |descr| pixels.tile(descr))
                }
            }
        })
    }

    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        let task = &mut self.task;
        self.attached.with(|py| {
            let given = task
                .given_of_rows(py, position, tile)
                .map_err(|exception| from_python(exception, "converting a sparse tile"))?;
            task.process_given(py, position, given)
        })
    }

    fn process_staged(&mut self, position: &TilePosition<'_>, tile: StagedTile<'_>) -> Result<()> {
        let task = &mut self.task;
        self.attached.with(|py| {
            let given = task
                .given_of_staged(py, position, tile)
                .map_err(|exception| from_python(exception, "bringing a tile to the device"))?;
            task.process_given(py, position, given)
        })
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let PyAccumulator { task, attached } = *self;
        let finished = attached.end(|py| {
            let mut task = task;
            let finished = task
                .write_back(py)
                .and_then(|()| task.task.call_method0(py, intern!(py, "finish")))
                .and_then(|partial| task.check_kept(py).map(|()| partial));
            let finished = finished.map_err(|exception| task.failed(py, exception, "postprocess"));
            // What the partition held is released here, while that can be done at once.
            drop(task);
            finished?
                .extract::<(Py<PyAny>, usize)>(py)
                .map_err(|exception| from_python(exception, "postprocess"))
        });
        let (buffers, len_bytes) = finished?;
        let array = Array::Foreign(Box::new(PyForeign::new(buffers, len_bytes)));
        Ok(Partial::new().with("buffers", array))
    }
}

/// Whether the frames of a tile do not follow each other, as with headers in between or under a ROI.
fn has_gaps(tile: &Tile<'_>) -> bool {
    let frames = tile.data.frames();
    frames.depth() > 1 && frames.stride() != frames.frame_len()
}

/// A copy of the user's UDF at work.
pub(super) struct Task {
    /// A `framefold.udf.engine.partition_task.PartitionTask`.
    task: Py<PyAny>,
    process: Py<PyAny>,
    /// Makes what the UDF gets of tiles; `None` in Python if it gets dense ones as they are.
    give: Py<PyAny>,
    /// The same of tiles in the staging memory of a worker with a device.
    give_staged: Py<PyAny>,
    method: Processing,
    bindings: Vec<Binding>,
    cursor: Py<TileCursor>,
    descr: Py<PyArrayDescr>,
    cancel: Cancel,
    /// Where copies of tiles are made, if the UDF writes into what it gets.
    own: Option<Scratch>,
    /// Where tiles are copied that have gaps between frames: `ravel` would copy them as well, and what
    /// the UDF writes to that would be lost.
    packed: Scratch,
    /// What tells the partitions to come that it does.
    writes: Arc<AtomicBool>,
    /// Whether it returned something, which is noted once.
    returned: bool,
}

impl Task {
    pub(super) fn try_new(
        run: &Bound<'_, PyAny>,
        descr: Py<PyArrayDescr>,
        partition: &Partition,
        cancel: Cancel,
        writes: Arc<AtomicBool>,
    ) -> PyResult<Self> {
        let py = run.py();
        let frames = &partition.frames;
        let arguments = (partition.index, frames.start, frames.end);
        let task = run.call_method1(intern!(py, "partition"), arguments)?;
        let method = task.getattr(intern!(py, "method"))?.extract::<String>()?;
        let method = Processing::parse(&method).or_raise(py)?;
        let mut bindings = Vec::new();
        for description in task.getattr(intern!(py, "bindings"))?.cast::<PyList>()? {
            let binding = Binding::try_new(description.cast::<PyTuple>()?)?;
            // What is the same for all frames is shown from the start.
            if method != Processing::Frame || binding.kind() == BufferKind::Nav {
                bindings.push(binding);
            }
        }
        Ok(Task {
            process: task.getattr(intern!(py, "process"))?.unbind(),
            give: task.getattr(intern!(py, "give"))?.unbind(),
            give_staged: task.getattr(intern!(py, "give_staged"))?.unbind(),
            cursor: task.getattr(intern!(py, "cursor"))?.cast_into::<TileCursor>()?.unbind(),
            task: task.unbind(),
            method,
            bindings,
            descr,
            cancel,
            own: writes.load(Ordering::Relaxed).then(Scratch::new),
            packed: Scratch::new(),
            writes,
            returned: false,
        })
    }

    /// What user code raised while it was `doing` something, as an engine error.
    ///
    /// If it tried to write into what it shares with others, the partition is to be repeated with
    /// copies.
    fn failed(&self, py: Python<'_>, exception: PyErr, doing: impl Into<String>) -> Error {
        let writes = self.own.is_none() && is_about_read_only(py, &exception);
        let error = from_python(exception, doing);
        if !writes {
            return error;
        }
        self.writes.store(true, Ordering::Relaxed);
        error.with_repeat()
    }

    /// Puts into the result buffers what user code saw in other memory.
    fn write_back(&mut self, py: Python<'_>) -> PyResult<()> {
        self.bindings.iter_mut().try_for_each(|binding| binding.write_back(py))
    }

    /// An error if user code wrote to such memory after that.
    fn check_kept(&mut self, py: Python<'_>) -> PyResult<()> {
        self.bindings.iter_mut().try_for_each(|binding| binding.check_kept(py))
    }

    /// Calls the user's function, and notes if it returns something.
    fn call(&mut self, py: Python<'_>, argument: &Py<PyAny>) -> PyResult<()> {
        let returned = call(py, &self.process, argument)?;
        if self.returned || returned.is_none() {
            return Ok(());
        }
        self.returned = true;
        self.task.call_method1(py, intern!(py, "note_returned"), (returned,)).map(drop)
    }

    /// Processes the tile that `show` makes, given the dtype.
    fn process_tile<'py>(
        &mut self,
        py: Python<'py>,
        position: &TilePosition<'_>,
        show: impl FnOnce(&Bound<'py, PyArrayDescr>) -> PyResult<Bound<'py, PyAny>>,
    ) -> Result<()> {
        self.cursor.get().set_tile(position);
        let shown = self.bindings.iter_mut().try_for_each(|b| b.show_tile(py, position));
        let processed = shown
            .and_then(|()| show(self.descr.bind(py)))
            .and_then(|tile| self.call(py, &tile.unbind()));
        processed.map_err(|exception| {
            let (frames, place) = (&position.frames, position.sig.origin());
            let frames = format!("frames {} to {}", frames.start, frames.end - 1);
            self.failed(py, exception, format!("tile of {frames} at {place:?}"))
        })
    }

    fn process_frames(
        &mut self,
        py: Python<'_>,
        position: &TilePosition<'_>,
        pixels: &Pixels<'_>,
    ) -> Result<()> {
        let mut shown = MovingView::default();
        for i in 0..position.frames.len() {
            self.cancel.check()?;
            let index = position.frames.start + i;
            self.cursor.get().set(index, index + 1, position.sig.index());
            let in_partition = position.in_partition.start + i;
            let views = self.bindings.iter_mut().try_for_each(|b| b.show_frame(py, in_partition));
            views
                .and_then(|()| pixels.frame(self.descr.bind(py), i, &mut shown))
                .and_then(|frame| self.call(py, frame))
                .map_err(|exception| self.failed(py, exception, format!("frame {index}")))?;
        }
        Ok(())
    }
}

impl Task {
    /// A dense tile in the array format that the UDF takes; an iterator over its frames, if it
    /// processes frames.
    fn given_of_dense<'py>(
        &self,
        py: Python<'py>,
        position: &TilePosition<'_>,
        pixels: &Pixels<'py>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (frames, index) = (&position.frames, position.sig.index());
        let tile = pixels.tile(self.descr.bind(py))?;
        self.give.bind(py).call1((frames.start, frames.end, index, tile))
    }

    /// The same of a sparse tile.
    fn given_of_rows<'py>(
        &self,
        py: Python<'py>,
        position: &TilePosition<'_>,
        tile: &CsrTile<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (starts, columns, values) = Rows::new(py, tile)?.arrays(self.descr.bind(py))?;
        let (frames, index) = (&position.frames, position.sig.index());
        self.give.bind(py).call1((frames.start, frames.end, index, starts, columns, values))
    }

    /// The same of a tile in staging memory.
    fn given_of_staged<'py>(
        &self,
        py: Python<'py>,
        position: &TilePosition<'_>,
        tile: StagedTile<'_>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (frames, index) = (&position.frames, position.sig.index());
        let place = (frames.start, frames.end, index);
        // A `framefold.arrays.cuda.decoding.Encoded`.
        let encoded = tile.encoded.map(|EncodedTile { encoding, part_frames, lens }| {
            let Encoding { element_bytes, block_bytes, chunk_frames } = encoding;
            (element_bytes, block_bytes, chunk_frames, part_frames, lens)
        });
        let arguments = (place, tile.number, tile.dtype.name(), tile.is_raw, encoded);
        self.give_staged.bind(py).call1(arguments)
    }

    fn process_given(
        &mut self,
        py: Python<'_>,
        position: &TilePosition<'_>,
        given: Bound<'_, PyAny>,
    ) -> Result<()> {
        match self.method {
            Processing::Frame => self.process_given_frames(py, position, &given),
            Processing::Tile | Processing::Frames | Processing::Partition => {
                let copies = self.own.is_some();
                self.process_tile(
                    py,
                    position,
                    |_| if copies { own_copy(&given) } else { Ok(given) },
                )
            }
        }
    }

    fn process_given_frames(
        &mut self,
        py: Python<'_>,
        position: &TilePosition<'_>,
        given: &Bound<'_, PyAny>,
    ) -> Result<()> {
        let mut frames =
            given.try_iter().map_err(|exception| from_python(exception, "taking frames"))?;
        for i in 0..position.frames.len() {
            self.cancel.check()?;
            let index = position.frames.start + i;
            self.cursor.get().set(index, index + 1, position.sig.index());
            let in_partition = position.in_partition.start + i;
            let views = self.bindings.iter_mut().try_for_each(|b| b.show_frame(py, in_partition));
            views
                .and_then(|()| match frames.next() {
                    Some(frame) if self.own.is_some() => {
                        self.call(py, &own_copy(&frame?)?.unbind())
                    }
                    Some(frame) => self.call(py, &frame?.unbind()),
                    None => Err(PyRuntimeError::new_err("a tile has too few frames")),
                })
                .map_err(|exception| self.failed(py, exception, format!("frame {index}")))?;
        }
        Ok(())
    }
}

/// An array of any format that shares no memory with `given`.
fn own_copy<'py>(given: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    match given.getattr_opt("copy")? {
        Some(copy) => copy.call0(),
        None => given.py().import("copy")?.call_method1("deepcopy", (given,)),
    }
}

/// Calls `function` with one argument.
fn call<'py>(
    py: Python<'py>,
    function: &Py<PyAny>,
    argument: &Py<PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: both are live objects, and a null pointer ends the arguments. Unlike a call with a
    // tuple of arguments, this makes no object.
    unsafe {
        let result = ffi::PyObject_CallFunctionObjArgs(
            function.as_ptr(),
            argument.as_ptr(),
            null_mut::<ffi::PyObject>(),
        );
        Bound::from_owned_ptr_or_err(py, result)
    }
}
