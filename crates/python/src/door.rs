//! The door from Python into the engine.
//!
//! Whatever panics behind it is an `EngineError` that says so. pyo3 alone would raise a
//! `PanicException`, which `except Exception` lets through. `#[caught]` puts every function that
//! Python calls, and that can fail, behind the door; `xtask tidy` sees that none is left out.

use crate::errors::to_python;
use framefold::exec::guarded;
use pyo3::prelude::*;
use std::cell::Cell;

thread_local! {
    /// Whether the next call on this thread is to panic.
    static PANICS: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`; a panic becomes an exception.
#[expect(clippy::panic, reason = "a test asks for it")]
pub(crate) fn caught<T>(work: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    let done = guarded(|| {
        if PANICS.replace(false) {
            std::panic::panic_any("on purpose, for a test");
        }
        Ok(work())
    });
    done.unwrap_or_else(|error| Python::attach(|py| Err(to_python(py, error))))
}

/// Makes the next call on this thread panic. For tests.
#[pyfunction]
pub(crate) fn panic_in_next_call() {
    PANICS.set(true);
}
