//! Threads that are here when the interpreter ends.
//!
//! From some moment on, an interpreter that ends makes every other thread that asks for its lock
//! unwind, and no frame of Rust may be unwound by others: the process would abort. So before that
//! moment comes, [`end_threads`] closes the way: who wants to attach from then on is put to sleep
//! for ever, with the process to end it, and who is attached already is waited for.

use crate::udf::release_held_gil;
use framefold::Cancel;
use framefold::exec::Asking;
use framefold_python_macros::caught;
use pyo3::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// Whether the way is closed for all threads but the one that closed it.
static ENDING: AtomicBool = AtomicBool::new(false);
static ENDED_BY: OnceLock<ThreadId> = OnceLock::new();
/// The process that it was closed in: forks go on.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// How often threads are attached, or about to be, with frames of Rust below.
static INSIDE: AtomicUsize = AtomicUsize::new(0);
/// How many threads of the engine there are.
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// What stops the runs that there are.
static RUNS: Mutex<Vec<Cancel>> = Mutex::new(Vec::new());

thread_local! {
    /// How often this thread is.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Runs `work` attached to the interpreter.
pub(crate) fn attached<T>(work: impl FnOnce(Python<'_>) -> T) -> T {
    let _inside = Inside::enter();
    let asking = Asking::count();
    Python::attach(|py| {
        drop(asking);
        work(py)
    })
}

/// Runs `work` detached from the interpreter.
pub(crate) fn detached<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    let outer = DEPTH.replace(0);
    INSIDE.fetch_sub(outer, Ordering::SeqCst);
    // Dropped last, when it is attached again.
    let _attaching = Attaching;
    py.detach(|| {
        let _back = Back(outer);
        work()
    })
}

/// Whether this thread was not attached, or about to be, when it was last counted.
pub(crate) fn is_outermost() -> bool {
    DEPTH.get() == 1
}

/// Counted until this is dropped.
pub(crate) struct Inside;

impl Inside {
    /// Counts this thread once more; does not return once the interpreter ends.
    pub(crate) fn enter() -> Self {
        count(1);
        DEPTH.set(DEPTH.get() + 1);
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What a detached thread was counted for before, and once more until it is attached.
struct Back(usize);

impl Drop for Back {
    fn drop(&mut self) {
        count(self.0 + 1);
        DEPTH.set(self.0);
    }
}

struct Attaching;

impl Drop for Attaching {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

fn count(n: usize) {
    INSIDE.fetch_add(n, Ordering::SeqCst);
    if is_closed() {
        INSIDE.fetch_sub(n, Ordering::SeqCst);
        release_held_gil();
        loop {
            std::thread::park();
        }
    }
}

fn is_closed() -> bool {
    has_ended() && ENDED_BY.get() != Some(&std::thread::current().id())
}

/// Whether threads are kept out of the interpreter: they come to no end then.
pub(crate) fn has_ended() -> bool {
    ENDING.load(Ordering::SeqCst) && PROCESS.load(Ordering::Relaxed) == std::process::id()
}

/// A thread of the engine, or what runs on one, that runs Python now and then, until this is dropped.
pub(crate) struct EngineThread(());

impl EngineThread {
    pub(crate) fn new() -> Self {
        THREADS.fetch_add(1, Ordering::SeqCst);
        EngineThread(())
    }
}

impl Drop for EngineThread {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether there are threads of the engine that may run Python.
#[caught]
#[pyfunction]
pub(crate) fn threads_left() -> PyResult<bool> {
    Ok(THREADS.load(Ordering::SeqCst) > 0)
}

/// Takes down what stops a run.
pub(crate) fn note(cancel: &Cancel) {
    let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    runs.retain(Cancel::is_shared);
    runs.push(cancel.clone());
}

/// Stops all runs, and keeps their threads out of the interpreter; called when it ends.
///
/// Returns whether no thread is inside: one that runs user code is waited for so many seconds.
#[caught]
#[pyfunction]
pub(crate) fn end_threads(py: Python<'_>, seconds: f64) -> PyResult<bool> {
    let _ = ENDED_BY.set(std::thread::current().id());
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    ENDING.store(true, Ordering::SeqCst);
    for run in RUNS.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        run.cancel();
    }
    let started = Instant::now();
    // Several times, for those that were attached again just before.
    let mut n_quiet = 0;
    while n_quiet < 3 {
        py.detach(|| std::thread::sleep(Duration::from_millis(1)));
        n_quiet = if INSIDE.load(Ordering::SeqCst) == 0 { n_quiet + 1 } else { 0 };
        if n_quiet == 0 && started.elapsed().as_secs_f64() > seconds {
            return Ok(false);
        }
    }
    Ok(true)
}
