//! Readers of staged tiles go on with the partition that comes next, while the worker finishes the one before it.

use crate::differential::{bits, run_on};
use crate::staged::{Fetched, Kind};
use framefold_core::{
    Accumulator, ArrayFormat, BufferDecl, DType, DataSource, Dataset, DenseTile, Error,
    FrameIndices, FrameReader, JobMeta, Merger, NativeArray, Partial, Partition, Requirements,
    Result, RunMeta, SigSlice, SourceInfo, StagedTile, Staging, Tile, TilePosition, Udf,
};
use framefold_exec::{Cancel, Driver, Executor, Plan, PlanOptions, Results, Silent, Worker};
use framefold_kernels::SumSig;
use framefold_testkit::{MemoryOptions, MemorySource, Values, random_values};
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Frames that were read so far.
type Read = Arc<Mutex<BTreeSet<u64>>>;

/// Notes what is read.
#[derive(Debug)]
struct Noted {
    inner: MemorySource,
    read: Read,
}

impl DataSource for Noted {
    fn info(&self) -> &SourceInfo {
        self.inner.info()
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Ok(Box::new(NotedReader { inner: self.inner.reader()?, read: self.read.clone() }))
    }
}

struct NotedReader<'s> {
    inner: Box<dyn FrameReader + 's>,
    read: Read,
}

impl FrameReader for NotedReader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner).extend(frames.iter());
        self.inner.read(frames, sig)
    }

    fn verify(&mut self) -> Result<()> {
        self.inner.verify()
    }
}

/// Whether a partition may be finished now, by the frames that were read so far.
type MayFinish = dyn Fn(&Partition, &BTreeSet<u64>) -> bool + Send + Sync;

/// Finishes a partition only when it may.
struct Patient {
    inner: Arc<dyn Udf>,
    read: Read,
    may_finish: Arc<MayFinish>,
}

impl Udf for Patient {
    fn name(&self) -> &str {
        "patient"
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        let formats = vec![ArrayFormat::Dense];
        Ok(Requirements { formats, ..self.inner.requirements(source)? })
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        self.inner.buffers(job)
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let inner = self.inner.accumulator(run, partition)?;
        let (read, may_finish) = (self.read.clone(), self.may_finish.clone());
        Ok(Box::new(Waits { inner, partition: partition.clone(), read, may_finish }))
    }

    fn staging(&self) -> Result<Option<Arc<dyn Staging>>> {
        self.inner.staging()
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        self.inner.merger(run)
    }
}

struct Waits {
    inner: Box<dyn Accumulator>,
    partition: Partition,
    read: Read,
    may_finish: Arc<MayFinish>,
}

impl Accumulator for Waits {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        self.inner.process(tile)
    }

    fn process_staged(&mut self, position: &TilePosition<'_>, tile: StagedTile<'_>) -> Result<()> {
        self.inner.process_staged(position, tile)
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let started = Instant::now();
        loop {
            let read = self.read.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if (self.may_finish)(&self.partition, &read) {
                return self.inner.finish();
            }
            if started.elapsed() > Duration::from_secs(20) {
                return Err(Error::bug("nothing more was read ahead"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn noted(n_frames: usize) -> (Dataset, Read) {
    let values = random_values(DType::U16, n_frames * 16 * 16, Values::Full, 5);
    let frames = NativeArray::try_new(&[n_frames, 16, 16], values).unwrap();
    let inner = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
    let read = Read::default();
    let source = Noted { inner, read: read.clone() };
    (Dataset::try_new(Arc::new(source), None, 0).unwrap(), read)
}

#[test]
fn the_next_partition_is_read_while_one_is_finished() {
    let n_frames = 1000;
    for (num_partitions, depth) in [(2, 16), (7, 30), (30, 200)] {
        let options = PlanOptions {
            num_partitions: Some(num_partitions),
            tile_depth: Some(depth),
            ..PlanOptions::default()
        };
        let one = NonZeroUsize::new(1);
        for executor in [Executor::Inline, Executor::Threads(one)] {
            let (dataset, read) = noted(n_frames);
            let plain = vec![Arc::new(SumSig) as Arc<dyn Udf>];
            let plain = run_on(Executor::Inline, &dataset, plain, None, &options).unwrap();
            read.lock().unwrap().clear();
            let inner = Fetched::of(Arc::new(SumSig), Kind { n_readers: 2, ..Kind::default() });
            let may_finish = move |partition: &Partition, read: &BTreeSet<u64>| {
                let end = partition.frames.end;
                end == n_frames || read.contains(&u64::try_from(end).unwrap())
            };
            let udf = Patient { inner, read, may_finish: Arc::new(may_finish) };
            let staged = run_on(executor, &dataset, vec![Arc::new(udf)], None, &options).unwrap();
            assert_eq!(bits(&staged).unwrap(), bits(&plain).unwrap(), "{num_partitions}, {depth}");
        }
    }
}

#[test]
fn each_of_several_workers_reads_its_next_partition_while_it_finishes_one() {
    let (len, n_partitions) = (50, 20);
    for n_workers in [2, 3] {
        let (dataset, read) = noted(len * n_partitions);
        let cuts = Some((0..n_partitions).map(|index| index * len).collect());
        let options = PlanOptions { cuts, tile_depth: Some(16), ..PlanOptions::default() };
        let inner = Fetched::of(Arc::new(SumSig), Kind { n_readers: 2, ..Kind::default() });
        let n_finished = AtomicUsize::new(0);
        // All are about to finish one, and have begun to read another one each.
        let may_finish = move |partition: &Partition, read: &BTreeSet<u64>| {
            let n_begun =
                read.iter().map(|&frame| frame / len as u64).collect::<BTreeSet<_>>().len();
            let n_awaited = n_finished.load(Ordering::Relaxed) + 2 * n_workers;
            // What each does first is over before the size of a result is known.
            let may = partition.index < n_workers || n_begun >= n_awaited.min(n_partitions);
            n_finished.fetch_add(usize::from(may), Ordering::Relaxed);
            may
        };
        let udf = Patient { inner, read, may_finish: Arc::new(may_finish) };
        let executor = Executor::Threads(NonZeroUsize::new(n_workers));
        let staged = run_on(executor, &dataset, vec![Arc::new(udf)], None, &options).unwrap();
        let plain = vec![Arc::new(SumSig) as Arc<dyn Udf>];
        let plain = run_on(Executor::Inline, &dataset, plain, None, &options).unwrap();
        assert_eq!(bits(&staged).unwrap(), bits(&plain).unwrap(), "{n_workers} workers");
    }
}

#[test]
fn workers_that_share_a_run_give_the_same_results() {
    let (dataset, _) = noted(1000);
    for num_partitions in [5, 40] {
        let options = PlanOptions {
            num_partitions: Some(num_partitions),
            tile_depth: Some(16),
            ..PlanOptions::default()
        };
        let plain = vec![Arc::new(SumSig) as Arc<dyn Udf>];
        let plain = run_on(Executor::Inline, &dataset, plain, None, &options).unwrap();
        for threads in [2, 5] {
            let udf = Fetched::of(Arc::new(SumSig), Kind { n_readers: 2, ..Kind::default() });
            let executor = Executor::Threads(NonZeroUsize::new(threads));
            let staged = run_on(executor, &dataset, vec![udf], None, &options).unwrap();
            assert_eq!(bits(&staged).unwrap(), bits(&plain).unwrap(), "{num_partitions}");
        }
    }
}

#[test]
fn a_worker_gets_short_partitions_before_long_ones() {
    let n_frames = 600;
    let (dataset, _) = noted(n_frames);
    // Partitions of 1, 13, 2, 1 and 22 tiles.
    let cuts = Some(vec![0, 16, 216, 240, 250]);
    let options = PlanOptions { cuts, tile_depth: Some(16), ..PlanOptions::default() };
    let plain = vec![Arc::new(SumSig) as Arc<dyn Udf>];
    let plain = run_on(Executor::Inline, &dataset, plain, None, &options).unwrap();
    for n_readers in [1, 2, 7] {
        let udf = Fetched::of(Arc::new(SumSig), Kind { n_readers, ..Kind::default() });
        let plan = Arc::new(Plan::try_new(&dataset, vec![udf], None, &options).unwrap());
        assert_eq!(plan.n_partitions(), 5);
        for order in [[0, 1, 2, 3, 4], [3, 2, 4, 0, 1], [4, 3, 2, 1, 0]] {
            // As worker processes do: what comes next is known, is not, or is something else.
            let after = |at: usize| order.get(at + 1).copied();
            let known: [&dyn Fn(usize) -> Option<usize>; 4] =
                [&after, &|_| None, &|at| after(at).filter(|_| at % 2 == 0), &|at| Some(at % 5)];
            for (number, next) in known.iter().enumerate() {
                let mut worker = Worker::try_new(&plan).unwrap();
                let run = |(at, index)| {
                    worker.run_partition_before(index, &|| Ok(next(at)), &mut || Ok(())).unwrap()
                };
                let mut partials: Vec<_> = order.into_iter().enumerate().map(run).collect();
                partials.sort_by_key(|partial| partial.partition);
                let mut results = Results::try_new(plan.clone()).unwrap();
                partials.into_iter().for_each(|partial| results.merge(partial).unwrap());
                let results = bits(&results.snapshot().unwrap()).unwrap();
                assert_eq!(results, bits(&plain).unwrap(), "{n_readers}, {order:?}, {number}");
            }
        }
    }
}

#[test]
fn a_host_that_fails_to_say_what_comes_next_ends_the_partition() {
    let (dataset, _) = noted(400);
    let options = PlanOptions { num_partitions: Some(2), ..PlanOptions::default() };
    let udf = Fetched::of(Arc::new(SumSig), Kind { n_readers: 2, ..Kind::default() });
    let plan = Arc::new(Plan::try_new(&dataset, vec![udf], None, &options).unwrap());
    let mut worker = Worker::try_new(&plan).unwrap();
    let next = || Err(Error::bug("the host does not know"));
    let failed = worker.run_partition_before(0, &next, &mut || Ok(())).map(drop).unwrap_err();
    assert!(failed.to_string().contains("the host does not know"), "{failed}");
    // It can go on.
    for index in 0..2 {
        worker.run_partition(index, &mut || Ok(())).unwrap();
    }
}

#[test]
fn a_run_that_pauses_on_the_callers_thread_reads_nothing_in_vain() {
    let (dataset, read) = noted(1000);
    let cuts = Some(vec![0, 250, 500, 750]);
    let options = PlanOptions { cuts, tile_depth: Some(16), ..PlanOptions::default() };
    let udf = Fetched::of(Arc::new(SumSig), Kind { n_readers: 3, ..Kind::default() });
    let plan = Arc::new(Plan::try_new(&dataset, vec![udf], None, &options).unwrap());
    let mut driver = Driver::try_new(&plan, Executor::Inline, Cancel::new(), None, None).unwrap();
    for end in [250, 500, 750, 1000] {
        assert!(driver.step(&mut Silent).unwrap());
        let n_read = read.lock().unwrap().len();
        assert_eq!(n_read, end, "frames of the next partition were read");
    }
}
