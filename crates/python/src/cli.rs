//! The `framefold` command, as installed by the wheel.

use crate::arrays::native_to_numpy;
use crate::ending::detached;
use crate::errors::OrRaise;
use framefold::core::{Bool8, NativeArray, memory};
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

/// What `--roi` selects of a scan of shape `nav`, as a mask of that shape.
#[caught]
#[pyfunction]
pub(crate) fn parse_roi(
    py: Python<'_>,
    text: OsString,
    nav: Vec<usize>,
) -> PyResult<Bound<'_, PyAny>> {
    let mask = detached(py, || {
        let roi = framefold_cli::parse_roi(&text.to_string_lossy(), &nav)?;
        let mut cells = memory::filled(Bool8::from(false), roi.n_frames())?;
        for &position in roi.positions() {
            if let Some(cell) = cells.get_mut(position) {
                *cell = Bool8::from(true);
            }
        }
        NativeArray::try_new(&nav, cells)
    });
    native_to_numpy(py, mask.or_raise(py)?)
}
