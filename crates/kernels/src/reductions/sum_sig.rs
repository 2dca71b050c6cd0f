//! The sum of each frame.

use crate::cell::{Cell, check_terms};
use crate::dispatch::dispatch_dtype;
use crate::entries::{Entries, dense_or_sparse};
use crate::loops::{sum_cells, sum_few};
use crate::nav::NavRows;
use crate::row::Reduction;
use crate::total::round;
use framefold_core::{
    Accumulator, BufferDecl, BufferKind, CsrTile, DType, JobMeta, Merger, NativeArray, Partial,
    Partition, Requirements, Result, RunMeta, SourceInfo, Tile, TilePosition, Udf, memory,
};
use framefold_simd::{Simd, run};
use std::sync::Arc;

pub(super) const ROW: Reduction = Reduction::new(
    "sum_sig",
    "sum of each frame: one number per scan position",
    &[INTENSITY],
    |_, _| Ok(Arc::new(SumSig)),
)
.with_alias("sumsig");

/// Sums all pixels of each selected frame into the buffer `intensity` (nav).
///
/// The result has the common dtype of the data and float32. Integers are summed exactly and
/// rounded once; floating-point numbers are summed in double precision.
#[derive(Clone, Debug, Default)]
pub struct SumSig;

const INTENSITY: &str = "intensity";

fn result_dtype(job: &JobMeta) -> DType {
    DType::promote(job.input_dtype, DType::F32)
}

impl Udf for SumSig {
    fn name(&self) -> &str {
        "sum_sig"
    }

    fn requirements(&self, _source: &SourceInfo) -> Result<Requirements> {
        Ok(Requirements { framewise: true, by_rows: true, ..dense_or_sparse() })
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        Ok(vec![BufferDecl::new(INTENSITY, BufferKind::Nav, result_dtype(job))])
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let dtype = result_dtype(&run.job);
        dispatch_dtype!(run.job.input_dtype, T => {
            check_terms::<T>(run.job.shape.frame_len(), "pixels")?;
            let totals = memory::zeros(partition.n_frames())?;
            Ok(Box::new(Worker::<T> { totals, dtype }))
        })
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        let dtype = result_dtype(&run.job);
        Ok(Box::new(NavRows::new(INTENSITY, dtype, run, &[])?))
    }
}

struct Worker<T: Cell> {
    totals: Vec<T::Total>,
    dtype: DType,
}

impl<T: Cell> Accumulator for Worker<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let simd = Simd::best();
        let frames = T::view(tile.frames())?;
        let totals = &mut self.totals[tile.position.in_partition.clone()];
        run!(simd, {
            for (total, frame) in totals.iter_mut().zip(frames.frames()) {
                *total += sum_cells(frame);
            }
        });
        Ok(())
    }

    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        let simd = Simd::best();
        let entries = Entries::<T>::of(tile)?;
        let totals = &mut self.totals[position.in_partition.clone()];
        run!(simd, {
            for (total, (_, values)) in totals.iter_mut().zip(entries.by_frame()) {
                *total += sum_few(values);
            }
        });
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        // Every frame lies in one partition, so that this is the only rounding.
        let sums = round(&self.totals, self.dtype)?;
        Ok(Partial::new().with(INTENSITY, NativeArray::try_new(&[sums.len()], sums)?))
    }
}
