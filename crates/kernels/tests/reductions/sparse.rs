//! Sparse tiles as no dense tile could be turned into: with zeros among their entries, or wrong.

use crate::table::example;
use framefold_core::{
    ArrayFormat, Complex128, CsrTile, DType, DataSource, ErrorKind, JobMeta, NativeArray,
    Partition, Result, RunMeta, Scratch, Shape, Tile, TilePosition, TilingScheme, TypedSlice,
    TypedVec, Udf, densify,
};
use framefold_kernels::{Com, Masks, REDUCTIONS};
use framefold_testkit::{
    Expected, MemoryOptions, MemorySource, Random, Values, assert_same, random_values,
};
use std::sync::Arc;

const SIG: [usize; 2] = [7, 9];
const N_PIXELS: usize = 63;
const N_FRAMES: usize = 40;

/// All reductions that take data of this dtype, masks of all kinds among them.
fn udfs(dtype: DType) -> Vec<Arc<dyn Udf>> {
    let frames = NativeArray::zeros(dtype, &[1, SIG[0], SIG[1]]);
    let source = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
    let mut udfs: Vec<Arc<dyn Udf>> = REDUCTIONS
        .iter()
        .map(|row| example(row, &SIG).unwrap())
        .filter(|udf| udf.requirements(source.info()).is_ok())
        .collect();
    if !dtype.is_complex() {
        udfs.push(Arc::new(Com { r: 3.5, ri: 1.0, cy: Some(2.0), ..Com::default() }));
    }
    for dtype in [DType::U8, DType::F32, DType::F64, DType::C64, DType::I64] {
        for n_masks in [1, 3, 5, 8, 20] {
            let cells = random_values(dtype, n_masks * N_PIXELS, Values::Counts, 5);
            let masks = NativeArray::try_new(&[&[n_masks], &SIG[..]].concat(), cells).unwrap();
            udfs.push(Arc::new(Masks::try_new(masks).unwrap()));
        }
        let starts = [0, 20, 20, 50];
        let pixels: Vec<usize> = (5..25).chain((0..60).step_by(2)).collect();
        let values = random_values(dtype, 50, Values::Full, 6);
        let values = NativeArray::try_new(&[50], values).unwrap();
        udfs.push(Arc::new(Masks::try_new_sparse(&SIG, &starts, &pixels, values).unwrap()));
    }
    udfs
}

fn run_meta(dtype: DType, format: ArrayFormat) -> RunMeta {
    RunMeta {
        may_wait: false,
        to_sink: Arc::from([]),
        job: JobMeta {
            shape: Shape::try_new(&[N_FRAMES], &SIG).unwrap(),
            native_dtype: dtype,
            input_dtype: dtype,
            roi: None,
        },
        tiling: Arc::new(TilingScheme::try_new(&SIG, &SIG, N_FRAMES).unwrap()),
        partitions: Arc::new([Partition { index: 0, frames: 0..N_FRAMES }]),
        format,
    }
}

/// The results of a run over one tile, in this format.
fn run(udf: &dyn Udf, tile: &CsrTile<'_>, format: ArrayFormat) -> Result<Vec<NativeArray>> {
    let run = run_meta(tile.dtype(), format);
    let partition = &run.partitions[0];
    let mut accumulator = udf.accumulator(&run, partition)?;
    let sig = &run.tiling.slices()[0];
    let position = TilePosition { frames: 0..N_FRAMES, in_partition: 0..N_FRAMES, sig };
    if format == ArrayFormat::Csr {
        accumulator.process_csr(&position, tile)?;
    } else {
        let mut scratch = Scratch::new();
        accumulator.process(&Tile { position, data: densify(tile, &mut scratch)? })?;
    }
    let mut merger = udf.merger(&run)?;
    merger.merge(partition, accumulator.finish()?)?;
    merger.results()?.into_iter().map(|array| array.try_native()).collect()
}

/// Frames of very different numbers of entries: none, a few, and all.
fn rows(seed: u64) -> (Vec<usize>, Vec<u32>) {
    let mut random = Random::new(seed);
    let (mut starts, mut columns) = (vec![0], vec![]);
    for _ in 0..N_FRAMES {
        let share = [0, 1, 10, 60, 100][random.below(5)];
        columns.extend((0..N_PIXELS as u32).filter(|_| random.below(100) < share));
        starts.push(columns.len());
    }
    (starts, columns)
}

fn numbers(array: &NativeArray) -> Option<Vec<Complex128>> {
    let real = |x: f64| Complex128::new(x, 0.0);
    Some(match array.values() {
        TypedVec::F32(v) => v.iter().map(|&x| real(x.into())).collect(),
        TypedVec::F64(v) => v.iter().map(|&x| real(x)).collect(),
        TypedVec::C64(v) => v.iter().map(|z| Complex128::new(z.re.into(), z.im.into())).collect(),
        TypedVec::C128(v) => v.clone(),
        _ => return None,
    })
}

/// Whether two results agree: to the bit, or by what sums of floating-point numbers may differ.
fn agree(found: &NativeArray, expected: &NativeArray, exact: bool) -> Result<()> {
    let Some(values) = numbers(expected).filter(|_| !exact) else {
        return assert_same(found, expected);
    };
    let size = values.iter().map(|z| z.norm()).filter(|n| n.is_finite()).fold(0.0, f64::max);
    let tolerances = vec![1e-6 * size; values.len()];
    let (shape, dtype) = (expected.shape().to_vec(), expected.dtype());
    Expected::Near { shape, dtype, values, tolerances }.check(found)
}

#[test]
fn entries_may_be_zero() {
    for dtype in DType::all() {
        for (seed, values) in [Values::Counts, Values::Full, Values::Rare].into_iter().enumerate() {
            let (starts, columns) = rows(seed as u64);
            let values = random_values(dtype, columns.len(), values, 3);
            let values = TypedSlice::from_bytes(dtype, values.as_bytes()).unwrap();
            let tile = CsrTile::try_new(&starts, &columns, values, N_PIXELS).unwrap();
            for udf in udfs(dtype) {
                let found = run(udf.as_ref(), &tile, ArrayFormat::Csr).unwrap();
                let expected = run(udf.as_ref(), &tile, ArrayFormat::Dense).unwrap();
                let narrow = dtype.size() <= 4 && !dtype.is_float() && !dtype.is_complex();
                let exact = matches!(udf.name(), "max" | "pick")
                    || (narrow && matches!(udf.name(), "sum" | "sum_sig" | "stddev" | "com"));
                for (found, expected) in found.iter().zip(&expected) {
                    agree(found, expected, exact)
                        .unwrap_or_else(|e| panic!("{} of {dtype}, {seed}: {e}", udf.name()));
                }
            }
        }
    }
}

#[test]
fn columns_outside_of_the_frame_are_errors() {
    // Frames of 64 pixels where 63 were planned, as if a file had changed after it was checked.
    for dtype in DType::all() {
        for column in [N_PIXELS as u32, 100_000, u32::MAX - 1] {
            let (starts, columns) = ([vec![0; N_FRAMES], vec![3]].concat(), [2, 5, column]);
            let values = random_values(dtype, 3, Values::Counts, 3);
            let values = TypedSlice::from_bytes(dtype, values.as_bytes()).unwrap();
            let len = column as usize + 1;
            let tile = CsrTile::try_new(&starts, &columns, values, len).unwrap();
            // The sum of a frame does not depend on where its entries are.
            for udf in udfs(dtype).into_iter().filter(|udf| udf.name() != "sum_sig") {
                let error = run(udf.as_ref(), &tile, ArrayFormat::Csr).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::BadFile, "{}", udf.name());
                assert!(error.to_string().contains("0 to 62"), "{error}");
            }
        }
    }
}

#[test]
fn masks_that_make_zeros_count_want_dense_tiles() {
    let formats = |weight: f32| {
        let masks = NativeArray::try_new(&[1, 7, 9], vec![weight; N_PIXELS]).unwrap();
        let frames = NativeArray::zeros(DType::U8, &[1, 7, 9]);
        let source = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
        Masks::try_new(masks).unwrap().requirements(source.info()).unwrap().formats
    };
    assert_eq!(formats(1.0), [ArrayFormat::Dense, ArrayFormat::Csr]);
    assert_eq!(formats(f32::NAN), [ArrayFormat::Dense]);
    assert_eq!(formats(f32::INFINITY), [ArrayFormat::Dense]);
}
