//! When a worker holds the interpreter's lock, and when it gives it back.
//!
//! Handing the lock to another thread costs more than what a short function does with a whole
//! tile. So a worker keeps it through a partition where the engine's own work between tiles is
//! short: no thread gains from a lock that is free for a microsecond. The interpreter still switches
//! threads while user code runs, as often as it always does. Where reading or converting a tile
//! takes longer, the lock is free meanwhile, and other threads run Python. A worker beside others that
//! have a device gives the lock back, and does not ask for it, while one of these waits for it.

use crate::ending::{EngineThread, Inside, is_outermost};
use framefold::exec::{Asking, let_others_pass, should_pass};
use pyo3::ffi;
use pyo3::prelude::*;
use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Work between tiles that is shorter than this is done with the lock held.
const SHORT: Duration = Duration::from_micros(20);

thread_local! {
    /// The lock that this thread keeps from one piece of Python work to the next.
    static HELD_GIL: Cell<Option<HeldGil>> = const { Cell::new(None) };
}

/// The thread is attached to the interpreter until this is dropped.
struct HeldGil(ffi::PyGILState_STATE);

impl HeldGil {
    fn new() -> Self {
        // SAFETY: may be called on any thread, whether it is attached or not; `drop` undoes it.
        HeldGil(unsafe { ffi::PyGILState_Ensure() })
    }
}

impl Drop for HeldGil {
    fn drop(&mut self) {
        // SAFETY: undoes the call in `new` on the same thread: a `HeldGil` is in `HELD_GIL` or on
        // the stack of `enter`. The thread is attached as it was after that call: every attachment
        // made since has been left, and what could detach it runs with `HELD_GIL` empty.
        unsafe { ffi::PyGILState_Release(self.0) };
    }
}

/// Holds the interpreter's lock until what this returns is dropped, on this thread.
pub(crate) fn hold_gil() -> Box<dyn Any> {
    let inside = Inside::enter();
    Box::new((HeldGil::new(), inside))
}

/// The interpreter knows the current thread until this is dropped: its `threading.local` values
/// stay, and attaching it takes less time. Must be dropped on the same thread.
pub(crate) struct KnownThread {
    /// Dropped last.
    _thread: EngineThread,
    state: ffi::PyGILState_STATE,
    thread: *mut ffi::PyThreadState,
}

impl KnownThread {
    pub(crate) fn new() -> Self {
        let engine_thread = EngineThread::new();
        let _inside = Inside::enter();
        // SAFETY: may be called on any thread; `drop` undoes both, in reverse order.
        let state = unsafe { ffi::PyGILState_Ensure() };
        // SAFETY: the thread is attached by the call before.
        let thread = unsafe { ffi::PyEval_SaveThread() };
        KnownThread { state, thread, _thread: engine_thread }
    }
}

impl Drop for KnownThread {
    fn drop(&mut self) {
        drop(HELD_GIL.take());
        let _inside = Inside::enter();
        // SAFETY: the thread is detached as it was left in `new`: what was entered since has been
        // left, a kept lock included.
        unsafe { ffi::PyEval_RestoreThread(self.thread) };
        // SAFETY: undoes the call in `new` on the same thread, which a raw pointer cannot leave.
        unsafe { ffi::PyGILState_Release(self.state) };
    }
}

/// Runs `work` attached to the interpreter, and stays attached afterwards if `keep`.
fn enter<T>(keep: bool, work: impl FnOnce(Python<'_>) -> T) -> T {
    let _inside = Inside::enter();
    // `HELD_GIL` is empty meanwhile, since user code may start a run within this one.
    let held = HELD_GIL.take().filter(|_| !should_pass());
    if held.is_none() && is_outermost() {
        let_others_pass();
    }
    let asking = Asking::count();
    let held = held.or_else(|| keep.then(HeldGil::new));
    let done = Python::attach(|py| {
        drop(asking);
        work(py)
    });
    if keep {
        HELD_GIL.set(held);
    }
    done
}

/// Gives back the lock that this thread holds between two pieces of Python work.
pub(crate) fn release_held_gil() {
    drop(HELD_GIL.take());
}

/// Runs `work`, which may run any Python code, between two tiles. The lock that this thread holds
/// is taken out of `HELD_GIL` meanwhile, so that this code cannot give it back.
pub(crate) fn stash_held_gil<T>(work: impl FnOnce() -> T) -> T {
    let held = HELD_GIL.take();
    let done = work();
    HELD_GIL.set(held);
    done
}

/// Lets one accumulator's thread run Python, tile by tile.
///
/// Lives on that thread, which has given the lock back when this is dropped.
pub(super) struct Attached {
    /// Whether the latest work between tiles, on any thread of the run, was short.
    short: Arc<AtomicBool>,
    /// Whether what comes between tiles may need another thread, which may need the lock.
    may_wait: bool,
    /// The end of the latest piece of Python work.
    left: Instant,
    /// Keeps what the interpreter knows of the thread, or every attachment would make it anew.
    thread: Option<ffi::PyGILState_STATE>,
    _on_one_thread: PhantomData<*const ()>,
}

impl Attached {
    /// Begins a partition with `work`.
    pub(super) fn begin<T, E>(
        short: Arc<AtomicBool>,
        may_wait: bool,
        work: impl FnOnce(Python<'_>) -> Result<T, E>,
    ) -> Result<(T, Self), E> {
        let keep = !may_wait && short.load(Ordering::Relaxed);
        let entered = enter(keep, |py| {
            // SAFETY: the thread is attached, so this only counts one more user of its state in
            // the interpreter; `leave` takes it back.
            let thread = Some(unsafe { ffi::PyGILState_Ensure() });
            let left = Instant::now();
            let mut attached =
                Attached { short, may_wait, left, thread, _on_one_thread: PhantomData };
            let made = work(py)?;
            attached.left = Instant::now();
            Ok((made, attached))
        });
        if entered.is_err() {
            drop(HELD_GIL.take());
        }
        entered
    }

    /// Runs `work` on a tile.
    pub(super) fn with<T>(&mut self, work: impl FnOnce(Python<'_>) -> T) -> T {
        let keep = !self.may_wait && self.left.elapsed() < SHORT;
        self.short.store(keep, Ordering::Relaxed);
        let done = enter(keep, work);
        self.left = Instant::now();
        done
    }

    /// Ends the partition with `work`.
    pub(super) fn end<T>(mut self, work: impl FnOnce(Python<'_>) -> T) -> T {
        enter(false, |py| {
            let done = work(py);
            self.leave(py);
            done
        })
    }

    fn leave(&mut self, _py: Python<'_>) {
        if let Some(thread) = self.thread.take() {
            // SAFETY: undoes the call in `begin` on the same thread, which is attached, and
            // remains so by the attachment that `_py` stands for.
            unsafe { ffi::PyGILState_Release(thread) };
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if self.thread.is_some() {
            enter(false, |py| self.leave(py));
        }
    }
}
