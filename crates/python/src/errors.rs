//! Engine errors as Python exceptions, and back.

use crate::file_path::FilePath;
use framefold::{Error, ErrorKind};
use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

/// The class in `framefold.exceptions` for each kind of error.
fn class_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidArgument => "InvalidArgumentError",
        ErrorKind::BadFile => "BadFileError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Limit => "LimitError",
        ErrorKind::Io => "FileAccessError",
        ErrorKind::UserCode => "UDFError",
        ErrorKind::Cancelled => "UDFRunCancelled",
        ErrorKind::Bug => "EngineError",
    }
}

/// The same for an error, where callers would expect another builtin exception.
fn narrower_class_name(error: &Error) -> &'static str {
    let source = std::error::Error::source(error);
    let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    match error.kind() {
        ErrorKind::Io if io.is_some_and(|io| io.kind() == std::io::ErrorKind::NotFound) => {
            "MissingFileError"
        }
        // As of a function that is called without one of its arguments, or with one too many.
        ErrorKind::InvalidArgument
            if error.message().contains("need the option '")
                || error.message().starts_with("there is no option '") =>
        {
            "ArgumentTypeError"
        }
        kind => class_name(kind),
    }
}

/// The exception for an engine error.
///
/// An exception that user code raised comes back as itself, traceback intact, with a note that
/// names the UDF and the partition.
pub(crate) fn to_python(py: Python<'_>, mut error: Error) -> PyErr {
    match error.take_source().map(|source| source.downcast::<PyErr>()) {
        Some(Ok(exception)) => {
            if let Some(note) = note(py, &error, &exception) {
                // A class without add_note (a BaseException subclass may override it) keeps its
                // exception; only the note is lost.
                let _ = exception.value(py).call_method1("add_note", (note,));
            }
            *exception
        }
        Some(Err(source)) => new_exception(py, &error.with_source(source)),
        None => new_exception(py, &error),
    }
}

fn note(py: Python<'_>, error: &Error, exception: &PyErr) -> Option<String> {
    let mut parts = Vec::new();
    if let Some(udf) = error.udf() {
        parts.push(format!("UDF {udf}"));
    }
    if let Some(partition) = error.partition() {
        parts.push(format!("partition {partition}"));
    }
    let of_user_code = matches!(error.kind(), ErrorKind::UserCode | ErrorKind::Cancelled);
    if of_user_code && !error.message().is_empty() {
        parts.push(error.message().to_owned());
    }
    if parts.is_empty() {
        return None;
    }
    // What comes from a transform says it already.
    let of_numpy = exception.is_instance_of::<PyValueError>(py);
    let is_said = error.message().contains("read-only");
    let rule = if of_numpy && !is_said && is_about_read_only(py, exception) {
        "; AUX data, and what belongs to others, are read-only: work on a copy"
    } else {
        ""
    };
    Some(format!("raised while framefold ran {}{rule}", parts.join(", ")))
}

/// Whether NumPy, or another library, refused to write into an array: the exception says so, or one
/// that was being handled when it was raised.
pub(crate) fn is_about_read_only(py: Python<'_>, exception: &PyErr) -> bool {
    let mut exception = exception.value(py).clone().into_any();
    // More than are ever nested; there may be circles.
    for _ in 0..8 {
        // File systems can be read-only, too.
        if !exception.is_instance_of::<PyOSError>() {
            let Ok(text) = exception.str() else { return false };
            let text = text.to_string_lossy().to_lowercase();
            if REFUSALS.iter().any(|refusal| text.contains(refusal)) {
                return true;
            }
        }
        match exception.getattr("__context__") {
            Ok(context) if !context.is_none() => exception = context,
            _ => return false,
        }
    }
    false
}

/// What NumPy and Cython say, Numba, pybind11 and SciPy, PyTorch, and NumPy of its flags, in `dot`, and in
/// its generators of random numbers.
const REFUSALS: [&str; 7] = [
    "read-only",
    "readonly",
    "not writeable",
    "not writable",
    "writeable flag",
    "output array is not acceptable",
    "must be contiguous, writable",
];

fn new_exception(py: Python<'_>, error: &Error) -> PyErr {
    let made = py.import("framefold.exceptions").and_then(|module| {
        let class = module.getattr(narrower_class_name(error))?;
        let exception = class.call1((error.to_string(),))?;
        exception
            .setattr("path", error.path().map(|path| FilePath::from(path).text(py)).transpose()?)?;
        exception.setattr("hint", error.hint())?;
        Ok(PyErr::from_value(exception))
    });
    made.unwrap_or_else(|_| PyRuntimeError::new_err(error.to_string()))
}

/// An exception from user code as an engine error; `doing` says what was going on.
pub(crate) fn from_python(exception: PyErr, doing: impl Into<String>) -> Error {
    Error::user_code(doing)
        .with_source(Box::new(exception) as Box<dyn std::error::Error + Send + Sync>)
}

/// Turns engine results into Python ones.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception for the error.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for framefold::Result<T> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_python(py, error))
    }
}
