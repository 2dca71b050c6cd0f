//! When a worker holds the interpreter's lock, and when it gives it back.
//!
//! Handing the lock to another thread costs more than what a short function does with a whole
//! tile. So a worker keeps it from one tile to the next where the engine's own work between the
//! two is as short: nobody gains from a lock that is free for a microsecond. The interpreter
//! still switches threads while user code runs, as often as it always does. Where reading or
//! converting a tile takes longer, the lock is free meanwhile, and other threads run Python.

use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// Work between tiles that is shorter than this is done with the lock held.
const SHORT: Duration = Duration::from_micros(20);

thread_local! {
    /// How to give back the lock that this thread keeps between tiles, if it keeps it.
    static KEPT: Cell<Option<ffi::PyGILState_STATE>> = const { Cell::new(None) };
}

/// Lets one accumulator's thread run Python, tile by tile.
///
/// Made and dropped on that thread, which gives the lock back by then.
pub(super) struct Attached {
    /// The end of the last tile.
    left: Option<Instant>,
    /// The thread's state in the interpreter stays with it until this is dropped, or each tile
    /// would make a new one.
    thread: ffi::PyGILState_STATE,
    _on_one_thread: PhantomData<*const ()>,
}

impl Attached {
    pub(super) fn new(_py: Python<'_>) -> Self {
        // SAFETY: the thread holds the lock, so this only counts one more user of its state;
        // `drop` takes it back.
        let thread = unsafe { ffi::PyGILState_Ensure() };
        Attached { left: None, thread, _on_one_thread: PhantomData }
    }

    /// Runs `work` on a tile, with the lock held.
    pub(super) fn with<T>(&mut self, work: impl FnOnce(Python<'_>) -> T) -> T {
        let keep = self.left.is_some_and(|left| left.elapsed() < SHORT);
        if keep && KEPT.get().is_none() {
            // SAFETY: may be called on any thread, at any time; `give_back` undoes it.
            KEPT.set(Some(unsafe { ffi::PyGILState_Ensure() }));
        }
        let done = Python::attach(work);
        if !keep {
            give_back();
        }
        self.left = Some(Instant::now());
        done
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        Python::attach(|_| {
            // SAFETY: undoes the call in `new`, on the same thread; it holds the lock, and an
            // outer attachment goes on counting as a user of the thread's state.
            unsafe { ffi::PyGILState_Release(self.thread) };
        });
        give_back();
    }
}

/// Gives back the lock if this thread kept it.
fn give_back() {
    if let Some(state) = KEPT.take() {
        // SAFETY: undoes the call in `with` on the same thread, which has held the lock since;
        // all attachments in between have ended.
        unsafe { ffi::PyGILState_Release(state) };
    }
}
