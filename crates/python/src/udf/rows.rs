//! A sparse tile as three NumPy arrays, from which Python makes the format that a UDF takes.
//!
//! Compiled code of other libraries goes by row starts and columns without a look at them: they are
//! copied, and the copies checked, since a file that is mapped may change after the tile was made.
//! Values are only ever numbers, and are shown where they lie.

use crate::arrays::{Layout, view};
use crate::errors::{OrRaise, to_python};
use crate::memory::TileMemory;
use framefold::core::{CsrTile, LentBytes, Scratch};
use numpy::npyffi::npy_intp;
use numpy::{Element, PyArray1, PyArrayDescr, PyArrayDescrMethods, PyArrayMethods};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Where rows begin, the column of each entry, and its value: all read-only.
pub(super) struct Rows<'py> {
    starts: Vec<npy_intp>,
    columns: Vec<u32>,
    values: Bound<'py, TileMemory>,
}

/// The three arrays in that order: of `intp`, of `uint32`, and of the dtype of the pixels.
pub(super) type RowArrays<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

impl<'py> Rows<'py> {
    pub(super) fn new(py: Python<'py>, tile: &CsrTile<'_>) -> PyResult<Self> {
        let columns = tile.checked_columns().or_raise(py)?;
        let values = match tile.lent_values() {
            Some(lent) => lent.clone(),
            None => copied(tile.values().as_bytes()).map_err(|error| to_python(py, error))?,
        };
        Ok(Rows {
            starts: tile.starts().iter().map(|&start| intp(start)).collect(),
            columns,
            values: Bound::new(py, TileMemory::lent(values))?,
        })
    }

    /// The arrays; `descr` describes the values.
    pub(super) fn arrays(self, descr: &Bound<'py, PyArrayDescr>) -> PyResult<RowArrays<'py>> {
        let py = self.values.py();
        let (bytes, size) = (self.values.get().bytes(), descr.itemsize());
        let n_entries = self.columns.len();
        if n_entries.checked_mul(size).is_none_or(|needed| needed > bytes.len()) {
            let error = "the values of a tile lie outside of the memory that was lent for them";
            return Err(PyRuntimeError::new_err(error));
        }
        let layout = Layout {
            start: bytes.as_ptr().cast_mut(),
            shape: &[intp(n_entries)],
            strides: &[intp(size)],
            writeable: false,
        };
        // SAFETY: the bytes were measured just now; they are of an owner that the base keeps alive;
        // read-only.
        let values = unsafe { view(py, descr, &layout, self.values.as_any())? };
        Ok((read_only(py, self.starts), read_only(py, self.columns), values))
    }
}

/// Memory that ends with the call must not be seen after it.
fn copied(values: &[u8]) -> framefold::Result<LentBytes> {
    let mut copy = Scratch::new();
    copy.prepare(values.len())?.copy_from_slice(values);
    LentBytes::try_new(copy.bytes().get(..values.len()).unwrap_or_default(), copy.owner())
}

fn read_only<T: Element>(py: Python<'_>, values: Vec<T>) -> Bound<'_, PyAny> {
    let array = PyArray1::from_vec(py, values);
    array.readwrite().make_nonwriteable();
    array.into_any()
}

/// Lengths of things in memory always fit.
fn intp(n: usize) -> npy_intp {
    npy_intp::try_from(n).unwrap_or(npy_intp::MAX)
}
