//! Dense and sparse sources, and UDFs that want one or the other, together in one run.

use crate::differential::{EXECUTORS, bits, native, options, run_on};
use framefold_core::{
    ArrayFormat, Corrections, CsrTile, DType, DataSource, Dataset, DenseTile, Error, FrameIndices,
    FrameReader, NativeArray, Result, Roi, SigSlice, SourceInfo, Udf,
};
use framefold_exec::{Executor, Plan, PlanOptions};
use framefold_kernels::{Com, LogSum, Masks, Max, Pick, StdDev, Sum, SumSig};
use framefold_testkit::oracle::{self, Frames};
use framefold_testkit::{Case, Expected, InFormat, MemoryOptions, MemorySource, cases};
use proptest::prelude::*;
use std::sync::Arc;

const DENSE: ArrayFormat = ArrayFormat::Dense;
const CSR: ArrayFormat = ArrayFormat::Csr;

/// Which formats the UDFs of a run ask for, in turn.
fn wishes() -> impl Strategy<Value = Vec<Vec<ArrayFormat>>> {
    let wish = prop_oneof![
        Just(vec![DENSE]),
        Just(vec![CSR]),
        Just(vec![DENSE, CSR]),
        Just(vec![CSR, DENSE])
    ];
    prop::collection::vec(wish, 1..5)
}

fn check(case: &Case, wishes: &[Vec<ArrayFormat>]) -> Result<()> {
    let (dataset, roi) = (case.dataset()?, case.roi()?);
    let frames = Frames::read(&dataset, roi.as_deref())?;
    let udfs = || {
        let mut udfs: Vec<Arc<dyn Udf>> =
            vec![Arc::new(Sum::default()), Arc::new(SumSig), Arc::new(Pick::default())];
        if !case.dtype.is_complex() {
            udfs.push(Arc::new(Max));
        }
        let wrap = |(udf, formats): (Arc<dyn Udf>, &Vec<ArrayFormat>)| {
            Arc::new(InFormat { udf, formats: formats.clone() }) as Arc<dyn Udf>
        };
        udfs.into_iter().zip(wishes.iter().cycle()).map(wrap).collect::<Vec<_>>()
    };
    let mut expected: Vec<Expected> =
        vec![oracle::sum(&frames, DType::F32)?, oracle::sum_sig(&frames)?, oracle::pick(&frames)?];
    if !case.dtype.is_complex() {
        expected.push(oracle::max(&frames)?);
    }
    let options = options(case);
    let reference = run_on(Executor::Inline, &dataset, udfs(), roi.clone(), &options)?;
    let buffers = reference.udfs.iter().flat_map(|udf| &udf.buffers);
    for (buffer, expected) in buffers.zip(&expected) {
        expected.check(native(&buffer.array)?)?;
    }
    for executor in EXECUTORS {
        let other = run_on(executor, &dataset, udfs(), roi.clone(), &options)?;
        assert_eq!(bits(&other)?, bits(&reference)?, "{executor:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn every_mix_of_formats_gives_the_same(case in cases(), wishes in wishes()) {
        if let Err(error) = check(&case, &wishes) {
            return Err(TestCaseError::fail(error.to_string()));
        }
    }
}

fn frames(format: ArrayFormat) -> Dataset {
    let pixels: Vec<u16> = (0..8 * 30).map(|i| if i % 7 == 0 { i } else { 0 }).collect();
    let pixels = NativeArray::try_new(&[8, 5, 6], pixels).unwrap();
    let options = MemoryOptions { format, ..MemoryOptions::default() };
    let source = MemorySource::try_new(pixels, options).unwrap();
    Dataset::try_new(Arc::new(source), None, 0).unwrap()
}

fn sum_in(formats: &[ArrayFormat]) -> Vec<Arc<dyn Udf>> {
    vec![Arc::new(InFormat { udf: Arc::new(Sum::default()), formats: formats.to_vec() })]
}

#[test]
fn corrected_pixels_reach_sparse_udfs_as_well() {
    let dark: Vec<f32> = (0..30).map(|i| (i % 3) as f32).collect();
    let dark = NativeArray::try_new(&[5, 6], dark).unwrap();
    let run = |source, formats: &[ArrayFormat]| {
        let corrections = Corrections::try_new(&[5, 6], Some(dark.clone()), None, vec![8], false);
        let corrections = Some(Arc::new(corrections.unwrap()));
        let dataset = frames(source).with_corrections(corrections).unwrap();
        let options = PlanOptions::default();
        bits(&run_on(Executor::Inline, &dataset, sum_in(formats), None, &options).unwrap()).unwrap()
    };
    let expected = run(DENSE, &[DENSE]);
    for source in [DENSE, CSR] {
        for formats in [&[DENSE][..], &[CSR], &[CSR, DENSE]] {
            assert_eq!(run(source, formats), expected, "{source:?} {formats:?}");
        }
    }
}

/// A source that holds few bytes for many pixels.
#[derive(Debug)]
struct Thin(SourceInfo);

impl DataSource for Thin {
    fn info(&self) -> &SourceInfo {
        &self.0
    }
    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Err(framefold_core::Error::bug("nothing is read"))
    }
    fn format(&self) -> ArrayFormat {
        CSR
    }
    fn stored_bytes(&self) -> Option<u64> {
        Some(100 << 20)
    }
}

#[test]
fn the_plan_goes_by_the_entries_if_all_take_them() {
    let mut info = frames(CSR).source().info().clone();
    (info.n_frames, info.nav_shape) = (1 << 16, vec![256, 256]);
    (info.sig_shape, info.base_shape) = (vec![256, 256], vec![256, 256]);
    let dataset = Dataset::try_new(Arc::new(Thin(info)), None, 0).unwrap();
    let explain = |formats: &[ArrayFormat]| {
        let plan = Plan::try_new(&dataset, sum_in(formats), None, &PlanOptions::default());
        plan.unwrap().explain()
    };
    // 1600 bytes a frame instead of 128 KiB.
    let (sparse, dense) = (explain(&[DENSE, CSR]), explain(&[DENSE]));
    assert_eq!((&*sparse.udfs[0].format, &*dense.udfs[0].format), ("csr", "dense"));
    assert_eq!(sparse.bytes_to_read, 100 << 20);
    assert_eq!(sparse.tile_depth, (1 << 20) / 1600);
    assert_eq!(sparse.tile_shape, [256, 256]);
    assert_eq!(dense.bytes_to_read, 8 << 30);
    assert!(dense.n_partitions > sparse.n_partitions);
}

#[test]
fn no_format_at_all_is_an_error() {
    let plan = Plan::try_new(&frames(DENSE), sum_in(&[]), None, &PlanOptions::default());
    let message = plan.err().unwrap().to_string();
    assert!(message.contains("array format") && message.contains("sum"), "{message}");
}

/// A sparse source that refuses to make dense tiles.
#[derive(Debug)]
struct SparseOnly(Arc<dyn DataSource>);

struct SparseReader<'s>(Box<dyn FrameReader + 's>);

impl DataSource for SparseOnly {
    fn info(&self) -> &SourceInfo {
        self.0.info()
    }
    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Ok(Box::new(SparseReader(self.0.reader()?)))
    }
    fn format(&self) -> ArrayFormat {
        CSR
    }
    fn stored_bytes(&self) -> Option<u64> {
        Some(500)
    }
}

impl FrameReader for SparseReader<'_> {
    fn read(&mut self, _: FrameIndices<'_>, _: &SigSlice) -> Result<DenseTile<'_>> {
        Err(Error::bug("a dense tile was asked for"))
    }
    fn read_csr(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<CsrTile<'_>> {
        self.0.read_csr(frames, sig)
    }
    fn verify(&mut self) -> Result<()> {
        self.0.verify()
    }
}

fn all_reductions() -> Vec<Arc<dyn Udf>> {
    let masks = |n: usize| {
        let cells: Vec<u8> = (0..n * 30).map(|i| (i % 5) as u8).collect();
        Masks::try_new(NativeArray::try_new(&[n, 5, 6], cells).unwrap()).unwrap()
    };
    let values = NativeArray::try_new(&[3], vec![2.0f32, 3.0, 1.0]).unwrap();
    let sparse_masks = Masks::try_new_sparse(&[5, 6], &[0, 2, 3], &[7, 14, 21], values).unwrap();
    vec![
        Arc::new(Sum::default()),
        Arc::new(SumSig),
        Arc::new(Max),
        Arc::new(StdDev::default()),
        Arc::new(Com::default()),
        Arc::new(Com { r: 2.0, ..Com::default() }),
        Arc::new(masks(1)),
        Arc::new(masks(20)),
        Arc::new(sparse_masks),
        Arc::new(Pick::default()),
        Arc::new(LogSum),
    ]
}

#[test]
fn reductions_never_make_sparse_data_dense() {
    let sparse = frames(CSR);
    let only = Arc::new(SparseOnly(sparse.source().clone()));
    let only = Dataset::try_new(only, None, 0).unwrap();
    let plan = Plan::try_new(&only, all_reductions(), None, &PlanOptions::default()).unwrap();
    let explained = plan.explain();
    assert!(explained.udfs.iter().all(|udf| udf.format == "csr"), "{explained}");
    let mask = vec![true, false, true, true, false, false, true, true];
    for roi in [None, Some(Arc::new(Roi::try_new(mask).unwrap()))] {
        for tile_shape in [None, Some(vec![2, 4])] {
            // Of these, the sum of logarithms needs whole frames.
            let n = all_reductions().len() - usize::from(tile_shape.is_some());
            let options = PlanOptions { tile_shape, ..PlanOptions::default() };
            let run = |executor, dataset: &Dataset| {
                let udfs = all_reductions().into_iter().take(n).collect();
                bits(&run_on(executor, dataset, udfs, roi.clone(), &options).unwrap()).unwrap()
            };
            let expected = run(Executor::Inline, &frames(DENSE));
            for executor in EXECUTORS {
                // Sums of small integers are exact, whatever they are made from.
                assert_eq!(run(executor, &only), expected, "{executor:?}");
            }
        }
    }
}
