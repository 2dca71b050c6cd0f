//! A run's observer that looks for signals and tells Python about progress.

use crate::ending::attached;
use crate::errors::from_python;
use crate::udf::aside;
use framefold::exec::{Event, Observer, Results};
use framefold::{Cancel, Result};
use pyo3::prelude::*;

/// Looks for Ctrl-C, and calls a Python function after every event, if there is one.
pub(crate) struct PyObserver {
    /// `callback(kind, frames, bytes, partitions)`.
    pub(crate) callback: Option<Py<PyAny>>,
    pub(crate) cancel: Cancel,
}

impl Observer for PyObserver {
    fn event(&mut self, event: &Event, results: &Results) -> Result<()> {
        let Some(callback) = &self.callback else { return Ok(()) };
        let n_partitions = results.plan().n_partitions();
        let arguments = match *event {
            Event::Started { partitions, frames, bytes } => ("started", frames, bytes, partitions),
            Event::Merged { frames, bytes, .. } => ("merged", frames, bytes, results.n_merged()),
            Event::Finished => ("finished", results.plan().n_frames(), 0, n_partitions),
            _ => return Ok(()),
        };
        attached(|py| callback.call1(py, arguments).map(drop))
            .map_err(|exception| self.stop(exception, "reporting progress"))
    }

    fn poll(&mut self) -> Result<()> {
        aside(|| attached(|py| py.check_signals()))
            .map_err(|exception| self.stop(exception, "interrupted"))
    }
}

impl PyObserver {
    fn stop(&self, exception: PyErr, doing: &str) -> framefold::Error {
        // Python UDFs look at this flag between frames.
        self.cancel.cancel();
        from_python(exception, doing)
    }
}
