//! Corrected frames through the whole engine: equal to the naive oracle whatever the tiling, and
//! the same bits on every executor.

use crate::differential::{EXECUTORS, bits, native, options, run_on};
use framefold_core::{Corrections, DType, Dataset, ErrorKind, NativeArray, Result, TypedVec, Udf};
use framefold_exec::{Executor, Plan, PlanOptions};
use framefold_kernels::{LogSum, Max, Pick, StdDev, Sum, SumSig};
use framefold_testkit::oracle::{self, CorrectionOptions, Frames};
use framefold_testkit::{
    Case, Expected, MemoryOptions, MemorySource, Random, Values, cases, random_values,
};
use proptest::prelude::*;
use std::sync::Arc;

/// Which planes there are, and how many pixels are excluded.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    dark: bool,
    gain: bool,
    /// Of 8 pixels.
    excluded: usize,
    /// Excluded pixels come in runs of this length.
    cluster: usize,
    seed: u64,
}

pub(crate) fn wanted() -> impl Strategy<Value = Wanted> {
    (any::<bool>(), any::<bool>(), 0usize..9, 1usize..5, any::<u64>()).prop_map(
        |(dark, gain, excluded, cluster, seed)| Wanted { dark, gain, excluded, cluster, seed },
    )
}

impl Wanted {
    pub(crate) fn options(&self, frame_len: usize) -> CorrectionOptions {
        let mut random = Random::new(self.seed);
        let mut excluded = Vec::with_capacity(frame_len);
        while excluded.len() < frame_len {
            let bad = random.below(8) < self.excluded;
            excluded.extend((0..1 + random.below(self.cluster)).map(|_| bad));
        }
        excluded.truncate(frame_len);
        let mut plane = |there: bool| {
            // Dead pixels have no dark current and no gain worth the name.
            let value = |&bad: &bool| if bad { f64::NAN } else { (random.unit() - 0.3) * 30.0 };
            there.then(|| excluded.iter().map(value).collect())
        };
        CorrectionOptions { dark: plane(self.dark), gain: plane(self.gain), excluded }
    }
}

pub(crate) fn corrections(
    sig: &[usize],
    options: &CorrectionOptions,
) -> Result<Option<Arc<Corrections>>> {
    let plane = |values: &Option<Vec<f64>>| {
        values.as_ref().map(|values| NativeArray::try_new(sig, values.clone())).transpose()
    };
    let excluded = (0..options.excluded.len()).filter(|&cell| options.excluded[cell]).collect();
    let (dark, gain) = (plane(&options.dark)?, plane(&options.gain)?);
    Ok(Some(Arc::new(Corrections::try_new(sig, dark, gain, excluded, true)?)))
}

fn check(case: &Case, wanted: &Wanted, whole: bool) -> Result<()> {
    let (dataset, roi) = (case.dataset()?, case.roi()?);
    let planes = wanted.options(dataset.shape().frame_len());
    let corrected =
        dataset.clone().with_corrections(corrections(dataset.shape().sig(), &planes)?)?;
    let raw = Frames::read(&dataset, roi.as_deref())?;
    let frames = match corrected.corrections() {
        Some(_) => oracle::corrected(&raw, &planes)?,
        None => raw,
    };
    assert_eq!(frames.dtype, corrected.pixel_dtype());
    let real = !case.dtype.is_complex();
    let udfs = || {
        let mut udfs: Vec<Arc<dyn Udf>> =
            vec![Arc::new(Pick::default()), Arc::new(Sum::default()), Arc::new(SumSig)];
        if real {
            udfs.push(Arc::new(Max));
            udfs.push(Arc::new(StdDev::default()));
            if whole {
                udfs.push(Arc::new(LogSum));
            }
        }
        udfs
    };
    let mut expected: Vec<Expected> =
        vec![oracle::pick(&frames)?, oracle::sum(&frames, DType::F32)?, oracle::sum_sig(&frames)?];
    if real {
        expected.push(oracle::max(&frames)?);
        expected.extend(oracle::stddev(&frames, DType::F64)?);
        if whole {
            expected.push(oracle::logsum(&frames)?);
        }
    }
    let options = options(case);
    let reference = run_on(Executor::Inline, &corrected, udfs(), roi.clone(), &options)?;
    let buffers: Vec<_> = reference.udfs.iter().flat_map(|udf| &udf.buffers).collect();
    assert_eq!(buffers.len(), expected.len());
    for (buffer, expected) in buffers.iter().zip(&expected) {
        expected.check(native(&buffer.array)?)?;
    }
    for executor in EXECUTORS {
        let other = run_on(executor, &corrected, udfs(), roi.clone(), &options)?;
        assert_eq!(bits(&other)?, bits(&reference)?, "{executor:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn equals_the_oracle_on_every_executor(
        case in cases(), wanted in wanted(), whole in any::<bool>(),
    ) {
        if let Err(error) = check(&case, &wanted, whole) {
            return Err(TestCaseError::fail(error.to_string()));
        }
    }
}

/// Frames of 1.5 MiB that the planner cuts by itself, with excluded pixels at the cuts.
fn large() -> (Dataset, CorrectionOptions) {
    let sig = [700, 1100];
    let values = random_values(DType::U16, 3 * 700 * 1100, Values::Full, 5);
    let frames = NativeArray::try_new(&[3, 700, 1100], values).unwrap();
    let source = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
    let dataset = Dataset::try_new(Arc::new(source), None, 0).unwrap();
    let mut options =
        CorrectionOptions { excluded: vec![false; sig[0] * sig[1]], ..Default::default() };
    for row in (0..sig[0]).step_by(3) {
        options.excluded[row * sig[1] + row] = true;
    }
    (dataset, options)
}

#[test]
fn large_frames_stay_cut_into_tiles() {
    let (dataset, options) = large();
    let raw = Frames::read(&dataset, None).unwrap();
    let set = corrections(dataset.shape().sig(), &options).unwrap();
    let dataset = dataset.with_corrections(set).unwrap();
    let udfs = || -> Vec<Arc<dyn Udf>> { vec![Arc::new(Pick::default())] };
    let plan = Plan::try_new(&dataset, udfs(), None, &PlanOptions::default()).unwrap();
    assert!(plan.tiling().slices().len() > 1, "{}", plan.explain());
    let text = plan.explain().to_string();
    for part in ["234 excluded pixels, in float32", "uint16 → float32", "corrected into a buffer"]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(!plan.explain().zero_copy);
    let results =
        run_on(Executor::Inline, &dataset, udfs(), None, &PlanOptions::default()).unwrap();
    let found = native(&results.udfs[0].buffers[0].array).unwrap();
    let TypedVec::F32(found) = found.values() else { panic!("{:?}", found.dtype()) };
    // The oracle compares each excluded cell with all others, so a few of them have to do.
    for (i, frame) in raw.frames.iter().map(|(_, frame)| frame).enumerate() {
        let value = |y: usize, x: usize| frame.values[y * 1100 + x].re;
        for row in (0..700_usize).step_by(3) {
            let mut around = vec![];
            for y in row.saturating_sub(1)..=row + 1 {
                for x in row.saturating_sub(1)..=row + 1 {
                    if y < 700 && (y, x) != (row, row) {
                        around.push(value(y, x));
                    }
                }
            }
            let mean = around.iter().sum::<f64>() / around.len() as f64;
            assert_eq!(found[(i * 700 + row) * 1100 + row], mean as f32, "row {row}");
            if row > 0 {
                let left = value(row, row - 1);
                assert_eq!(found[(i * 700 + row) * 1100 + row - 1], left as f32);
            }
        }
    }
}

#[test]
fn corrections_for_other_frames_are_refused() {
    let (dataset, _) = large();
    let other = Corrections::try_new(&[700, 1000], None, None, vec![3], false).unwrap();
    let error = dataset.clone().with_corrections(Some(Arc::new(other))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("[700, 1000]") && error.message().contains("[700, 1100]"));
    let empty = Corrections::try_new(&[700, 1100], None, None, vec![], false).unwrap();
    let dataset = dataset.with_corrections(Some(Arc::new(empty))).unwrap();
    assert!(dataset.corrections().is_none());
    assert_eq!(dataset.pixel_dtype(), DType::U16);
}
