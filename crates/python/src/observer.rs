//! A run's observer that looks for signals and tells Python about progress.

use crate::driver::leave;
use crate::ending::{attached, detached};
use crate::errors::from_python;
use crate::udf::{hold_gil, stash_held_gil};
use framefold::core::interrupt;
use framefold::exec::{Event, Observer, Results};
use framefold::{Cancel, Result};
use pyo3::prelude::*;
use std::any::Any;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// How long work goes on at most before the calling thread looks for signals.
pub(crate) const POLL: Duration = Duration::from_millis(40);

/// Looks for signals within work that takes long, such as plans, tiles, and files that are opened.
pub(crate) fn watched<T>(cancel: &Cancel, work: impl FnOnce() -> T) -> T {
    let cancel = cancel.clone();
    let last_poll = Cell::new(Instant::now());
    let check = move || {
        cancel.check()?;
        if last_poll.get().elapsed() < POLL {
            return Ok(());
        }
        last_poll.set(Instant::now());
        PyObserver { callback: None, cancel: cancel.clone(), merges: None }.poll()
    };
    interrupt::watched(check, work)
}

/// Runs `work` detached from the interpreter, until Ctrl-C ends it: where [`interrupt::check`] is
/// called on its way.
pub(crate) fn interruptible<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    detached(py, || watched(&Cancel::new(), work))
}

/// Looks for Ctrl-C, and calls a Python function after every merge, if there is one.
pub(crate) struct PyObserver {
    /// `callback(n_merged, in_progress)`.
    pub(crate) callback: Option<Py<PyAny>>,
    pub(crate) cancel: Cancel,
    /// What is entered while Python merges on the main thread, see `framefold.common._ctrl_c`.
    pub(crate) merges: Option<Py<PyAny>>,
}

impl Observer for PyObserver {
    fn event(&mut self, event: &Event, results: &Results) -> Result<()> {
        let Some(callback) = &self.callback else { return Ok(()) };
        let Event::Merged { in_progress, .. } = *event else { return Ok(()) };
        let arguments = (results.n_merged(), in_progress);
        attached(|py| callback.call1(py, arguments).map(drop))
            .map_err(|exception| self.stop(exception, "reporting progress"))
    }

    fn poll(&mut self) -> Result<()> {
        stash_held_gil(|| attached(|py| py.check_signals()))
            .map_err(|exception| self.stop(exception, "interrupted"))
    }

    fn whole(&mut self, merge: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        // When the interpreter ends, runs are cancelled, and other threads come to no end in `attached`: not
        // with its lock, which they may hold for several merges.
        self.cancel.check()?;
        let Some(merges) = &self.merges else { return merge() };
        let entered =
            stash_held_gil(|| attached(|py| merges.call_method0(py, "__enter__").map(drop)));
        entered.map_err(|exception| self.stop(exception, "interrupted"))?;
        let merged = merge();
        let failed = merged.is_err();
        let left = stash_held_gil(|| attached(|py| leave(py, merges, merged)));
        if left.is_err() && !failed {
            self.cancel.cancel();
        }
        left
    }

    fn hold(&self) -> Option<Box<dyn Any>> {
        Some(hold_gil())
    }
}

impl PyObserver {
    fn stop(&self, exception: PyErr, doing: &str) -> framefold::Error {
        // Python UDFs look at this flag between frames.
        self.cancel.cancel();
        from_python(exception, doing)
    }
}
