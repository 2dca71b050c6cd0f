//! Calls of functions of the run, whose errors name them.

use framefold_core::{Result, Udf, guarded_call};

/// Does `work` for `udf`, turning a panic into an error.
///
/// # Errors
/// Those of `work`, and `Bug` if it panicked; with the name of the function.
pub(crate) fn call_of<T>(udf: &dyn Udf, work: impl FnOnce() -> Result<T>) -> Result<T> {
    guarded_call("the function", work).map_err(|error| error.with_udf(udf.name()))
}
