//! The engine's schedule, for executors written in Python.

use framefold::exec::{ATTEMPTS, Next, Schedule};
use framefold_python_macros::caught;
use pyo3::exceptions::PyBaseException;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Inner = Schedule<Py<PyAny>, Py<PyBaseException>>;

/// Who processes which partition, what waits, what is repeated, and when a run ends.
///
/// Without threads and clocks: executors say what has happened, and ask what to do. Its lock is held
/// for moments, in which no Python runs: objects are dropped when it is free again.
#[pyclass(frozen, name = "Schedule", module = "framefold._engine")]
pub(crate) struct PySchedule(Mutex<Inner>);

impl PySchedule {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[caught]
#[pymethods]
impl PySchedule {
    /// All partitions from `first` on.
    #[new]
    #[pyo3(signature = (n_partitions, n_workers, first=0))]
    fn new(n_partitions: usize, n_workers: usize, first: usize) -> Self {
        PySchedule(Mutex::new(Schedule::new(first..n_partitions, n_workers)))
    }

    /// How often a partition is handed out whose workers die of it.
    #[classattr]
    const ATTEMPTS: usize = ATTEMPTS;

    /// Up to `n` partitions for a worker; fewer if there are fewer for now.
    ///
    /// Where some workers have a device, the worker's number is to be given.
    #[pyo3(signature = (n, worker=None))]
    fn take(&self, n: usize, worker: Option<usize>) -> Vec<usize> {
        match worker {
            Some(worker) => self.lock().take_some_for(worker, n),
            None => self.lock().take_some(n),
        }
    }

    /// The numbers of the workers with a device that take part now. Whether any is gone: then others
    /// may take what they would have left to it.
    fn set_devices(&self, workers: HashSet<usize>) -> bool {
        self.lock().set_devices(workers)
    }

    /// The partition that is to be merged now, and its result; None to wait for news, or if the run
    /// has ended.
    ///
    /// Raises what went wrong, once.
    fn next(&self) -> PyResult<Option<(usize, Py<PyAny>)>> {
        let next = self.lock().next_step();
        match next {
            // Hosts in Python bring whole partitions.
            Next::Merge(index, result) | Next::MergePiece(index, result) => {
                Ok(Some((index, result)))
            }
            Next::Failed(error) => {
                self.close();
                Err(Python::attach(|py| PyErr::from_value(error.into_bound(py).into_any())))
            }
            Next::Wait | Next::Complete => Ok(None),
        }
    }

    /// The result of a partition, its size in bytes, and how many seconds it took.
    fn finished(&self, index: usize, result: Py<PyAny>, len_bytes: usize, seconds: f64) {
        let of_no_use = self.lock().finished(index, result, len_bytes, seconds);
        drop(of_no_use);
    }

    /// A partition failed; with None, the run as a whole. Whether that is news.
    fn failed(&self, index: Option<usize>, error: Py<PyBaseException>) -> bool {
        let of_no_use = match index {
            Some(index) => self.lock().failed(index, error),
            None => self.lock().fail(error),
        };
        of_no_use.is_none()
    }

    /// The worker of a partition died; `blamed` if it is known that it was busy with that one.
    /// Returns on how many workers it was certainly tried.
    fn lost(&self, index: usize, blamed: bool) -> usize {
        self.lock().lost(index, blamed)
    }

    /// A partition that was handed out was not started.
    fn put_back(&self, index: usize) {
        self.lock().put_back(index);
    }

    /// All partitions before `count` are merged. Whether workers wait for that.
    fn merged(&self, count: usize) -> bool {
        self.lock().merged(count)
    }

    /// So many workers take part now, of which each holds so many partitions.
    fn set_workers(&self, n_workers: usize, at_hand: usize) {
        self.lock().set_workers(n_workers, at_hand);
    }

    /// It has to be known what each worker is busy with, as if one had died.
    fn set_careful(&self) {
        self.lock().set_careful();
    }

    /// Hand nothing more out, and let go of what is kept.
    fn close(&self) {
        let kept = self.lock().close();
        drop(kept);
    }

    /// Whether the result of a partition is still of use.
    fn is_open(&self, index: usize) -> bool {
        self.lock().is_open(index)
    }

    /// Whether the result of a partition may be brought here.
    fn may_bring(&self, index: usize) -> bool {
        self.lock().may_bring(index)
    }

    /// Whether a worker died: from then on, each should have one partition at a time.
    #[getter]
    fn is_careful(&self) -> bool {
        self.lock().is_careful()
    }

    /// Whether the run has ended.
    #[getter]
    fn is_closed(&self) -> bool {
        self.lock().is_closed()
    }

    /// Whether the run has ended, or does when it is looked at next.
    #[getter]
    fn is_ending(&self) -> bool {
        self.lock().is_ending()
    }

    /// Whether no worker is needed any more.
    #[getter]
    fn is_over(&self) -> bool {
        self.lock().is_over()
    }

    /// The number of partitions that were never handed out.
    #[getter]
    fn n_left(&self) -> usize {
        self.lock().n_left()
    }

    /// The number of partitions that no worker has.
    #[getter]
    fn n_open(&self) -> usize {
        self.lock().n_open()
    }

    /// The number of partitions that are handed out and not given out to be merged.
    #[getter]
    fn n_in_progress(&self) -> usize {
        self.lock().n_in_progress()
    }

    /// The first partition that is not merged.
    #[getter]
    fn n_merged(&self) -> usize {
        self.lock().n_merged()
    }

    /// The size of the largest result so far, in bytes.
    #[getter]
    fn largest(&self) -> usize {
        self.lock().largest()
    }

    /// How many seconds a partition takes, as a moving average; None as long as that is not known.
    #[getter]
    fn seconds(&self) -> Option<f64> {
        self.lock().seconds()
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // Taken by this very thread, or by none: no other one is attached now.
        let Ok(schedule) = self.0.try_lock() else { return Ok(()) };
        let (results, errors) = schedule.kept();
        for result in results {
            visit.call(result)?;
        }
        for error in errors {
            visit.call(error)?;
        }
        Ok(())
    }

    fn __clear__(&self) {
        self.close();
    }
}
