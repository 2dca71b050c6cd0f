//! The staging memory of a worker with a device: pinned memory, which CuPy allocates.

use crate::ending::attached;
use crate::errors::from_python;
use framefold::core::{Staging, StagingBuffer};
use framefold::{Error, Result};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyException;
use pyo3::intern;
use pyo3::prelude::*;
use std::error::Error as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A `framefold.arrays.cuda.staging.Staging`.
pub(super) struct PyStaging {
    staging: Py<PyAny>,
    n_readers: usize,
    depth: Option<usize>,
    corrects: bool,
    block_bytes: usize,
    tiles: Mutex<Vec<Arc<TileMemory>>>,
}

/// Room for one tile. The only other one who reads it is the device, and Python code that
/// hands it to the device: after all parts are written, and until [`Staging::wait`] returns.
struct TileMemory(PyBuffer<u8>);

impl PyStaging {
    pub(super) fn try_new(py: Python<'_>, staging: Py<PyAny>) -> PyResult<Self> {
        let n_readers = staging.getattr(py, intern!(py, "n_readers"))?.extract(py)?;
        let depth = staging.getattr(py, intern!(py, "depth"))?.extract(py)?;
        let corrects = staging.getattr(py, intern!(py, "corrects"))?.extract(py)?;
        let block_bytes = staging.getattr(py, intern!(py, "block_bytes"))?.extract(py)?;
        let tiles = Mutex::default();
        Ok(PyStaging { staging, n_readers, depth, corrects, block_bytes, tiles })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<TileMemory>>> {
        // Nothing panics while it holds the lock; a poisoned one is still consistent.
        self.tiles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Staging for PyStaging {
    fn n_readers(&self) -> usize {
        self.n_readers
    }

    fn depth(&self) -> Option<usize> {
        self.depth
    }

    fn corrects(&self) -> bool {
        self.corrects
    }

    fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    fn damaged(&self) -> Result<Option<usize>> {
        let frame = attached(|py| self.staging.call_method0(py, "damaged")?.extract(py));
        frame.map_err(|error| from_python(error, "waiting for chunks to be decoded"))
    }

    fn ends_program(&self, error: &Error) -> bool {
        let raised = error.source().and_then(|source| source.downcast_ref::<PyErr>());
        raised.is_some_and(|raised| attached(|py| !raised.is_instance_of::<PyException>(py)))
    }

    fn prepare(&self, n_tiles: usize, len_bytes: usize) -> Result<()> {
        let made = attached(|py| {
            if self.lock().iter().any(|tile| Arc::strong_count(tile) > 1) {
                return Ok(None);
            }
            self.lock().clear();
            let arrays = self.staging.call_method1(py, "prepare", (n_tiles, len_bytes))?;
            let buffers = arrays.bind(py).try_iter()?.map(|array| PyBuffer::<u8>::get(&array?));
            let made = buffers.map(|buffer| Ok(Arc::new(TileMemory(buffer?))));
            made.collect::<PyResult<Vec<_>>>().map(Some)
        });
        let made = made.map_err(|error| from_python(error, "making staging memory"))?;
        let made = made.ok_or_else(|| Error::bug("parts of an earlier partition are in use"))?;
        let fits = |tile: &Arc<TileMemory>| {
            let TileMemory(buffer) = tile.as_ref();
            let len = buffer.len_bytes();
            len >= len_bytes && buffer.is_c_contiguous() && !buffer.readonly()
        };
        if made.len() < n_tiles || !made.iter().all(fits) {
            return Err(Error::bug("the staging memory is not what was asked for"));
        }
        *self.lock() = made;
        Ok(())
    }

    fn parts(&self, tile: usize, lens: &[usize]) -> Result<Vec<Box<dyn StagingBuffer>>> {
        let tiles = self.lock();
        let memory = tiles.get(tile).ok_or_else(|| Error::bug("there is no such tile"))?;
        let all = lens.iter().try_fold(0usize, |sum, &len| sum.checked_add(len));
        if Arc::strong_count(memory) > 1 || all.is_none_or(|all| all > memory.0.len_bytes()) {
            return Err(Error::bug("a tile of the staging memory is too short, or in use"));
        }
        let mut start = 0;
        let part = |&len: &usize| {
            let part = Part { memory: memory.clone(), start, len };
            start += len;
            Box::new(part) as Box<dyn StagingBuffer>
        };
        Ok(lens.iter().map(part).collect())
    }

    fn wait(&self, tile: usize) -> Result<()> {
        let waited = attached(|py| self.staging.call_method1(py, "wait", (tile,)).map(drop));
        waited.map_err(|error| from_python(error, "waiting for a tile to reach the device"))
    }
}

impl Drop for PyStaging {
    fn drop(&mut self) {
        let tiles = std::mem::take(&mut *self.lock());
        attached(|_| drop(tiles));
    }
}

/// Bytes of a tile that no other part has: parts lie one behind the other, and none is made while
/// one of an earlier time exists.
struct Part {
    memory: Arc<TileMemory>,
    start: usize,
    len: usize,
}

impl StagingBuffer for Part {
    fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.memory.0.buf_ptr().cast::<u8>();
        // SAFETY: `parts` checked that the buffer is as long, and its memory stays for as long as it
        // is held. No other part has these bytes: of one `PyStaging`, which makes others only when
        // these are gone, and which is the only one that a worker uses at a time. Nothing else reads
        // them while a part exists: see `TileMemory`.
        unsafe { std::slice::from_raw_parts_mut(start.add(self.start), self.len) }
    }
}
