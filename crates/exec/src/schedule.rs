//! Who processes which partition, what waits, what is repeated, and when a run ends.
//!
//! A state machine without threads, clocks or I/O: a host says what has happened, and asks what to
//! do. Threads, worker processes and Dask are hosts. The rules, once for all of them:
//!
//! - Partitions are handed out in order, those that have to be repeated before all others.
//! - Results are merged in partition order, so every host gives the same bits.
//! - No partition is handed out further than a *window* ahead of the merge: as many as workers
//!   hold, and as many again that wait, as far as they fit into [`WAITING_BYTES`], but at least one.
//!   So the next one to be merged is always finished or under way, and memory is bounded.
//! - A host may let [`WAITING`] small results wait, however few workers it has. It wakes these when there
//!   is room for half of them: where partitions are short, waking takes longer than they do.
//! - A host may bring a partition in pieces, from its beginning to its end. They are merged in that
//!   order, and the worker that gets the partition next goes on where they end. Bits depend on where
//!   partitions are cut, so this is for results whose bits do not.
//! - A worker without a device takes a partition that was never handed out only if more are left
//!   than workers with a device did while it did its latest one: it would be the last to be done, and
//!   all would wait for it. Nor does it if they could do more meanwhile than the window has room for. The
//!   window is wider by what they do meanwhile, as far as it fits into [`WAITING_BYTES`].
//! - A worker that is busy may [begin to read](Schedule::expect_for) its next partition, if results are so small
//!   that others can go on meanwhile. It gets that one, unless another worker finds nothing else to do before.
//! - The first error in partition order is the run's, whichever came first in time: partitions
//!   before it go on, those after it are not handed out any more.

mod beside;

use beside::Beside;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

/// Results that wait for their turn take no more memory than this, if they are more than one.
pub const WAITING_BYTES: usize = 256 << 20;
/// So many may wait where a host lets them, however few workers it has, if they are small.
pub const WAITING: usize = 32;
/// These take no more memory than this together: more of it does not stay in the cache until the merge.
const SMALL_BYTES: usize = 4 << 20;
/// How often a partition is handed out whose workers die of it.
pub const ATTEMPTS: usize = 3;

/// What to do about the merge.
#[derive(Debug, PartialEq, Eq)]
pub enum Next<R, E> {
    /// Merge this result of that partition, and report it with [`Schedule::merged`].
    Merge(usize, R),
    /// Merge this result of the next piece of that partition, which goes on.
    MergePiece(usize, R),
    /// Wait for news.
    Wait,
    /// End the run with this error, and [`close`](Schedule::close) it. Returned once.
    Failed(E),
    /// All partitions are merged, or the run has ended.
    Complete,
}

/// The partitions of one run; `R` is a result and `E` an error.
#[derive(Debug)]
pub struct Schedule<R, E> {
    workers: usize,
    /// How many partitions each worker holds, the one that it is busy with included.
    at_hand: usize,
    /// How many small results may wait in any case.
    waiting: usize,
    /// The first one that was neither handed out nor is expected.
    next: usize,
    /// Never handed out, and the worker that expects it.
    expected: BTreeMap<usize, usize>,
    /// The first one that was not given to the host to be merged.
    collected: usize,
    /// The first one that is not merged.
    merged: usize,
    n_partitions: usize,
    /// This one and those after it are not processed any more.
    limit: usize,
    /// Handed out before, to be handed out again.
    again: BTreeSet<usize>,
    /// Of these, frames are missing that have not arrived.
    held: BTreeSet<usize>,
    finished: BTreeMap<usize, R>,
    /// Of partitions that are not finished.
    pieces: BTreeMap<usize, Pieces<R>>,
    failed: BTreeMap<usize, E>,
    /// What ends the run at once.
    failure: Option<E>,
    attempts: BTreeMap<usize, usize>,
    /// Workers that died may have died of these, which are not finished.
    suspects: BTreeSet<usize>,
    /// Whether a worker died.
    lost: bool,
    /// Whether it has to be known what each worker is busy with, up to the end.
    careful: bool,
    closed: bool,
    /// Whether the window kept a partition back, since workers were last woken.
    waits: bool,
    largest: Option<usize>,
    seconds: Option<f64>,
    beside: Beside,
}

/// What is there of a partition that comes in pieces.
#[derive(Debug)]
struct Pieces<R> {
    /// Not given to the host to be merged.
    waiting: VecDeque<R>,
    /// Where they end.
    end: usize,
    /// Of all, merged or not.
    bytes: usize,
}

impl<R, E> Schedule<R, E> {
    /// All of `partitions`, for so many workers of which each holds one at a time.
    pub fn new(partitions: Range<usize>, workers: usize) -> Self {
        Schedule {
            workers: workers.max(1),
            at_hand: 1,
            waiting: 1,
            next: partitions.start,
            expected: BTreeMap::new(),
            collected: partitions.start,
            merged: partitions.start,
            n_partitions: partitions.end,
            limit: partitions.end,
            again: BTreeSet::new(),
            held: BTreeSet::new(),
            finished: BTreeMap::new(),
            pieces: BTreeMap::new(),
            failed: BTreeMap::new(),
            failure: None,
            attempts: BTreeMap::new(),
            suspects: BTreeSet::new(),
            lost: false,
            careful: false,
            closed: false,
            waits: false,
            largest: None,
            seconds: None,
            beside: Beside::default(),
        }
    }

    // What hosts ask.

    /// The next partition for a worker; none for now, or ever.
    pub fn take(&mut self) -> Option<usize> {
        self.next_for(None)
    }

    /// The same for the worker of that number, where some [have a device](Schedule::set_devices), or
    /// [expect](Schedule::expect_for) a partition.
    pub fn take_for(&mut self, worker: usize) -> Option<usize> {
        let index = self.next_for(Some(worker))?;
        self.beside.took(worker, index);
        Some(index)
    }

    fn next_for(&mut self, worker: Option<usize>) -> Option<usize> {
        if self.is_ending() {
            return None;
        }
        if let Some(index) = self.again.pop_first() {
            return Some(index);
        }
        if let Some(index) = worker.and_then(|worker| self.expected_by(worker)) {
            self.expected.remove(&index);
            return Some(index);
        }
        if self.all_begun() || worker.is_some_and(|worker| self.is_too_slow(worker)) {
            return None;
        }
        // What others expect is in the window already.
        self.next_new().or_else(|| Some(self.expected.pop_first()?.0))
    }

    /// The first one that was never handed out and that no worker expects, if the window has room for it.
    fn next_new(&mut self) -> Option<usize> {
        if self.next >= self.limit {
            return None;
        }
        if self.room() == 0 {
            self.waits = true;
            return None;
        }
        self.next += 1;
        Some(self.next - 1)
    }

    /// The partition that a worker gets next, which is busy with one now; none if that is not known yet.
    pub fn expect_for(&mut self, worker: usize) -> Option<usize> {
        if self.is_ending() {
            return None;
        }
        if let Some(&index) = self.again.first() {
            return Some(index);
        }
        if let Some(index) = self.expected_by(worker) {
            return Some(index);
        }
        // The window would wait for one that is not begun. As many others fit into it.
        let fits = self.largest.is_some() && self.fit() >= self.in_hand();
        if self.workers > 1 && !fits {
            return None;
        }
        let index = self.next_new()?;
        self.expected.insert(index, worker);
        Some(index)
    }

    fn expected_by(&self, worker: usize) -> Option<usize> {
        self.expected.iter().find(|&(_, &by)| by == worker).map(|(&index, _)| index)
    }

    /// Up to `n` partitions for a worker.
    pub fn take_some(&mut self, n: usize) -> Vec<usize> {
        std::iter::from_fn(|| self.take()).take(n).collect()
    }

    /// The same for the worker of that number.
    pub fn take_some_for(&mut self, worker: usize, n: usize) -> Vec<usize> {
        std::iter::from_fn(|| self.take_for(worker)).take(n).collect()
    }

    /// What to do about the merge.
    pub fn next_step(&mut self) -> Next<R, E> {
        if self.closed {
            return Next::Complete;
        }
        if let Some(failure) = self.failure.take() {
            self.closed = true;
            return Next::Failed(failure);
        }
        if let Some(pieces) = self.pieces.get_mut(&self.collected)
            && let Some(result) = pieces.waiting.pop_front()
        {
            return Next::MergePiece(self.collected, result);
        }
        if let Some(result) = self.finished.remove(&self.collected) {
            self.pieces.remove(&self.collected);
            self.collected += 1;
            return Next::Merge(self.collected - 1, result);
        }
        if let Some(error) = self.failed.remove(&self.collected) {
            self.closed = true;
            return Next::Failed(error);
        }
        if self.collected < self.n_partitions { Next::Wait } else { Next::Complete }
    }

    /// The next partition to be merged, if it is whole and there is nothing else to do: one that is merged at once
    /// with those before it.
    pub fn next_ready(&mut self) -> Option<(usize, R)> {
        let in_pieces = self.pieces.contains_key(&self.collected);
        if self.is_ending() || in_pieces {
            return None;
        }
        let result = self.finished.remove(&self.collected)?;
        self.collected += 1;
        Some((self.collected - 1, result))
    }

    /// Whether the window has room for another partition.
    pub fn has_room(&self) -> bool {
        self.room() > 0
    }

    /// Whether there is something to merge, or the run has come to an end.
    pub fn is_news(&self) -> bool {
        let index = self.collected;
        let piece = || self.pieces.get(&index).is_some_and(|pieces| !pieces.waiting.is_empty());
        let result = || self.finished.contains_key(&index) || self.failed.contains_key(&index);
        let ended = self.is_ending() || index >= self.n_partitions;
        ended || result() || piece()
    }

    /// Whether no worker is needed any more: everything is finished, or the run has ended.
    pub fn is_over(&self) -> bool {
        let all = self.all_begun() && self.again.is_empty() && self.held.is_empty();
        self.is_ending() || all
    }

    /// Whether the result of partition `index` is still of use: it has neither come nor failed.
    pub fn is_open(&self, index: usize) -> bool {
        let settled = self.finished.contains_key(&index) || self.failed.contains_key(&index);
        index >= self.collected && index < self.limit && !settled && !self.closed
    }

    /// Where the pieces of a partition end that are there: who gets it goes on from that frame.
    pub fn done_of(&self, index: usize) -> Option<usize> {
        self.pieces.get(&index).map(|pieces| pieces.end)
    }

    /// Whether a result may be brought to where it is merged, if hosts can leave it elsewhere.
    pub fn may_bring(&self, index: usize) -> bool {
        // As long as no size is known, only the next one.
        let known = |largest| (index - self.merged).saturating_mul(largest) <= WAITING_BYTES;
        index <= self.merged || self.largest.is_some_and(known)
    }

    /// The number of partitions that were never handed out.
    pub fn n_left(&self) -> usize {
        self.n_partitions.saturating_sub(self.next) + self.expected.len()
    }

    /// The number of partitions that no worker has.
    pub fn n_open(&self) -> usize {
        self.n_left() + self.again.len() + self.held.len()
    }

    /// The number of partitions that are handed out and not given out to be merged.
    pub fn n_in_progress(&self) -> usize {
        self.next.saturating_sub(self.collected + self.expected.len())
    }

    /// The first partition that is not merged.
    pub fn n_merged(&self) -> usize {
        self.merged
    }

    /// The size of the largest result so far, in bytes.
    pub fn largest(&self) -> usize {
        self.largest.unwrap_or(1).max(1)
    }

    /// How long a partition takes, as a moving average, once that is known.
    pub fn seconds(&self) -> Option<f64> {
        self.seconds
    }

    /// Whether each worker should have one partition at a time: until those are finished that a
    /// worker may have died of; once another one died after that, up to the end.
    pub fn is_careful(&self) -> bool {
        self.careful || !self.suspects.is_empty()
    }

    // What hosts report.

    /// So many workers take part now, of which each holds so many partitions.
    pub fn set_workers(&mut self, workers: usize, at_hand: usize) {
        (self.workers, self.at_hand) = (workers.max(1), at_hand.max(1));
    }

    /// The numbers of the workers with a device that take part now. Returns whether any is gone: then
    /// others may take what they would have left to it, and are to be woken.
    pub fn set_devices(&mut self, workers: impl IntoIterator<Item = usize>) -> bool {
        self.beside.set_devices(workers.into_iter().collect())
    }

    /// So many small results may wait in any case: few where partitions should not be handed out long
    /// before they are merged.
    pub fn set_waiting(&mut self, n: usize) {
        self.waiting = n.max(1);
    }

    /// The result of a partition, or of what was left of it after its pieces, its size, and how long
    /// it took. The result comes back if it is of no use.
    pub fn finished(&mut self, index: usize, result: R, bytes: usize, seconds: f64) -> Option<R> {
        let bytes = bytes.saturating_add(self.pieces.get(&index).map_or(0, |pieces| pieces.bytes));
        self.largest = self.largest.max(Some(bytes));
        self.beside.finished(index, seconds);
        self.suspects.remove(&index);
        self.seconds = Some(self.seconds.map_or(seconds, |known| 0.7 * known + 0.3 * seconds));
        if !self.is_open(index) {
            return Some(result);
        }
        self.again.remove(&index);
        self.held.remove(&index);
        self.finished.insert(index, result)
    }

    /// The result of the next piece of a partition, up to frame `end`, and its size. The worker still
    /// has the partition. The result comes back if it is of no use.
    pub fn finished_piece(
        &mut self,
        index: usize,
        end: usize,
        result: R,
        bytes: usize,
    ) -> Option<R> {
        if !self.is_open(index) {
            return Some(result);
        }
        let none = || Pieces { waiting: VecDeque::new(), end, bytes: 0 };
        let pieces = self.pieces.entry(index).or_insert_with(none);
        pieces.end = end;
        pieces.bytes = pieces.bytes.saturating_add(bytes);
        pieces.waiting.push_back(result);
        self.largest = self.largest.max(Some(pieces.bytes));
        None
    }

    /// A partition failed. The error comes back if it is of no use.
    pub fn failed(&mut self, index: usize, error: E) -> Option<E> {
        self.beside.left(index);
        if !self.is_open(index) {
            return Some(error);
        }
        self.limit = self.limit.min(index + 1);
        self.again = self.again.iter().copied().filter(|&i| i < index).collect();
        self.held = self.held.iter().copied().filter(|&i| i < index).collect();
        self.expected.retain(|&i, _| i < index);
        self.failed.insert(index, error)
    }

    /// A partition was stopped, as the run is to end: that is what becomes of it, unless something
    /// else has gone wrong. One that is not needed, as one before it failed, ends nothing.
    pub fn stopped(&mut self, index: usize, error: E) -> Option<E> {
        if index < self.limit
            && let Some((_, first)) = self.failed.pop_first()
        {
            self.fail(first);
            return Some(error);
        }
        self.failed(index, error)
    }

    /// Something went wrong with the run: it ends with the next question. The first time counts.
    pub fn fail(&mut self, error: E) -> Option<E> {
        if self.is_ending() {
            return Some(error);
        }
        self.failure = Some(error);
        None
    }

    /// The worker of a partition died; `blamed` if it is known that it was busy with that one.
    /// Returns on how many workers it was certainly tried: after [`ATTEMPTS`], it is not repeated,
    /// and the host reports it as failed.
    pub fn lost(&mut self, index: usize, blamed: bool) -> usize {
        // All that are lost with those under suspicion are under it, too.
        self.careful |= self.lost && self.suspects.is_empty();
        self.lost = true;
        self.suspects.insert(index);
        let attempts = self.attempts.entry(index).or_default();
        *attempts += usize::from(blamed);
        let attempts = *attempts;
        if attempts < ATTEMPTS {
            self.put_back(index);
        }
        attempts
    }

    /// A partition that was handed out was not started.
    pub fn put_back(&mut self, index: usize) {
        self.beside.left(index);
        if self.is_open(index) {
            self.again.insert(index);
        }
    }

    /// Frames of a partition that was handed out have not arrived: it is kept until [`arrived`].
    /// A partition whose frames never come is [`finished`] without them.
    ///
    /// [`arrived`]: Schedule::arrived
    /// [`finished`]: Schedule::finished
    pub fn not_yet(&mut self, index: usize) {
        self.beside.left(index);
        if self.is_open(index) {
            self.held.insert(index);
        }
    }

    /// Frames have arrived: what waits for them can be handed out again.
    pub fn arrived(&mut self) {
        self.again.append(&mut self.held);
    }

    /// All partitions before `count` are merged. Returns whether workers wait for that, and are to be
    /// woken: there is room for some partitions.
    pub fn merged(&mut self, count: usize) -> bool {
        self.merged = count.min(self.n_partitions).max(self.merged);
        self.collected = self.collected.max(self.merged);
        let left = self.limit.saturating_sub(self.next);
        let enough = self.waiting.min(self.may_wait()) / 2;
        let wake = self.waits && self.room() >= enough.min(left);
        self.waits &= !wake;
        wake
    }

    /// It has to be known what each worker is busy with, as if one had died.
    pub fn set_careful(&mut self) {
        self.careful = true;
    }

    /// Ends the run: nothing is handed out or kept any more. Returns what was kept, for the host to
    /// drop where that may run code of users.
    pub fn close(&mut self) -> (Vec<R>, Vec<E>) {
        self.closed = true;
        self.again.clear();
        self.held.clear();
        let pieces = std::mem::take(&mut self.pieces).into_values().flat_map(|p| p.waiting);
        let results = pieces.chain(std::mem::take(&mut self.finished).into_values()).collect();
        let errors = std::mem::take(&mut self.failed).into_values();
        (results, errors.chain(self.failure.take()).collect())
    }

    /// All results and errors that are kept.
    pub fn kept(&self) -> (impl Iterator<Item = &R>, impl Iterator<Item = &E>) {
        let pieces = self.pieces.values().flat_map(|pieces| &pieces.waiting);
        (pieces.chain(self.finished.values()), self.failed.values().chain(&self.failure))
    }

    /// Whether the run has ended.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether every partition that the run needs was handed out at least once.
    fn all_begun(&self) -> bool {
        self.next >= self.limit && self.expected.is_empty()
    }

    /// Whether the run has ended, or will with the next question about the merge.
    pub fn is_ending(&self) -> bool {
        self.closed || self.failure.is_some()
    }

    /// How many partitions may be handed out and not merged.
    fn window(&self) -> usize {
        self.in_hand().saturating_add(self.may_wait())
    }

    /// How many of them workers hold, or have held just now.
    fn in_hand(&self) -> usize {
        self.workers.saturating_mul(self.at_hand)
    }

    /// How many of them may be finished.
    fn may_wait(&self) -> usize {
        let small = (SMALL_BYTES / self.largest()).min(self.waiting);
        let wanted = self.in_hand().saturating_add(self.beside.longest());
        self.fit().clamp(1, wanted).max(small)
    }

    /// How many of them fit into memory.
    fn fit(&self) -> usize {
        WAITING_BYTES / self.largest()
    }

    /// Whether others, which have a device, are done sooner without this worker.
    fn is_too_slow(&self, worker: usize) -> bool {
        // As long as it is at work, no more than a window are handed out.
        let most = self.in_hand().saturating_add(self.fit().max(1));
        self.beside.meanwhile(worker) >= self.n_left() || self.beside.could_do_more(worker, most)
    }

    /// How many more may be handed out now.
    fn room(&self) -> usize {
        self.merged.saturating_add(self.window()).saturating_sub(self.next)
    }
}
