//! One array object that shows one piece of memory after another.
//!
//! Making an array costs several times what calling an empty Python function does. For views
//! that change with every frame, the header of the previous one is written over, for as long as
//! no code but the engine can see it.

use crate::arrays::{Layout, view};
use numpy::PyArrayDescr;
use numpy::npyffi::PyArrayObject;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::{c_char, c_int};

/// The array that shows the memory of the moment; none at first.
#[derive(Default)]
pub(crate) struct MovingView(Option<Shown>);

struct Shown {
    array: Py<PyAny>,
    /// As they were when the array was made: user code can change them.
    flags: c_int,
}

impl MovingView {
    /// An array that shows `layout`, and whether it is a new object.
    ///
    /// `holders` is the number of references to the array that the caller accounts for: an array
    /// that has more is left to its other owners, and a new one is made.
    ///
    /// # Safety
    /// As for [`view`]. `base` is the same object at every call, so that it keeps alive whatever
    /// the array came to show.
    pub(crate) unsafe fn show<'py>(
        &mut self,
        descr: &Bound<'py, PyArrayDescr>,
        layout: &Layout<'_>,
        base: &Bound<'py, PyAny>,
        holders: u32,
    ) -> PyResult<(&Py<PyAny>, bool)> {
        let reused = self.0.as_ref().is_some_and(|shown| shown.reuse(descr, layout, 1 + holders));
        if !reused {
            // SAFETY: promised by the caller.
            let array = unsafe { view(descr.py(), descr, layout, base)? };
            let pointer = array.as_ptr().cast::<PyArrayObject>();
            // SAFETY: the pointer is that of a live array object.
            let flags = unsafe { (*pointer).fields.flags };
            self.0 = Some(Shown { array: array.unbind(), flags });
        }
        match &self.0 {
            Some(shown) => Ok((&shown.array, !reused)),
            None => Err(pyo3::exceptions::PyRuntimeError::new_err("there is no view")),
        }
    }
}

impl Shown {
    /// Moves the array to the memory of `layout`, if no user code has a reference to it.
    fn reuse(&self, descr: &Bound<'_, PyArrayDescr>, layout: &Layout<'_>, holders: u32) -> bool {
        let object = self.array.as_ptr();
        // SAFETY: a live object, looked at with the interpreter's lock held.
        let count = unsafe { ffi::Py_REFCNT(object) };
        // From Python 3.14 on, the upper half holds flags.
        if count & 0xffff_ffff != ffi::Py_ssize_t::try_from(holders).unwrap_or(0) {
            return false;
        }
        let n_dims = layout.shape.len();
        // SAFETY: `object` is a live array object, as `view` made it, and no other code has a
        // reference to it: views of it refer to its base, or count as references. Its shape and
        // strides have `nd` entries each. The new address is of memory that `base` keeps alive.
        unsafe {
            let fields = &mut (*object.cast::<PyArrayObject>()).fields;
            let same = n_dims > 0
                && usize::try_from(fields.nd) == Ok(n_dims)
                && fields.flags == self.flags
                && fields.weakreflist.is_null()
                && fields.descr.cast() == descr.as_ptr()
                && std::slice::from_raw_parts(fields.dimensions, n_dims) == layout.shape
                && std::slice::from_raw_parts(fields.strides, n_dims) == layout.strides;
            if same {
                fields.data = layout.start.cast::<c_char>();
            }
            same
        }
    }
}
