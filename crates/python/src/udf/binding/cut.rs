//! Parts of a `sig` buffer that are no single piece of its memory.
//!
//! A worker processes all tiles of one signal slice before those of the next, so the part that
//! belongs to it is copied once into a separate array, and once back. What user code writes to
//! such an array after the last tile has no place to go to, and is an error.

use crate::arrays::{ArrayMemory, Layout, memory_of};
use crate::moving_view::MovingView;
use framefold::core::SigSlice;
use numpy::{PyArrayDescr, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PySlice, PyString, PyTuple};

/// The parts of one buffer in one partition.
pub(super) struct Cuts {
    /// Whether user code may write to them.
    writeable: bool,
    /// Whether user code may write to the whole buffer meanwhile.
    held: bool,
    current: Option<Cut>,
    /// Those of which user code keeps views, through which it may write until the last tile.
    kept: Vec<Cut>,
    /// The arrays of those that it still has after that, and what they hold.
    ended: Vec<(Py<PyUntypedArray>, Py<PyAny>)>,
}

/// One part.
struct Cut {
    /// The number of the signal slice.
    index: usize,
    /// A view of the part in the buffer.
    place: Py<PyAny>,
    /// The part in C order, in separate memory.
    array: Py<PyUntypedArray>,
    /// The part as it was, if the buffer may have been written to since.
    before: Option<Py<PyAny>>,
    descr: Py<PyArrayDescr>,
    memory: ArrayMemory,
    shown: MovingView,
}

impl Cuts {
    pub(super) fn new(writeable: bool, held: bool) -> Self {
        Cuts { writeable, held, current: None, kept: Vec::new(), ended: Vec::new() }
    }

    pub(super) fn has_current(&self) -> bool {
        self.current.is_some()
    }

    /// Whether the part of slice number `index` is the current one.
    pub(super) fn is_at(&self, index: usize) -> bool {
        self.current.as_ref().is_some_and(|cut| cut.index == index)
    }

    /// Makes the part of `buffer` that belongs to `sig` the current one.
    pub(super) fn begin(
        &mut self,
        buffer: &Bound<'_, PyUntypedArray>,
        sig: &SigSlice,
    ) -> PyResult<()> {
        let py = buffer.py();
        let axes = sig.origin().iter().zip(sig.shape());
        let axes = axes.map(|(&origin, &len)| -> PyResult<_> {
            Ok(PySlice::new(py, isize::try_from(origin)?, isize::try_from(origin + len)?, 1))
        });
        let part = PyTuple::new(py, axes.collect::<PyResult<Vec<_>>>()?)?;
        let place = buffer.get_item(part)?;
        let array = place.call_method1("copy", ("C",))?.cast_into::<PyUntypedArray>()?;
        let before =
            if self.held { Some(place.call_method1("copy", ("C",))?.unbind()) } else { None };
        self.current = Some(Cut {
            index: sig.index(),
            place: place.unbind(),
            before,
            descr: array.dtype().unbind(),
            memory: memory_of(&array),
            array: array.unbind(),
            shown: MovingView::default(),
        });
        Ok(())
    }

    /// An array that shows the current part, and whether it is a new object.
    pub(super) fn show(&mut self, py: Python<'_>) -> PyResult<(&Py<PyAny>, bool)> {
        let Some(Cut { array, descr, memory, shown, .. }) = &mut self.current else {
            return Err(PyRuntimeError::new_err("there is no part of a buffer to show"));
        };
        let ArrayMemory { start, shape, strides } = memory;
        let layout = Layout { start: *start, shape, strides, writeable: self.writeable };
        let base = array.bind(py).as_any();
        // SAFETY: all of an array that owns its memory, and is the base of the view; the array of
        // a part never changes.
        unsafe { shown.show(descr.bind(py), &layout, base, 1) }
    }

    /// Writes the current part back; there is none afterwards.
    pub(super) fn leave(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(mut cut) = self.current.take().filter(|_| self.writeable) else {
            return Ok(());
        };
        cut.write_back(py)?;
        cut.shown = MovingView::default();
        if cut.is_kept() {
            self.kept.push(cut);
        }
        Ok(())
    }

    /// Writes back once more what user code may have written to since; called after the last tile.
    pub(super) fn end(&mut self, py: Python<'_>) -> PyResult<()> {
        for mut cut in self.kept.drain(..) {
            cut.write_back(py)?;
            if cut.is_kept() {
                let held = module(py)?.call_method1("content", (&cut.array,))?;
                self.ended.push((cut.array, held.unbind()));
            }
        }
        Ok(())
    }

    /// An error if user code has written, since then, to what it kept of the buffer `name`.
    pub(super) fn check(&mut self, py: Python<'_>, name: &Py<PyString>) -> PyResult<()> {
        self.ended.drain(..).try_for_each(|(array, held)| {
            module(py)?.call_method1("check_unchanged", (name, array, held)).map(drop)
        })
    }
}

fn module(py: Python<'_>) -> PyResult<Bound<'_, PyModule>> {
    py.import("framefold.udf.engine.cut_buffers")
}

impl Cut {
    /// Whether user code has views of the array.
    fn is_kept(&self) -> bool {
        // SAFETY: a live object, looked at with the interpreter's lock held.
        let count = unsafe { ffi::Py_REFCNT(self.array.as_ptr()) };
        // From Python 3.14 on, the upper half holds flags.
        count & 0xffff_ffff != 1
    }

    fn write_back(&mut self, py: Python<'_>) -> PyResult<()> {
        let place = self.place.bind(py);
        let Some(before) = &self.before else {
            return place.set_item(py.Ellipsis(), &self.array);
        };
        module(py)?.call_method1("write_changed", (place, &self.array, before))?;
        self.before = Some(self.array.bind(py).call_method1("copy", ("C",))?.unbind());
        Ok(())
    }
}
