//! The merged result of a Python UDF.

use super::PyForeign;
use crate::ending::attached;
use crate::errors::from_python;
use framefold::core::{Array, Merger, Partial, Partition};
use framefold::{Error, Result};
use pyo3::intern;
use pyo3::prelude::*;

/// Wraps a `framefold.udf.engine.bridge.MergeTask`.
pub(super) struct PyMerger(Py<PyAny>);

impl PyMerger {
    pub(super) fn new(task: Py<PyAny>) -> Self {
        PyMerger(task)
    }
}

impl Merger for PyMerger {
    fn merge(&mut self, partition: &Partition, mut partial: Partial) -> Result<()> {
        let buffers = match partial.take("buffers")? {
            Array::Foreign(foreign) => foreign.into_any().downcast::<PyForeign>().ok(),
            Array::Native(_) => None,
        };
        let buffers = buffers.ok_or_else(|| Error::bug("a partial result is not Python's own"))?;
        attached(|py| {
            let frames = &partition.frames;
            let arguments = (frames.start, frames.end, buffers.into_inner());
            self.0.call_method1(py, intern!(py, "merge"), arguments).map(drop)
        })
        .map_err(|exception| from_python(exception, "merge"))
    }

    fn results(&self) -> Result<Vec<Array>> {
        attached(|py| {
            let arrays = self.0.call_method0(py, "results")?.extract::<Vec<Py<PyAny>>>(py)?;
            Ok(arrays
                .into_iter()
                .map(|array| Array::Foreign(Box::new(PyForeign::new(array, 0))))
                .collect())
        })
        .map_err(|exception| from_python(exception, "get_results"))
    }
}
