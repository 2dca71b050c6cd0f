//! Threads with a device and threads beside them. A scope stands for the device: it says who has one,
//! and how fast each is, counted in what the other does.

use crate::failures::dataset;
use framefold_core::{Error, ErrorKind, Result, Udf};
use framefold_exec::{
    Cancel, Driver, Executor, PartialResult, Plan, PlanOptions, Silent, WorkerScope,
};
use framefold_kernels::Sum;
use std::num::NonZeroUsize;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Worker 0 has a device; every other one takes so long for a partition as it takes for `slower`.
struct Beside {
    slower: usize,
    /// The device fails with its partition of that number.
    fails_at: usize,
    seen: Mutex<Seen>,
    news: Condvar,
}

#[derive(Default)]
struct Seen {
    on_device: usize,
    /// How many partitions the device had finished when others got theirs.
    others: Vec<usize>,
    /// When those that are busy will be done.
    busy_until: Vec<usize>,
    /// Whether the device does nothing more.
    ended: bool,
}

impl Beside {
    fn new(slower: usize, fails_at: usize) -> Arc<Self> {
        let (seen, news) = (Mutex::default(), Condvar::new());
        Arc::new(Beside { slower, fails_at, seen, news })
    }

    /// Runs `n` partitions, and returns what became of it.
    fn run(self: &Arc<Self>, n: usize) -> Result<()> {
        let udfs: Vec<Arc<dyn Udf>> = vec![Arc::new(Sum::default())];
        let options = PlanOptions { num_partitions: Some(n), ..PlanOptions::default() };
        let plan = Arc::new(Plan::try_new(&dataset(n), udfs, None, &options)?);
        let executor = Executor::Threads(NonZeroUsize::new(3));
        let scope = Some(self.clone() as Arc<dyn WorkerScope>);
        let mut driver = Driver::try_new(&plan, executor, Cancel::new(), scope, None)?;
        driver.run(&mut Silent)?;
        assert_eq!(driver.results().n_merged(), n);
        Ok(())
    }
}

impl WorkerScope for Beside {
    fn has_device(&self, worker: usize) -> bool {
        worker == 0
    }

    fn partition(
        &self,
        worker: usize,
        work: &mut dyn FnMut() -> Result<PartialResult>,
    ) -> Result<PartialResult> {
        let mut seen = self.seen.lock().unwrap();
        if worker == 0 {
            // Others begin before the device is far, and are not overtaken when they are done.
            let late = |seen: &mut Seen| {
                seen.others.len() < 2 || seen.busy_until.iter().any(|&done| done <= seen.on_device)
            };
            let minute = Duration::from_mins(1);
            let (mut seen, _) = self.news.wait_timeout_while(seen, minute, late).unwrap();
            seen.on_device += 1;
            seen.ended = seen.on_device > self.fails_at;
            let fails = seen.ended;
            drop(seen);
            self.news.notify_all();
            std::thread::sleep(Duration::from_micros(200));
            return if fails { Err(Error::invalid("the device is lost")) } else { work() };
        }
        let before = seen.on_device;
        seen.others.push(before);
        seen.busy_until.push(before + self.slower);
        self.news.notify_all();
        let busy = |seen: &mut Seen| !seen.ended && seen.on_device < before + self.slower;
        let minute = Duration::from_mins(1);
        let (mut seen, waited) = self.news.wait_timeout_while(seen, minute, busy).unwrap();
        assert!(!waited.timed_out(), "the device waits for a worker that it is to be faster than");
        let own = seen.busy_until.iter().position(|&done| done == before + self.slower).unwrap();
        seen.busy_until.remove(own);
        drop(seen);
        self.news.notify_all();
        work()
    }
}

#[test]
fn threads_beside_a_device_neither_hold_it_up_nor_come_last() {
    // Without them, the window were 3 + 32 partitions.
    let beside = Beside::new(60, usize::MAX);
    beside.run(400).unwrap();
    let seen = beside.seen.lock().unwrap();
    assert!(seen.others.len() >= 4, "they help: {:?}", seen.others);
    // A few pass between the moment that a thread gets a partition and the one that it is seen.
    assert!(seen.others.iter().all(|&before| before < 400 - 40), "{:?}", seen.others);
}

#[test]
fn a_run_ends_when_the_device_fails_that_others_leave_work_to() {
    let beside = Beside::new(60, 90);
    let error = beside.run(100).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidArgument, "the device is lost"));
    assert_eq!(beside.seen.lock().unwrap().others.len(), 2);
}
