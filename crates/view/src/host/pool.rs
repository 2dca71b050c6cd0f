//! The threads that work for all clients of a host.
//!
//! Each pane of each client has at most one entry of each class in the line, so that the line is short, and
//! those who ask often do not come before those who ask once. Some threads are kept for what has to be fast.

use crate::Wish;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// How many threads there are. They wait for the engine's threads most of the time, and start when needed.
const MAX_THREADS: usize = 8;
/// How many of them may do what takes long.
const MAX_SLOW: usize = 5;

/// How long work takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Someone moves the pointer and waits.
    Fast = 0,
    /// It reads all frames, perhaps.
    Slow = 1,
}

impl Class {
    /// How long an answer may take.
    pub(crate) fn of(wish: Wish) -> Self {
        match wish {
            Wish::Fast => Class::Fast,
            Wish::Exact => Class::Slow,
        }
    }
}

type Entry = Box<dyn FnOnce() + Send>;

/// The threads. They end when the pool goes, after what they are at.
pub(crate) struct Pool(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    fast: VecDeque<Entry>,
    slow: VecDeque<Entry>,
    n_threads: usize,
    n_idle: usize,
    n_slow: usize,
    closing: bool,
}

impl Pool {
    /// No thread yet.
    pub(crate) fn new() -> Self {
        Pool(Arc::default())
    }

    /// Adds an entry to the line. It is run once, on any thread, and must not panic.
    pub(crate) fn push(&self, class: Class, entry: Entry) {
        let mut state = self.0.lock();
        match class {
            Class::Fast => state.fast.push_back(entry),
            Class::Slow => state.slow.push_back(entry),
        }
        let waiting = state.fast.len() + state.slow.len();
        if state.n_idle < waiting && state.n_threads < MAX_THREADS {
            let shared = self.0.clone();
            let thread = std::thread::Builder::new().name("viewer".to_owned());
            // Without a new thread, the others do it.
            if thread.spawn(move || shared.work()).is_ok() {
                state.n_threads += 1;
            }
        }
        drop(state);
        self.0.wake.notify_one();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.0.lock().closing = true;
        self.0.wake.notify_all();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            let Some((class, entry)) = state.next() else {
                if state.closing {
                    return;
                }
                state.n_idle += 1;
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.n_idle -= 1;
                continue;
            };
            let slow = usize::from(class == Class::Slow);
            state.n_slow += slow;
            drop(state);
            entry();
            state = self.lock();
            state.n_slow -= slow;
            if slow == 1 && !state.slow.is_empty() {
                // Others may have passed it by.
                self.wake.notify_one();
            }
        }
    }
}

impl State {
    fn next(&mut self) -> Option<(Class, Entry)> {
        if let Some(entry) = self.fast.pop_front() {
            return Some((Class::Fast, entry));
        }
        if self.n_slow >= MAX_SLOW {
            return None;
        }
        self.slow.pop_front().map(|entry| (Class::Slow, entry))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn what_is_fast_does_not_wait_for_what_is_slow() {
        let pool = Pool::new();
        let (go_on, waiting) = channel::<()>();
        let waiting = Arc::new(Mutex::new(waiting));
        let (done, ended) = channel();
        for _ in 0..20 {
            let (waiting, done) = (waiting.clone(), done.clone());
            pool.push(
                Class::Slow,
                Box::new(move || {
                    let _ = waiting.lock().unwrap().recv();
                    done.send("slow").unwrap();
                }),
            );
        }
        for _ in 0..20 {
            let done = done.clone();
            pool.push(Class::Fast, Box::new(move || done.send("fast").unwrap()));
        }
        for _ in 0..20 {
            assert_eq!(ended.recv_timeout(Duration::from_secs(20)), Ok("fast"));
        }
        for _ in 0..20 {
            go_on.send(()).unwrap();
            assert_eq!(ended.recv_timeout(Duration::from_secs(20)), Ok("slow"));
        }
        assert!(pool.0.lock().n_threads <= MAX_THREADS);
    }
}
