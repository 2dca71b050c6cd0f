//! What happens when something goes wrong in the middle of a run.

use framefold_core::{
    Accumulator, Array, BufferDecl, BufferKind, DType, Dataset, Error, ErrorKind, JobMeta, Merger,
    NativeArray, Partial, Partition, Requirements, Result, RunMeta, SourceInfo, Tile, Udf,
};
use framefold_exec::{
    Cancel, Driver, Event, Executor, Observer, PartialResult, Plan, PlanOptions, Results,
    RunOptions, Silent, WAITING, Worker, WorkerScope, run,
};
use framefold_kernels::Sum;
use framefold_testkit::{MemoryOptions, MemorySource};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// What the UDF does when it meets the frame `at`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trouble {
    Fail,
    Panic,
    PanicInMerge,
    FailInMerge,
    /// Merges slower than it processes.
    SlowMerge,
    /// Has the partition processed once more, so many times in a run.
    Repeat(usize),
    None,
}

struct Troubled {
    trouble: Trouble,
    at: Vec<usize>,
    running: Arc<AtomicUsize>,
    unmerged: Arc<AtomicUsize>,
    most_unmerged: Arc<AtomicUsize>,
    repeated: Arc<AtomicUsize>,
}

impl Troubled {
    fn new(trouble: Trouble, at: &[usize]) -> Self {
        Troubled {
            trouble,
            at: at.to_vec(),
            running: Arc::default(),
            unmerged: Arc::default(),
            most_unmerged: Arc::default(),
            repeated: Arc::default(),
        }
    }
}

impl Udf for Troubled {
    fn name(&self) -> &str {
        "troubled"
    }

    fn requirements(&self, _: &SourceInfo) -> Result<Requirements> {
        Ok(Requirements::native_tiles())
    }

    fn buffers(&self, _: &JobMeta) -> Result<Vec<BufferDecl>> {
        Ok(vec![BufferDecl::new("frames", BufferKind::Single, DType::U64)])
    }

    fn accumulator(&self, _: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        self.running.fetch_add(1, Ordering::SeqCst);
        // Later partitions finish first.
        std::thread::sleep(Duration::from_micros(
            300 * (20 - u64::try_from(partition.index.min(20)).unwrap()),
        ));
        Ok(Box::new(TroubledAccumulator {
            trouble: self.trouble,
            at: self.at.clone(),
            seen: 0,
            running: self.running.clone(),
            unmerged: self.unmerged.clone(),
            most_unmerged: self.most_unmerged.clone(),
            repeated: self.repeated.clone(),
        }))
    }

    fn merger(&self, _: &RunMeta) -> Result<Box<dyn Merger>> {
        Ok(Box::new(TroubledMerger {
            trouble: self.trouble,
            seen: 0,
            next: 0,
            unmerged: self.unmerged.clone(),
        }))
    }
}

struct TroubledAccumulator {
    trouble: Trouble,
    at: Vec<usize>,
    seen: u64,
    running: Arc<AtomicUsize>,
    unmerged: Arc<AtomicUsize>,
    most_unmerged: Arc<AtomicUsize>,
    repeated: Arc<AtomicUsize>,
}

impl Accumulator for TroubledAccumulator {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        for frame in tile.position.frames.clone() {
            self.seen += 1;
            match self.trouble {
                Trouble::Fail if self.at.contains(&frame) => {
                    return Err(Error::user_code(format!("failed at {frame}")));
                }
                Trouble::Repeat(times)
                    if self.at.contains(&frame)
                        && self.repeated.fetch_add(1, Ordering::SeqCst) < times =>
                {
                    return Err(Error::user_code(format!("again at {frame}")).with_repeat());
                }
                Trouble::Panic if self.at.contains(&frame) => panic!("panicked at {frame}"),
                _ => {}
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let now = self.unmerged.fetch_add(1, Ordering::SeqCst) + 1;
        self.most_unmerged.fetch_max(now, Ordering::SeqCst);
        let array = NativeArray::try_new(&[1], vec![self.seen])?;
        Ok(Partial::new().with("frames", array))
    }
}

impl Drop for TroubledAccumulator {
    fn drop(&mut self) {
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}

struct TroubledMerger {
    trouble: Trouble,
    seen: u64,
    next: usize,
    unmerged: Arc<AtomicUsize>,
}

impl Merger for TroubledMerger {
    fn merge(&mut self, partition: &Partition, mut partial: Partial) -> Result<()> {
        assert_eq!(partition.index, self.next, "merges come in partition order");
        self.next += 1;
        self.unmerged.fetch_sub(1, Ordering::SeqCst);
        match self.trouble {
            Trouble::PanicInMerge if partition.index == 3 => panic!("panicked in merge"),
            Trouble::FailInMerge if partition.index == 3 => {
                return Err(Error::user_code("failed in merge"));
            }
            Trouble::SlowMerge => std::thread::sleep(Duration::from_millis(1)),
            _ => {}
        }
        self.seen += partial.take_native("frames")?.as_slice::<u64>()?[0];
        Ok(())
    }

    fn results(&self) -> Result<Vec<Array>> {
        Ok(vec![NativeArray::try_new(&[1], vec![self.seen])?.into()])
    }
}

pub(crate) fn dataset(n_frames: usize) -> Dataset {
    let frames = NativeArray::zeros(DType::U8, &[n_frames, 4, 4]);
    let source = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
    Dataset::try_new(Arc::new(source), None, 0).unwrap()
}

fn plan(udf: Troubled) -> Arc<Plan> {
    plan_of(udf, 40)
}

fn plan_of(udf: Troubled, num_partitions: usize) -> Arc<Plan> {
    let options = PlanOptions { num_partitions: Some(num_partitions), ..PlanOptions::default() };
    let udfs: Vec<Arc<dyn Udf>> = vec![Arc::new(Sum::default()), Arc::new(udf)];
    Arc::new(Plan::try_new(&dataset(200), udfs, None, &options).unwrap())
}

fn executors() -> [Executor; 3] {
    [
        Executor::Inline,
        Executor::Threads(NonZeroUsize::new(2)),
        Executor::Threads(NonZeroUsize::new(9)),
    ]
}

fn fails(udf: Troubled, executor: Executor) -> Error {
    let running = udf.running.clone();
    let plan = plan(udf);
    let options = RunOptions { executor, cancel: Cancel::new(), observer: &mut Silent };
    let error = run(&plan, options).err().expect("the run must fail");
    assert_eq!(running.load(Ordering::SeqCst), 0, "no worker is left behind");
    error
}

#[test]
fn the_first_error_in_partition_order_is_reported() {
    for executor in executors() {
        let error = fails(Troubled::new(Trouble::Fail, &[120, 17, 95]), executor);
        assert_eq!(error.kind(), ErrorKind::UserCode, "{executor:?}: {error}");
        assert_eq!(error.to_string(), "troubled: failed at 17 (partition 3)", "{executor:?}");
    }
}

#[test]
fn a_panic_becomes_an_error() {
    for executor in executors() {
        for trouble in [Trouble::Panic, Trouble::PanicInMerge] {
            let error = fails(Troubled::new(trouble, &[17]), executor);
            assert_eq!(error.kind(), ErrorKind::Bug, "{executor:?}: {error}");
            assert!(error.message().contains("panicked"), "{error}");
        }
    }
}

#[test]
fn an_error_in_merge_ends_the_run() {
    for executor in executors() {
        let error = fails(Troubled::new(Trouble::FailInMerge, &[]), executor);
        assert_eq!(error.to_string(), "troubled: failed in merge (partition 3)");
    }
}

/// Another UDF has taken the partition in that this one has failed with.
#[test]
fn results_of_a_merge_that_failed_are_refused() {
    let plan = plan(Troubled::new(Trouble::FailInMerge, &[]));
    let mut results = Results::try_new(plan.clone()).unwrap();
    let mut worker = Worker::try_new(&plan).unwrap();
    for index in 0..3 {
        results.merge(worker.run_partition(index, &mut || Ok(())).unwrap()).unwrap();
        assert!(results.snapshot().is_ok());
    }
    let failed = results.merge(worker.run_partition(3, &mut || Ok(())).unwrap()).unwrap_err();
    assert_eq!(failed.partition(), Some(3));
    let refused = results.snapshot().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
    assert!(refused.message().contains("merging partition 3 failed"), "{refused}");
    let again = worker.run_partition(3, &mut || Ok(())).unwrap();
    assert_eq!(results.merge(again).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn workers_stay_within_the_window() {
    for threads in [1, 3, 8] {
        for steps in [false, true] {
            let udf = Troubled::new(Trouble::SlowMerge, &[]);
            let most = udf.most_unmerged.clone();
            let executor = Executor::Threads(NonZeroUsize::new(threads));
            let plan = plan_of(udf, 100);
            let mut driver = Driver::try_new(&plan, executor, Cancel::new(), None, None).unwrap();
            if steps {
                while driver.step(&mut Silent).unwrap() {}
            } else {
                driver.run(&mut Silent).unwrap();
            }
            assert_eq!(driver.results().n_merged(), 100);
            let most = most.load(Ordering::SeqCst);
            // Where the caller looks at each step, what it changes then holds soon.
            let waiting = if steps { threads } else { WAITING.max(threads) };
            assert!(most <= threads + waiting, "{most} for {threads} threads");
            assert!(steps || most > 2 * threads, "{most} for {threads} threads");
        }
    }
}

/// Cancels, or fails, after some merges; looks at the results in between.
struct Meddler {
    cancel: Cancel,
    fail: bool,
    merges: usize,
}

impl Observer for Meddler {
    fn event(&mut self, event: &Event, results: &Results) -> Result<()> {
        if let Event::Merged { .. } = event {
            self.merges += 1;
            let first = results.snapshot()?;
            let again = results.snapshot()?;
            let valid = first.valid.iter().filter(|valid| **valid).count();
            assert_eq!(valid, 5 * self.merges, "five frames a partition");
            assert_eq!(format!("{:?}", first.udfs), format!("{:?}", again.udfs));
        }
        if self.merges == 5 {
            if self.fail {
                return Err(Error::user_code("seen enough"));
            }
            self.cancel.cancel();
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn the_observer_can_stop_a_run() {
    for executor in executors() {
        for fail in [false, true] {
            let udf = Troubled::new(Trouble::None, &[]);
            let running = udf.running.clone();
            let plan = plan(udf);
            let cancel = Cancel::new();
            let mut observer = Meddler { cancel: cancel.clone(), fail, merges: 0 };
            let options = RunOptions { executor, cancel, observer: &mut observer };
            let error = run(&plan, options).err().expect("stopped");
            let expected = if fail { ErrorKind::UserCode } else { ErrorKind::Cancelled };
            assert_eq!(error.kind(), expected);
            assert_eq!(observer.merges, 5);
            assert_eq!(running.load(Ordering::SeqCst), 0, "no worker is left behind");
        }
    }
}

/// The worker that has processed partition 3 stays there until `go`.
#[derive(Default)]
struct Blocked {
    has_device: bool,
    go: AtomicBool,
}

impl WorkerScope for Blocked {
    fn has_device(&self, _: usize) -> bool {
        self.has_device
    }

    fn partition(
        &self,
        _: usize,
        work: &mut dyn FnMut() -> Result<PartialResult>,
    ) -> Result<PartialResult> {
        let done = work()?;
        while done.partition == 3 && !self.go.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(done)
    }
}

/// Stops the run when three partitions are merged, and does not wait for its end either.
#[derive(Default)]
struct Impatient {
    merges: usize,
    stopped: Arc<AtomicBool>,
}

impl Observer for Impatient {
    fn event(&mut self, event: &Event, _: &Results) -> Result<()> {
        self.merges += usize::from(matches!(event, Event::Merged { .. }));
        Ok(())
    }

    fn poll(&mut self) -> Result<()> {
        if self.merges < 3 {
            return Ok(());
        }
        let again = self.stopped.swap(true, Ordering::SeqCst);
        Err(Error::user_code(if again { "stopped again" } else { "stopped" }))
    }
}

#[test]
fn the_observer_can_leave_threads_behind_but_not_those_with_a_device() {
    for has_device in [false, true] {
        let scope = Arc::new(Blocked { has_device, ..Blocked::default() });
        let plan = plan(Troubled::new(Trouble::None, &[]));
        let executor = Executor::Threads(NonZeroUsize::new(2));
        let given = Some(scope.clone() as Arc<dyn WorkerScope>);
        let mut driver = Driver::try_new(&plan, executor, Cancel::new(), given, None).unwrap();
        let mut observer = Impatient::default();
        let (stopped, blocked) = (observer.stopped.clone(), scope.clone());
        let releases = std::thread::spawn(move || {
            while !stopped.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            // A run that did not wait would be over by then.
            std::thread::sleep(Duration::from_millis(300));
            blocked.go.store(has_device, Ordering::SeqCst);
        });
        let error = driver.run(&mut observer).unwrap_err();
        assert_eq!(scope.go.load(Ordering::SeqCst), has_device);
        assert_eq!(error.message(), if has_device { "stopped" } else { "stopped again" });
        let before = driver.take_ended_with().map(|error| error.message().to_owned());
        assert_eq!(before.as_deref(), (!has_device).then_some("stopped"));
        assert_eq!(driver.results().n_merged(), 3);
        releases.join().unwrap();
        scope.go.store(true, Ordering::SeqCst);
        drop(driver);
        // The thread ends by itself, and what it used is dropped.
        while Arc::strong_count(&scope) > 1 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

#[test]
fn partitions_can_be_repeated_and_merged_by_hand() {
    let plan = plan(Troubled::new(Trouble::None, &[]));
    let mut worker = Worker::try_new(&plan).unwrap();
    let mut results = Results::try_new(plan.clone()).unwrap();
    let first = worker.run_partition(0, &mut || Ok(())).unwrap();
    let again = worker.run_partition(0, &mut || Ok(())).unwrap();
    assert_eq!(format!("{first:?}"), format!("{again:?}"));
    assert_eq!(
        results.merge(worker.run_partition(1, &mut || Ok(())).unwrap()).unwrap_err().kind(),
        ErrorKind::Bug
    );
    results.merge(first).unwrap();
    assert_eq!(results.n_merged(), 1);
    assert!(worker.run_partition(40, &mut || Ok(())).is_err());
}

#[test]
fn partial_results_that_are_not_those_of_a_partition_are_refused() {
    let plan = plan_of(Troubled::new(Trouble::None, &[]), 2);
    let mut worker = Worker::try_new(&plan).unwrap();
    type Change = fn(&mut PartialResult);
    let changes: [(Change, &str); 5] = [
        (
            |partial| drop(partial.partials.pop()),
            "partition 0 has 1 partial results for 2 functions",
        ),
        (|partial| partial.partials.push(Partial::new()), "partition 0 has 3 partial results"),
        (|partial| partial.frames = Some(0..0), "frames 0..0 of partition 0 were to be merged"),
        (|partial| partial.frames = Some(0..usize::MAX), "frames 0..18446744073709551615 of"),
        (|partial| partial.partition = 1, "partition 1 was to be merged after 0 others"),
    ];
    for (change, words) in changes {
        let mut results = Results::try_new(plan.clone()).unwrap();
        let mut partial = worker.run_partition(0, &mut || Ok(())).unwrap();
        change(&mut partial);
        let error = results.merge(partial).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Bug);
        assert!(error.message().starts_with(words), "{error}");
        results.merge(worker.run_partition(0, &mut || Ok(())).unwrap()).unwrap();
    }
    assert!(Results::of_udf(plan.clone(), 0, 0, vec![]).is_ok());
    let error = Results::of_udf(plan.clone(), 0, 1, vec![]).err().unwrap();
    assert_eq!(error.message(), "what was merged is of 0 bands, and the plan has 1");
}

#[test]
fn partitions_are_processed_once_more_where_a_udf_asks_for_it() {
    let troubled = |trouble| Arc::new(Troubled::new(trouble, &[7]));
    for executor in executors() {
        for (times, ends) in [(1, true), (2, true), (3, false), (usize::MAX, false)] {
            let asks = troubled(Trouble::Repeat(times));
            let running = asks.running.clone();
            let udfs: Vec<Arc<dyn Udf>> = vec![troubled(Trouble::None), asks];
            let plan = Plan::try_new(&dataset(100), udfs, None, &PlanOptions::default()).unwrap();
            let plan = Arc::new(plan);
            let options = RunOptions { executor, cancel: Cancel::new(), observer: &mut Silent };
            let ended = run(&plan, options);
            assert_eq!(running.load(Ordering::SeqCst), 0, "no worker is left behind");
            if !ends {
                let error = ended.err().expect("it asks more often than it may");
                assert!(error.to_string().contains("again at 7"), "{error}");
                continue;
            }
            for mut udf in ended.unwrap().snapshot().unwrap().udfs {
                let frames = udf.buffers.remove(0).array.try_native().unwrap();
                assert_eq!(frames.as_slice::<u64>().unwrap(), [100]);
            }
        }
    }
}

#[test]
fn results_that_fit_no_memory_are_refused() {
    let dataset = dataset(3);
    let dataset = Dataset::try_new(dataset.source().clone(), Some(&[1 << 50]), 0).unwrap();
    let udfs: Vec<Arc<dyn Udf>> = vec![Arc::new(framefold_kernels::SumSig)];
    let error = Plan::try_new(&dataset, udfs, None, &PlanOptions::default()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Limit);
    let words = error.to_string();
    assert!(words.contains("TiB") && words.contains("is 'intensity' of sum_sig"), "{error}");
    // The result of this one is a frame.
    let udfs: Vec<Arc<dyn Udf>> = vec![Arc::new(Sum::default())];
    let error = Plan::try_new(&dataset, udfs, None, &PlanOptions::default()).err().unwrap();
    assert!(error.to_string().contains("is the mask of positions with data"), "{error}");
}

/// Of three partitions that are processed at once, the second fails, the third is stopped then, and the first goes
/// on after that.
#[derive(Default)]
struct Overlapping {
    begun: AtomicUsize,
    ended_threads: AtomicUsize,
}

fn wait_for(count: &AtomicUsize, expected: usize) {
    while count.load(Ordering::SeqCst) < expected {
        std::thread::yield_now();
    }
}

impl Overlapping {
    fn process(&self, partition: usize) -> Result<()> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        wait_for(&self.begun, 3);
        match partition {
            0 => wait_for(&self.ended_threads, 2),
            1 => return Err(Error::user_code("failed")),
            _ => {
                wait_for(&self.ended_threads, 1);
                return Err(Error::cancelled());
            }
        }
        Ok(())
    }
}

impl WorkerScope for Overlapping {
    fn thread(&self, work: &mut dyn FnMut()) {
        work();
        self.ended_threads.fetch_add(1, Ordering::SeqCst);
    }

    fn partition(
        &self,
        _: usize,
        work: &mut dyn FnMut() -> Result<PartialResult>,
    ) -> Result<PartialResult> {
        let partial = work()?;
        self.process(partial.partition)?;
        Ok(partial)
    }
}

#[test]
fn an_error_waits_for_partitions_before_it_whatever_is_stopped_meanwhile() {
    let scope: Arc<dyn WorkerScope> = Arc::new(Overlapping::default());
    let plan = plan_of(Troubled::new(Trouble::None, &[]), 3);
    let executor = Executor::Threads(NonZeroUsize::new(3));
    let mut driver = Driver::try_new(&plan, executor, Cancel::new(), Some(scope), None).unwrap();
    let error = driver.run(&mut Silent).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UserCode, "{error}");
    assert_eq!(driver.results().n_merged(), 1, "the first partition is merged");
}
