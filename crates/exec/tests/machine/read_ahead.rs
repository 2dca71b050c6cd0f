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

/// Finishes each partition but the last one only when the next frame has been read.
struct Patient {
    inner: Arc<dyn Udf>,
    read: Read,
    n_frames: usize,
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
        let next = (partition.frames.end < self.n_frames).then_some(partition.frames.end);
        Ok(Box::new(Waits { inner, read: self.read.clone(), next }))
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
    read: Read,
    next: Option<usize>,
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
        while let Some(next) = self.next {
            let next = u64::try_from(next).unwrap();
            if self.read.lock().unwrap_or_else(PoisonError::into_inner).contains(&next) {
                break;
            }
            if started.elapsed() > Duration::from_secs(20) {
                return Err(Error::bug(format!("frame {next} was not read ahead")));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        self.inner.finish()
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
    for (num_partitions, depth) in [(2, 16), (7, 30), (50, 200)] {
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
            let udf = Patient { inner, read, n_frames };
            let staged = run_on(executor, &dataset, vec![Arc::new(udf)], None, &options).unwrap();
            assert_eq!(bits(&staged).unwrap(), bits(&plain).unwrap(), "{num_partitions}, {depth}");
        }
    }
}

#[test]
fn workers_that_expect_the_same_partition_get_different_ones() {
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
            // As worker processes do: nothing is known of what comes next.
            let mut worker = Worker::try_new(&plan).unwrap();
            let run = |index| worker.run_partition(index, &mut || Ok(())).unwrap();
            let mut partials: Vec<_> = order.into_iter().map(run).collect();
            partials.sort_by_key(|partial| partial.partition);
            let mut results = Results::try_new(plan.clone()).unwrap();
            partials.into_iter().for_each(|partial| results.merge(partial).unwrap());
            let results = results.snapshot().unwrap();
            assert_eq!(bits(&results).unwrap(), bits(&plain).unwrap(), "{n_readers}, {order:?}");
        }
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
