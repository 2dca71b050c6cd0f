//! The `framefold` command, as installed by the wheel.

use crate::ending::detached;
use framefold_python_macros::caught;
use pyo3::prelude::*;
use std::ffi::OsString;

/// Runs the command line with `arguments` (the program's name first); returns the exit code.
#[caught]
#[pyfunction]
pub(crate) fn cli_main(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    Ok(detached(py, || framefold_cli::run(arguments)))
}

/// Which of the names a word was meant to be: those that take the fewest changes.
#[caught]
#[pyfunction]
pub(crate) fn nearest_names(word: &str, names: Vec<String>) -> PyResult<Vec<String>> {
    let names = names.iter().map(String::as_str);
    Ok(framefold_cli::nearest(word, names).into_iter().map(str::to_owned).collect())
}
