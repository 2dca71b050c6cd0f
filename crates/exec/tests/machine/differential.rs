//! Random data, dtypes, ROIs, gaps, tilings and partitions through the whole engine: equal to the
//! naive oracle, and the same bits on every executor.

use framefold_core::{Array, Dataset, Error, NativeArray, Result, Roi, Udf};
use framefold_exec::{Cancel, Executor, Plan, PlanOptions, RunOptions, RunResults, Silent, run};
use framefold_kernels::{LogSum, Max, StdDev, Sum, SumSig};
use framefold_testkit::oracle::{self, Frames};
use framefold_testkit::{Case, Expected, cases};
use proptest::prelude::*;
use std::num::NonZeroUsize;
use std::sync::Arc;

pub(crate) const EXECUTORS: [Executor; 4] = [
    Executor::Inline,
    Executor::Threads(NonZeroUsize::new(1)),
    Executor::Threads(NonZeroUsize::new(2)),
    Executor::Threads(NonZeroUsize::new(7)),
];

pub(crate) fn options(case: &Case) -> PlanOptions {
    PlanOptions {
        num_partitions: Some(case.partition_lens.len()),
        tile_depth: Some(case.depth),
        tile_shape: Some(case.tile.clone()),
        ..PlanOptions::default()
    }
}

pub(crate) fn run_on(
    executor: Executor,
    dataset: &Dataset,
    udfs: Vec<Arc<dyn Udf>>,
    roi: Option<Arc<Roi>>,
    options: &PlanOptions,
) -> Result<RunResults> {
    let plan = Arc::new(Plan::try_new(dataset, udfs, roi, options)?);
    let run_options = RunOptions { executor, cancel: Cancel::new(), observer: &mut Silent };
    run(&plan, run_options)?.snapshot()
}

pub(crate) fn native(array: &Array) -> Result<&NativeArray> {
    match array {
        Array::Native(array) => Ok(array),
        Array::Foreign(_) => Err(Error::bug("a native kernel gave a foreign array")),
    }
}

/// Every buffer's bytes, in order.
pub(crate) fn bits(results: &RunResults) -> Result<Vec<Vec<u8>>> {
    let buffers = results.udfs.iter().flat_map(|udf| &udf.buffers);
    buffers.map(|buffer| Ok(native(&buffer.array)?.values().as_bytes().to_vec())).collect()
}

/// `whole`: whether a UDF that needs whole frames takes part, which decides the tiling.
fn check(case: &Case, whole: bool) -> Result<()> {
    let (dataset, roi) = (case.dataset()?, case.roi()?);
    let frames = Frames::read(&dataset, roi.as_deref())?;
    let udfs = || {
        let mut udfs: Vec<Arc<dyn Udf>> = vec![Arc::new(Sum::default()), Arc::new(SumSig)];
        if !case.dtype.is_complex() {
            udfs.push(Arc::new(Max));
            udfs.push(Arc::new(StdDev::default()));
            if whole {
                udfs.push(Arc::new(LogSum));
            }
        }
        udfs
    };
    let options = options(case);
    let reference = run_on(Executor::Inline, &dataset, udfs(), roi.clone(), &options)?;
    let mut expected: Vec<Expected> =
        vec![oracle::sum(&frames, framefold_core::DType::F32)?, oracle::sum_sig(&frames)?];
    if !case.dtype.is_complex() {
        expected.push(oracle::max(&frames)?);
        expected.extend(oracle::stddev(&frames, framefold_core::DType::F64)?);
        if whole {
            expected.push(oracle::logsum(&frames)?);
        }
    }
    let buffers: Vec<_> = reference.udfs.iter().flat_map(|udf| &udf.buffers).collect();
    assert_eq!(buffers.len(), expected.len());
    for (buffer, expected) in buffers.iter().zip(&expected) {
        expected.check(native(&buffer.array)?)?;
    }
    let with_data: Vec<usize> = frames.frames.iter().map(|(index, _)| *index).collect();
    let valid: Vec<usize> =
        reference.valid.iter().enumerate().filter(|(_, valid)| **valid).map(|(i, _)| i).collect();
    assert_eq!(valid, with_data, "positions with data are the valid ones");
    for executor in EXECUTORS {
        let other = run_on(executor, &dataset, udfs(), roi.clone(), &options)?;
        assert_eq!(bits(&other)?, bits(&reference)?, "{executor:?}");
        assert_eq!(other.valid, reference.valid);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn equals_the_oracle_on_every_executor(case in cases(), whole in any::<bool>()) {
        if let Err(error) = check(&case, whole) {
            return Err(TestCaseError::fail(error.to_string()));
        }
    }
}
