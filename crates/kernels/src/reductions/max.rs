//! The largest value of each pixel.

mod sparse;

use crate::cell::Real;
use crate::dispatch::dispatch_dtype;
use crate::entries::dense_or_sparse;
use crate::layout::{SigLayout, filled};
use crate::loops::{raise, raise_frames};
use crate::row::Reduction;
use framefold_core::{
    Accumulator, Array, ArrayFormat, BufferDecl, BufferKind, Error, JobMeta, Merger, NativeArray,
    Partial, Partition, Requirements, Result, RunMeta, SourceInfo, Tile, Udf, memory,
};
use framefold_simd::Simd;
use sparse::SparseTops;
use std::borrow::Cow;
use std::sync::Arc;

pub(super) const ROW: Reduction =
    Reduction::new("max", "largest value of each pixel over all frames", &["intensity"], |_, _| {
        Ok(Arc::new(Max))
    });

/// Finds the largest value of each pixel over the selected frames: the buffer `intensity` (sig),
/// in the dtype of the data.
///
/// NaN wins over any number, as in `numpy.maximum`. Before the first merge, every pixel holds the
/// smallest value of the dtype. Complex data have no order and are refused.
#[derive(Clone, Debug, Default)]
pub struct Max;

fn refuse_complex() -> Error {
    Error::unsupported("complex numbers have no largest value")
        .with_hint("take the maximum of their magnitude instead")
}

impl Udf for Max {
    fn name(&self) -> &str {
        "max"
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        if source.dtype.dtype.is_complex() {
            return Err(refuse_complex());
        }
        Ok(Requirements { cellwise: true, ..dense_or_sparse() })
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        Ok(vec![BufferDecl::new("intensity", BufferKind::Sig, job.input_dtype)])
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        if run.format == ArrayFormat::Csr {
            return Ok(dispatch_dtype!(
                real run.job.input_dtype, T => Box::new(SparseTops::<T>::try_new(run, partition)?),
                complex => return Err(refuse_complex())
            ));
        }
        Ok(dispatch_dtype!(
            real run.job.input_dtype, T => Box::new(Tops::<T>::try_new(run)?),
            complex => return Err(refuse_complex())
        ))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        Ok(dispatch_dtype!(
            real run.job.input_dtype, T => Box::new(Tops::<T>::try_new(run)?),
            complex => return Err(refuse_complex())
        ))
    }
}

/// The largest values so far, of a partition or of the run.
struct Tops<T: Real> {
    layout: SigLayout,
    tops: Vec<T>,
    /// Whether anything has been merged.
    merged: bool,
}

impl<T: Real> Tops<T> {
    fn try_new(run: &RunMeta) -> Result<Self> {
        let layout = SigLayout::try_new(&run.tiling)?;
        let tops = filled(T::LOWEST, layout.len())?;
        Ok(Tops { layout, tops, merged: false })
    }
}

impl<T: Real> Accumulator for Tops<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let tops = &mut self.tops[self.layout.range(tile.position.sig)];
        raise_frames(Simd::best(), T::view(tile.frames())?, tops);
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        partial(self.tops)
    }
}

fn partial<T: Real>(tops: Vec<T>) -> Result<Partial> {
    Ok(Partial::new().with("tops", NativeArray::try_new(&[tops.len()], tops)?))
}

impl<T: Real> Merger for Tops<T> {
    fn merge(&mut self, _partition: &Partition, mut partial: Partial) -> Result<()> {
        let tops = partial.take_native("tops")?;
        if tops.values().len() != self.tops.len() {
            let (found, expected) = (tops.values().len(), self.tops.len());
            return Err(Error::bug(format!("{found} largest values for {expected} pixels")));
        }
        if self.merged {
            raise(&mut self.tops, tops.as_slice()?);
        } else {
            // The first partial result is the result so far; there is no need to copy it.
            self.tops = tops.into_vec()?;
            self.merged = true;
        }
        Ok(())
    }

    fn results(&self) -> Result<Vec<Array>> {
        let tops = self.layout.in_frame_order(&self.tops)?;
        let tops = match tops {
            Cow::Owned(tops) => tops,
            Cow::Borrowed(tops) => memory::collected(tops.iter().copied())?,
        };
        Ok(vec![NativeArray::try_new(self.layout.sig_shape(), tops)?.into()])
    }

    fn take_partials(&mut self) -> Result<Option<Vec<Partial>>> {
        if !std::mem::take(&mut self.merged) {
            return Ok(Some(Vec::new()));
        }
        Ok(Some(vec![partial(std::mem::take(&mut self.tops))?]))
    }
}
