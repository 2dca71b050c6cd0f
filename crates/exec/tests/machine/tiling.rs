//! What a plan makes of the depth and the size of tiles that a UDF asks for.

use crate::differential::{EXECUTORS, bits, run_on};
use framefold_core::{
    Accumulator, BufferDecl, DType, Dataset, InputDType, JobMeta, Merger, Method, NativeArray,
    Partition, Requirements, Result, RunMeta, SourceInfo, TypedVec, Udf, memory,
};
use framefold_exec::{Cancel, Driver, Executor, Plan, PlanOptions, Silent, WorkerScope};
use framefold_kernels::Sum;
use framefold_testkit::{MemoryOptions, MemorySource};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A sum with other requirements.
#[derive(Default)]
struct Wishes {
    sum: Sum,
    method: Option<Method>,
    depth: Option<usize>,
    max_depth: Option<usize>,
    bytes: Option<usize>,
    input: Option<DType>,
}

impl Udf for Wishes {
    fn name(&self) -> &str {
        "wishes"
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        let plain = self.sum.requirements(source)?;
        let method = self.method.unwrap_or(plain.method);
        let (tile_depth, max_depth) = (self.depth, self.max_depth);
        let input = self.input.map_or(plain.input, InputDType::AtLeast);
        Ok(Requirements { method, input, tile_depth, tile_bytes: self.bytes, max_depth, ..plain })
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        self.sum.buffers(job)
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        self.sum.accumulator(run, partition)
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        self.sum.merger(run)
    }
}

/// 64 frames of 128 KiB.
fn dataset() -> Result<Dataset> {
    dataset_with(MemoryOptions::default())
}

fn dataset_with(options: MemoryOptions) -> Result<Dataset> {
    let values: Vec<u16> =
        (0..64usize << 16).map(|i| (i.wrapping_mul(2_654_435_761) >> 9) as u16).collect();
    let frames = NativeArray::try_new(&[64, 128, 512], TypedVec::U16(values))?;
    let source = MemorySource::try_new(frames, options)?;
    Dataset::try_new(Arc::new(source), None, 0)
}

fn udf(method: Method, depth: Option<usize>) -> Arc<dyn Udf> {
    let sum = Sum { dtype: DType::F64 };
    Arc::new(Wishes { sum, method: Some(method), depth, ..Wishes::default() })
}

fn plan(udfs: Vec<Arc<dyn Udf>>) -> Result<Plan> {
    let options = PlanOptions { num_partitions: Some(1), ..PlanOptions::default() };
    Plan::try_new(&dataset()?, udfs, None, &options)
}

#[test]
fn frames_are_cut_for_a_depth_that_whole_ones_do_not_fit_with() {
    let plan = plan(vec![udf(Method::Tile, None), udf(Method::Tile, Some(32))]).unwrap();
    let tiling = plan.tiling();
    assert_eq!((tiling.depth(), tiling.tile_shape()), (32, &[32, 512][..]));
    let why = plan.explain().why_tiling;
    assert!(why.contains("works best on 32 frames"), "{why}");
}

#[test]
fn frames_stay_whole_where_the_depth_fits_anyway() {
    let plan = plan(vec![udf(Method::Tile, Some(8))]).unwrap();
    assert!(plan.tiling().is_full_frame());
    assert_eq!(plan.tiling().depth(), 8);
}

#[test]
fn frames_stay_whole_for_those_who_need_them_whole() {
    for method in [Method::Frame, Method::Partition] {
        let plan = plan(vec![udf(method, None), udf(Method::Tile, Some(32))]).unwrap();
        assert!(plan.tiling().is_full_frame());
    }
}

#[test]
fn a_depth_beyond_reason_leaves_slices_worth_reading() {
    let plan = plan(vec![udf(Method::Tile, Some(100_000))]).unwrap();
    assert_eq!(plan.tiling().tile_shape(), [16, 512]);
    assert_eq!(plan.tiling().depth(), 64);
}

#[test]
fn no_tile_is_deeper_than_one_of_the_udfs_can_bear() {
    let shallow = |method, max_depth| {
        Arc::new(Wishes { method: Some(method), max_depth, ..Wishes::default() }) as Arc<dyn Udf>
    };
    for (method, other, depth) in [
        (Method::Tile, None, 3),
        (Method::Frame, None, 3),
        (Method::Frame, Some(32), 3),
        // No tile is smaller than all of them.
        (Method::Partition, None, 64),
    ] {
        let plan = plan(vec![shallow(method, Some(3)), udf(Method::Tile, other)]).unwrap();
        assert_eq!(plan.tiling().depth(), depth, "{method:?} {other:?}");
    }
    let plan = plan(vec![shallow(Method::Frame, Some(0)), udf(Method::Frame, None)]).unwrap();
    assert_eq!(plan.tiling().depth(), 1);
}

#[test]
fn tiles_of_no_frames_are_refused_by_name() -> Result<()> {
    for method in [Method::Tile, Method::Frame] {
        for tile_shape in [None, Some(vec![8, 512])] {
            let tile_depth = Some(0);
            let options = PlanOptions { tile_depth, tile_shape, ..PlanOptions::default() };
            let error = Plan::try_new(&dataset()?, vec![udf(method, None)], None, &options).err();
            assert_eq!(error.map(|e| e.message().to_owned()).as_deref(), Some("tile_depth is 0"));
        }
    }
    Ok(())
}

#[test]
fn large_tiles_are_for_pixels_that_lie_in_memory_as_they_are_wanted() {
    const ALL: Option<usize> = Some(usize::MAX);
    let wishes = |bytes, input| {
        let all = Wishes { depth: Some(32), bytes, input, ..Wishes::default() };
        Arc::new(all) as Arc<dyn Udf>
    };
    let copied = MemoryOptions { lends: false, ..MemoryOptions::default() };
    for (udfs, options, rows) in [
        (vec![wishes(ALL, None)], MemoryOptions::default(), 128),
        (vec![wishes(ALL, Some(DType::U16))], MemoryOptions::default(), 128),
        (vec![wishes(ALL, None)], copied, 32),
        (vec![wishes(ALL, Some(DType::F32))], MemoryOptions::default(), 16),
        (vec![wishes(Some(1 << 20), None)], MemoryOptions::default(), 32),
        // Others in the same run want what fits the cache.
        (vec![wishes(ALL, None), wishes(None, None)], MemoryOptions::default(), 32),
        (vec![wishes(ALL, None), udf(Method::Frame, None)], MemoryOptions::default(), 128),
    ] {
        let case = format!("{} UDFs, {options:?}", udfs.len());
        let dataset = dataset_with(options).unwrap();
        let options = PlanOptions { num_partitions: Some(1), ..PlanOptions::default() };
        let plan = Plan::try_new(&dataset, udfs, None, &options).unwrap();
        assert_eq!(plan.tiling().tile_shape(), [rows, 512], "{case}");
        assert!(plan.tiling().depth() * rows <= 32 * 128, "{case}");
    }
}

#[test]
fn results_do_not_depend_on_the_depth() {
    let dataset = dataset().unwrap();
    let run = |executor, depth| {
        let udfs = vec![udf(Method::Tile, depth)];
        bits(&run_on(executor, &dataset, udfs, None, &PlanOptions::default()).unwrap()).unwrap()
    };
    let whole = run(Executor::Inline, None);
    for executor in EXECUTORS {
        assert_eq!(run(executor, Some(32)), whole, "{executor:?}");
    }
}

/// Counts the threads of a run.
#[derive(Default)]
struct Threads(AtomicUsize);

impl WorkerScope for Threads {
    fn thread(&self, work: &mut dyn FnMut()) {
        self.0.fetch_add(1, Ordering::Relaxed);
        work();
    }
}

#[test]
fn no_more_threads_work_than_there_is_memory_for_their_tiles() {
    // A tile of 16 frames takes 8 MiB as F64. Results take half a MiB, and so does each of the partial results: one
    // for each worker, and four that wait.
    let threads = |most| {
        let sum = Sum { dtype: DType::F64 };
        let (method, input) = (Some(Method::Partition), Some(DType::F64));
        let udf: Arc<dyn Udf> = Arc::new(Wishes { sum, method, input, ..Wishes::default() });
        let options = PlanOptions { num_partitions: Some(4), ..PlanOptions::default() };
        let plan = Arc::new(Plan::try_new(&dataset().unwrap(), vec![udf], None, &options).unwrap());
        let threads = Arc::new(Threads::default());
        let (executor, scope) = (Executor::Threads(NonZeroUsize::new(4)), Some(threads.clone()));
        let scope = scope.map(|scope| scope as Arc<dyn WorkerScope>);
        let driver = || Driver::try_new(&plan, executor, Cancel::new(), scope, None);
        let mut driver = memory::within(most, driver).unwrap();
        driver.run(&mut Silent).unwrap();
        assert_eq!(driver.results().n_merged(), 4);
        threads.0.load(Ordering::Relaxed)
    };
    let found = [1 << 20, 19 << 20, 20 << 20, 36 << 20, 37 << 20].map(threads);
    assert_eq!(found, [1, 1, 2, 3, 4]);
}
