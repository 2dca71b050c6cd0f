//! Files that Python writes, and that appear when they are complete.

use crate::ending::detached;
use crate::errors::OrRaise;
use framefold::io::{OutputKind, WholeOutput};
use framefold_python_macros::caught;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A file in the making.
#[pyclass(frozen, module = "framefold._engine")]
pub(crate) struct WholeFile {
    /// Until it is published or discarded.
    output: Mutex<Option<WholeOutput>>,
    part: PathBuf,
}

#[caught]
#[pymethods]
impl WholeFile {
    /// Begins what is to be `path`: an empty file, where `part` says.
    #[new]
    fn new(py: Python<'_>, path: PathBuf, replace: bool) -> PyResult<Self> {
        let output = WholeOutput::create(&path, OutputKind::File, replace, &[]).or_raise(py)?;
        let part = output.part().to_path_buf();
        Ok(WholeFile { output: Mutex::new(Some(output)), part })
    }

    /// Where it is until it is published.
    #[getter]
    fn part(&self) -> PathBuf {
        self.part.clone()
    }

    /// Gives it its name; nothing, if that was done or it was discarded.
    fn publish(&self, py: Python<'_>) -> PyResult<()> {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner).take();
        detached(py, || output.map_or(Ok(()), WholeOutput::publish)).or_raise(py)
    }

    /// Removes it, unless it is published.
    fn discard(&self) -> PyResult<()> {
        drop(self.output.lock().unwrap_or_else(PoisonError::into_inner).take());
        Ok(())
    }
}

/// Where what is to be `path` is until it is complete.
#[caught]
#[pyfunction]
pub(crate) fn part_of(py: Python<'_>, path: PathBuf) -> PyResult<PathBuf> {
    framefold::io::part_of(&path).or_raise(py)
}
