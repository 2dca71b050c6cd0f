//! Partitions on several threads, merged in order on the calling one.
//!
//! Partitions are handed out in order, and none further than a window ahead of the merge. The
//! next one to be merged is therefore always finished or running, so nothing can wait forever,
//! and no more than a window of partial results is ever kept.

use super::pace::Pace;
use super::{POLL, Watch, guarded};
use crate::{PartialResult, Plan, Results, Worker};
use framefold_core::{Error, ErrorKind, Result, interrupt};
use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Partial results that wait for their turn may take this much memory, as far as more than two
/// per thread do.
const WAITING_BYTES: usize = 256 << 20;

pub(super) fn run(
    plan: &Plan,
    threads: NonZeroUsize,
    results: &mut Results,
    watch: &mut Watch<'_>,
) -> Result<()> {
    let n_partitions = plan.n_partitions();
    let threads = threads.get().min(n_partitions);
    let pace = if plan.contends() { Pace::measured(threads) } else { Pace::steady(threads) };
    let desk = Desk::new(n_partitions, threads, pace);
    std::thread::scope(|scope| {
        for i in 0..threads {
            let desk = &desk;
            let spawned = std::thread::Builder::new()
                .name(format!("framefold-{i}"))
                .spawn_scoped(scope, move || work(plan, desk));
            if let Err(error) = spawned {
                // Fewer threads do as well; none at all is an error.
                desk.lock().workers -= threads - i;
                if i == 0 {
                    return Err(Error::io("start a worker thread", error));
                }
                break;
            }
        }
        let outcome = merge_all(&desk, results, watch);
        if outcome.is_err() {
            desk.stop_from(0);
        }
        desk.close();
        outcome
    })
}

/// Merges partial results as they come, in order, and keeps the observer informed.
fn merge_all(desk: &Desk, results: &mut Results, watch: &mut Watch<'_>) -> Result<()> {
    for index in 0..desk.n_partitions {
        let partial = loop {
            let mut state = desk.lock();
            if let Some(partial) = state.finished.remove(&index) {
                break partial;
            }
            if state.workers == 0 {
                let first = state.failed.pop_first();
                return Err(first.map_or_else(
                    || Error::bug(format!("no worker is left to process partition {index}")),
                    |(_, error)| error,
                ));
            }
            drop(desk.news.wait_timeout(state, POLL).unwrap_or_else(PoisonError::into_inner));
            watch.poll()?;
        };
        guarded(|| results.merge(partial))?;
        desk.merged(index + 1);
        watch.merged(index, results)?;
    }
    Ok(())
}

/// Processes partitions until there are none left, or the run has ended.
fn work(plan: &Plan, desk: &Desk) {
    let _leaving = Leaving(desk);
    let mut worker = match guarded(|| Worker::try_new(plan)) {
        Ok(worker) => worker,
        Err(error) => {
            if let Some(index) = desk.next() {
                desk.fail(index, error);
            }
            return;
        }
    };
    while let Some(index) = desk.next() {
        let limit = desk.limit.clone();
        let wanted = move || {
            if index < limit.load(Ordering::Relaxed) { Ok(()) } else { Err(Error::cancelled()) }
        };
        let mut tick = wanted.clone();
        let run = || interrupt::watched(wanted, || worker.run_partition(index, &mut tick));
        match guarded(run) {
            Ok(partial) => desk.finish(plan.partition_len(index), partial),
            Err(error) => {
                desk.fail(index, error);
                return;
            }
        }
    }
}

/// Where workers and the merging thread meet.
struct Desk {
    n_partitions: usize,
    threads: usize,
    state: Mutex<State>,
    /// This partition and those after it need not be processed any more.
    limit: Arc<AtomicUsize>,
    /// Told to the merging thread: a partition finished or failed, a worker left.
    news: Condvar,
    /// Told to the workers: the window moved, the run ended.
    room: Condvar,
}

struct State {
    next: usize,
    merged: usize,
    /// The size of the largest partial result so far.
    largest: usize,
    workers: usize,
    /// How many partitions are being processed.
    running: usize,
    pace: Pace,
    closed: bool,
    finished: BTreeMap<usize, PartialResult>,
    failed: BTreeMap<usize, Error>,
}

impl Desk {
    fn new(n_partitions: usize, threads: usize, pace: Pace) -> Self {
        Desk {
            n_partitions,
            threads,
            state: Mutex::new(State {
                next: 0,
                merged: 0,
                largest: 0,
                workers: threads,
                running: 0,
                pace,
                closed: false,
                finished: BTreeMap::new(),
                failed: BTreeMap::new(),
            }),
            limit: Arc::new(AtomicUsize::new(n_partitions)),
            news: Condvar::new(),
            room: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; a poisoned one is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next partition to process; waits for room in the window.
    fn next(&self) -> Option<usize> {
        let mut state = self.lock();
        loop {
            if state.closed || state.next >= self.limit.load(Ordering::Relaxed) {
                return None;
            }
            let in_window = state.next < state.merged + self.window(&state);
            if in_window && state.running < state.pace.at_once() {
                state.running += 1;
                state.next += 1;
                return Some(state.next - 1);
            }
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// How many partitions may be handed out and not yet merged.
    fn window(&self, state: &State) -> usize {
        let cheap = WAITING_BYTES / state.largest.max(1);
        self.threads + cheap.clamp(self.threads, 4 * self.threads)
    }

    fn finish(&self, frames: usize, partial: PartialResult) {
        let mut state = self.lock();
        state.running -= 1;
        let (running, left) = (state.running, self.n_partitions.saturating_sub(state.next));
        let before = state.pace.at_once();
        state.pace.finished(frames, running, left, Instant::now());
        if state.pace.at_once() > before {
            self.room.notify_all();
        }
        state.largest = state.largest.max(partial.len_bytes());
        state.finished.insert(partial.partition, partial);
        self.news.notify_one();
    }

    /// Keeps the error. Earlier partitions go on, so that the first error in partition order is
    /// reported, whichever came first in time; later ones stop.
    fn fail(&self, index: usize, error: Error) {
        self.stop_from(index + 1);
        let mut state = self.lock();
        state.running -= 1;
        if error.kind() != ErrorKind::Cancelled || state.failed.is_empty() {
            state.failed.insert(index, error);
        }
        self.news.notify_one();
        self.room.notify_all();
    }

    fn stop_from(&self, index: usize) {
        self.limit.fetch_min(index, Ordering::Relaxed);
    }

    fn merged(&self, count: usize) {
        self.lock().merged = count;
        self.room.notify_all();
    }

    fn close(&self) {
        self.lock().closed = true;
        self.room.notify_all();
    }
}

/// Signs the worker off, however it leaves.
struct Leaving<'d>(&'d Desk);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.workers -= 1;
        self.0.news.notify_one();
    }
}
