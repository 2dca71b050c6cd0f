//! What a detector sees of each frame: one pass over its pixels.

mod dense;
mod sparse;

use super::pixel::{Pixel, dispatch_real, refuse_complex};
use super::runs::Runs;
use framefold::core::{
    Accumulator, Array, ArrayFormat, BufferDecl, BufferKind, CsrTile, DType, FinalRows, FramesView,
    InputDType, JobMeta, Merger, Method, NativeArray, Partial, Partition, Requirements, RunMeta,
    SourceInfo, Tile, TileFrames, TilePosition, Udf, memory,
};
use framefold::{Error, Result};
use std::sync::Arc;

/// What is computed of the pixels of a detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum What {
    /// Their weighted sum.
    Sum,
    /// The standard deviation of those that count.
    Std,
    /// The largest of those that count.
    Max,
    /// Their weighted sum, and the same of each pixel times its row, and times its column.
    Moments,
}

impl What {
    /// How many numbers that are.
    pub(crate) fn width(self) -> usize {
        if self == What::Moments { 3 } else { 1 }
    }
}

/// The only buffer, of kind `nav`, float64 and extra shape `(width,)`.
pub(crate) const SEEN: &str = "seen";

/// Computes something of the pixels of a detector, for each frame.
#[derive(Clone, Debug)]
pub(crate) struct Detect {
    pub(crate) what: What,
    pub(crate) runs: Arc<Runs>,
}

impl Udf for Detect {
    fn name(&self) -> &str {
        "detect"
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        if source.dtype.dtype.is_complex() {
            return Err(refuse_complex(source.dtype.dtype));
        }
        let expected = self.runs.weights.len();
        if source.sig_shape.iter().product::<usize>() != expected {
            return Err(Error::bug(format!("a detector of {expected} pixels for other frames")));
        }
        Ok(Requirements {
            method: Method::Frame,
            input: InputDType::Native,
            formats: vec![ArrayFormat::Dense, ArrayFormat::Csr],
            framewise: true,
            by_rows: true,
            ..Requirements::native_tiles()
        })
    }

    fn buffers(&self, _: &JobMeta) -> Result<Vec<BufferDecl>> {
        let decl = BufferDecl::new(SEEN, BufferKind::Nav, DType::F64);
        Ok(vec![decl.with_extra_shape(&[self.what.width()])])
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let width = self.what.width();
        let seen = memory::zeros(partition.n_frames().saturating_mul(width))?;
        let (what, runs) = (self.what, self.runs.clone());
        dispatch_real!(run.job.input_dtype, T => {
            let columns = memory::filled(Default::default(), runs.columns)?;
            Ok(Box::new(Worker::<T> { what, runs, seen, columns }))
        })
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        Ok(Box::new(Merged(FinalRows::of_run(run, SEEN, DType::F64, &[self.what.width()])?)))
    }
}

/// Looks at the frames of one partition.
struct Worker<T: Pixel> {
    what: What,
    runs: Arc<Runs>,
    seen: Vec<f64>,
    /// Sums of columns of a frame.
    columns: Vec<T::Block>,
}

impl<T: Pixel> Worker<T> {
    /// Where what is seen of some frames goes.
    fn place(&mut self, position: &TilePosition<'_>) -> std::slice::ChunksExactMut<'_, f64> {
        let width = self.what.width();
        let frames = &position.in_partition;
        self.seen[frames.start * width..frames.end * width].chunks_exact_mut(width)
    }
}

impl<T: Pixel> Accumulator for Worker<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let frames = typed::<T>(tile.frames())?;
        let (what, runs) = (self.what, self.runs.clone());
        let mut columns = std::mem::take(&mut self.columns);
        for (seen, frame) in self.place(&tile.position).zip(frames.frames()) {
            dense::see(what, &runs, frame, &mut columns, seen);
        }
        self.columns = columns;
        Ok(())
    }

    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        let view = tile.view::<T>().ok_or_else(|| wrong_dtype(tile.dtype(), T::DTYPE))?;
        let (what, runs) = (self.what, self.runs.clone());
        for (seen, entries) in self.place(position).zip(view.frames()) {
            sparse::see(what, &runs, entries, seen)?;
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let width = self.what.width();
        let shape = [self.seen.len() / width, width];
        Ok(Partial::new().with(SEEN, NativeArray::try_new(&shape, self.seen)?))
    }
}

/// The cells of a tile as `T`.
pub(crate) fn typed<T: Pixel>(frames: TileFrames<'_>) -> Result<FramesView<'_, T>> {
    let dtype = frames.dtype();
    T::view(frames).ok_or_else(|| wrong_dtype(dtype, T::DTYPE))
}

fn wrong_dtype(found: DType, expected: DType) -> Error {
    Error::bug(format!("a tile of {found} was processed as {expected}"))
}

/// The rows of all frames.
struct Merged(FinalRows);

impl Merger for Merged {
    fn merge(&mut self, partition: &Partition, mut partial: Partial) -> Result<()> {
        self.0.put(partition.frames.clone(), partial.take_native(SEEN)?)
    }

    fn results(&self) -> Result<Vec<Array>> {
        Ok(vec![self.0.first(usize::MAX)?.into()])
    }

    fn final_rows(&self) -> Option<Vec<FinalRows>> {
        Some(vec![self.0.clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::detector::Weights;

    #[test]
    fn sums_of_integers_of_64_bits_are_rounded_once() {
        // Runs of a pixel are not put together.
        let weights: Vec<f32> = (0..64).map(|i| [2.0, -1.0, 0.0, -1.0][i % 4]).collect();
        let runs =
            Runs::try_new(Weights { rows: 4, columns: 16, values: weights.clone() }).unwrap();
        assert!(runs.groups.is_none());
        let frame: Vec<u64> = (0..64).map(|i| u64::MAX - i * i).collect();
        let terms = frame.iter().zip(&weights).map(|(&pixel, &w)| i128::from(pixel) * w as i128);
        let expected = terms.sum::<i128>() as f64;
        let (mut dense, mut sparse) = ([0.0], [0.0]);
        dense::see(What::Sum, &runs, &frame, &mut [0; 16], &mut dense);
        let columns: Vec<u32> = (0..64).collect();
        sparse::see(What::Sum, &runs, (&columns, &frame), &mut sparse).unwrap();
        assert_eq!([dense, sparse], [[expected]; 2]);
    }
}
