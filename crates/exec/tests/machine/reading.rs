//! What a run asks its source for: the selected frames, each cell once, and nothing else.

use crate::differential::{EXECUTORS, run_on};
use framefold_core::{
    DType, DataSource, Dataset, DenseTile, FrameIndices, FrameReader, NativeArray, Result, Roi,
    SigSlice, SourceInfo, Udf,
};
use framefold_exec::PlanOptions;
use framefold_kernels::{LogSum, Max, StdDev, Sum, SumSig};
use framefold_testkit::{MemoryOptions, MemorySource};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts how often each frame's cells are asked for.
#[derive(Debug)]
struct Counting {
    inner: MemorySource,
    cells: Vec<AtomicUsize>,
}

impl DataSource for Counting {
    fn info(&self) -> &SourceInfo {
        self.inner.info()
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Ok(Box::new(Reader { inner: self.inner.reader()?, cells: &self.cells }))
    }
}

struct Reader<'s> {
    inner: Box<dyn FrameReader + 's>,
    cells: &'s [AtomicUsize],
}

impl FrameReader for Reader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        for frame in frames.iter() {
            self.cells[usize::try_from(frame).unwrap_or(usize::MAX)]
                .fetch_add(sig.len(), Ordering::Relaxed);
        }
        self.inner.read(frames, sig)
    }

    fn verify(&mut self) -> Result<()> {
        self.inner.verify()
    }
}

const N_FRAMES: usize = 20_000;

fn source() -> Result<Arc<Counting>> {
    let frames = NativeArray::zeros(DType::U16, &[N_FRAMES, 16, 24]);
    let inner = MemorySource::try_new(frames, MemoryOptions::default())?;
    let cells = (0..N_FRAMES).map(|_| AtomicUsize::new(0)).collect();
    Ok(Arc::new(Counting { inner, cells }))
}

/// One frame of a hundred, and a run of 50.
fn selected(frame: usize) -> bool {
    frame.wrapping_mul(2_654_435_761) % 100 == 7 || (500..550).contains(&frame)
}

#[test]
fn only_selected_frames_are_read_and_each_cell_once() {
    let runs: [Vec<Arc<dyn Udf>>; 3] = [
        vec![Arc::new(Sum::default()), Arc::new(Max), Arc::new(StdDev::default())],
        vec![Arc::new(SumSig)],
        vec![Arc::new(LogSum), Arc::new(SumSig)],
    ];
    for (executor, udfs) in EXECUTORS.into_iter().flat_map(|e| runs.iter().map(move |u| (e, u))) {
        let source = source().unwrap();
        let dataset = Dataset::try_new(source.clone(), None, 0).unwrap();
        let roi = Arc::new(Roi::try_new((0..N_FRAMES).map(selected).collect()).unwrap());
        run_on(executor, &dataset, udfs.clone(), Some(roi), &PlanOptions::default()).unwrap();
        for (frame, cells) in source.cells.iter().enumerate() {
            let expected = if selected(frame) { 16 * 24 } else { 0 };
            assert_eq!(cells.load(Ordering::Relaxed), expected, "frame {frame}");
        }
    }
}
