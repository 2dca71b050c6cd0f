//! The sum of all frames, pixel by pixel.

use crate::cell::{Cell, check_terms};
use crate::dispatch::dispatch_dtype;
use crate::entries::{Entries, dense_or_sparse, scatter};
use crate::layout::SigLayout;
use crate::loops::add_frames;
use crate::row::{DefaultValue, Parameter, ParameterKind, Reduction};
use crate::sums::{MergedSums, PixelSums};
use framefold_core::{
    Accumulator, Array, BufferDecl, BufferKind, CsrTile, DType, JobMeta, Merger, Partial,
    Partition, Requirements, Result, RunMeta, SourceInfo, Tile, TilePosition, Udf,
};
use framefold_simd::Simd;
use std::sync::Arc;

pub(super) const ROW: Reduction =
    Reduction::new("sum", "sum of all frames, pixel by pixel", &["intensity"], |parameters, _| {
        let dtype = parameters.dtype("dtype")?.unwrap_or(Sum::default().dtype);
        Ok(Arc::new(Sum { dtype }))
    })
    .with_parameters(&[Parameter::new(
        "dtype",
        ParameterKind::DType,
        DefaultValue::Is("float32"),
        "the dtype of the result; it gets a wider one where the pixels need it",
    )
    .with_option("result-dtype")]);

/// Sums each pixel over the selected frames into the buffer `intensity` (sig).
///
/// The result has the common dtype of the data and [`Sum::dtype`], where integers and truth values
/// count as 64 bits wide. Integers are summed exactly and rounded once, and a sum that an integer
/// dtype cannot hold is an error; floating-point numbers are summed in double precision, and have
/// 32 bits at least.
#[derive(Clone, Debug)]
pub struct Sum {
    /// The dtype that the result is promoted with.
    pub dtype: DType,
}

impl Default for Sum {
    fn default() -> Self {
        Sum { dtype: DType::F32 }
    }
}

impl Sum {
    fn result_dtype(&self, job: &JobMeta) -> DType {
        match DType::promote(job.input_dtype, self.dtype) {
            DType::Bool | DType::I8 | DType::I16 | DType::I32 | DType::I64 => DType::I64,
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => DType::U64,
            other => DType::promote(other, DType::F32),
        }
    }
}

impl Udf for Sum {
    fn name(&self) -> &str {
        "sum"
    }

    fn requirements(&self, _source: &SourceInfo) -> Result<Requirements> {
        Ok(Requirements { cellwise: true, ..dense_or_sparse() })
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        Ok(vec![BufferDecl::new("intensity", BufferKind::Sig, self.result_dtype(job))])
    }

    fn accumulator(&self, run: &RunMeta, _partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let tiling = &run.tiling;
        Ok(dispatch_dtype!(run.job.input_dtype, T => {
            Box::new(Worker(PixelSums::<T>::try_new(tiling)?))
        }))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        let layout = SigLayout::try_new(&run.tiling)?;
        let dtype = self.result_dtype(&run.job);
        dispatch_dtype!(run.job.input_dtype, T => {
            check_terms::<T>(run.job.n_selected(), "frames")?;
            Ok(Box::new(Merged { sums: MergedSums::<T>::new(layout), dtype }))
        })
    }
}

struct Worker<T: Cell>(PixelSums<T>);

impl<T: Cell> Accumulator for Worker<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let frames = T::view(tile.frames())?;
        self.0.add(tile.position.sig, frames.depth(), |which, _, blocks| {
            add_frames(Simd::best(), frames, which, blocks);
            Ok(())
        })
    }

    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        let entries = Entries::<T>::of(tile)?;
        self.0.add(position.sig, entries.depth(), |which, _, blocks| {
            scatter(blocks, entries.frames(which), |sum, value| *sum += value.block())
        })
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        self.0.into_partial()
    }
}

struct Merged<T: Cell> {
    sums: MergedSums<T>,
    dtype: DType,
}

impl<T: Cell> Merger for Merged<T> {
    fn merge(&mut self, _partition: &Partition, partial: Partial) -> Result<()> {
        self.sums.add(partial)
    }

    fn results(&self) -> Result<Vec<Array>> {
        Ok(vec![self.sums.results(self.dtype)?.into()])
    }

    fn take_partials(&mut self) -> Result<Option<Vec<Partial>>> {
        self.sums.take_partials().map(Some)
    }
}
