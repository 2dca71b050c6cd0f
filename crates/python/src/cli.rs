//! The `framefold` command, as installed by the wheel.

use crate::ending::detached;
use pyo3::prelude::*;

/// Runs the command line with `arguments` (the program's name first); returns the exit code.
#[pyfunction]
pub(crate) fn cli_main(py: Python<'_>, arguments: Vec<String>) -> u8 {
    detached(py, || framefold_cli::run(arguments))
}
