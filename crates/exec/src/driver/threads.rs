//! Partitions on several threads, merged in order on the calling one.

use super::pace::Pace;
use super::{Crew, Host, POLL, WorkerScope};
use crate::plan::Piece;
use crate::schedule::{Next, Schedule, WAITING};
use crate::{PartialResult, Plan, Worker};
use framefold_core::{Error, ErrorKind, Result, guarded, guarded_call, interrupt};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Results of short partitions gather for so long: waking the merging thread takes longer than each.
const TOGETHER: Duration = Duration::from_micros(300);
/// The same where functions take turns: the merging thread would wait for its turn, and be woken in vain whenever a
/// worker gives its own back for a moment, until none of them may go on.
const TOGETHER_IN_TURNS: Duration = Duration::from_millis(2);

/// Threads that are started with the first partition, and end with the run.
pub(super) struct ThreadCrew {
    shared: Arc<Shared>,
    n_threads: usize,
    scope: Arc<dyn WorkerScope>,
    handles: Vec<JoinHandle<()>>,
    /// The process that started the threads: a fork of it has none of them.
    process: u32,
}

impl ThreadCrew {
    /// How many threads a plan gets, of `wanted` or as many as there are cores.
    pub(super) fn n_threads(plan: &Plan, wanted: Option<NonZeroUsize>) -> usize {
        let wanted = wanted.or_else(|| std::thread::available_parallelism().ok());
        let wanted = wanted.unwrap_or(NonZeroUsize::MIN).get();
        plan.workers_that_fit(wanted.min(plan.n_partitions()), 1)
    }

    /// For all partitions from `first` on.
    pub(super) fn new(
        plan: Arc<Plan>,
        first: usize,
        n_threads: usize,
        scope: Arc<dyn WorkerScope>,
    ) -> Self {
        let devices = (0..n_threads).filter(|&number| scope.has_device(number)).collect();
        let shared = Arc::new(Shared::new(plan, first, n_threads, devices));
        let process = std::process::id();
        ThreadCrew { shared, n_threads, scope, handles: Vec::new(), process }
    }

    fn start(&mut self) -> Result<()> {
        for i in 0..self.n_threads {
            let (shared, scope) = (self.shared.clone(), self.scope.clone());
            shared.lock().n_threads += 1;
            let name = format!("framefold-{i}");
            let spawned = std::thread::Builder::new()
                .name(name)
                .spawn(move || shared.run_thread(i, scope.as_ref()));
            match spawned {
                Ok(handle) => self.handles.push(handle),
                Err(error) => {
                    self.shared.lock().n_threads -= 1;
                    (i..self.n_threads).for_each(|number| self.shared.has_ended(number));
                    // Fewer threads do as well; none at all is an error.
                    if self.handles.is_empty() {
                        return Err(Error::io("start a worker thread", error));
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    /// Waits for all threads, unless that is not wanted any more: what they use is theirs, too.
    fn end(&mut self, going_on: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let mut handles = std::mem::take(&mut self.handles);
        if self.process != std::process::id() {
            handles.into_iter().for_each(std::mem::forget);
            return Ok(());
        }
        self.shared.close();
        if !self.scope.may_join() {
            handles.into_iter().for_each(std::mem::forget);
            return Ok(());
        }
        // A run may be dropped on one of its own threads, which must not wait for itself.
        let (own, n) = (std::thread::current().id(), handles.len());
        handles.retain(|handle| handle.thread().id() != own);
        // Memory that devices get tiles from is given back when this returns.
        let has_device = (0..self.n_threads).any(|number| self.scope.has_device(number));
        let mut always = || Ok(());
        let going_on: &mut dyn FnMut() -> Result<()> =
            if has_device { &mut always } else { going_on };
        if !handles.is_empty() {
            self.shared.wait_for_end(n - handles.len(), going_on)?;
        }
        for handle in handles {
            // A thread catches its panics itself.
            let _ = handle.join();
        }
        Ok(())
    }
}

impl Crew for ThreadCrew {
    fn waits(&self) -> bool {
        true
    }

    fn work(&mut self, host: &mut dyn Host) -> Result<()> {
        let contends = self.shared.plan.contends();
        self.shared.lock().set_pauses(host.pauses(), contends);
        if self.handles.is_empty() {
            self.start()?;
        }
        let mut merged = None;
        loop {
            let mut state = self.shared.lock();
            if let Some(count) = merged.take()
                && state.schedule.merged(count)
            {
                self.shared.work_ready.notify_all();
            }
            match state.schedule.next_step() {
                Next::Merge(index, partial) => {
                    let in_progress = state.schedule.n_in_progress();
                    // Those that gathered are merged without giving the lock back that each needs.
                    let mut ready = vec![(index, partial)];
                    if contends && !host.pauses() {
                        ready.extend(std::iter::from_fn(|| state.schedule.next_ready()));
                    }
                    drop(state);
                    let (count, go_on) = merge_all(host, ready, in_progress)?;
                    if !go_on {
                        self.shared.merged(count);
                        return Ok(());
                    }
                    merged = Some(count);
                }
                Next::MergePiece(_, partial) => {
                    let in_progress = state.schedule.n_in_progress();
                    drop(state);
                    if !host.merge(partial, in_progress)? {
                        return Ok(());
                    }
                }
                Next::Wait => {
                    state.merger_waits = true;
                    let waited = self.shared.result_ready.wait_timeout(state, POLL);
                    let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
                    state.merger_waits = false;
                    drop(state);
                    host.poll()?;
                }
                Next::Failed(error) => return Err(error),
                Next::Complete => return Ok(()),
            }
        }
    }

    fn close(&mut self, complete: bool, going_on: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.end(going_on)?;
        // A run that is not complete has another error.
        let ending = self.shared.lock().ending.take();
        ending.filter(|_| complete).map_or(Ok(()), Err)
    }
}

impl Drop for ThreadCrew {
    fn drop(&mut self) {
        let _ = self.end(&mut || Ok(()));
    }
}

/// Merges partitions that follow each other. How many are merged now, and whether to go on.
fn merge_all(
    host: &mut dyn Host,
    ready: Vec<(usize, PartialResult)>,
    in_progress: usize,
) -> Result<(usize, bool)> {
    let _held = if ready.len() > 1 { host.hold() } else { None };
    let mut merged = (0, true);
    for (index, partial) in ready {
        merged = (index + 1, host.merge(partial, in_progress)?);
        if !merged.1 {
            break;
        }
    }
    Ok(merged)
}

/// What workers and the merging thread share.
struct Shared {
    plan: Arc<Plan>,
    /// The workers that [`Pace`] does not count, and does not let rest.
    unpaced: BTreeSet<usize>,
    state: Mutex<State>,
    /// This partition and those after it need not be processed any more.
    limit: Arc<AtomicUsize>,
    /// Wakes the merging thread: there is something to merge, or the run came to an end.
    result_ready: Condvar,
    /// Wakes the workers: the window moved, or the run ended.
    work_ready: Condvar,
}

struct State {
    schedule: Schedule<PartialResult, Error>,
    n_threads: usize,
    /// Those that have a device, and have not ended.
    devices: BTreeSet<usize>,
    /// How many partitions are being processed by workers that hinder each other, perhaps.
    running: usize,
    pace: Pace,
    /// Whether the merging thread waits for news.
    merger_waits: bool,
    /// When it was last woken.
    woken: Instant,
    /// What went wrong where a worker ended, and may have nothing to do with any partition.
    ending: Option<Error>,
    /// Results may gather for so long before it is woken again.
    together: Duration,
}

impl State {
    /// If the caller looks at each result, it gets it at once, and few partitions are processed ahead.
    fn set_pauses(&mut self, pauses: bool, contends: bool) {
        self.schedule.set_waiting(if pauses { 1 } else { WAITING });
        self.together = match (pauses, contends) {
            (true, _) => Duration::ZERO,
            (false, true) => TOGETHER_IN_TURNS,
            (false, false) => TOGETHER,
        };
    }

    /// Whether to wake the merging thread, now that a partition is finished: not for each of those
    /// that are shorter than that takes, while others are to come.
    fn wakes_merger(&mut self, now: Instant) -> bool {
        let more = !self.schedule.is_over() && self.schedule.has_room();
        let early = more && now.saturating_duration_since(self.woken) < self.together;
        let wakes = self.merger_waits && !early && self.schedule.is_news();
        if wakes {
            (self.merger_waits, self.woken) = (false, now);
        }
        wakes
    }
}

impl Shared {
    fn new(plan: Arc<Plan>, first: usize, threads: usize, devices: BTreeSet<usize>) -> Self {
        let n = plan.n_partitions();
        // Beside others, those with a device are never to rest.
        let (paced, unpaced) = match threads - devices.len() {
            0 => (threads, BTreeSet::new()),
            others => (others, devices.clone()),
        };
        let pace = if plan.contends() { Pace::measured(paced) } else { Pace::steady(paced) };
        let mut schedule = Schedule::new(first..n, threads);
        schedule.set_devices(devices.iter().copied());
        let state = State {
            schedule,
            n_threads: 0,
            devices,
            running: 0,
            pace,
            merger_waits: false,
            woken: Instant::now(),
            together: Duration::ZERO,
            ending: None,
        };
        Shared {
            plan,
            unpaced,
            state: Mutex::new(state),
            limit: Arc::new(AtomicUsize::new(n)),
            result_ready: Condvar::new(),
            work_ready: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; a poisoned one is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a worker thread does from its start to its end.
    fn run_thread(&self, number: usize, scope: &dyn WorkerScope) {
        let _guard = ThreadGuard(self, number);
        let outcome = guarded(|| {
            scope.thread(&mut || self.process_all(number, scope));
            Ok(())
        });
        if let Err(error) = outcome {
            self.fail_next(number, error);
        }
    }

    /// Processes partitions until there are none left, or the run has ended.
    fn process_all(&self, number: usize, scope: &dyn WorkerScope) {
        let mut worker = match guarded(|| Worker::try_new(&self.plan)) {
            Ok(worker) => worker,
            Err(error) => return self.fail_next(number, error),
        };
        while let Some((index, piece)) = self.take(number) {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => return self.fail(number, index, error.with_partition(index)),
            };
            let limit = self.limit.clone();
            let wanted = move || {
                if index < limit.load(Ordering::Relaxed) { Ok(()) } else { Err(Error::cancelled()) }
            };
            let started = Instant::now();
            let mut work = || {
                let mut tick = wanted.clone();
                let next = || Ok(self.lock().schedule.expect_for(number));
                let run = || worker.run_piece(index, &piece, &next, &mut tick);
                interrupt::watched(wanted.clone(), run)
            };
            let partial = guarded(|| scope.partition(number, &mut || guarded(&mut work)));
            let with_size = partial.and_then(|partial| {
                let bytes = guarded_call("the size of a result", || Ok(partial.len_bytes()));
                Ok((partial, bytes.map_err(|error| error.with_partition(index))?))
            });
            match with_size {
                Ok((partial, bytes)) => self.finish(number, partial, bytes, &piece, started),
                Err(error) => return self.fail(number, index, error),
            }
        }
        // What others wrote may panic where it is dropped.
        if let Err(error) = worker.end() {
            self.lock().ending.get_or_insert(error);
        }
    }

    /// The next partition for a worker to process, and which frames of it; waits for room in the window.
    fn take(&self, number: usize) -> Option<(usize, Result<Piece>)> {
        let is_unpaced = self.unpaced.contains(&number);
        let mut state = self.lock();
        let mut waited = Ok(());
        loop {
            if state.schedule.is_over() {
                return None;
            }
            if (is_unpaced || state.running < state.pace.at_once())
                && let Some(index) = state.schedule.take_for(number)
            {
                // What goes wrong is reported as if it had where the partition is processed.
                let from = state.schedule.done_of(index);
                let piece = std::mem::replace(&mut waited, Ok(()))
                    .and_then(|()| self.plan.next_piece(index, from));
                if let Some(piece) = piece.transpose() {
                    state.running += usize::from(!is_unpaced);
                    return Some((index, piece));
                }
                state.schedule.not_yet(index);
                drop(state);
                waited = self.plan.wait(POLL);
                state = self.lock();
                state.schedule.arrived();
                continue;
            }
            state = self.work_ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn finish(
        &self,
        number: usize,
        partial: PartialResult,
        bytes: usize,
        piece: &Piece,
        started: Instant,
    ) {
        let now = Instant::now();
        let index = partial.partition;
        let mut state = self.lock();
        if !self.unpaced.contains(&number) {
            state.running -= 1;
            let (running, left) = (state.running, state.schedule.n_left());
            let before = state.pace.at_once();
            state.pace.finished(piece.frames.len(), running, left, now);
            if state.pace.at_once() > before {
                self.work_ready.notify_all();
            }
        }
        let seconds = (now - started).as_secs_f64();
        let unused = if piece.is_last {
            state.schedule.finished(index, partial, bytes, seconds)
        } else {
            let unused = state.schedule.finished_piece(index, piece.frames.end, partial, bytes);
            state.schedule.put_back(index);
            unused
        };
        let wakes = state.wakes_merger(now);
        drop(state);
        drop(unused);
        if wakes {
            self.result_ready.notify_one();
        }
    }

    /// Earlier partitions go on, later ones stop.
    fn fail(&self, number: usize, index: usize, error: Error) {
        self.limit.fetch_min(index + 1, Ordering::Relaxed);
        let mut state = self.lock();
        state.running -= usize::from(!self.unpaced.contains(&number));
        let unused = match error.kind() {
            ErrorKind::Cancelled => state.schedule.stopped(index, error),
            _ => state.schedule.failed(index, error),
        };
        drop(state);
        drop(unused);
        self.result_ready.notify_one();
        self.work_ready.notify_all();
    }

    fn fail_next(&self, number: usize, error: Error) {
        if let Some((index, _)) = self.take(number) {
            self.fail(number, index, error);
        }
    }

    /// No more work is left to that worker.
    fn has_ended(&self, number: usize) {
        let state = &mut *self.lock();
        if state.devices.remove(&number) && state.schedule.set_devices(state.devices.clone()) {
            self.work_ready.notify_all();
        }
    }

    fn merged(&self, count: usize) {
        if self.lock().schedule.merged(count) {
            self.work_ready.notify_all();
        }
    }

    /// Returns when only so many threads are left, or with the first error of `going_on`.
    fn wait_for_end(&self, n: usize, going_on: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let mut state = self.lock();
        while state.n_threads > n {
            let waited = self.result_ready.wait_timeout(state, POLL);
            let (still, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = still;
            if timeout.timed_out() {
                drop(state);
                going_on()?;
                state = self.lock();
            }
        }
        Ok(())
    }

    fn close(&self) {
        self.limit.store(0, Ordering::Relaxed);
        let unmerged = self.lock().schedule.close();
        drop(unmerged);
        self.work_ready.notify_all();
    }
}

/// Counts the thread as ended when it is dropped, also after a panic.
struct ThreadGuard<'d>(&'d Shared, usize);

impl Drop for ThreadGuard<'_> {
    fn drop(&mut self) {
        self.0.has_ended(self.1);
        let mut state = self.0.lock();
        state.n_threads -= 1;
        if state.n_threads == 0 && !state.schedule.is_over() {
            let error = Error::bug("no worker is left to process partitions");
            state.schedule.fail(error);
        }
        drop(state);
        self.0.result_ready.notify_one();
    }
}
