//! Ctrl-C.

use framefold::Cancel;
use std::sync::{Mutex, Once, PoisonError};

/// The run that Ctrl-C cancels.
static CURRENT: Mutex<Option<Cancel>> = Mutex::new(None);
static INSTALL: Once = Once::new();

/// The flag of a new run, set by the first Ctrl-C. A second one, or one when nothing is
/// running, ends the process at once.
pub(crate) fn cancel_on_interrupt() -> Cancel {
    let cancel = Cancel::new();
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(cancel.clone());
    INSTALL.call_once(|| {
        // Where no handler can be installed, Ctrl-C ends the process: no output is half written
        // even then, because files are renamed into place.
        let _ = ctrlc::set_handler(interrupted);
    });
    cancel
}

fn interrupted() {
    let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    match current.as_ref() {
        Some(cancel) if !cancel.is_cancelled() => cancel.cancel(),
        _ => std::process::exit(130),
    }
}
