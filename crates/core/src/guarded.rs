//! Panics as errors.

use crate::{Error, Result};

/// Runs `work`, turning a panic into an error: no panic may reach the user. For those who start
/// threads or call what others wrote.
///
/// # Errors
/// Those of `work`; `Bug` if it panicked.
pub fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    caught("the engine", "please report this, with the call that led to it", work)
}

/// The same for a call of what users may have written; `what` names it, as in "the function".
///
/// # Errors
/// Those of `work`; `Bug` if it panicked.
pub fn guarded_call<T>(what: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    caught(what, "mend it there, or report it if that is a part of framefold", work)
}

fn caught<T>(what: &str, hint: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        // Its `drop` may panic as well.
        std::mem::forget(panic);
        Err(Error::bug(format!("{what} panicked: {text}")).with_hint(hint))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    struct PanicsWhereItIsDropped;

    impl Drop for PanicsWhereItIsDropped {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }

    #[test]
    fn what_panics_may_panic_where_it_is_dropped() {
        let work = || -> Result<()> { std::panic::panic_any(PanicsWhereItIsDropped) };
        for error in [guarded(work), guarded_call("the function", work)] {
            let error = error.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Bug);
            assert!(error.message().ends_with("panicked: no message"), "{error}");
        }
    }
}
