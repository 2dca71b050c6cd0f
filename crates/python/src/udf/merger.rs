//! The merged result of a Python UDF.

use super::PyForeign;
use super::compiled::DirectMerge;
use crate::arrays::native_from_numpy;
use crate::ending::attached;
use crate::errors::{OrRaise, from_python};
use crate::parts::split;
use framefold::core::{
    Array, BufferDecl, BufferDtype, BufferUse, FinalRows, Merger, Partial, Partition, RunMeta,
};
use framefold::{Error, ErrorKind, Result};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Wraps a `framefold.udf.engine.merge_task.MergeTask`.
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
        .map_err(not_merged)
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

/// The same of a UDF that merges by rows, some of which go to a sink: the engine has all of them.
pub(super) struct RowsMerger {
    task: Py<PyAny>,
    /// One for each result, under its name.
    rows: Vec<(String, FinalRows)>,
}

impl RowsMerger {
    pub(super) fn new(task: Py<PyAny>, rows: Vec<(String, FinalRows)>) -> Self {
        RowsMerger { task, rows }
    }
}

/// # Errors
/// `Bug` if a result is not of one of the engine's dtypes; `Limit` if there is no memory for it.
pub(super) fn rows_of(decls: &[BufferDecl], meta: &RunMeta) -> Result<Vec<(String, FinalRows)>> {
    let public = decls.iter().filter(|decl| decl.usage == BufferUse::Public);
    let of_decl = |decl: &BufferDecl| match decl.dtype {
        BufferDtype::Native(dtype) => {
            let rows = FinalRows::of_run(meta, &decl.name, dtype, &decl.extra_shape)?;
            Ok((decl.name.clone(), rows))
        }
        BufferDtype::Foreign { .. } => Err(Error::bug("rows of a foreign dtype go to a sink")),
    };
    public.map(of_decl).collect()
}

impl Merger for RowsMerger {
    fn merge(&mut self, partition: &Partition, partial: Partial) -> Result<()> {
        let frames = &partition.frames;
        let taken = attached(|py| {
            let arrays = buffers(py, partial)?.into_bound(py);
            let arguments = (frames.start, frames.end, &arrays);
            self.task.call_method1(py, intern!(py, "note_merged"), arguments)?;
            let native = |(name, _): &(String, _)| native_from_numpy(&arrays.get_item(name)?);
            self.rows.iter().map(native).collect::<PyResult<Vec<_>>>()
        });
        let arrays = taken.map_err(not_merged)?;
        for ((_, rows), array) in self.rows.iter().zip(arrays) {
            rows.put(frames.clone(), array)?;
        }
        Ok(())
    }

    fn results(&self) -> Result<Vec<Array>> {
        self.rows.iter().map(|(_, rows)| Ok(rows.first(usize::MAX)?.into())).collect()
    }

    fn final_rows(&self) -> Option<Vec<FinalRows>> {
        Some(self.rows.iter().map(|(_, rows)| rows.clone()).collect())
    }
}

/// What `merge` raised as an engine error, of another kind where Ctrl-C stopped it.
fn not_merged(exception: PyErr) -> Error {
    let stopped = attached(|py| exception.is_instance_of::<PyKeyboardInterrupt>(py));
    let kind = if stopped { ErrorKind::Cancelled } else { ErrorKind::UserCode };
    Error::new(kind, "merge")
        .with_source(Box::new(exception) as Box<dyn std::error::Error + Send + Sync>)
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
