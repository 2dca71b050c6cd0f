//! Which work may run now: one exact pass at a time, and the background pass between answers.

use framefold::{Cancel, Result};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a cancelled one waits at most.
const POLL: Duration = Duration::from_millis(10);

/// Shared by all answers of a viewer, and by what goes on in the background.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Answers that are being computed.
    looking: usize,
    /// Whether one of them is an exact pass.
    passing: bool,
}

/// An answer is being computed until this is dropped.
pub(crate) struct Looking<'g>(&'g Gate);

/// An exact pass goes on until this is dropped.
pub(crate) struct Passing<'g>(&'g Gate);

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For an answer, at once.
    pub(crate) fn look(&self) -> Looking<'_> {
        self.lock().looking += 1;
        Looking(self)
    }

    /// For an exact pass, when no other goes on.
    ///
    /// # Errors
    /// `Cancelled`.
    pub(crate) fn pass(&self, cancel: &Cancel) -> Result<Passing<'_>> {
        let mut state = self.wait(cancel, |state| !state.passing)?;
        state.passing = true;
        Ok(Passing(self))
    }

    /// Returns when no answer is being computed, and after `most` in any case.
    ///
    /// # Errors
    /// `Cancelled`.
    pub(crate) fn quiet(&self, cancel: &Cancel, most: Duration) -> Result<()> {
        let start = Instant::now();
        self.wait(cancel, |state| state.looking == 0 || start.elapsed() >= most).map(drop)
    }

    fn wait(
        &self,
        cancel: &Cancel,
        until: impl Fn(&State) -> bool,
    ) -> Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        loop {
            cancel.check()?;
            if until(&state) {
                return Ok(state);
            }
            let waited = self.changed.wait_timeout(state, POLL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Looking<'_> {
    fn drop(&mut self) {
        self.0.lock().looking -= 1;
        self.0.changed.notify_all();
    }
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        self.0.lock().passing = false;
        self.0.changed.notify_all();
    }
}
