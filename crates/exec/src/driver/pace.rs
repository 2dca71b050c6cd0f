//! How many threads work at the same time, where they may hinder each other.
//!
//! Calls into an interpreter take turns. Where each is short, handing the turn over costs more than
//! the call, and two threads are slower than one. It cannot be known before, so it is measured once,
//! at the beginning of a run of short partitions: some with all threads, then some with one.

use std::time::{Duration, Instant};

/// Partitions are counted for at least this long.
const WINDOW: Duration = Duration::from_millis(20);
/// One thread has to be that much faster before the others rest.
const CLEARLY: f64 = 1.15;
/// While one thread is tried out, the others rest; with partitions longer than this, too long.
const SHORT: Duration = Duration::from_millis(50);

/// Decides how many partitions may be processed at the same time.
pub(super) struct Pace {
    threads: usize,
    phase: Phase,
    /// The beginning of what is being counted, and what was counted.
    since: Option<Instant>,
    partitions: usize,
    frames: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// All threads work, and are counted.
    All,
    /// No new partition is begun until all are finished. Frames per second with all threads.
    Draining(f64),
    /// One thread works, and is counted.
    One(f64),
    Decided(usize),
}

impl Pace {
    /// All threads, always.
    pub(super) fn steady(threads: usize) -> Self {
        Pace { threads, phase: Phase::Decided(threads), since: None, partitions: 0, frames: 0 }
    }

    /// As many of `threads` as are good for something.
    pub(super) fn measured(threads: usize) -> Self {
        let phase = if threads > 1 { Phase::All } else { Phase::Decided(threads) };
        Pace { phase, ..Pace::steady(threads) }
    }

    /// How many partitions may be processed at the same time now.
    pub(super) fn at_once(&self) -> usize {
        match self.phase {
            Phase::All => self.threads,
            Phase::Draining(_) | Phase::One(_) => 1,
            Phase::Decided(threads) => threads,
        }
    }

    /// A partition of that many frames was finished, when `running` others were not; `left` have
    /// not begun.
    pub(super) fn finished(&mut self, frames: usize, running: usize, left: usize, now: Instant) {
        let Some((rate, each)) = self.count(frames, now) else { return };
        self.phase = match self.phase {
            Phase::All if self.partitions < 2 * self.threads => return,
            // Few are left, or each takes long: whatever would be found out came too late.
            Phase::All if left < 4 * self.threads || each * self.busy() > SHORT => {
                Phase::Decided(self.threads)
            }
            Phase::All => Phase::Draining(rate),
            Phase::Draining(all) if running == 0 => Phase::One(all),
            Phase::Draining(_) => return,
            Phase::One(_) if self.partitions < 2 => return,
            Phase::One(all) if rate > CLEARLY * all => Phase::Decided(1),
            Phase::One(_) => Phase::Decided(self.threads),
            Phase::Decided(_) => return,
        };
        self.since = Some(now);
        (self.partitions, self.frames) = (0, 0);
    }

    /// Counts a partition. Frames per second and the time between two partitions, as soon as the
    /// window is over; always, where nothing is measured.
    fn count(&mut self, frames: usize, now: Instant) -> Option<(f64, Duration)> {
        let Some(since) = self.since else {
            // What came before the first partition is the beginning of the run.
            self.since = Some(now);
            return None;
        };
        self.partitions += 1;
        self.frames += frames;
        let elapsed = now.saturating_duration_since(since);
        let over = elapsed >= WINDOW || matches!(self.phase, Phase::Draining(_));
        let partitions = u32::try_from(self.partitions).unwrap_or(u32::MAX);
        over.then(|| (self.frames as f64 / elapsed.as_secs_f64().max(1e-9), elapsed / partitions))
    }

    fn busy(&self) -> u32 {
        u32::try_from(self.threads).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `n` partitions on up to `threads` threads, of which each takes `all` or, alone, `one`.
    /// Returns how many were allowed at once at the end, and the least that ever were.
    fn simulate(threads: usize, n: usize, all: Duration, one: Duration) -> (usize, usize) {
        let mut pace = Pace::measured(threads);
        let mut now = Instant::now();
        let (mut running, mut left, mut least) = (Vec::<Instant>::new(), n, threads);
        while left > 0 || !running.is_empty() {
            while left > 0 && running.len() < pace.at_once() {
                let alone = pace.at_once() == 1;
                running.push(now + if alone { one } else { all });
                left -= 1;
            }
            running.sort();
            now = running.remove(0);
            pace.finished(100, running.len(), left, now);
            least = least.min(pace.at_once());
        }
        (pace.at_once(), least)
    }

    #[test]
    fn threads_that_hinder_each_other_rest() {
        let (all, one) = (Duration::from_millis(8), Duration::from_millis(2));
        assert_eq!(simulate(2, 256, all, one), (1, 1));
        assert_eq!(simulate(4, 256, 2 * all, one), (1, 1));
    }

    #[test]
    fn threads_that_help_go_on() {
        let ms = Duration::from_millis(3);
        assert_eq!(simulate(2, 256, ms, ms), (2, 1));
        assert_eq!(simulate(2, 256, 2 * ms, ms), (2, 1), "as fast alone: no reason to change");
        assert_eq!(simulate(16, 256, 3 * ms, ms), (16, 1));
    }

    #[test]
    fn nothing_is_tried_where_it_would_take_long() {
        let second = Duration::from_secs(1);
        assert_eq!(simulate(2, 64, second, second), (2, 2));
        assert_eq!(simulate(2, 8, second / 1000, second / 1000), (2, 2), "or for a few");
        assert_eq!(simulate(1, 64, second, second), (1, 1));
        assert_eq!(Pace::steady(3).at_once(), 3);
    }
}
