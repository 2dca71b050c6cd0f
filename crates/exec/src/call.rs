//! Calls of functions and of the source of a run, whose errors name them.

use framefold_core::{DataSource, ErrorKind, Result, guarded_call};

/// Does `work` with `source`, turning a panic into an error.
///
/// # Errors
/// Those of `work`, and `Bug` if it panicked, with the source's format.
pub(crate) fn call_of_source<T>(
    source: &dyn DataSource,
    work: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let format = || guarded_call("the source", || Ok(source.info().format)).ok();
    guarded_call("the source of the frames", work).map_err(|error| match error.kind() {
        ErrorKind::Bug => format().into_iter().fold(error, |error, name| error.with_format(name)),
        _ => error,
    })
}

/// Does `work` for the function of that name, turning a panic into an error.
///
/// # Errors
/// Those of `work`, and `Bug` if it panicked; with the name of the function.
pub(crate) fn call_of<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    guarded_call("the function", work).map_err(|error| error.with_udf(name))
}
