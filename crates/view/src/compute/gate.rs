//! Which work may run now: one exact pass at a time, between pictures that follow the pointer, and the background
//! pass between all answers.

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
    /// Those of them that follow the pointer.
    following: usize,
    /// Whether one of them is an exact pass.
    passing: bool,
}

/// What a pass waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgent {
    /// Answers that follow the pointer.
    Following,
    /// All answers.
    Answers,
}

/// An answer is being computed until this is dropped.
pub(crate) struct Looking<'g> {
    gate: &'g Gate,
    following: bool,
}

/// An exact pass goes on until this is dropped.
pub(crate) struct Passing<'g>(&'g Gate);

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For an answer, at once; `following` if it follows the pointer.
    pub(crate) fn look(&self, following: bool) -> Looking<'_> {
        let mut state = self.lock();
        state.looking += 1;
        state.following += usize::from(following);
        Looking { gate: self, following }
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

    /// Returns when nothing urgent is being computed, and after `most` in any case.
    ///
    /// # Errors
    /// `Cancelled`.
    pub(crate) fn quiet(&self, urgent: Urgent, cancel: &Cancel, most: Duration) -> Result<()> {
        let start = Instant::now();
        let n = |state: &State| match urgent {
            Urgent::Following => state.following,
            Urgent::Answers => state.looking,
        };
        self.wait(cancel, |state| n(state) == 0 || start.elapsed() >= most).map(drop)
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
        let mut state = self.gate.lock();
        state.looking -= 1;
        state.following -= usize::from(self.following);
        drop(state);
        self.gate.changed.notify_all();
    }
}

impl Drop for Passing<'_> {
    fn drop(&mut self) {
        self.0.lock().passing = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a pass waits for all of the time that it may: for long enough that no machine is so
    /// busy, where it is not to wait at all.
    fn waits(gate: &Gate, urgent: Urgent, expected: bool) -> bool {
        let most = Duration::from_millis(if expected { 30 } else { 60_000 });
        let start = Instant::now();
        gate.quiet(urgent, &Cancel::new(), most).unwrap();
        start.elapsed() >= most
    }

    #[test]
    fn passes_wait_for_what_is_more_urgent_alone() {
        let gate = Gate::default();
        let check = |following, answers| {
            assert_eq!(waits(&gate, Urgent::Following, following), following);
            assert_eq!(waits(&gate, Urgent::Answers, answers), answers);
        };
        check(false, false);
        {
            let _exact = gate.look(false);
            check(false, true);
            let _fast = gate.look(true);
            check(true, true);
        }
        check(false, false);
    }

    #[test]
    fn a_cancelled_pass_does_not_wait() {
        let gate = Gate::default();
        let _fast = gate.look(true);
        let cancel = Cancel::new();
        cancel.cancel();
        let start = Instant::now();
        assert!(gate.quiet(Urgent::Following, &cancel, Duration::from_secs(60)).is_err());
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
