//! Whose turn it is at the lock of an interpreter: workers with a device come before those beside them.
//!
//! A thread that keeps a device busy needs the lock for moments, some times a tile. Behind a dozen
//! threads that go in and out of user code, it would wait for each of them, and the device with it. So
//! while one waits, others do not begin to ask for the lock. This is no lock itself: a thread that waits
//! here goes on after a while in any case.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Others wait no longer than this: the one that they let pass may itself wait for something.
const LONGEST: Duration = Duration::from_millis(5);
/// How often they look.
const PAUSE: Duration = Duration::from_micros(20);

/// How many threads with a device wait for the lock.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// What a thread is in a run with devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Nothing to do with that.
    Any,
    /// It has a device.
    First,
    /// It works beside others that have one.
    Later,
}

thread_local! {
    static TURN: Cell<Turn> = const { Cell::new(Turn::Any) };
}

/// What a thread is, until this is dropped, on that thread.
#[derive(Debug)]
pub struct AsTurn {
    before: Turn,
    _on_one_thread: PhantomData<*const ()>,
}

impl AsTurn {
    /// Of this thread.
    pub fn new(turn: Turn) -> Self {
        AsTurn { before: TURN.replace(turn), _on_one_thread: PhantomData }
    }
}

impl Drop for AsTurn {
    fn drop(&mut self) {
        TURN.set(self.before);
    }
}

/// Counted as one that waits until this is dropped, if the thread has a device.
#[derive(Debug)]
pub struct Asking(bool);

impl Asking {
    /// To be called before a thread asks for the lock; dropped as soon as it has it.
    pub fn count() -> Self {
        let counts = TURN.get() == Turn::First;
        if counts {
            WAITING.fetch_add(1, Ordering::Relaxed);
        }
        Asking(counts)
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        if self.0 {
            WAITING.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// Waits while threads with a device wait for the lock, if this one comes later, but not for long. It
/// must not have the lock.
pub fn let_others_pass() {
    if !should_pass() {
        return;
    }
    let started = Instant::now();
    while is_wanted() && started.elapsed() < LONGEST {
        std::thread::sleep(PAUSE);
    }
}

/// Whether a thread with a device waits for the lock.
fn is_wanted() -> bool {
    WAITING.load(Ordering::Relaxed) > 0
}

/// Whether this thread is to let others have the lock first.
pub fn should_pass() -> bool {
    TURN.get() == Turn::Later && is_wanted()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// One test, as what it looks at is of the whole process.
    #[test]
    fn others_wait_for_those_with_a_device_but_not_for_ever() {
        let is_later = || {
            let _turn = AsTurn::new(Turn::Later);
            should_pass()
        };
        assert!(!is_later(), "no thread waits");
        let (asked, done) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let _turn = AsTurn::new(Turn::First);
                let asking = Asking::count();
                asked.wait();
                done.wait();
                drop(asking);
                done.wait();
            });
            asked.wait();
            {
                let _turn = AsTurn::new(Turn::Later);
                let started = Instant::now();
                let_others_pass();
                assert!(started.elapsed() >= LONGEST, "it did not wait");
            }
            for turn in [Turn::First, Turn::Any] {
                let _turn = AsTurn::new(turn);
                assert!(!should_pass(), "{turn:?} comes before no other");
            }
            // One that works beside others changes nothing.
            drop(Asking::count());
            assert!(is_later());
            assert!(!should_pass(), "the thread is what it was before");
            done.wait();
            done.wait();
            assert!(!is_later(), "it has the lock now");
        });
        // It is noticed soon when they have it.
        let waited = std::thread::scope(|scope| {
            let _turn = AsTurn::new(Turn::First);
            let asking = Asking::count();
            let waits = scope.spawn(|| {
                let _turn = AsTurn::new(Turn::Later);
                while should_pass() {
                    let_others_pass();
                }
            });
            drop(asking);
            waits.join()
        });
        assert!(waited.is_ok());
    }
}
