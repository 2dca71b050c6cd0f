//! Frames that are processed band by band give what whole ones give.

use crate::differential::{EXECUTORS, bits, native, run_on};
use framefold_core::{Corrections, DType, Dataset, Error, NativeArray, Result, Roi, TypedVec, Udf};
use framefold_exec::{
    Cancel, Crew, Driver, Event, Executor, Host, Observer, Plan, PlanOptions, Results, Silent,
    Worker,
};
use framefold_kernels::{Max, StdDev, Sum, SumSig};
use framefold_testkit::oracle::{self, Frames};
use framefold_testkit::{MemoryOptions, MemorySource};
use std::sync::Arc;

/// 5 MiB in 101 frames: a sum of as many pixels as a few frames have.
fn dataset() -> Result<Dataset> {
    let values: Vec<u16> =
        (0..101 * 130 * 200usize).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u16).collect();
    let frames = NativeArray::try_new(&[101, 130, 200], TypedVec::U16(values))?;
    let source = MemorySource::try_new(frames, MemoryOptions::default())?;
    Dataset::try_new(Arc::new(source), None, 0)
}

fn udfs() -> Vec<Arc<dyn Udf>> {
    vec![Arc::new(Sum { dtype: DType::F64 }), Arc::new(Max), Arc::new(StdDev::default())]
}

fn plan(dataset: &Dataset, udfs: Vec<Arc<dyn Udf>>, roi: Option<Arc<Roi>>) -> Result<Plan> {
    Plan::try_new(dataset, udfs, roi, &PlanOptions::default())
}

/// Four of five frames.
fn roi() -> Result<Arc<Roi>> {
    Ok(Arc::new(Roi::try_new((0..101).map(|i| i % 5 != 2).collect())?))
}

#[test]
fn results_are_those_of_whole_frames() {
    let dataset = dataset().unwrap();
    for roi in [None, Some(roi().unwrap())] {
        let banded = plan(&dataset, udfs(), roi.clone()).unwrap();
        assert!(banded.explain().why_partitions.contains("bands"), "{}", banded.explain());
        let frames = Frames::read(&dataset, roi.as_deref()).unwrap();
        let mut expected =
            vec![oracle::sum(&frames, DType::F64).unwrap(), oracle::max(&frames).unwrap()];
        expected.extend(oracle::stddev(&frames, DType::F64).unwrap());
        let run = |executor| {
            run_on(executor, &dataset, udfs(), roi.clone(), &PlanOptions::default()).unwrap()
        };
        let reference = run(Executor::Inline);
        let buffers: Vec<_> = reference.udfs.iter().flat_map(|udf| &udf.buffers).collect();
        assert_eq!(buffers.len(), expected.len());
        for (buffer, expected) in buffers.iter().zip(&expected) {
            expected.check(native(&buffer.array).unwrap()).unwrap();
        }
        assert!(reference.valid.iter().all(|&valid| valid));
        for executor in EXECUTORS {
            assert_eq!(bits(&run(executor)).unwrap(), bits(&reference).unwrap(), "{executor:?}");
        }
    }
}

#[test]
fn repairs_cross_the_edges_of_bands() {
    // Columns and blobs of excluded pixels: most bands have some at their edges.
    let excluded = (0..130 * 200).filter(|i| i % 200 == 7 || (i / 200 % 3 < 2 && i % 200 > 190));
    let dark = NativeArray::try_new(&[130, 200], vec![0.5f64; 130 * 200]).unwrap();
    let corrections =
        Corrections::try_new(&[130, 200], Some(dark), None, excluded.collect(), true).unwrap();
    let dataset = dataset().unwrap().with_corrections(Some(Arc::new(corrections))).unwrap();
    let max = || -> Vec<Arc<dyn Udf>> { vec![Arc::new(Max)] };
    assert!(plan(&dataset, max(), None).unwrap().explain().why_partitions.contains("bands"));
    let whole = PlanOptions { num_partitions: Some(3), ..PlanOptions::default() };
    let run = |options| run_on(Executor::Inline, &dataset, max(), None, options).unwrap();
    assert_eq!(bits(&run(&PlanOptions::default())).unwrap(), bits(&run(&whole)).unwrap());
}

#[test]
fn frames_are_complete_with_their_last_band() {
    let dataset = dataset().unwrap();
    let plan = Arc::new(plan(&dataset, udfs(), None).unwrap());
    let mut worker = Worker::try_new(&plan).unwrap();
    let mut results = Results::try_new(plan.clone()).unwrap();
    let mut n_complete = 0;
    for index in 0..plan.n_partitions() {
        let complete = plan.completed_by(index);
        assert_eq!(complete.start, if complete.is_empty() { complete.end } else { n_complete });
        n_complete += complete.len();
        results.merge(worker.run_partition(index, &mut || Ok(())).unwrap()).unwrap();
        let valid = results.snapshot().unwrap().valid;
        assert_eq!(valid.iter().filter(|&&valid| valid).count(), n_complete);
    }
    assert_eq!(n_complete, 101);
    assert!(worker.run_partition(plan.n_partitions(), &mut || Ok(())).is_err());
}

#[test]
fn frames_stay_whole_where_one_udf_needs_them() {
    let mut udfs = udfs();
    udfs.push(Arc::new(SumSig));
    let plan = plan(&dataset().unwrap(), udfs, None).unwrap();
    assert!(!plan.explain().why_partitions.contains("bands"));
}

/// Eight runs of 250 frames whose pixels are all 1, in bands.
fn ones() -> Arc<Plan> {
    let frames = TypedVec::U16(vec![1; 2000 * 64 * 64]);
    let frames = NativeArray::try_new(&[2000, 64, 64], frames).unwrap();
    let source = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
    let dataset = Dataset::try_new(Arc::new(source), None, 0).unwrap();
    let udfs: Vec<Arc<dyn Udf>> =
        vec![Arc::new(Sum { dtype: DType::F64 }), Arc::new(StdDev::default())];
    Arc::new(plan(&dataset, udfs, None).unwrap())
}

#[test]
fn what_was_merged_for_another_number_of_bands_is_refused() {
    let plan = ones();
    let of_state = |merged, state| Results::of_udf(plan.clone(), 0, merged, state);
    let state = || of_state(0, vec![]).unwrap().into_state().unwrap().unwrap();
    let n_bands = state().len();
    assert!(n_bands > 1 && of_state(n_bands, state()).is_ok());
    for (merged, n_states) in [(n_bands, n_bands - 1), (0, 1), (n_bands, 0), (0, n_bands + 1)] {
        let mut other = state();
        other.resize_with(n_states, Vec::new);
        let error = of_state(merged, other).err().expect("it is refused");
        let words = format!("of {n_states} bands, and the plan has {n_bands}");
        assert!(error.message().ends_with(&words), "{error}");
    }
}

/// How many frames are in the results, which is what all pixels of their sum have to be.
fn n_in(results: &Results) -> usize {
    let snapshot = results.snapshot().unwrap();
    let n = snapshot.valid.iter().filter(|&&valid| valid).count();
    let sum = native(&snapshot.udfs[0].get("intensity").unwrap().array).unwrap();
    assert!(sum.as_slice::<f64>().unwrap().iter().all(|&sum| sum == n as f64), "{n} frames");
    n
}

#[test]
fn steps_are_of_whole_frames() {
    let plan = ones();
    let expected: Vec<usize> =
        (0..plan.n_partitions()).map(|index| plan.completed_by(index).end).collect();
    let mut expected: Vec<usize> = expected.into_iter().filter(|&end| end > 0).collect();
    expected.dedup();
    for executor in EXECUTORS {
        let mut driver = Driver::try_new(&plan, executor, Cancel::new(), None, None).unwrap();
        let mut found = Vec::new();
        while driver.step(&mut Silent).unwrap() {
            found.push(n_in(driver.results()));
        }
        assert_eq!(found, expected, "{executor:?}");
    }
}

/// Checks what there is at each event.
struct Looks;

impl Observer for Looks {
    fn event(&mut self, event: &Event, results: &Results) -> Result<()> {
        if let Event::Merged { frames, .. } = *event {
            assert_eq!(n_in(results), frames);
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Processes so many partitions, and is stopped.
struct Stopped(Arc<Plan>, usize);

impl Crew for Stopped {
    fn work(&mut self, host: &mut dyn Host) -> Result<()> {
        let mut worker = Worker::try_new(&self.0)?;
        for index in 0..self.1 {
            assert!(host.merge(worker.run_partition(index, &mut || Ok(()))?, 0)?);
        }
        Err(Error::cancelled())
    }

    fn close(&mut self, _: bool, _: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn a_run_that_is_stopped_has_results_of_whole_frames() {
    let plan = ones();
    for n in 0..7 {
        let crew = Box::new(Stopped(plan.clone(), n));
        let mut driver = Driver::with_crew(&plan, crew, Cancel::new(), None).unwrap();
        driver.run(&mut Looks).unwrap_err();
        assert_eq!(n_in(driver.results()), plan.completed_by(n).start);
    }
}
