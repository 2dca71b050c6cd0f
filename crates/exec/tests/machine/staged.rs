//! Tiles that are read ahead into staging memory, from where a simulated device fetches them as late as it
//! may: the same bits as without, and order in failure.
//!
//! Long because: the simulated device and the flaky source serve all of these tests.

use crate::corrections::{Wanted, corrections, wanted};
use crate::differential::{EXECUTORS, bits, options, run_on};
use framefold_core::{
    Accumulator, BufferDecl, CorrectedSlice, CorrectionPlanes, Corrections, DType, DataSource,
    Dataset, DenseTile, Error, ErrorKind, FrameIndices, FrameReader, JobMeta, Merger, NativeArray,
    Partial, Partition, Requirements, Result, Roi, RunMeta, Scratch, SigSlice, SourceInfo,
    StagedTile, Staging, StagingBuffer, Tile, TileFrames, TilePosition, Udf, convert_tile,
    correct_tile,
};
use framefold_exec::{Cancel, Executor, Plan, PlanOptions, RunOptions, Silent, run};
use framefold_kernels::{Max, StdDev, Sum, SumSig};
use framefold_testkit::{Case, MemoryOptions, MemorySource, Values, cases, random_values};
use proptest::prelude::*;
use std::cell::RefCell;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of a tile that are written, or wait to be.
type Memory = Arc<Mutex<Vec<u8>>>;

/// The memory of one worker, and what its device has to fetch from it.
struct Late {
    kind: Kind,
    state: Mutex<State>,
}

/// What a worker with a device is like.
#[derive(Clone, Copy, Default, PartialEq)]
pub(crate) struct Kind {
    pub(crate) n_readers: usize,
    pub(crate) depth: Option<usize>,
    pub(crate) corrects: bool,
    /// It decodes bytes that are inverted, in blocks of so many.
    pub(crate) block_bytes: usize,
    pub(crate) trouble: Option<Trouble>,
    /// A frame that it cannot decode.
    pub(crate) damaged: Option<usize>,
}

#[derive(Default)]
struct State {
    tiles: Vec<Memory>,
    /// Parts that exist, of all tiles.
    parts: Arc<AtomicUsize>,
    queued: Vec<(usize, usize)>,
    fetched: Vec<(usize, Vec<u8>)>,
    n_queued: usize,
    n_waits: usize,
    /// Tiles in this partition that are encoded.
    n_decoded: usize,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Trouble {
    Prepare,
    Wait(usize),
}

impl Late {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes what it holds into the memory of its tile when it is dropped.
struct Part {
    bytes: Vec<u8>,
    start: usize,
    memory: Memory,
    counted: Arc<AtomicUsize>,
}

impl StagingBuffer for Part {
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        memory[self.start..][..self.bytes.len()].copy_from_slice(&self.bytes);
        self.counted.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Staging for Late {
    fn n_readers(&self) -> usize {
        self.kind.n_readers
    }

    fn depth(&self) -> Option<usize> {
        self.kind.depth
    }

    fn corrects(&self) -> bool {
        self.kind.corrects
    }

    fn block_bytes(&self) -> usize {
        self.kind.block_bytes
    }

    fn damaged(&self) -> Result<Option<usize>> {
        let n_decoded = std::mem::take(&mut self.lock().n_decoded);
        Ok(self.kind.damaged.filter(|_| n_decoded > 0))
    }

    fn prepare(&self, n_tiles: usize, len_bytes: usize) -> Result<()> {
        if self.kind.trouble == Some(Trouble::Prepare) {
            return Err(Error::limit("there is no pinned memory"));
        }
        let mut state = self.lock();
        assert_eq!(state.parts.load(Ordering::SeqCst), 0, "a reader of the last partition lives");
        assert!(state.queued.is_empty(), "the last partition is not fetched");
        state.tiles = (0..n_tiles).map(|_| Arc::new(Mutex::new(vec![0x55; len_bytes]))).collect();
        Ok(())
    }

    fn parts(&self, tile: usize, lens: &[usize]) -> Result<Vec<Box<dyn StagingBuffer>>> {
        let state = self.lock();
        let mut start = 0;
        let part = |&len: &usize| {
            state.parts.fetch_add(1, Ordering::SeqCst);
            let (memory, counted) = (state.tiles[tile].clone(), state.parts.clone());
            let part = Part { bytes: vec![0xaa; len], start, memory, counted };
            start += len;
            Box::new(part) as Box<dyn StagingBuffer>
        };
        Ok(lens.iter().map(part).collect())
    }

    fn wait(&self, tile: usize) -> Result<()> {
        let mut state = self.lock();
        state.n_waits += 1;
        if self.kind.trouble == Some(Trouble::Wait(state.n_waits)) {
            state.queued.clear();
            return Err(Error::invalid("the device is lost"));
        }
        let State { queued, fetched, tiles, .. } = &mut *state;
        for (number, place) in queued.extract_if(.., |(_, place)| *place == tile) {
            let bytes = tiles[place].lock().unwrap_or_else(PoisonError::into_inner).clone();
            fetched.push((number, bytes));
        }
        Ok(())
    }
}

thread_local! {
    /// That of this worker.
    static HERE: RefCell<Option<Arc<Late>>> = const { RefCell::new(None) };
}

/// A native reduction that gets its tiles from the device.
pub(crate) struct Fetched {
    inner: Arc<dyn Udf>,
    kind: Kind,
    /// What the device applies.
    corrections: Option<Arc<Corrections>>,
}

impl Fetched {
    pub(crate) fn of(inner: Arc<dyn Udf>, kind: Kind) -> Arc<dyn Udf> {
        Arc::new(Fetched { inner, kind, corrections: None })
    }
}

fn fetched(inner: impl Udf + 'static, n_readers: usize) -> Arc<dyn Udf> {
    Fetched::of(Arc::new(inner), Kind { n_readers, ..Kind::default() })
}

impl Udf for Fetched {
    fn name(&self) -> &str {
        "fetched"
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        let formats = vec![framefold_core::ArrayFormat::Dense];
        Ok(Requirements { formats, ..self.inner.requirements(source)? })
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        self.inner.buffers(job)
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let inner = self.inner.accumulator(run, partition)?;
        let staging = HERE.with_borrow(Clone::clone);
        let dtype = run.job.input_dtype;
        let (corrections, places) = (self.corrections.clone(), Vec::new());
        Ok(Box::new(FetchedTiles { inner, dtype, staging, corrections, places }))
    }

    fn staging(&self) -> Result<Option<Arc<dyn Staging>>> {
        let kind = self.kind;
        let staging = HERE.with_borrow_mut(|here| {
            let kept = here.take().filter(|late| late.kind == kind && kind.trouble.is_none());
            let make = || Arc::new(Late { kind, state: Mutex::default() });
            here.insert(kept.unwrap_or_else(make)).clone()
        });
        Ok(Some(staging))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        self.inner.merger(run)
    }
}

struct FetchedTiles {
    inner: Box<dyn Accumulator>,
    dtype: DType,
    staging: Option<Arc<Late>>,
    corrections: Option<Arc<Corrections>>,
    /// Of each tile its number on the device, and where it lies.
    places: Vec<Place>,
}

/// A tile on the device.
struct Place {
    number: usize,
    frames: Range<usize>,
    in_partition: Range<usize>,
    sig: SigSlice,
    dtype: DType,
    is_raw: bool,
    /// The bytes of a part, and of those that are encoded.
    encoded: Option<(usize, Vec<usize>)>,
}

impl Accumulator for FetchedTiles {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        self.inner.process(tile)
    }

    fn process_staged(&mut self, position: &TilePosition<'_>, tile: StagedTile<'_>) -> Result<()> {
        let staging = self.staging.as_ref().expect("there is staging memory");
        let mut state = staging.lock();
        let number = state.n_queued;
        state.n_queued += 1;
        state.queued.push((number, tile.number.expect("it was read")));
        let TilePosition { frames, in_partition, sig } = position.clone();
        let (sig, dtype, is_raw) = (sig.clone(), tile.dtype, tile.is_raw);
        let encoded = tile
            .encoded
            .map(|tile| (tile.part_frames * sig.len() * dtype.size(), tile.lens.to_vec()));
        state.n_decoded += usize::from(encoded.is_some());
        self.places.push(Place { number, frames, in_partition, sig, dtype, is_raw, encoded });
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Partial> {
        let staging = self.staging.take().expect("there is staging memory");
        let mut state = staging.lock();
        let mut scratch = Scratch::new();
        for Place { number, frames, in_partition, sig, dtype, is_raw, encoded } in &self.places {
            let at = state.fetched.iter().position(|(each, _)| each == number);
            let (_, mut bytes) = state.fetched.swap_remove(at.expect("it was waited for"));
            if let Some((part_bytes, lens)) = encoded {
                for (part, len) in bytes.chunks_mut(*part_bytes).zip(lens) {
                    part[..*len].iter_mut().for_each(|byte| *byte = !*byte);
                }
            }
            let (depth, len) = (frames.len(), sig.len());
            // A vector of bytes is aligned for nothing.
            let mut aligned = Scratch::new();
            let size = depth * len * dtype.size();
            aligned.prepare(size)?.copy_from_slice(&bytes[..size]);
            let view = TileFrames::from_bytes(*dtype, &aligned.bytes()[..size], depth, len, len)?;
            let data = match &self.corrections {
                Some(corrections) if *is_raw => {
                    let slice =
                        CorrectedSlice::try_new(corrections, sig, &vec![1; sig.shape().len()])?;
                    let planes = CorrectionPlanes::try_new(corrections, self.dtype)?;
                    correct_tile(&DenseTile::borrowed(view), &slice, &planes, &mut scratch)?
                }
                _ => convert_tile(&DenseTile::borrowed(view), self.dtype, &mut scratch)?,
            };
            let (frames, in_partition) = (frames.clone(), in_partition.clone());
            let position = TilePosition { frames, in_partition, sig };
            self.inner.process(&Tile { position, data })?;
        }
        drop(state);
        self.inner.finish()
    }
}

fn reductions(wrap: impl Fn(Arc<dyn Udf>) -> Arc<dyn Udf>, real: bool) -> Vec<Arc<dyn Udf>> {
    let mut udfs: Vec<Arc<dyn Udf>> = vec![Arc::new(Sum::default()), Arc::new(SumSig)];
    if real {
        udfs.push(Arc::new(Max));
        udfs.push(Arc::new(StdDev::default()));
    }
    udfs.into_iter().map(wrap).collect()
}

fn same_as_without(
    dataset: &Dataset,
    roi: Option<&Arc<Roi>>,
    options: &PlanOptions,
    n_readers: &[usize],
    corrects: bool,
) -> Result<()> {
    let corrections = dataset.corrections().cloned();
    let real = !dataset.pixel_dtype().is_complex();
    let plain = reductions(|inner| Arc::new(Dense(inner)), real);
    let reference = bits(&run_on(Executor::Inline, dataset, plain, roi.cloned(), options)?)?;
    for &n_readers in n_readers {
        let kind = Kind { n_readers, corrects, ..Kind::default() };
        let wrap = |inner| {
            let corrections = corrections.clone();
            Arc::new(Fetched { inner, kind, corrections }) as Arc<dyn Udf>
        };
        for executor in EXECUTORS {
            let staged = run_on(executor, dataset, reductions(wrap, real), roi.cloned(), options)?;
            assert_eq!(bits(&staged)?, reference, "{executor:?}, {n_readers} readers");
        }
    }
    Ok(())
}

/// A reduction that takes dense tiles alone, as those from a device are.
struct Dense(Arc<dyn Udf>);

impl Udf for Dense {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        let formats = vec![framefold_core::ArrayFormat::Dense];
        Ok(Requirements { formats, ..self.0.requirements(source)? })
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        self.0.buffers(job)
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(run, partition)
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        self.0.merger(run)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn staged_tiles_give_the_same_bits(case in cases(), n_readers in 1usize..5) {
        let run = |case: &Case| {
            let roi = case.roi()?;
            same_as_without(&case.dataset()?, roi.as_ref(), &options(case), &[n_readers], false)
        };
        if let Err(error) = run(&case) {
            return Err(TestCaseError::fail(error.to_string()));
        }
    }

    #[test]
    fn staged_tiles_are_corrected(
        case in cases(), wanted in wanted(), n_readers in 1usize..5, on_device in any::<bool>(),
    ) {
        let run = |case: &Case, wanted: &Wanted| {
            let dataset = case.dataset()?;
            let planes = wanted.options(dataset.shape().frame_len());
            let sig = dataset.shape().sig().to_vec();
            let dataset = dataset.with_corrections(corrections(&sig, &planes)?)?;
            let roi = case.roi()?;
            same_as_without(&dataset, roi.as_ref(), &options(case), &[n_readers], on_device)
        };
        if let Err(error) = run(&case, &wanted) {
            return Err(TestCaseError::fail(error.to_string()));
        }
    }
}

fn dataset_of(frames: usize, sig: [usize; 2], gap: usize) -> Dataset {
    let values = random_values(DType::U16, frames * sig[0] * sig[1], Values::Full, 5);
    let frames = NativeArray::try_new(&[frames, sig[0], sig[1]], values).unwrap();
    let options = MemoryOptions { gap, ..MemoryOptions::default() };
    let source = MemorySource::try_new(frames, options).unwrap();
    Dataset::try_new(Arc::new(source), None, 0).unwrap()
}

#[test]
fn tiles_of_many_pieces_are_read_by_several_threads() {
    // Tiles of 4 MiB, and a last one that is shorter, in one partition and in three.
    for (gap, num_partitions) in [(0, 1), (3, 3)] {
        let dataset = dataset_of(1300, [64, 64], gap);
        let tile_depth = Some(512);
        let num_partitions = Some(num_partitions);
        let options = PlanOptions { num_partitions, tile_depth, ..PlanOptions::default() };
        same_as_without(&dataset, None, &options, &[1, 3, 8], false).unwrap();
    }
    // Slices of frames, of which the last ones are smaller.
    let dataset = dataset_of(9, [700, 1100], 1);
    let tile_shape = Some(vec![300, 1100]);
    let options = PlanOptions {
        tile_depth: Some(4),
        tile_shape,
        num_partitions: Some(1),
        ..PlanOptions::default()
    };
    same_as_without(&dataset, None, &options, &[4], false).unwrap();
    let roi = Roi::try_new((0..9).map(|frame| frame % 3 != 1).collect()).unwrap();
    same_as_without(&dataset, Some(&Arc::new(roi)), &options, &[2], false).unwrap();
}

#[test]
fn workers_with_a_device_may_get_deeper_tiles() {
    let dataset = dataset_of(1300, [64, 64], 0);
    let options =
        PlanOptions { num_partitions: Some(3), tile_depth: Some(16), ..PlanOptions::default() };
    let in_parts = PlanOptions { tile_shape: Some(vec![32, 64]), ..options.clone() };
    let plain = run_on(Executor::Inline, &dataset, vec![Arc::new(SumSig)], None, &options).unwrap();
    for depth in [1, 200, 5000] {
        let kind = Kind { n_readers: 2, depth: Some(depth), ..Kind::default() };
        let udf = Fetched::of(Arc::new(SumSig), kind);
        let staged = run_on(Executor::Inline, &dataset, vec![udf], None, &options).unwrap();
        assert_eq!(bits(&staged).unwrap(), bits(&plain).unwrap(), "{depth}");
        let n_tiles = HERE.with_borrow(|here| here.as_ref().unwrap().lock().n_queued);
        let expected = [433usize, 433, 434].map(|frames| frames.div_ceil(depth.max(16)));
        assert_eq!(n_tiles, expected.iter().sum::<usize>(), "{depth}");
        // Parts of frames: each has as many pixels, as far as the partition goes.
        let kind = Kind { n_readers: 3, depth: Some(depth), ..Kind::default() };
        let udf = Fetched::of(Arc::new(SumSig), kind);
        let staged = run_on(Executor::Inline, &dataset, vec![udf], None, &in_parts).unwrap();
        assert_eq!(bits(&staged).unwrap(), bits(&plain).unwrap(), "{depth}");
        let n_tiles = HERE.with_borrow(|here| here.as_ref().unwrap().lock().n_queued);
        let expected = [433usize, 433, 434].map(|n| 2 * n.div_ceil((2 * depth).max(16)));
        assert_eq!(n_tiles, expected.iter().sum::<usize>(), "{depth}");
    }
}

/// A source with one frame that cannot be read, or that takes long.
#[derive(Debug)]
struct Flaky {
    inner: Arc<dyn DataSource>,
    bad: u64,
    how: Bad,
    /// How many readers live.
    readers: Arc<AtomicUsize>,
}

#[derive(Clone, Copy, Debug)]
enum Bad {
    Fails,
    Panics,
    Hangs,
    IsNotThere,
    CannotOpen,
}

impl DataSource for Flaky {
    fn info(&self) -> &SourceInfo {
        self.inner.info()
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        if matches!(self.how, Bad::CannotOpen) && self.readers.load(Ordering::SeqCst) > 1 {
            return Err(Error::invalid("too many files are open"));
        }
        self.readers.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(FlakyReader { source: self, inner: self.inner.reader()?, read_bad: false }))
    }
}

struct FlakyReader<'s> {
    source: &'s Flaky,
    inner: Box<dyn FrameReader + 's>,
    read_bad: bool,
}

impl FrameReader for FlakyReader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        if frames.iter().any(|frame| frame == self.source.bad) {
            match self.source.how {
                Bad::Fails => return Err(Error::invalid("frame 77 is damaged")),
                Bad::Panics => panic!("a reader's mistake"),
                Bad::IsNotThere => self.read_bad = true,
                Bad::CannotOpen => {}
                Bad::Hangs => loop {
                    framefold_core::interrupt::check()?;
                    std::thread::sleep(Duration::from_millis(1));
                },
            }
        }
        self.inner.read(frames, sig)
    }

    fn verify(&mut self) -> Result<()> {
        match self.read_bad {
            true => Err(Error::invalid("the file is shorter now")),
            false => self.inner.verify(),
        }
    }
}

impl Drop for FlakyReader<'_> {
    fn drop(&mut self) {
        self.source.readers.fetch_sub(1, Ordering::SeqCst);
    }
}

fn flaky(bad: u64, how: Bad) -> (Dataset, Arc<AtomicUsize>) {
    static INNER: LazyLock<Dataset> = LazyLock::new(|| dataset_of(2000, [64, 64], 0));
    let inner = INNER.source().clone();
    let readers = Arc::default();
    let source = Flaky { inner, bad, how, readers: Arc::clone(&readers) };
    (Dataset::try_new(Arc::new(source), None, 0).unwrap(), readers)
}

fn deep() -> PlanOptions {
    PlanOptions { num_partitions: Some(2), tile_depth: Some(256), ..PlanOptions::default() }
}

#[test]
fn what_cannot_be_read_ends_the_run_with_its_own_error() {
    let expected = [
        (Bad::Fails, "frame 77 is damaged"),
        (Bad::Panics, "a reader's mistake"),
        (Bad::IsNotThere, "the file is shorter now"),
    ];
    for (how, message) in expected {
        for bad in [0, 700, 1999] {
            let (dataset, readers) = flaky(bad, how);
            for executor in EXECUTORS {
                let run = run_on(executor, &dataset, vec![fetched(SumSig, 3)], None, &deep());
                let error = run.unwrap_err();
                assert!(error.message().contains(message), "{error}");
                assert_eq!(error.partition(), Some(usize::from(bad > 999)), "{error}");
                assert_eq!(readers.load(Ordering::SeqCst), 0, "a reader is left");
            }
        }
    }
}

#[test]
fn a_reader_that_cannot_open_the_file_is_an_error() {
    let (dataset, _) = flaky(5, Bad::CannotOpen);
    let run = run_on(Executor::Inline, &dataset, vec![fetched(SumSig, 8)], None, &deep());
    // Those that can may have read everything before the others try.
    if let Err(error) = run {
        assert!(error.message().contains("too many files"), "{error}");
    }
}

#[test]
fn errors_of_the_device_end_the_run() {
    let expected = [
        (Trouble::Prepare, "no pinned memory"),
        (Trouble::Wait(1), "the device is lost"),
        (Trouble::Wait(3), "the device is lost"),
    ];
    let dataset = dataset_of(2000, [64, 64], 0);
    for (trouble, message) in expected {
        for executor in EXECUTORS {
            let kind = Kind { n_readers: 2, trouble: Some(trouble), ..Kind::default() };
            let udf = Fetched::of(Arc::new(SumSig), kind);
            let error = run_on(executor, &dataset, vec![udf], None, &deep()).unwrap_err();
            assert!(error.message().contains(message), "{error}");
        }
    }
}

#[test]
fn a_run_that_reads_can_be_cancelled() {
    for executor in [Executor::Inline, Executor::Threads(NonZeroUsize::new(2))] {
        let (dataset, readers) = flaky(300, Bad::Hangs);
        let plan = Plan::try_new(&dataset, vec![fetched(SumSig, 3)], None, &deep()).unwrap();
        let cancel = Cancel::new();
        let started = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(50));
                cancel.cancel();
            });
            let options = RunOptions { executor, cancel: cancel.clone(), observer: &mut Silent };
            let error = run(&Arc::new(plan), options).err().expect("it is cancelled");
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        });
        assert!(started.elapsed() < Duration::from_secs(20));
        assert_eq!(readers.load(Ordering::SeqCst), 0, "a reader is left");
    }
}

#[test]
fn with_tiles_that_are_on_the_device_nothing_is_read() {
    let (dataset, _) = flaky(0, Bad::Fails);
    let there = Arc::new(OnDevice::default());
    let udfs: Vec<Arc<dyn Udf>> = vec![there.clone()];
    let plan = Plan::try_new(&dataset, udfs, None, &deep()).unwrap();
    let options =
        RunOptions { executor: Executor::Inline, cancel: Cancel::new(), observer: &mut Silent };
    run(&Arc::new(plan), options).unwrap();
    assert_eq!(there.n_frames.load(Ordering::SeqCst), 2000);
}

/// Counts the frames that it is shown, which lie on the device.
#[derive(Default)]
struct OnDevice {
    n_frames: Arc<AtomicUsize>,
}

impl Udf for OnDevice {
    fn name(&self) -> &str {
        "on_device"
    }

    fn requirements(&self, _: &SourceInfo) -> Result<Requirements> {
        Ok(Requirements::native_tiles())
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        SumSig.buffers(job)
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let inner = SumSig.accumulator(run, partition)?;
        Ok(Box::new(Counts { inner, n_frames: self.n_frames.clone() }))
    }

    fn staging(&self) -> Result<Option<Arc<dyn Staging>>> {
        Ok(Some(Arc::new(Late { kind: Kind::default(), state: Mutex::default() })))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        SumSig.merger(run)
    }
}

struct Counts {
    inner: Box<dyn Accumulator>,
    n_frames: Arc<AtomicUsize>,
}

impl Accumulator for Counts {
    fn process(&mut self, _: &Tile<'_>) -> Result<()> {
        Err(Error::bug("a tile was read"))
    }

    fn process_staged(&mut self, position: &TilePosition<'_>, tile: StagedTile<'_>) -> Result<()> {
        assert_eq!(
            tile,
            StagedTile { number: None, dtype: DType::U16, is_raw: false, encoded: None }
        );
        self.n_frames.fetch_add(position.frames.len(), Ordering::SeqCst);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        self.inner.finish()
    }
}
