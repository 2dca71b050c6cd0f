//! Memory that Rust and Python share.

use framefold::core::Owner;
use framefold::io::SharedBytes;
use pyo3::prelude::*;

/// The base object of arrays that show a tile: keeps the tile's memory alive and unchanged for
/// as long as somebody holds on to such an array.
#[pyclass(frozen, module = "framefold._engine")]
pub(crate) struct TileMemory {
    _owner: Owner,
}

impl TileMemory {
    pub(crate) fn new(owner: Owner) -> Self {
        TileMemory { _owner: owner }
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
// ever read here. That nobody writes to it during a run is the user's part, as documented for
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
        // SAFETY: promised by whoever called `new`.
        unsafe { std::slice::from_raw_parts(self.start, self.len) }
    }
}
