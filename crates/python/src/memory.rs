//! Memory that Rust and Python share.

use crate::errors::OrRaise;
use framefold::core::{LentBytes, Owner, SharedBytes, memory};
use framefold_python_macros::caught;
use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;

/// Raises `LimitError` unless there is memory for so many bytes.
#[caught]
#[pyfunction]
pub(crate) fn check_memory(py: Python<'_>, len_bytes: u64) -> PyResult<()> {
    memory::check(len_bytes).or_raise(py)
}

/// The base object of arrays that show a tile: keeps the tile's memory alive and unchanged for
/// as long as such an array exists.
#[pyclass(frozen, module = "framefold._engine")]
pub(crate) struct TileMemory(LentBytes);

impl TileMemory {
    pub(crate) fn lent(lent: LentBytes) -> Self {
        TileMemory(lent)
    }

    /// What was lent, as the owner that this keeps alive has it.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }
}

/// The base object of arrays that show a copy of a tile which belongs to one function.
///
/// NumPy asks it for a buffer that can be written to when `array.flags.writeable` is set to True,
/// even where it is True already.
#[pyclass(frozen, module = "framefold._engine")]
pub(crate) struct OwnTileMemory {
    _owner: Owner,
    start: *mut u8,
    len: usize,
}

// SAFETY: the memory is kept alive by the owner, and Rust reads and writes nothing through this.
unsafe impl Send for OwnTileMemory {}
// SAFETY: as above.
unsafe impl Sync for OwnTileMemory {}

impl OwnTileMemory {
    /// # Safety
    /// `start..start + len` must be memory that stays valid while there is an `owner`, and that
    /// nothing in Rust refers to meanwhile.
    pub(crate) unsafe fn new(owner: Owner, start: *mut u8, len: usize) -> Self {
        OwnTileMemory { _owner: owner, start, len }
    }
}

#[caught]
#[pymethods]
impl OwnTileMemory {
    /// # Safety
    /// Called by the interpreter, with a buffer to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        buffer: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let this = slf.get();
        let len = ffi::Py_ssize_t::try_from(this.len)?;
        // SAFETY: the interpreter's buffer; the memory is valid, as promised to `new`, while this
        // object is alive, which the buffer refers to.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(buffer, slf.as_ptr(), this.start.cast(), len, 0, flags)
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// The bytes of a NumPy array that a memory data set reads from.
pub(crate) struct NumpyBytes {
    /// Keeps the array, and with it the memory, alive.
    _array: Py<PyAny>,
    start: *const u8,
    len: usize,
}

// SAFETY: the memory belongs to an array that is kept alive by the reference above; it is only
// ever read here. That it is not written to during a run is the user's part, as documented for
// the memory data set.
unsafe impl Send for NumpyBytes {}
// SAFETY: as above.
unsafe impl Sync for NumpyBytes {}

impl NumpyBytes {
    /// # Safety
    /// `start..start + len` must be memory that stays valid while `array` is alive.
    pub(crate) unsafe fn new(array: Py<PyAny>, start: *const u8, len: usize) -> Self {
        NumpyBytes { _array: array, start, len }
    }
}

impl SharedBytes for NumpyBytes {
    fn bytes(&self) -> &[u8] {
        // SAFETY: promised by the caller of `new`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}
