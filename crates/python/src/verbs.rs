//! The verbs one by one, for drivers written in Python.

use crate::ending::detached;
use crate::errors::OrRaise;
use crate::observer::watched;
use crate::parts::{self, Part};
use crate::plan::{ResultLists, to_lists};
use framefold::exec::{MergedState, PartialResult, Results, guarded};
use framefold::{Cancel, Error, Plan};
use framefold_python_macros::caught;
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

    /// What it holds, which can be taken once.
    pub(crate) fn take(&self) -> framefold::Result<PartialResult> {
        self.partial.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(used)
    }
}

#[caught]
#[pymethods]
impl Partial {
    /// The partial result of `partition`, from what `take_parts` of another one returned.
    #[new]
    fn from_parts(py: Python<'_>, partition: usize, udfs: Vec<Vec<Part>>) -> PyResult<Self> {
        let partials = udfs.into_iter().map(|udf| parts::join(py, udf)).collect::<PyResult<_>>()?;
        Ok(Partial::new(PartialResult { partition, frames: None, partials, absent: false }))
    }

    /// Takes everything out: for each UDF, names and values, and the size in bytes of values
    /// that are not the engine's own arrays. The engine's own are not copied.
    fn take_parts(&self, py: Python<'_>) -> PyResult<Vec<Vec<Part>>> {
        let partial = self.take().or_raise(py)?;
        partial.partials.into_iter().map(|partial| parts::split(py, partial)).collect()
    }

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

fn taken() -> Error {
    Error::invalid("these results have been taken apart")
}

fn used() -> Error {
    Error::invalid("this partial result has been merged or taken apart already")
}

/// The merged results of a run; takes partial results in, in partition order.
#[pyclass(frozen, name = "Results", module = "framefold._engine")]
pub(crate) struct PyResults(Mutex<Option<Results>>);

impl PyResults {
    pub(crate) fn try_new(plan: Arc<Plan>) -> framefold::Result<Self> {
        Ok(PyResults(Mutex::new(Some(Results::try_new(plan)?))))
    }

    pub(crate) fn of_udf(
        plan: Arc<Plan>,
        udf: usize,
        n_merged: usize,
        state: MergedState,
    ) -> framefold::Result<Self> {
        Ok(PyResults(Mutex::new(Some(Results::of_udf(plan, udf, n_merged, state)?))))
    }

    /// Runs `work` on the results. The lock is only ever taken with the GIL released: a thread that
    /// holds it may need the GIL to go on.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Results) -> framefold::Result<T> + Send,
    ) -> PyResult<T> {
        let outcome = detached(py, || {
            guarded(|| {
                let mut results = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                watched(&Cancel::new(), || work(results.as_mut().ok_or_else(taken)?))
            })
        });
        outcome.or_raise(py)
    }
}

#[caught]
#[pymethods]
impl PyResults {
    /// Folds the next partition's result in.
    fn merge(&self, py: Python<'_>, partial: &Bound<'_, Partial>) -> PyResult<()> {
        let taken = partial.get().take();
        self.with(py, |results| results.merge(taken?))
    }

    /// The number of partitions merged so far.
    #[getter]
    fn n_merged(&self, py: Python<'_>) -> PyResult<usize> {
        self.with(py, |results| Ok(results.n_merged()))
    }

    /// All that was merged, as plain values for `Plan.results`: for each band of a frame, partial
    /// results. None if the UDF cannot tell. Ends these results.
    fn take_state(&self, py: Python<'_>) -> PyResult<Option<Vec<Vec<Vec<Part>>>>> {
        let state = detached(py, || {
            guarded(|| {
                let results = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
                results.ok_or_else(taken)?.into_state()
            })
        });
        state.or_raise(py)?.map(|state| parts::split_state(py, state)).transpose()
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
