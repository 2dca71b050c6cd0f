//! Workers without a device beside others that have one, and may be many times as fast.
//!
//! Time is counted in partitions that devices finish. Where these are held up, that says nothing: then it
//! is as many as they would have done in the seconds that hosts report.

use std::collections::{BTreeMap, BTreeSet};

/// What is known of workers with a device and of those beside them.
#[derive(Debug, Default)]
pub(super) struct Beside {
    /// The workers with a device.
    devices: BTreeSet<usize>,
    /// How many partitions these have finished.
    n_done: usize,
    /// How many seconds each of these took, as a moving average.
    seconds: Option<f64>,
    /// The partitions that workers have.
    begun: BTreeMap<usize, Begun>,
    /// How long each worker without a device took for its latest partition.
    took: BTreeMap<usize, Took>,
}

#[derive(Debug)]
struct Begun {
    worker: usize,
    /// How many partitions devices had finished.
    n_done: usize,
    /// How many partitions the worker had, this one included.
    n_had: usize,
}

/// Counted in partitions of devices.
#[derive(Clone, Copy, Debug)]
struct Took {
    /// From when the worker got the partition.
    n_done: usize,
    /// How many it had then.
    n_had: usize,
    /// While it was busy with this one alone, if devices were never held up.
    n_possible: f64,
}

impl Took {
    /// How long as many partitions take that are handed to a worker.
    fn of(self, n_partitions: usize) -> usize {
        self.n_done.saturating_mul(n_partitions).div_ceil(self.n_had)
    }
}

impl Beside {
    /// Returns whether any is gone: what is known of how long others take does not hold then.
    pub(super) fn set_devices(&mut self, devices: BTreeSet<usize>) -> bool {
        let fewer = !self.devices.is_subset(&devices);
        if fewer {
            self.took.clear();
        }
        self.devices = devices;
        fewer
    }

    pub(super) fn took(&mut self, worker: usize, index: usize) {
        if self.devices.is_empty() {
            return;
        }
        let n_had = 1 + self.n_had(worker);
        self.begun.insert(index, Begun { worker, n_done: self.n_done, n_had });
    }

    pub(super) fn finished(&mut self, index: usize, seconds: f64) {
        let Some(Begun { worker, n_done, n_had }) = self.begun.remove(&index) else { return };
        if self.devices.contains(&worker) {
            self.n_done += 1;
            self.seconds = Some(self.seconds.map_or(seconds, |known| 0.7 * known + 0.3 * seconds));
        } else {
            let each = self.seconds.filter(|&each| each > 0.0);
            let n_possible = each.map_or(0.0, |each| seconds / each * self.devices.len() as f64);
            self.took.insert(worker, Took { n_done: self.n_done - n_done, n_had, n_possible });
        }
    }

    /// No worker has that partition any more.
    pub(super) fn left(&mut self, index: usize) {
        self.begun.remove(&index);
    }

    /// How many partitions devices will probably finish while the worker does another one; none if it
    /// has a device.
    pub(super) fn meanwhile(&self, worker: usize) -> usize {
        if self.devices.contains(&worker) || self.devices.is_empty() {
            return 0;
        }
        let n_partitions = 1 + self.n_had(worker);
        let known = self.took.get(&worker).map(|took| took.of(n_partitions));
        known.unwrap_or_else(|| {
            // It is new: as others do, or have not done yet.
            self.others().map(|took| took.of(n_partitions)).max().unwrap_or(0)
        })
    }

    /// Whether devices could do more than so many partitions while the worker does another one.
    pub(super) fn could_do_more(&self, worker: usize, n_partitions: usize) -> bool {
        let took = self.took.get(&worker).filter(|_| !self.devices.contains(&worker));
        let n_had = (1 + self.n_had(worker)) as f64;
        took.is_some_and(|took| took.n_possible * n_had > n_partitions as f64)
    }

    /// How many partitions devices finish while any other worker has one, as far as is known.
    pub(super) fn longest(&self) -> usize {
        self.others().map(|took| took.n_done).max().unwrap_or(0)
    }

    /// What workers without a device took, and have taken so far.
    fn others(&self) -> impl Iterator<Item = Took> {
        let begun = self.begun.values().filter(|begun| !self.devices.contains(&begun.worker));
        let so_far =
            begun.map(|b| Took { n_done: self.n_done - b.n_done, n_had: b.n_had, n_possible: 0.0 });
        so_far.chain(self.took.values().copied())
    }

    fn n_had(&self, worker: usize) -> usize {
        self.begun.values().filter(|begun| begun.worker == worker).count()
    }
}
