//! Runs of [`Schedule`] with random events, and no threads.

use framefold_exec::{Next, Schedule, WAITING};
use framefold_testkit::Random;
use std::collections::BTreeMap;
use std::ops::Range;

/// A partition, and which of its frames.
type Done = (usize, Range<usize>);

/// So many frames partition `index` has.
fn n_frames(index: usize) -> usize {
    1 + index % 5
}

/// What a host knows, and what the rules say about it.
struct Host {
    schedule: Schedule<Done, usize>,
    random: Random,
    n_partitions: usize,
    /// The partitions that workers have; one may be on several.
    taken: Vec<usize>,
    /// The next partition that is to be merged.
    merged: usize,
    /// How many of its frames are.
    merged_frames: usize,
    /// Given to the host and not merged.
    merging: Option<usize>,
    /// How many pieces were delivered, and how many merged or given back.
    pieces: (usize, usize),
    failures: BTreeMap<usize, usize>,
    /// How often a worker died of it.
    blamed: BTreeMap<usize, usize>,
    /// The error that the run must end with at once.
    fatal: Option<usize>,
    held: Vec<usize>,
    n_failing: usize,
    /// How many partitions workers hold at most, how many results may wait, and the largest so far.
    in_hand: usize,
    waiting: usize,
    largest: usize,
    /// The size of large results, as a power of two.
    most_bytes: usize,
    /// The bytes of pieces of partitions that are not finished.
    sizes: BTreeMap<usize, usize>,
    /// The first partition that no worker ever had or expected.
    next: usize,
    /// Those that a worker expects; how many it got, and how many another one did.
    expected: BTreeMap<usize, usize>,
    n_expected: (usize, usize),
    /// Whether all workers asked for a partition, got none, and sleep until they are woken.
    asleep: bool,
}

/// How a run ended.
#[derive(Debug, PartialEq)]
enum End {
    Complete,
    Failed(usize),
}

impl Host {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let n_partitions = random.below(80);
        let workers = 1 + random.below(6);
        let mut schedule = Schedule::new(0..n_partitions, workers);
        let waiting = 1 + random.below(2) * (WAITING - 1);
        schedule.set_waiting(waiting);
        Host {
            schedule,
            n_partitions,
            taken: Vec::new(),
            merged: 0,
            merged_frames: 0,
            merging: None,
            pieces: (0, 0),
            failures: BTreeMap::new(),
            blamed: BTreeMap::new(),
            fatal: None,
            held: Vec::new(),
            // Most runs have nothing that goes wrong.
            n_failing: random.below(12).saturating_sub(8),
            in_hand: workers,
            waiting,
            largest: 1,
            most_bytes: random.below(30),
            sizes: BTreeMap::new(),
            next: 0,
            expected: BTreeMap::new(),
            n_expected: (0, 0),
            asleep: false,
            random,
        }
    }

    /// One event, whatever comes first.
    fn event(&mut self) -> Option<End> {
        match self.random.below(13) {
            12 => self.expect(),
            0..4 => self.take(),
            4..7 => self.finish(),
            7 => self.go_wrong(),
            8 => self.arrival(),
            _ => return self.merge(),
        }
        None
    }

    fn take(&mut self) {
        let n = 1 + self.random.below(2);
        let worker = self.random.below(7);
        // Some hosts do not number their workers.
        let taken = match worker {
            6 => self.schedule.take_some(n),
            _ => self.schedule.take_some_for(worker, n),
        };
        self.asleep = self.taken.is_empty() && taken.is_empty();
        for index in taken {
            assert!(index < self.n_partitions);
            assert!(!self.taken.contains(&index), "partition {index} is with two workers");
            // As many as workers hold, and as many again if they fit, or as the host lets wait.
            let small = ((4 << 20) / self.largest).min(self.waiting);
            let fit = ((256 << 20) / self.largest).clamp(1, self.in_hand).max(small);
            let is_new = index >= self.next;
            let ahead = self.merged + self.in_hand + fit;
            assert!(!is_new || index < ahead, "{index} is beyond the window, {ahead}");
            self.next = self.next.max(index + 1);
            if let Some(by) = self.expected.remove(&index) {
                self.n_expected.0 += usize::from(by == worker);
                self.n_expected.1 += usize::from(by != worker);
            }
            let first = self.failures.first_key_value().map_or(usize::MAX, |(&first, _)| first);
            assert!(index <= first, "partition {index} comes after one that failed");
            self.taken.push(index);
        }
    }

    /// A worker that is at work begins to read the partition that comes next.
    fn expect(&mut self) {
        if self.taken.is_empty() {
            return;
        }
        let worker = self.random.below(6);
        let Some(index) = self.schedule.expect_for(worker) else { return };
        let first = self.failures.first_key_value().map_or(usize::MAX, |(&first, _)| first);
        assert!(index <= first, "partition {index} comes after one that failed");
        assert!(!self.taken.contains(&index), "partition {index} is with a worker");
        if index >= self.next {
            let small = ((4 << 20) / self.largest).min(self.waiting);
            let fit = ((256 << 20) / self.largest).clamp(1, self.in_hand).max(small);
            assert!(index < self.merged + self.in_hand + fit, "{index} is beyond the window");
            self.next = index + 1;
            self.expected.insert(index, worker);
        }
    }

    /// A worker is done with a partition, or has not begun it.
    fn finish(&mut self) {
        if self.taken.is_empty() {
            return;
        }
        self.asleep = false;
        let at = self.random.below(self.taken.len());
        let index = self.taken.swap_remove(at);
        match self.random.below(10) {
            0 => self.schedule.put_back(index),
            1 => {
                self.schedule.not_yet(index);
                if self.schedule.is_open(index) {
                    self.held.push(index);
                }
            }
            2..5 => self.finish_piece(index),
            _ => {
                // From small ones to some that are too large for another one beside them.
                let bytes = 1 << self.random.below(1 + self.most_bytes);
                let seconds = self.random.unit();
                let of_use = self.schedule.is_open(index);
                let from = self.schedule.done_of(index).unwrap_or(0);
                let rest = (index, from..n_frames(index));
                let of_pieces = self.sizes.get(&index).filter(|_| of_use).copied();
                self.largest = self.largest.max(bytes + of_pieces.unwrap_or(0));
                let back = self.schedule.finished(index, rest.clone(), bytes, seconds);
                assert_eq!(back.is_none(), of_use);
                let again = self.schedule.finished(index, rest.clone(), 1, 1.0);
                assert_eq!(again, Some(rest), "twice");
            }
        }
    }

    /// A worker is done with the next frames of a partition, if there are others after these. Then it
    /// goes on, or another worker does, or it dies.
    fn finish_piece(&mut self, index: usize) {
        let from = self.schedule.done_of(index).unwrap_or(0);
        let left = n_frames(index) - from;
        assert!(left > 0, "all of partition {index} was done in pieces");
        if left > 1 {
            let end = from + 1 + self.random.below(left - 1);
            let of_use = self.schedule.is_open(index);
            let bytes = 1 << self.random.below(1 + self.most_bytes);
            let back = self.schedule.finished_piece(index, end, (index, from..end), bytes);
            assert_eq!(back.is_none(), of_use);
            self.pieces.0 += usize::from(of_use);
            if of_use {
                let size = self.sizes.entry(index).or_default();
                *size += bytes;
                self.largest = self.largest.max(*size);
            }
        }
        match self.random.below(4) {
            0 => self.schedule.put_back(index),
            1 if self.schedule.is_open(index) => {
                self.schedule.not_yet(index);
                self.held.push(index);
            }
            _ => self.taken.push(index),
        }
    }

    fn go_wrong(&mut self) {
        if self.taken.is_empty() || self.n_failing == 0 {
            return;
        }
        self.asleep = false;
        let at = self.random.below(self.taken.len());
        let index = self.taken.swap_remove(at);
        // Workers stop what is not needed any more, as one before it failed.
        if self.failures.range(..index).next().is_some() && self.random.below(2) == 0 {
            self.schedule.stopped(index, index);
            return;
        }
        match self.random.below(4) {
            0 => {
                self.n_failing -= 1;
                if self.schedule.is_open(index) {
                    self.failures.insert(index, index);
                }
                self.schedule.failed(index, index);
            }
            1 if self.random.below(4) == 0 => {
                self.n_failing -= 1;
                if self.schedule.fail(1000).is_none() {
                    self.fatal = Some(1000);
                }
                self.schedule.put_back(index);
            }
            _ => {
                let blamed = self.random.below(2) == 0;
                let attempts = self.schedule.lost(index, blamed);
                let known = self.blamed.entry(index).or_default();
                *known += usize::from(blamed);
                assert_eq!(attempts, *known);
                if attempts == 3 {
                    if self.schedule.is_open(index) {
                        self.failures.insert(index, index);
                    }
                    self.schedule.failed(index, index);
                }
            }
        }
    }

    fn arrival(&mut self) {
        self.schedule.arrived();
        self.held.clear();
        let (workers, at_hand) = (1 + self.random.below(6), 1 + self.random.below(3));
        self.schedule.set_workers(workers, at_hand);
        self.in_hand = workers * at_hand;
        self.asleep = false;
    }

    /// Some hosts merge those that are ready together, and say so after the last of them.
    fn merge_ready(&mut self, mut index: usize) {
        while self.random.below(2) == 0
            && let Some((next, (of, frames))) = self.schedule.next_ready()
        {
            assert_eq!((index, self.merged_frames), (self.merged, n_frames(index)), "not whole");
            assert_eq!((next, of, frames.start), (index + 1, index + 1, 0), "another result");
            self.merged += 1;
            self.merged_frames = frames.end;
            self.merging = Some(next);
            index = next;
        }
    }

    fn merge(&mut self) -> Option<End> {
        if let Some(index) = self.merging.take() {
            assert_eq!(index, self.merged, "merged out of order");
            assert_eq!(self.merged_frames, n_frames(index), "frames are missing");
            self.merged_frames = 0;
            self.merged += 1;
            self.asleep &= !self.schedule.merged(self.merged);
            return None;
        }
        match self.schedule.next_step() {
            Next::Merge(index, (of, frames)) => {
                assert_eq!((index, self.merged_frames), (of, frames.start), "another result");
                self.merged_frames = frames.end;
                self.merging = Some(index);
                self.merge_ready(index);
                None
            }
            Next::MergePiece(index, (of, frames)) => {
                assert_eq!(index, self.merged, "a piece was merged out of order");
                assert_eq!((index, self.merged_frames), (of, frames.start), "another piece");
                self.merged_frames = frames.end;
                self.pieces.1 += 1;
                None
            }
            Next::Failed(error) => {
                let first = self.failures.first_key_value().map(|(_, &error)| error);
                assert_eq!(Some(error), self.fatal.or(first), "not the first error");
                if self.fatal.is_none() {
                    assert_eq!(error, self.merged, "partitions before the error are missing");
                }
                let whole = |(index, frames): &Done| frames.end == n_frames(*index);
                let (kept, _) = self.schedule.close();
                self.pieces.1 += kept.iter().filter(|done| !whole(done)).count();
                assert_eq!(self.pieces.0, self.pieces.1, "pieces were lost");
                assert!(self.schedule.take().is_none() && self.schedule.is_over());
                Some(End::Failed(error))
            }
            Next::Complete => {
                assert_eq!(self.merged, self.n_partitions);
                assert_eq!(self.pieces.0, self.pieces.1, "pieces were lost");
                assert!(self.failures.is_empty() && self.fatal.is_none());
                Some(End::Complete)
            }
            Next::Wait => {
                self.check_hope();
                None
            }
        }
    }

    /// What everything waits for is with a worker, or can be handed out, or has not arrived.
    fn check_hope(&mut self) {
        let wanted = self.merged;
        if self.taken.contains(&wanted) || self.held.contains(&wanted) {
            return;
        }
        assert!(!self.asleep || !self.taken.is_empty(), "all workers sleep, and none is woken");
        // Who expects it may be gone: others get it when there is nothing else.
        while self.expected.contains_key(&wanted) {
            let given = self.schedule.take().expect("nothing can be handed out");
            self.next = self.next.max(given + 1);
            self.expected.remove(&given);
            self.taken.push(given);
        }
        if !self.taken.contains(&wanted) {
            let given = self.schedule.take();
            assert_eq!(given, Some(wanted), "nothing is under way, and nothing can be handed out");
            self.taken.extend(given);
        }
    }
}

#[test]
fn random_events_lead_to_an_end_and_keep_the_rules() {
    let (mut n_events, mut n_complete, mut n_failed) = (0, 0, 0);
    let (mut n_as_expected, mut n_elsewhere) = (0, 0);
    for seed in 0.. {
        let mut host = Host::new(seed);
        let mut end = None;
        for _ in 0..20_000 {
            n_events += 1;
            end = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| host.event()))
                .unwrap_or_else(|_| panic!("broke a rule with seed {seed}"));
            if end.is_some() {
                break;
            }
        }
        match end.unwrap_or_else(|| panic!("does not end with seed {seed}")) {
            End::Complete => n_complete += 1,
            End::Failed(_) => n_failed += 1,
        }
        n_as_expected += host.n_expected.0;
        n_elsewhere += host.n_expected.1;
        if n_events > 1_000_000 {
            break;
        }
    }
    assert!(n_complete > 1000 && n_failed > 100, "{n_complete} complete, {n_failed} failed");
    assert!(n_as_expected > 1000 && n_elsewhere > 1000, "{n_as_expected}, {n_elsewhere} elsewhere");
}

#[test]
fn what_was_stopped_does_not_hide_what_went_wrong() {
    let mut schedule = Schedule::<(), &str>::new(0..4, 4);
    assert_eq!(schedule.take_some(4), [0, 1, 2, 3]);
    schedule.failed(2, "wrong");
    assert_eq!(schedule.next_step(), Next::Wait);
    // The run is stopped then, and those before it do not come to an end.
    schedule.stopped(0, "stopped");
    assert_eq!(schedule.next_step(), Next::Failed("wrong"));
    let mut schedule = Schedule::<(), &str>::new(0..4, 4);
    schedule.stopped(0, "stopped");
    assert_eq!(schedule.next_step(), Next::Failed("stopped"));
}

#[test]
fn what_is_stopped_as_another_failed_does_not_end_those_before_it() {
    let mut schedule = Schedule::<usize, &str>::new(0..4, 4);
    assert_eq!(schedule.take_some(4), [0, 1, 2, 3]);
    schedule.failed(1, "wrong");
    assert_eq!(schedule.stopped(2, "stopped"), Some("stopped"));
    assert_eq!(schedule.next_step(), Next::Wait);
    schedule.finished(0, 0, 1, 1.0);
    assert_eq!(schedule.next_step(), Next::Merge(0, 0));
    assert_eq!(schedule.next_step(), Next::Failed("wrong"));
}

#[test]
fn large_results_wait_in_small_numbers() {
    let mut schedule = Schedule::<(), ()>::new(0..1000, 2);
    let first = schedule.take().unwrap();
    assert!(!schedule.may_bring(first + 1), "no size is known");
    schedule.finished(first, (), 200 << 20, 1.0);
    assert!(schedule.may_bring(1) && !schedule.may_bring(2));
    assert_eq!(schedule.take_some(1000), [1, 2], "two are in hand, and one may wait");
    assert_eq!(schedule.next_step(), Next::Merge(0, ()));
    assert!(schedule.merged(1), "workers wait for that");
    assert_eq!(schedule.take_some(1000), [3]);
    assert_eq!((schedule.n_left(), schedule.n_in_progress()), (996, 3));
}

#[test]
fn the_time_of_a_partition_is_a_moving_average() {
    let mut schedule = Schedule::<(), ()>::new(0..3, 1);
    assert_eq!(schedule.seconds(), None);
    for (index, (seconds, average)) in [(4.0, 4.0), (2.0, 3.4), (0.0, 2.38)].into_iter().enumerate()
    {
        schedule.finished(index, (), 1, seconds);
        assert!((schedule.seconds().unwrap() - average).abs() < 1e-12, "{:?}", schedule.seconds());
    }
}

#[test]
fn as_many_wait_as_a_host_lets_and_workers_are_woken_for_half_of_them() {
    let mut schedule = Schedule::<(), ()>::new(0..1000, 2);
    schedule.set_waiting(WAITING);
    let merge_until_woken = |schedule: &mut Schedule<(), ()>| {
        assert!(!schedule.has_room() && schedule.take().is_none());
        (schedule.n_merged() + 1..).find(|&count| {
            assert!(schedule.is_news());
            assert_eq!(schedule.next_step(), Next::Merge(count - 1, ()));
            schedule.merged(count)
        })
    };
    assert_eq!(schedule.take_some(1000).len(), 2 + WAITING, "no size is known");
    assert!(!schedule.is_news());
    for index in 0..2 + WAITING {
        schedule.finished(index, (), 1000, 1.0);
    }
    assert_eq!(merge_until_woken(&mut schedule), Some(WAITING / 2));
    assert_eq!(schedule.take_some(1000).len(), WAITING / 2);
    // Four of these are small together: they may be 6 ahead, and 50 are handed out.
    for index in 2 + WAITING..50 {
        schedule.finished(index, (), 1 << 20, 1.0);
    }
    assert_eq!(merge_until_woken(&mut schedule), Some(50 - 6 + 2));
    assert_eq!(schedule.take_some(2), [50, 51]);
    // Where few are to wait, workers are woken for each.
    schedule.set_waiting(1);
    schedule.finished(50, (), 1, 1.0);
    for count in 47..=48 {
        assert_eq!(schedule.next_step(), Next::Merge(count - 1, ()));
        assert!(!schedule.merged(count), "no worker waits");
    }
    assert_eq!((schedule.take(), schedule.next_step()), (None, Next::Merge(48, ())));
    assert!(schedule.merged(49));
}

#[test]
fn pieces_are_merged_as_soon_as_it_is_their_turn() {
    let mut schedule = Schedule::<&str, &str>::new(0..2, 2);
    assert_eq!(schedule.take_some(2), [0, 1]);
    schedule.finished_piece(1, 3, "first of 1", 10);
    assert_eq!(schedule.next_step(), Next::Wait, "0 is not there");
    schedule.finished_piece(0, 2, "first of 0", 100 << 20);
    assert_eq!(schedule.next_step(), Next::MergePiece(0, "first of 0"));
    assert_eq!((schedule.next_step(), schedule.n_in_progress()), (Next::Wait, 2));
    // The worker that gets it goes on from there, whatever becomes of the lost one.
    assert_eq!((schedule.lost(0, true), schedule.take()), (1, Some(0)));
    assert_eq!((schedule.done_of(0), schedule.done_of(1)), (Some(2), Some(3)));
    schedule.finished(0, "rest of 0", 100 << 20, 1.0);
    assert_eq!(schedule.largest(), 200 << 20, "a partition is as large as its pieces");
    assert_eq!(schedule.next_step(), Next::Merge(0, "rest of 0"));
    assert_eq!((schedule.done_of(0), schedule.merged(1)), (None, false));
    schedule.failed(1, "wrong");
    assert_eq!(schedule.next_step(), Next::MergePiece(1, "first of 1"), "it came before the error");
    assert_eq!(schedule.next_step(), Next::Failed("wrong"));
}

#[test]
fn workers_get_one_at_a_time_until_those_are_done_that_one_may_have_died_of() {
    let mut schedule = Schedule::<(), ()>::new(0..9, 9);
    assert_eq!(schedule.take_some(6).len(), 6);
    assert_eq!((schedule.lost(1, false), schedule.lost(2, false)), (0, 0));
    schedule.finished(0, (), 1, 1.0);
    schedule.finished(2, (), 1, 1.0);
    assert!(schedule.is_careful());
    assert_eq!(schedule.lost(3, false), 0, "another one died meanwhile");
    schedule.finished(1, (), 1, 1.0);
    assert!(schedule.is_careful());
    schedule.finished(3, (), 1, 1.0);
    assert!(!schedule.is_careful());
    assert_eq!(schedule.lost(4, false), 0);
    schedule.finished(4, (), 1, 1.0);
    assert!(schedule.is_careful(), "they die now and then");
}

#[test]
fn what_has_not_arrived_is_kept_back() {
    let mut schedule = Schedule::<(), ()>::new(0..3, 2);
    assert_eq!(schedule.take_some(2), [0, 1]);
    schedule.not_yet(1);
    schedule.not_yet(0);
    assert_eq!(schedule.take(), Some(2));
    schedule.finished(2, (), 1, 1.0);
    assert_eq!((schedule.take(), schedule.next_step()), (None, Next::Wait));
    assert!(!schedule.is_over());
    schedule.arrived();
    assert_eq!(schedule.take_some(3), [0, 1]);
}

#[test]
fn what_was_held_back_and_is_finished_is_not_handed_out() {
    let mut schedule = Schedule::<(), ()>::new(0..2, 1);
    assert_eq!(schedule.take(), Some(0));
    schedule.not_yet(0);
    schedule.finished(0, (), 1, 1.0);
    schedule.arrived();
    assert_eq!(schedule.take(), Some(1));
    assert!(schedule.is_over());
}

#[test]
fn a_host_cannot_have_merged_more_than_there_is_or_less_than_before() {
    let mut schedule = Schedule::<(), ()>::new(0..5, 1);
    assert_eq!((schedule.take_for(0), schedule.expect_for(0)), (Some(0), Some(1)));
    schedule.merged(3);
    schedule.merged(1);
    assert_eq!(schedule.n_merged(), 3);
    schedule.merged(usize::MAX);
    assert_eq!((schedule.n_merged(), schedule.n_in_progress()), (5, 0));
    assert_eq!(schedule.next_step(), Next::Complete);
}
