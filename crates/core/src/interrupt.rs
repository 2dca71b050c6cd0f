//! Ways to stop work that takes long within one tile.
//!
//! Between tiles a worker is asked whether it should go on. A tile may be made of millions of
//! chunks, though, and its reader knows nothing of runs: it calls [`check`] now and then.

use crate::Result;
use std::cell::RefCell;
use std::rc::Rc;

type Check = Rc<dyn Fn() -> Result<()>>;

thread_local! {
    static CHECKS: RefCell<Vec<Check>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work`, on whose way every [`check`] on this thread asks `going_on`, and those around it.
pub fn watched<T>(going_on: impl Fn() -> Result<()> + 'static, work: impl FnOnce() -> T) -> T {
    CHECKS.with_borrow_mut(|checks| checks.push(Rc::new(going_on)));
    let _leaving = Leaving;
    work()
}

/// An error if the work of this thread is not wanted any more.
///
/// # Errors
/// What those who watch say.
pub fn check() -> Result<()> {
    // Copies: who is asked may begin other work.
    let checks = CHECKS.with_borrow(Vec::clone);
    checks.iter().try_for_each(|check| check())
}

struct Leaving;

impl Drop for Leaving {
    fn drop(&mut self) {
        CHECKS.with_borrow_mut(Vec::pop);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::cell::Cell;

    #[test]
    fn all_who_watch_are_asked() {
        let outer = Rc::new(Cell::new(true));
        let asked = outer.clone();
        let outer_check = move || if asked.get() { Ok(()) } else { Err(Error::cancelled()) };
        watched(outer_check, || {
            assert!(check().is_ok());
            watched(|| Err(Error::cancelled()), || assert!(check().is_err()));
            assert!(check().is_ok());
            outer.set(false);
            watched(|| Ok(()), || assert!(check().is_err()));
        });
        assert!(check().is_ok());
    }
}
