//! Panics as texts.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// Where the last panic inside was.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Panics inside of functions are not written to the terminal: they become errors.
pub(crate) fn quieten() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            // At the end of a thread there is nothing left to ask.
            if INSIDE.try_with(Cell::get).unwrap_or(false) {
                let place = info.location().map(ToString::to_string);
                let _ = PLACE.try_with(|last| *last.borrow_mut() = place);
            } else {
                others(info);
            }
        }));
    });
}

/// Runs `work`; a panic becomes its text.
pub(crate) fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    let outer = INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(false);
    let outcome = catch_unwind(AssertUnwindSafe(work));
    let _ = INSIDE.try_with(|inside| inside.set(outer));
    outcome.map_err(|payload| {
        let place = PLACE.try_with(|last| last.borrow_mut().take()).ok().flatten();
        let text = text(payload.as_ref());
        // Its `drop` may panic as well.
        std::mem::forget(payload);
        place.map_or(text.clone(), |place| format!("{text} ({place})"))
    })
}

fn text(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        return (*text).to_owned();
    }
    payload.downcast_ref::<String>().cloned().unwrap_or_else(|| "without a message".to_owned())
}
