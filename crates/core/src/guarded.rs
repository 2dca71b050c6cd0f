//! Panics as errors.

use crate::{Error, Result};

/// Runs `work`, turning a panic into an error: no panic may reach the user. For those who start
/// threads or call what others wrote.
///
/// # Errors
/// Those of `work`; `Bug` if it panicked.
pub fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        Err(Error::bug(format!("the engine panicked: {text}"))
            .with_hint("please report this, with the call that led to it"))
    })
}
