//! Workers without a device beside some that have one: when they leave what is left to these.

use framefold_exec::{Next, Schedule};
use framefold_testkit::Random;
use std::collections::{BTreeMap, BTreeSet};

/// A machine with a clock; the first `n_devices` workers have a device.
#[derive(Clone)]
struct Machine {
    n_partitions: usize,
    n_devices: usize,
    /// How long each worker takes for a partition.
    seconds: Vec<f64>,
    /// The size of a result.
    bytes: usize,
    /// How many partitions each worker holds.
    at_hand: usize,
    /// Whether devices begin to read their next partition while they have another one.
    expects: bool,
}

/// What became of a run.
struct Ran {
    seconds: f64,
    /// How many partitions each worker did.
    n_done: Vec<usize>,
    /// How long workers that were still here waited for something to do, together.
    waited: f64,
}

impl Machine {
    fn new(n_partitions: usize, device: f64, n_others: usize, other: f64) -> Self {
        let mut seconds = vec![other; n_others + 1];
        seconds[0] = device;
        Machine { n_partitions, n_devices: 1, seconds, bytes: 1000, at_hand: 1, expects: false }
    }

    /// The same without some of its workers.
    fn only(&self, devices: bool) -> Self {
        let (with_device, others) = self.seconds.split_at(self.n_devices);
        let seconds = if devices { with_device } else { others }.to_vec();
        let n_devices = if devices { self.n_devices } else { 0 };
        Machine { seconds, n_devices, ..self.clone() }
    }

    fn run(&self) -> Ran {
        self.run_with(&mut || None, false)
    }

    /// Whenever a worker would be done with a partition, `event` may say what happens instead.
    fn run_with(&self, event: &mut dyn FnMut() -> Option<Event>, pauses: bool) -> Ran {
        let n_workers = self.seconds.len();
        let mut schedule = Schedule::<usize, ()>::new(0..self.n_partitions, n_workers);
        schedule.set_waiting(if pauses { 1 } else { framefold_exec::WAITING });
        schedule.set_workers(n_workers, self.at_hand);
        let mut devices: BTreeSet<usize> = (0..self.n_devices).collect();
        schedule.set_devices(devices.iter().copied());
        let mut here: BTreeSet<usize> = (0..n_workers).collect();
        // What each worker has, and when it is done with the first of them.
        let mut queues: BTreeMap<usize, (f64, Vec<usize>)> = BTreeMap::new();
        // All ask at the beginning; those that got nothing ask when they are woken.
        let (mut awake, mut asleep) = (here.clone(), BTreeSet::new());
        let mut ran = Ran { seconds: 0.0, n_done: vec![0; n_workers], waited: 0.0 };
        let mut merged = 0;
        loop {
            for worker in std::mem::take(&mut awake) {
                let has = queues.get(&worker).map_or(0, |(_, queue)| queue.len());
                let taken = schedule.take_some_for(worker, self.at_hand - has);
                if taken.is_empty() && has == 0 {
                    asleep.insert(worker);
                } else {
                    let done = ran.seconds + self.seconds[worker];
                    queues.entry(worker).or_insert((done, Vec::new())).1.extend(taken);
                    if self.expects && worker < self.n_devices {
                        schedule.expect_for(worker);
                    }
                }
            }
            let next = queues.iter().min_by(|a, b| a.1.0.total_cmp(&b.1.0));
            let Some((&worker, &(at, _))) = next else {
                assert_eq!(merged, self.n_partitions, "all workers sleep, and some are not done");
                return ran;
            };
            ran.waited += (at - ran.seconds) * asleep.len() as f64;
            ran.seconds = at;
            let (done, queue) = queues.get_mut(&worker).unwrap();
            let index = queue.remove(0);
            *done = at + self.seconds[worker];
            let left = queue.clone();
            match event() {
                None => {
                    schedule.finished(index, index, self.bytes, self.seconds[worker]);
                    ran.n_done[worker] += 1;
                    awake.insert(worker);
                }
                Some(Event::NotYet) => {
                    schedule.put_back(index);
                    awake.insert(worker);
                }
                Some(Event::Lost) => {
                    schedule.lost(index, false);
                    left.iter().for_each(|&index| _ = schedule.lost(index, false));
                    queues.remove(&worker);
                    here.remove(&worker);
                    devices.remove(&worker);
                    // Another one always comes in the place of the last one.
                    if here.is_empty() {
                        here.insert(n_workers - 1);
                        awake.insert(n_workers - 1);
                    }
                    // A host asks all workers again when one has died.
                    awake.append(&mut asleep);
                    schedule.set_devices(devices.iter().copied());
                }
            }
            if left.is_empty() {
                queues.remove(&worker);
            }
            while let Next::Merge(index, result) = schedule.next_step() {
                assert_eq!((index, index), (merged, result));
                merged += 1;
                if schedule.merged(merged) {
                    awake.append(&mut asleep);
                }
            }
        }
    }
}

enum Event {
    Lost,
    NotYet,
}

#[test]
fn workers_beside_a_faster_device_never_slow_it_down() {
    let mut n_helped = 0;
    for n_partitions in [1, 5, 17, 40, 64, 256, 1000] {
        for ratio in [1.5, 3.0, 20.0, 56.0, 300.0] {
            for n_others in [1, 3, 16] {
                for (bytes, pauses, expects) in [
                    (1000, false, false),
                    (1000, true, false),
                    (512 << 10, false, false),
                    (1000, false, true),
                    (512 << 10, false, true),
                ] {
                    let mut machine = Machine::new(n_partitions, 1.0, n_others, ratio);
                    (machine.bytes, machine.expects) = (bytes, expects);
                    let alone = machine.only(true).run().seconds;
                    let both = machine.run_with(&mut || None, pauses);
                    let case = (n_partitions, ratio, n_others, bytes, pauses, expects);
                    // The first one that each takes, when nothing is known.
                    assert!(both.seconds <= alone + ratio, "{case:?}: {} s", both.seconds);
                    n_helped += usize::from(both.seconds < alone);
                    if n_partitions as f64 >= 4.0 * ratio.max(16.0) {
                        let ideal = n_partitions as f64 / (1.0 + n_others as f64 / ratio);
                        assert!(both.seconds <= ideal + 2.0 * ratio, "{case:?}: {}", both.seconds);
                        assert!(both.seconds <= alone, "{case:?}: {} s", both.seconds);
                    }
                }
            }
        }
    }
    assert!(n_helped > 100, "{n_helped}");
}

#[test]
fn a_device_never_slows_down_others() {
    for ratio in [1.0, 5.0, 50.0] {
        for (bytes, expects) in [(1000, false), (200 << 20, false), (1000, true), (200 << 20, true)]
        {
            let mut machine = Machine::new(256, 1.0, 16, ratio);
            (machine.bytes, machine.expects) = (bytes, expects);
            let without = machine.only(false).run().seconds;
            let both = machine.run().seconds;
            assert!(both <= without, "{ratio} times, {bytes} bytes: {both} s, {without} s without");
        }
    }
}

#[test]
fn where_results_are_large_a_slow_worker_does_not_hold_the_window_up_twice() {
    // One result may wait. With others at work, one partition each and two on the device are done in
    // the time in which the device could do 100.
    let mut machine = Machine::new(1000, 1.0, 3, 100.0);
    machine.bytes = 200 << 20;
    let ran = machine.run();
    assert!(ran.seconds <= 1000.0 + 100.0, "{} s", ran.seconds);
    assert_eq!(ran.n_done[1..], [1, 1, 1], "each found out how slow it is");
}

#[test]
fn with_equal_speeds_all_work_to_the_end() {
    for n_others in [1, 3, 16] {
        for n_partitions in [40, 256] {
            let machine = Machine::new(n_partitions, 1.0, n_others, 1.0);
            let ran = machine.run();
            let ideal = (n_partitions as f64 / (n_others + 1) as f64).ceil();
            assert!(ran.seconds <= ideal + 1.0, "{} s", ran.seconds);
            assert!(ran.waited <= 2.0 * (n_others + 1) as f64, "{} s", ran.waited);
        }
    }
    // Nor does anyone wait for a device that is slower.
    let ran = Machine::new(100, 10.0, 4, 1.0).run();
    assert!(ran.seconds <= 30.0, "{} s", ran.seconds);
}

#[test]
fn workers_with_queues_leave_the_end_to_devices_as_well() {
    for at_hand in [2, 8, 32] {
        let mut machine = Machine::new(2000, 1.0, 8, 20.0);
        machine.at_hand = at_hand;
        let (alone, both) = (machine.only(true).run().seconds, machine.run().seconds);
        assert!(both <= alone, "{at_hand} at hand: {both} s, {alone} s alone");
    }
}

#[test]
fn nothing_hangs_however_many_are_lost() {
    let mut n_lost = 0;
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let n_devices = random.below(4);
        let n_workers = n_devices + 1 + random.below(6);
        let most = [1.0, 5.0, 60.0][random.below(3)];
        let seconds = (0..n_workers).map(|worker| {
            let is_slow = worker >= n_devices;
            (if is_slow { most } else { 1.0 }) * (0.5 + random.unit())
        });
        let machine = Machine {
            seconds: seconds.collect(),
            n_partitions: random.below(150),
            n_devices,
            bytes: 1 << random.below(29),
            at_hand: 1 + random.below(3),
            expects: random.below(2) == 0,
        };
        let often = [3, 10, 100][random.below(3)];
        let pauses = random.below(2) == 0;
        let mut n_left = n_workers;
        let mut losses = random.below(n_workers + 1);
        let ran = machine.run_with(
            &mut || match random.below(often) {
                0 if losses > 0 && n_left > 1 => {
                    (losses, n_left, n_lost) = (losses - 1, n_left - 1, n_lost + 1);
                    Some(Event::Lost)
                }
                1 if random.below(2) == 0 => Some(Event::NotYet),
                _ => None,
            },
            pauses,
        );
        assert_eq!(ran.n_done.iter().sum::<usize>(), machine.n_partitions, "seed {seed}");
    }
    assert!(n_lost > 3000, "{n_lost}");
}

#[test]
fn a_worker_gets_what_it_expects_unless_another_one_has_nothing_else_to_do() {
    let begun = |bytes| {
        let mut schedule = Schedule::<(), ()>::new(0..6, 2);
        schedule.set_devices([0, 1]);
        assert_eq!((schedule.take_for(0), schedule.take_for(1)), (Some(0), Some(1)));
        assert_eq!(schedule.expect_for(0), None, "no size is known");
        schedule.finished(0, (), bytes, 1.0);
        assert_eq!((schedule.next_step(), schedule.merged(1)), (Next::Merge(0, ()), false));
        assert_eq!(schedule.take_for(0), Some(2));
        schedule
    };
    let mut schedule = begun(1);
    assert_eq!((schedule.expect_for(0), schedule.expect_for(1)), (Some(3), Some(4)));
    assert_eq!(schedule.expect_for(0), Some(3), "as long as it has not got it");
    assert_eq!((schedule.n_left(), schedule.n_open(), schedule.n_in_progress()), (3, 3, 2));
    assert_eq!(schedule.take_for(1), Some(4), "what it expects, not the first one");
    assert_eq!(schedule.expect_for(1), None, "the window has no room");
    schedule.finished(1, (), 1, 1.0);
    assert_eq!((schedule.next_step(), schedule.merged(2)), (Next::Merge(1, ()), true));
    assert_eq!(schedule.expect_for(1), Some(5));
    assert!(!schedule.is_over());
    assert_eq!(schedule.take(), Some(3), "all are expected, and this is the first");
    assert_eq!(schedule.take_for(0), Some(5), "what it expected is gone");
    assert_eq!((schedule.take_for(1), schedule.expect_for(1)), (None, None));
    assert!(schedule.is_over());
    schedule.put_back(4);
    assert_eq!(schedule.expect_for(0), Some(4), "what is to be repeated comes first");
    assert_eq!((schedule.take(), schedule.expect_for(0)), (Some(4), None));
    let mut schedule = begun(1);
    assert_eq!(
        (schedule.expect_for(0), schedule.take(), schedule.take()),
        (Some(3), Some(4), Some(3))
    );
    // What comes after a failure does not come.
    let mut schedule = begun(1);
    assert_eq!((schedule.expect_for(0), schedule.expect_for(1)), (Some(3), Some(4)));
    schedule.failed(3, ());
    assert_eq!((schedule.expect_for(1), schedule.take_for(1)), (None, None));
    assert!(schedule.is_over());
    // One result may wait beside those at hand: it is not to be one that was not begun.
    assert_eq!(begun(200 << 20).expect_for(0), None);
    assert_eq!(begun(0).expect_for(0), Some(3), "results may take no memory");
    let mut alone = Schedule::<(), ()>::new(0..6, 1);
    assert_eq!((alone.take_for(0), alone.expect_for(0)), (Some(0), Some(1)));
    alone.finished(0, (), 200 << 20, 1.0);
    assert_eq!((alone.take_for(0), alone.next_step()), (Some(1), Next::Merge(0, ())));
    assert_eq!((alone.expect_for(0), alone.merged(1)), (None, true));
    assert_eq!(alone.expect_for(0), Some(2));
}

#[test]
fn what_was_left_to_a_device_that_is_lost_goes_to_others() {
    let mut schedule = Schedule::<(), ()>::new(0..40, 2);
    schedule.set_devices([0]);
    assert_eq!((schedule.take_for(1), schedule.take_for(0)), (Some(0), Some(1)));
    for index in 1..30 {
        schedule.finished(index, (), 1, 1.0);
        assert_eq!(schedule.take_for(0), Some(index + 1));
    }
    schedule.finished(0, (), 1, 30.0);
    assert_eq!(schedule.take_for(1), None, "9 are left, and 29 were done meanwhile");
    for count in 1..=30 {
        assert_eq!(schedule.next_step(), Next::Merge(count - 1, ()));
        assert!(!schedule.merged(count), "it waits for none of that");
    }
    schedule.lost(30, true);
    assert_eq!(schedule.take_for(1), Some(30), "what is to be repeated is for anyone");
    schedule.put_back(30);
    assert!(schedule.set_devices([]), "others are to be woken");
    assert_eq!(schedule.take_some_for(1, 2), [30, 31]);
}

#[test]
fn without_devices_who_asks_makes_no_difference() {
    let mut random = Random::new(1);
    let new = || Schedule::<(), ()>::new(0..200, 4);
    let (mut one, mut other) = (new(), new());
    let mut taken = Vec::new();
    for _ in 0..3000 {
        match random.below(3) {
            0 => {
                let index = one.take();
                assert_eq!(index, other.take_for(random.below(4)));
                taken.extend(index);
            }
            1 if !taken.is_empty() => {
                let index = taken.swap_remove(random.below(taken.len()));
                let bytes = 1 << random.below(28);
                one.finished(index, (), bytes, 1.0);
                other.finished(index, (), bytes, 1.0);
            }
            _ => {
                let next = one.next_step();
                assert_eq!(next, other.next_step());
                if let Next::Merge(index, ()) = next {
                    assert_eq!(one.merged(index + 1), other.merged(index + 1));
                }
            }
        }
    }
    assert_eq!(one.n_merged(), 200);
}
