//! A run, as a whole or step by step.

use crate::ending::{attached, detached, has_ended};
use crate::errors::{OrRaise, from_python, to_python};
use crate::observer::{PyObserver, watched};
use crate::plan::{PyPlan, ResultLists, to_lists};
use crate::row_files::RowFiles;
use crate::udf::{KnownThread, stash_held_gil};
use crate::verbs::Partial;
use framefold::exec::{
    AsTurn, Crew, Driver, Host, LastingResults, PartialResult, Silent, Turn, WorkerScope, guarded,
};
use framefold::{Cancel, Error, Executor};
use framefold_python_macros::caught;
use numpy::PyArray1;
use pyo3::prelude::*;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// Processes and merges the partitions of a plan.
#[pyclass(frozen, name = "Driver", module = "framefold._engine")]
pub(crate) struct PyDriver {
    driver: Mutex<Driver>,
    /// The thread that uses it.
    user: Mutex<Option<ThreadId>>,
    cancel: Cancel,
    callback: Option<Py<PyAny>>,
    /// As [`PyObserver::merges`]; none if only kernels merge.
    merges: Option<Py<PyAny>>,
    n_merged: AtomicUsize,
    /// In a fork, threads and locks are those of the other process.
    process: u32,
}

#[caught]
#[pymethods]
impl PyDriver {
    /// `crew` processes the partitions: an object with `next()`, which returns the next partial
    /// result, `in_progress`, `merged(count)` and `close(complete)`. Without one, the engine does:
    /// with `threads` of its own, 0 for the calling thread alone and None for as many as there are
    /// cores, or with one for each of `places`, in which it is `active()`; its `device` is None if it has none.
    ///
    /// `callback(n_merged, in_progress)` is called after each merge. `sink` gets the rows that are not
    /// kept, see `Plan`; a crew has to leave out the partitions that it has already.
    #[new]
    #[pyo3(signature = (plan, threads=None, crew=None, places=None, callback=None, sink=None))]
    fn new(
        py: Python<'_>,
        plan: &PyPlan,
        threads: Option<usize>,
        crew: Option<Py<PyAny>>,
        places: Option<Vec<Py<PyAny>>>,
        callback: Option<Py<PyAny>>,
        sink: Option<&Bound<'_, RowFiles>>,
    ) -> PyResult<Self> {
        let sink = sink.map(|files| files.get().take_sink()).transpose().or_raise(py)?;
        let n_places = places.as_ref().and_then(|places| NonZeroUsize::new(places.len()));
        let executor = match threads {
            Some(0) => Executor::Inline,
            _ if n_places.is_some() => Executor::Threads(n_places),
            Some(n) => Executor::Threads(NonZeroUsize::new(n)),
            None => Executor::Threads(None),
        };
        let places: Arc<dyn WorkerScope> = Arc::new(Places::of(py, places.unwrap_or_default())?);
        // Threads of kernels alone never meet the interpreter.
        let scope = plan.runs_python().then_some(places);
        let merges = || py.import("framefold.common._ctrl_c")?.getattr("Deferring")?.call0();
        let merges = plan.needs_python().then(merges).transpose()?.map(Bound::unbind);
        let (plan, cancel) = (plan.inner(), plan.cancel_flag());
        let flag = cancel.clone();
        let make = || match crew {
            Some(crew) => Driver::with_crew(&plan, Box::new(PyCrew(crew)), flag, sink),
            None => Driver::try_new(&plan, executor, flag, scope, sink),
        };
        // Results are set up: there may be a row for each of very many frames.
        let made = detached(py, || watched(&cancel, make));
        let driver = made.or_raise(py)?;
        let n_merged = AtomicUsize::new(driver.results().n_merged());
        let (driver, user) = (Mutex::new(driver), Mutex::new(None));
        let process = std::process::id();
        Ok(PyDriver { driver, user, cancel, callback, merges, n_merged, process })
    }

    /// Runs to the end.
    fn run(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |driver, observer| driver.run(observer))
    }

    /// Waits for the next partition and merges it; false if all were merged before.
    fn step(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |driver, observer| driver.step(observer))
    }

    /// Ends the run; returns when no worker processes a partition of it any more. Ctrl-C does not wait for threads:
    /// each ends when what it is in returns.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.cancel.cancel();
        if self.process != std::process::id() {
            return Ok(());
        }
        self.with(py, |driver, observer| driver.close(observer))
    }

    /// The number of partitions merged so far.
    #[getter]
    fn n_merged(&self) -> usize {
        self.n_merged.load(Ordering::Relaxed)
    }

    /// The results so far: for each UDF a list of `(name, kind, extra_shape, array)`, and one truth
    /// value per selected frame. Changes nothing.
    fn snapshot<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(ResultLists<'py>, Bound<'py, PyArray1<bool>>)> {
        let snapshot = self.look(py, |driver| driver.results().snapshot())?;
        to_lists(py, snapshot)
    }

    /// The same, last of all: large results are not copied, and there are none here any more.
    fn take<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(ResultLists<'py>, Bound<'py, PyArray1<bool>>)> {
        let results = self.look(py, |driver| driver.take_results())?;
        to_lists(py, results)
    }

    /// The results so far, which are copied when they are asked for; None, if they do not stay
    /// as they are when more is merged.
    fn lasting(&self, py: Python<'_>) -> PyResult<Option<PyLasting>> {
        Ok(self.look(py, |driver| Ok(driver.results().lasting()))?.map(PyLasting))
    }

    /// One truth value per selected frame: whether it is merged.
    fn valid<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<bool>>> {
        let valid = self.look(py, |driver| driver.results().valid())?;
        Ok(PyArray1::from_vec(py, valid))
    }
}

impl PyDriver {
    /// The lock is only ever taken with the interpreter's released, and not twice by a thread.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Driver, &mut PyObserver) -> framefold::Result<T> + Send,
    ) -> PyResult<T> {
        let copy = |object: &Option<Py<PyAny>>| object.as_ref().map(|object| object.clone_ref(py));
        let callback = copy(&self.callback);
        let merges = match &self.merges {
            Some(merges) if merges.call_method0(py, "applies")?.is_truthy(py)? => {
                copy(&self.merges)
            }
            _ => None,
        };
        let mut before = None;
        let outcome = detached(py, || {
            guarded(|| {
                let (mut driver, _user) = self.lock()?;
                let mut observer = PyObserver { callback, cancel: self.cancel.clone(), merges };
                let done = watched(&self.cancel, || work(&mut driver, &mut observer));
                self.n_merged.store(driver.results().n_merged(), Ordering::Relaxed);
                before = driver.take_ended_with();
                done
            })
        });
        let outcome = outcome.or_raise(py);
        if let (Err(exception), Some(before)) = (&outcome, before) {
            let before = to_python(py, before);
            let _ = exception.value(py).setattr("__context__", before.value(py));
        }
        outcome
    }

    /// The same for what can be had when the run was stopped, too.
    fn look<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Driver) -> framefold::Result<T> + Send,
    ) -> PyResult<T> {
        let outcome = detached(py, || {
            guarded(|| {
                let (mut driver, _user) = self.lock()?;
                watched(&Cancel::new(), || work(&mut driver))
            })
        });
        outcome.or_raise(py)
    }

    fn lock(&self) -> framefold::Result<(MutexGuard<'_, Driver>, User<'_>)> {
        let this = std::thread::current().id();
        if *self.user.lock().unwrap_or_else(PoisonError::into_inner) == Some(this) {
            let message =
                "a function that a run calls cannot look at its results, or go on with it";
            return Err(Error::invalid(message));
        }
        let driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        *self.user.lock().unwrap_or_else(PoisonError::into_inner) = Some(this);
        Ok((driver, User(&self.user)))
    }
}

impl Drop for PyDriver {
    fn drop(&mut self) {
        // Threads may need the interpreter to come to an end.
        self.cancel.cancel();
        let driver = self.driver.get_mut().unwrap_or_else(PoisonError::into_inner);
        // The interpreter calls this with its lock, which `attached` would keep for ever if it ends.
        Python::attach(|py| {
            let _ = detached(py, || driver.close(&mut Silent));
        });
    }
}

/// The results of a step, of a run that goes on.
#[pyclass(frozen, name = "Lasting", module = "framefold._engine")]
pub(crate) struct PyLasting(LastingResults);

#[caught]
#[pymethods]
impl PyLasting {
    /// The results, as `Driver.snapshot` gave them at that time. Waits for no step of the run.
    fn snapshot<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(ResultLists<'py>, Bound<'py, PyArray1<bool>>)> {
        let copy = || guarded(|| watched(&Cancel::new(), || self.0.snapshot()));
        to_lists(py, detached(py, copy).or_raise(py)?)
    }

    /// One truth value per selected frame: whether it was merged.
    fn valid<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<bool>>> {
        let valid = detached(py, || guarded(|| self.0.valid()));
        Ok(PyArray1::from_vec(py, valid.or_raise(py)?))
    }
}

/// Signs the thread off that uses a driver.
struct User<'d>(&'d Mutex<Option<ThreadId>>);

impl Drop for User<'_> {
    fn drop(&mut self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Where workers work: the device of each, if CUDA devices take part, and whether it is one.
struct Places(Vec<(Py<PyAny>, bool)>);

impl Places {
    fn of(py: Python<'_>, places: Vec<Py<PyAny>>) -> PyResult<Self> {
        let with_device = places.into_iter().map(|place| {
            let has_device = !place.getattr(py, "device")?.is_none(py);
            Ok((place, has_device))
        });
        with_device.collect::<PyResult<_>>().map(Places)
    }
}

impl WorkerScope for Places {
    fn thread(&self, work: &mut dyn FnMut()) {
        let _known = KnownThread::new();
        work();
    }

    fn may_join(&self) -> bool {
        !has_ended()
    }

    fn has_device(&self, worker: usize) -> bool {
        self.0.get(worker).is_some_and(|(_, has_device)| *has_device)
    }

    fn partition(
        &self,
        worker: usize,
        work: &mut dyn FnMut() -> framefold::Result<PartialResult>,
    ) -> framefold::Result<PartialResult> {
        let Some((place, has_device)) = self.0.get(worker) else { return work() };
        let _turn = AsTurn::new(if *has_device { Turn::First } else { Turn::Later });
        let entered = attached(|py| {
            let active = place.call_method0(py, "active")?;
            active.call_method0(py, "__enter__")?;
            Ok(active)
        });
        let active = entered.map_err(|exception| from_python(exception, ""))?;
        let processed = work();
        attached(|py| leave(py, &active, processed))
    }
}

/// Leaves a context manager, which may raise another exception in place of that of user code.
pub(crate) fn leave<T>(
    py: Python<'_>,
    active: &Py<PyAny>,
    processed: framefold::Result<T>,
) -> framefold::Result<T> {
    let left = |arguments| active.call_method1(py, "__exit__", arguments).map(drop);
    match processed {
        Ok(partial) => {
            let none = || py.None();
            let left = left((none(), none(), none()));
            left.map(|()| partial).map_err(|exception| from_python(exception, ""))
        }
        Err(mut error) => {
            let exception = match error.take_source().map(|source| source.downcast::<PyErr>()) {
                Some(Ok(exception)) => *exception,
                Some(Err(source)) => {
                    error = error.with_source(source);
                    let none = || py.None();
                    let _ = left((none(), none(), none()));
                    return Err(error);
                }
                None => {
                    let none = || py.None();
                    let _ = left((none(), none(), none()));
                    return Err(error);
                }
            };
            let value = exception.value(py).clone().unbind().into_any();
            let class = exception.get_type(py).unbind().into_any();
            let traceback =
                exception.traceback(py).map_or_else(|| py.None(), |t| t.unbind().into_any());
            let other = left((class, value, traceback)).err();
            let source = other.unwrap_or(exception);
            Err(error.with_source(Box::new(source) as Box<dyn std::error::Error + Send + Sync>))
        }
    }
}

/// A crew written in Python, such as worker processes or a Dask cluster.
struct PyCrew(Py<PyAny>);

impl Crew for PyCrew {
    fn work(&mut self, host: &mut dyn Host) -> framefold::Result<()> {
        loop {
            let next = stash_held_gil(|| {
                attached(|py| {
                    let partial = self.0.call_method0(py, "next")?;
                    let in_progress = self.0.getattr(py, "in_progress")?.extract::<usize>(py)?;
                    PyResult::Ok((partial.bind(py).cast::<Partial>()?.get().take(), in_progress))
                })
            });
            let (partial, in_progress) = next.map_err(|exception| from_python(exception, ""))?;
            let partial = partial?;
            let index = partial.partition;
            let go_on = host.merge(partial, in_progress)?;
            let reported = attached(|py| self.0.call_method1(py, "merged", (index + 1,)).map(drop));
            reported.map_err(|exception| from_python(exception, ""))?;
            if !go_on {
                return Ok(());
            }
        }
    }

    fn close(
        &mut self,
        complete: bool,
        _: &mut dyn FnMut() -> framefold::Result<()>,
    ) -> framefold::Result<()> {
        attached(|py| self.0.call_method1(py, "close", (complete,)).map(drop))
            .map_err(|exception| from_python(exception, ""))
    }
}
