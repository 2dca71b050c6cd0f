//! A buffer and the attribute through which user code sees the part that is its turn.
//!
//! All that user code sees is C-contiguous, as a buffer that NumPy makes is: where `reshape` had to
//! copy, what is written to the copy would be lost.

mod cut;

use crate::arrays::{ArrayMemory, Layout, memory_of};
use crate::errors::OrRaise;
use crate::moving_view::MovingView;
use crate::words::Word;
use cut::Cuts;
use framefold::core::{BufferKind, TilePosition};
use numpy::npyffi::npy_intp;
use numpy::{PyArrayDescr, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

/// One buffer of one partition: a result buffer, or AUX data.
pub(super) struct Binding {
    /// The `__dict__` of the object on which user code finds the view.
    namespace: Py<PyDict>,
    name: Py<PyString>,
    array: Py<PyUntypedArray>,
    descr: Py<PyArrayDescr>,
    memory: ArrayMemory,
    kind: BufferKind,
    writeable: bool,
    /// Shape and strides of the view for one frame, for `nav` buffers.
    frame_shape: Vec<npy_intp>,
    frame_strides: Vec<npy_intp>,
    shown: MovingView,
    /// What is shown of `sig` buffers while tiles have some of the columns only.
    cuts: Cuts,
}

impl Binding {
    /// From the bridge's `(namespace, name, array, kind, writeable, held)`; the last is whether user
    /// code has the whole array.
    pub(super) fn try_new(description: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let (namespace, name, array, kind, writeable, held) = description.extract::<(
            Bound<'_, PyDict>,
            Bound<'_, PyString>,
            Bound<'_, PyAny>,
            String,
            bool,
            bool,
        )>()?;
        let array = array.cast_into::<PyUntypedArray>()?;
        let kind = BufferKind::parse(&kind).or_raise(description.py())?;
        let memory = memory_of(&array);
        let (mut frame_shape, mut frame_strides) = (Vec::new(), Vec::new());
        if kind == BufferKind::Nav {
            frame_shape.extend_from_slice(memory.shape.get(1..).unwrap_or_default());
            frame_strides.extend_from_slice(memory.strides.get(1..).unwrap_or_default());
            if frame_shape.is_empty() {
                // One number per frame shows as an array of one, so that it can be assigned to.
                frame_shape.push(1);
                frame_strides.extend(memory.strides.first());
            }
        }
        Ok(Binding {
            descr: array.dtype().unbind(),
            namespace: namespace.unbind(),
            name: name.unbind(),
            array: array.unbind(),
            memory,
            kind,
            writeable,
            frame_shape,
            frame_strides,
            shown: MovingView::default(),
            cuts: Cuts::new(writeable, held),
        })
    }

    pub(super) fn kind(&self) -> BufferKind {
        self.kind
    }

    /// Shows the part for one frame, counted from the start of the partition.
    pub(super) fn show_frame(&mut self, py: Python<'_>, frame: usize) -> PyResult<()> {
        let start = self.offset(0, frame)?;
        let (shape, strides) = (&self.frame_shape, &self.frame_strides);
        let layout = Layout { start, shape, strides, writeable: self.writeable };
        let base = self.array.bind(py).as_any();
        // SAFETY: `offset` checked the frame against the array's length; the array, which owns
        // the memory, is the base of every view.
        let shown = unsafe { self.shown.show(self.descr.bind(py), &layout, base, 1)? };
        if let (view, true) = shown {
            self.namespace.bind(py).set_item(self.name.bind(py), view)?;
        }
        Ok(())
    }

    /// Shows the part for a tile.
    pub(super) fn show_tile(
        &mut self,
        py: Python<'_>,
        position: &TilePosition<'_>,
    ) -> PyResult<()> {
        let mut shape = self.memory.shape.clone();
        let mut start = self.memory.start;
        match self.kind {
            BufferKind::Nav => {
                start = self.offset(0, position.in_partition.start)?;
                self.offset(0, position.in_partition.end.saturating_sub(1))?;
                shape[0] = as_intp(position.in_partition.len())?;
            }
            BufferKind::Sig if position.sig.linear().is_none() => {
                return self.show_cut(py, position);
            }
            BufferKind::Sig => {
                self.leave_cut(py)?;
                for (axis, &origin) in position.sig.origin().iter().enumerate() {
                    let last = origin + position.sig.shape()[axis] - 1;
                    self.offset(axis, last)?;
                    let step = as_intp(origin)? * self.memory.strides[axis];
                    start = start.wrapping_offset(step);
                    shape[axis] = as_intp(position.sig.shape()[axis])?;
                }
            }
            BufferKind::Single => return Ok(()),
        }
        let strides = &self.memory.strides;
        let layout = Layout { start, shape: &shape, strides, writeable: self.writeable };
        let base = self.array.bind(py).as_any();
        // SAFETY: `offset` checked first and last entries against the array's shape; the array,
        // which owns the memory, is the base of every view.
        let shown = unsafe { self.shown.show(self.descr.bind(py), &layout, base, 1)? };
        if let (view, true) = shown {
            self.namespace.bind(py).set_item(self.name.bind(py), view)?;
        }
        Ok(())
    }

    /// Shows the part for a tile with some of the columns, as a separate array.
    fn show_cut(&mut self, py: Python<'_>, position: &TilePosition<'_>) -> PyResult<()> {
        if !self.cuts.is_at(position.sig.index()) {
            self.leave_cut(py)?;
            // From here on, who has the part that is a single piece is who kept it.
            self.shown = MovingView::default();
            self.cuts.begin(self.array.bind(py), position.sig)?;
        }
        if let (view, true) = self.cuts.show(py)? {
            self.namespace.bind(py).set_item(self.name.bind(py), view)?;
        }
        Ok(())
    }

    fn leave_cut(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.cuts.has_current() {
            // From here on, who has the part is who kept it.
            self.namespace.bind(py).set_item(self.name.bind(py), py.None())?;
            self.cuts.leave(py)?;
        }
        Ok(())
    }

    /// Copies separate arrays back to the buffer, once all tiles are processed.
    pub(super) fn write_back(&mut self, py: Python<'_>) -> PyResult<()> {
        self.leave_cut(py)?;
        self.cuts.end(py)
    }

    /// An error if what was kept of the separate arrays was written to after that.
    pub(super) fn check_kept(&mut self, py: Python<'_>) -> PyResult<()> {
        self.cuts.check(py, &self.name)
    }

    /// The address of entry `index` along `axis`, checked against the array's length.
    fn offset(&self, axis: usize, index: usize) -> PyResult<*mut u8> {
        let index = as_intp(index)?;
        match (self.memory.shape.get(axis), self.memory.strides.get(axis)) {
            (Some(&len), Some(&stride)) if index < len => {
                Ok(self.memory.start.wrapping_offset(index * stride))
            }
            _ => Err(PyRuntimeError::new_err("a view would leave its buffer")),
        }
    }
}

fn as_intp(n: usize) -> PyResult<npy_intp> {
    npy_intp::try_from(n).map_err(|_| PyRuntimeError::new_err("an index is too large"))
}
