//! Products of each frame with a stack of masks.

pub(crate) mod geometry;
mod product;
mod stack;

pub use geometry::{disk, ring};

use crate::cell::Cell;
use crate::dispatch::dispatch_dtype;
use crate::nav::NavRows;
use crate::total::convert;
use framefold_core::{
    Accumulator, BufferDecl, BufferKind, Complex128, DType, Error, JobMeta, Merger, NativeArray,
    Partial, Partition, Requirements, Result, RunMeta, SourceInfo, Tile, TilingScheme, Udf,
};
use product::{Planes, add_products};
use stack::MaskStack;
use std::sync::Arc;

/// Multiplies each selected frame with each mask of a stack and sums the products: the buffer
/// `intensity` (nav, extra shape `(n_masks,)`).
///
/// The result has the common dtype of the data, float32 and the masks. Sums run in double
/// precision, so that they are exact for integer data and masks of integers up to 2^53.
#[derive(Clone, Debug)]
pub struct Masks {
    stack: Arc<MaskStack>,
}

const INTENSITY: &str = "intensity";

impl Masks {
    /// Applies a dense stack of masks: `masks` has shape `(n, *sig_shape)` and any dtype.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no mask, or `masks` has fewer than two axes.
    pub fn try_new(masks: NativeArray) -> Result<Self> {
        Ok(Masks { stack: Arc::new(MaskStack::try_new(masks)?) })
    }

    /// The number of masks.
    pub fn n_masks(&self) -> usize {
        self.stack.n_masks()
    }

    fn check_shape(&self, sig_shape: &[usize]) -> Result<()> {
        let found = self.stack.sig_shape();
        if found == sig_shape {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "masks of shape {found:?} do not fit frames of shape {sig_shape:?}"
        ))
        .with_hint(format!(
            "make a stack of shape ({}, {})",
            self.n_masks(),
            sig_shape.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        )))
    }

    fn result_dtype(&self, job: &JobMeta) -> DType {
        DType::promote(DType::promote(job.input_dtype, DType::F32), self.stack.dtype())
    }
}

impl Udf for Masks {
    fn name(&self) -> &str {
        "masks"
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        self.check_shape(&source.sig_shape)?;
        Ok(Requirements::native_tiles())
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        self.check_shape(job.shape.sig())?;
        Ok(vec![
            BufferDecl::new(INTENSITY, BufferKind::Nav, self.result_dtype(job))
                .with_extra_shape(&[self.n_masks()]),
        ])
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        self.check_shape(run.job.shape.sig())?;
        let n_products = partition
            .n_frames()
            .checked_mul(self.n_masks())
            .ok_or_else(|| Error::limit("the products of a partition do not fit in memory"))?;
        let dtype = self.result_dtype(&run.job);
        let products = Products {
            real: vec![0.0; n_products],
            imaginary: if dtype.is_complex() { vec![0.0; n_products] } else { vec![] },
        };
        let (stack, tiling) = (Arc::clone(&self.stack), Arc::clone(&run.tiling));
        Ok(dispatch_dtype!(run.job.input_dtype, T => {
            let planes = Planes::<T>::new();
            Box::new(Worker::<T> { stack, tiling, planes, products, dtype })
        }))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        let dtype = self.result_dtype(&run.job);
        Ok(Box::new(NavRows::new(INTENSITY, dtype, run.job.n_selected(), &[self.n_masks()])))
    }
}

/// Sums of products, frame by frame, `n_masks` each; `imaginary` is empty if all are real.
struct Products {
    real: Vec<f64>,
    imaginary: Vec<f64>,
}

struct Worker<T: Cell> {
    stack: Arc<MaskStack>,
    tiling: Arc<TilingScheme>,
    planes: Planes<T>,
    products: Products,
    dtype: DType,
}

impl<T: Cell> Accumulator for Worker<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let frames = T::view(tile.frames())?;
        let n_masks = self.stack.n_masks();
        let frames_here = &tile.position.in_partition;
        let here = frames_here.start * n_masks..frames_here.end * n_masks;
        let real = &mut self.products.real[here.clone()];
        let imaginary = self.products.imaginary.get_mut(here).unwrap_or(&mut []);
        let mut start = 0;
        for run in tile.position.sig.runs(self.tiling.sig_shape()) {
            let cells = start..start + run.len();
            start = cells.end;
            add_products(frames, cells, &self.stack, run, &mut self.planes, (real, imaginary));
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let Products { real, imaginary } = self.products;
        let n_masks = self.stack.n_masks();
        let shape = [real.len() / n_masks, n_masks];
        let cells = if self.dtype.is_complex() {
            let values: Vec<Complex128> =
                real.iter().zip(&imaginary).map(|(&re, &im)| Complex128::new(re, im)).collect();
            convert(&values, self.dtype)?
        } else {
            convert(&real, self.dtype)?
        };
        Ok(Partial::new().with(INTENSITY, NativeArray::try_new(&shape, cells)?))
    }
}
