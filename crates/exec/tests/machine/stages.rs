//! Stages between a source and the UDFs: one that changes frames is a source around another.

use crate::differential::{EXECUTORS, bits};
use framefold_core::{
    Corrections, DType, DataSource, Dataset, DenseTile, FrameIndices, FrameReader, NativeArray,
    Result, Scratch, SigSlice, SourceInfo, StoredDType, TileFrames, Udf,
};
use framefold_exec::{Cancel, Executor, Plan, PlanOptions, RunOptions, Silent, run};
use framefold_kernels::{Com, Sum, SumSig};
use framefold_testkit::{MemoryOptions, MemorySource, check_source};
use std::sync::Arc;

/// The sum of each two by two pixels, as float64; an odd last row or column is cropped.
#[derive(Debug)]
struct Binned {
    source: Arc<dyn DataSource>,
    info: SourceInfo,
}

impl Binned {
    fn new(source: Arc<dyn DataSource>) -> Self {
        let mut info = source.info().clone();
        info.sig_shape.iter_mut().for_each(|axis| *axis /= 2);
        info.base_shape.fill(1);
        (info.dtype, info.lends) = (StoredDType::native(DType::F64), false);
        Binned { source, info }
    }
}

impl DataSource for Binned {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        let sig = &self.source.info().sig_shape;
        Ok(Box::new(Binning { reader: self.source.reader()?, sig, scratch: Scratch::new() }))
    }
}

/// Pixel number `i` of a frame, made of `pixels` in rows of `width`.
fn binned(pixels: &[u16], width: usize, i: usize) -> f64 {
    let per_row = width / 2;
    let first = i / per_row * 2 * width + i % per_row * 2;
    let four = [first, first + 1, first + width, first + width + 1];
    four.iter().map(|&pixel| f64::from(pixels[pixel])).sum()
}

struct Binning<'s> {
    reader: Box<dyn FrameReader + 's>,
    sig: &'s [usize],
    scratch: Scratch,
}

impl FrameReader for Binning<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        let twice = |axes: &[usize]| axes.iter().map(|axis| axis * 2).collect::<Vec<_>>();
        let slice = SigSlice::try_within(twice(sig.origin()), twice(sig.shape()), self.sig)?;
        let (n_frames, width) = (frames.len(), sig.shape()[1]);
        let tile = self.reader.read(frames, &slice)?;
        let TileFrames::U16(pixels) = tile.frames() else { panic!("a tile of another dtype") };
        let bytes = self.scratch.prepare(n_frames * sig.len() * size_of::<f64>())?;
        let size = size_of::<f64>();
        for (cells, pixels) in bytes.chunks_exact_mut(sig.len() * size).zip(pixels.frames()) {
            for (i, cell) in cells.chunks_exact_mut(size).enumerate() {
                cell.copy_from_slice(&binned(pixels, 2 * width, i).to_ne_bytes());
            }
        }
        let bytes = self.scratch.bytes();
        let frames = TileFrames::from_bytes(DType::F64, bytes, n_frames, sig.len(), sig.len())?;
        Ok(DenseTile::borrowed(frames))
    }

    fn verify(&mut self) -> Result<()> {
        self.reader.verify()
    }
}

const SIG: [usize; 2] = [6, 9];

#[test]
fn a_stage_that_changes_frames_is_a_source_around_another() {
    let pixels: Vec<u16> = (0..40 * 54u32).map(|i| (i.wrapping_mul(40503) >> 3) as u16).collect();
    // Rows of eight pixels of nine, so that all are in pairs.
    let cells = pixels.chunks(54).flat_map(|frame| {
        let even: Vec<u16> = frame.chunks(9).flat_map(|row| &row[..8]).copied().collect();
        (0..12).map(move |i| binned(&even, 8, i))
    });
    let expected = NativeArray::try_new(&[40, 3, 4], cells.collect::<Vec<f64>>()).unwrap();
    let memory =
        |frames| Arc::new(MemorySource::try_new(frames, MemoryOptions::default()).unwrap());
    let whole = NativeArray::try_new(&[&[40], &SIG[..]].concat(), pixels).unwrap();
    let stage = Arc::new(Binned::new(memory(whole)));
    check_source(stage.as_ref()).unwrap();
    let run_on = |source: Arc<dyn DataSource>, executor: Executor| {
        let dark = NativeArray::try_new(&[3, 4], vec![1.5f64; 12]).unwrap();
        let corrections = Corrections::try_new(&[3, 4], Some(dark), None, vec![5], false).unwrap();
        let dataset = Dataset::try_new(source, None, 0).unwrap();
        let dataset = dataset.with_corrections(Some(Arc::new(corrections))).unwrap();
        let udfs: Vec<Arc<dyn Udf>> =
            vec![Arc::new(Sum::default()), Arc::new(SumSig), Arc::new(Com::default())];
        let plan = Plan::try_new(&dataset, udfs, None, &PlanOptions::default()).unwrap();
        let options = RunOptions { executor, cancel: Cancel::new(), observer: &mut Silent };
        bits(&run(&Arc::new(plan), options).unwrap().snapshot().unwrap()).unwrap()
    };
    for executor in EXECUTORS {
        assert_eq!(run_on(stage.clone(), executor), run_on(memory(expected.clone()), executor));
    }
}
