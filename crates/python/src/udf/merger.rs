//! The merged result of a Python UDF.

use super::PyForeign;
use super::compiled::DirectMerge;
use crate::ending::attached;
use crate::errors::{OrRaise, from_python};
use crate::parts::split;
use framefold::core::{Array, Merger, Partial, Partition};
use framefold::{Error, Result};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Wraps a `framefold.udf.engine.bridge.MergeTask`.
pub(super) struct PyMerger {
    task: Py<PyAny>,
    /// What merges without the interpreter, if that can be done.
    direct: Option<DirectMerge>,
}

impl PyMerger {
    pub(super) fn new(task: Py<PyAny>, direct: Option<DirectMerge>) -> Self {
        PyMerger { task, direct }
    }
}

impl Merger for PyMerger {
    fn merge(&mut self, partition: &Partition, partial: Partial) -> Result<()> {
        let native = |(_, array): &(String, Array)| matches!(array, Array::Native(_));
        if let Some(direct) = self.direct.as_mut().filter(|_| partial.arrays().iter().all(native)) {
            return direct.merge(partition, partial);
        }
        attached(|py| {
            let frames = &partition.frames;
            let arguments = (frames.start, frames.end, buffers(py, partial)?);
            self.task.call_method1(py, intern!(py, "merge"), arguments).map(drop)
        })
        .map_err(|exception| from_python(exception, "merge"))
    }

    fn results(&self) -> Result<Vec<Array>> {
        attached(|py| {
            let arrays = self.task.call_method0(py, "results")?.extract::<Vec<Py<PyAny>>>(py)?;
            Ok(arrays
                .into_iter()
                .map(|array| Array::Foreign(Box::new(PyForeign::new(array, 0))))
                .collect())
        })
        .map_err(|exception| from_python(exception, "get_results"))
    }
}

/// The arrays of a partial result by name: those that Python made, or of compiled code.
fn buffers(py: Python<'_>, mut partial: Partial) -> PyResult<Py<PyAny>> {
    if partial.arrays().iter().all(|(_, array)| matches!(array, Array::Native(_))) {
        let arrays = PyDict::new(py);
        for (name, value, _) in split(py, partial)? {
            arrays.set_item(name, value)?;
        }
        return Ok(arrays.into_any().unbind());
    }
    let foreign = match partial.take("buffers").or_raise(py)? {
        Array::Foreign(foreign) => foreign.into_any().downcast::<PyForeign>().ok(),
        Array::Native(_) => None,
    };
    let made = foreign.map(|foreign| foreign.into_inner());
    made.ok_or_else(|| Error::bug("a partial result is not Python's own")).or_raise(py)
}
