//! The verbs one by one, for drivers written in Python.

use crate::errors::OrRaise;
use crate::plan::{ResultLists, to_lists};
use framefold::exec::{PartialResult, Results, guarded};
use framefold::{Error, Plan};
use numpy::PyArray1;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};

/// The partial result of one partition; can be merged once.
#[pyclass(frozen, module = "framefold._engine")]
pub(crate) struct Partial {
    partition: usize,
    len_bytes: usize,
    partial: Mutex<Option<PartialResult>>,
}

impl Partial {
    pub(crate) fn new(partial: PartialResult) -> Self {
        Partial {
            partition: partial.partition,
            len_bytes: partial.len_bytes(),
            partial: Mutex::new(Some(partial)),
        }
    }
}

#[pymethods]
impl Partial {
    /// The number of the partition.
    #[getter]
    fn partition(&self) -> usize {
        self.partition
    }

    /// Its size in bytes.
    #[getter]
    fn len_bytes(&self) -> usize {
        self.len_bytes
    }
}

/// The merged results of a run; takes partial results in, in partition order.
#[pyclass(frozen, name = "Results", module = "framefold._engine")]
pub(crate) struct PyResults(Mutex<Results>);

impl PyResults {
    pub(crate) fn try_new(plan: Arc<Plan>) -> framefold::Result<Self> {
        Ok(PyResults(Mutex::new(Results::try_new(plan)?)))
    }

    /// Runs `work` on the results. The lock is only ever taken with the GIL released: whoever
    /// holds it may need the GIL to go on.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Results) -> framefold::Result<T> + Send,
    ) -> PyResult<T> {
        let outcome = py.detach(|| {
            guarded(|| work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
        });
        outcome.or_raise(py)
    }
}

#[pymethods]
impl PyResults {
    /// Folds the next partition's result in.
    fn merge(&self, py: Python<'_>, partial: &Bound<'_, Partial>) -> PyResult<()> {
        let taken = partial.get().partial.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.with(py, |results| {
            let partial = taken
                .ok_or_else(|| Error::invalid("this partial result has been merged already"))?;
            results.merge(partial)
        })
    }

    /// The number of partitions merged so far.
    #[getter]
    fn n_merged(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |results| Ok(results.n_merged()))
    }

    /// The results so far, as `Plan.run` returns them; changes nothing.
    fn snapshot<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(ResultLists<'py>, Bound<'py, PyArray1<bool>>)> {
        let snapshot = self.with(py, |results| results.snapshot())?;
        to_lists(py, snapshot)
    }
}
