//! A sparse tile as three NumPy arrays, from which Python makes the format that a UDF takes.

use crate::arrays::{Layout, view};
use crate::errors::to_python;
use crate::memory::TileMemory;
use framefold::core::{CsrTile, Owner, Scratch};
use numpy::PyArrayDescr;
use numpy::npyffi::npy_intp;
use pyo3::prelude::*;
use std::sync::Arc;

/// Where rows begin, the column of each entry, and its value: read-only, and without a copy
/// where the tile's memory has an owner.
pub(super) struct Rows<'py> {
    base: Bound<'py, PyAny>,
    starts: (*const usize, usize),
    columns: (*const u32, usize),
    values: *const u8,
}

/// The three arrays in that order: of `intp`, of `uint32`, and of the dtype of the pixels.
pub(super) type RowArrays<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>);

impl<'py> Rows<'py> {
    pub(super) fn new(py: Python<'py>, tile: &CsrTile<'_>) -> PyResult<Self> {
        let (starts, columns) = (tile.starts(), tile.columns());
        let values = tile.values().as_bytes();
        match tile.owner() {
            Some(owner) => Self::shown(py, (starts, columns, values), owner.clone()),
            None => {
                // Memory that ends with the call must not be seen after it: show a copy.
                let (starts, columns) = (starts.to_vec(), columns.to_vec());
                let mut copy = Scratch::new();
                let room = copy.prepare(values.len()).map_err(|error| to_python(py, error))?;
                room.copy_from_slice(values);
                let copied = Arc::new((starts, columns, copy));
                let shown = (&*copied.0, &*copied.1, copied.2.bytes());
                Self::shown(py, shown, copied.clone())
            }
        }
    }

    /// `owner` keeps the three alive.
    fn shown(
        py: Python<'py>,
        (starts, columns, values): (&[usize], &[u32], &[u8]),
        owner: Owner,
    ) -> PyResult<Self> {
        Ok(Rows {
            base: Py::new(py, TileMemory::new(owner))?.into_bound(py).into_any(),
            starts: (starts.as_ptr(), starts.len()),
            columns: (columns.as_ptr(), columns.len()),
            values: values.as_ptr(),
        })
    }

    /// The arrays; `descr` describes the values.
    pub(super) fn arrays(&self, descr: &Bound<'py, PyArrayDescr>) -> PyResult<RowArrays<'py>> {
        let py = self.base.py();
        let (starts, n_starts) = self.starts;
        let (columns, n_entries) = self.columns;
        let starts = self.array(&PyArrayDescr::new(py, "intp")?, starts.cast(), n_starts)?;
        let columns = self.array(&PyArrayDescr::new(py, "uint32")?, columns.cast(), n_entries)?;
        Ok((starts, columns, self.array(descr, self.values, n_entries)?))
    }

    fn array(
        &self,
        descr: &Bound<'py, PyArrayDescr>,
        start: *const u8,
        len: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let size = intp(numpy::PyArrayDescrMethods::itemsize(descr));
        let layout = Layout {
            start: start.cast_mut(),
            shape: &[intp(len)],
            strides: &[size],
            writeable: false,
        };
        // SAFETY: `start` is that of a slice of `len` elements of that dtype, which the base
        // keeps alive and unchanged; starts are far below the sign bit; read-only.
        unsafe { view(self.base.py(), descr, &layout, &self.base) }
    }
}

/// Lengths of things in memory always fit.
fn intp(n: usize) -> npy_intp {
    npy_intp::try_from(n).unwrap_or(npy_intp::MAX)
}
