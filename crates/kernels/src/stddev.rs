//! Mean, variance and standard deviation of each pixel.

use crate::cell::{Cell, check_terms, deviation};
use crate::dispatch::dispatch_dtype;
use crate::layout::SigLayout;
use crate::loops::{COLUMN_CELLS, add_columns};
use crate::total::{Total, Value, add_all, convert, pack, round};
use framefold_core::{
    Accumulator, Array, BufferDecl, BufferKind, DType, Error, FramesView, JobMeta, Merger,
    NativeArray, Partial, Partition, Requirements, Result, RunMeta, SourceInfo, Tile, Udf,
};

/// Statistics of each pixel over the selected frames.
///
/// Buffers, all of kind `sig` but `num_frames`: `varsum` (the sum of squared distances from the
/// mean), `num_frames` (`single`, int64), `sum`, `var` (`varsum / num_frames`), `std` and `mean`.
/// Of complex data, `sum` and `mean` are complex and the others real.
///
/// Sums of integers are exact. Squared distances are taken from the mean of each tile and merged
/// pairwise, so that a small variance on top of a large mean is not lost: T. F. Chan, G. H. Golub
/// and R. J. LeVeque, "Algorithms for computing the sample variance: analysis and
/// recommendations", The American Statistician 37 (1983), 242–247.
#[derive(Clone, Debug, Default)]
pub struct StdDev {
    /// The dtype of the results (float or complex); float64 if it is not given. Computation is
    /// in double precision in any case.
    pub dtype: Option<DType>,
}

impl StdDev {
    /// The dtypes of variances and of means.
    fn result_dtypes(&self, job: &JobMeta) -> Result<(DType, DType)> {
        let dtype = self.dtype.unwrap_or(DType::F64);
        match dtype {
            DType::F32 | DType::F64 | DType::C64 | DType::C128 => {}
            other => {
                return Err(Error::invalid(format!("a standard deviation cannot be of {other}"))
                    .with_hint("use float32, float64, complex64 or complex128"));
            }
        }
        let mean = match job.input_dtype.is_complex() {
            true => DType::promote(dtype, DType::C64),
            false => dtype,
        };
        Ok((dtype, mean))
    }
}

impl Udf for StdDev {
    fn name(&self) -> &str {
        "stddev"
    }

    fn requirements(&self, _source: &SourceInfo) -> Result<Requirements> {
        Ok(Requirements::native_tiles())
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        let (var, mean) = self.result_dtypes(job)?;
        Ok(vec![
            BufferDecl::new("varsum", BufferKind::Sig, var),
            BufferDecl::new("num_frames", BufferKind::Single, DType::I64),
            BufferDecl::new("sum", BufferKind::Sig, mean),
            BufferDecl::new("var", BufferKind::Sig, var),
            BufferDecl::new("std", BufferKind::Sig, var),
            BufferDecl::new("mean", BufferKind::Sig, mean),
        ])
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let layout = SigLayout::new(&run.tiling);
        let n_frames = partition.n_frames();
        Ok(dispatch_dtype!(run.job.input_dtype, T => Box::new(Worker::<T> {
            seen: vec![0; run.tiling.slices().len()],
            moments: Moments::zeros(layout.len()),
            layout,
            n_frames,
        })))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        let (var_dtype, mean_dtype) = self.result_dtypes(&run.job)?;
        let layout = SigLayout::new(&run.tiling);
        dispatch_dtype!(run.job.input_dtype, T => {
            check_terms::<T>(run.job.n_selected(), "frames")?;
            let moments = Moments::<<T as Cell>::Total>::zeros(layout.len());
            Ok(Box::new(Merged { moments, layout, n_frames: 0, var_dtype, mean_dtype }))
        })
    }
}

/// Sum and sum of squared distances from the mean, for every pixel.
struct Moments<A> {
    sums: Vec<A>,
    varsums: Vec<f64>,
}

impl<A: Total> Moments<A> {
    fn zeros(len: usize) -> Self {
        Moments { sums: vec![A::default(); len], varsums: vec![0.0; len] }
    }
}

/// Folds the statistics `b` of `n_b` frames into `a` of `n_a` frames (Chan et al., eq. 2.1).
///
/// The difference of the means is taken as `(n_a * sum_b - n_b * sum_a) / (n_a * n_b)`: this
/// needs no division per pixel, and is exactly zero for a pixel that never changes, as long as its
/// sums are exact.
fn fold<A: Total>(
    n_a: usize,
    (sums_a, varsums_a): (&mut [A], &mut [f64]),
    n_b: usize,
    (sums_b, varsums_b): (&[A], &[f64]),
) -> Result<()> {
    if n_a > 0 && n_b > 0 {
        let (a, b) = (n_a as f64, n_b as f64);
        let weight = 1.0 / (a * b * (a + b));
        let sums = sums_a.iter().zip(sums_b);
        for (varsum, (sum_a, sum_b)) in varsums_a.iter_mut().zip(sums) {
            let difference = sum_b.value().times(a) - sum_a.value().times(b);
            *varsum += difference.norm_sqr() * weight;
        }
    }
    add_all(varsums_a, varsums_b)?;
    add_all(sums_a, sums_b)
}

/// Folds the pixels of a tile into the statistics of the `seen` frames before it.
fn fold_tile<T: Cell>(
    frames: FramesView<'_, T>,
    seen: usize,
    sums: &mut [T::Total],
    varsums: &mut [f64],
) -> Result<()> {
    let depth = frames.depth();
    let blocks = sums.chunks_mut(COLUMN_CELLS).zip(varsums.chunks_mut(COLUMN_CELLS));
    for (block, (sums, varsums)) in blocks.enumerate() {
        let n = sums.len();
        let cells = block * COLUMN_CELLS..block * COLUMN_CELLS + n;
        let mut tile_sums = [T::Total::default(); COLUMN_CELLS];
        let mut tile_varsums = [0.0; COLUMN_CELLS];
        add_columns(frames, cells.clone(), &mut tile_sums[..n]);
        // A frame on its own is its mean, but for NaN and infinities, which must leave a trace.
        if depth > 1 || !T::DTYPE.is_integer() {
            // The second pass finds the pixels in the cache.
            let mut means = [<T::Total as Total>::Value::default(); COLUMN_CELLS];
            for (mean, sum) in means.iter_mut().zip(&tile_sums) {
                *mean = sum.value().over(depth as f64);
            }
            for frame in frames.frames() {
                let distances = means.iter().zip(&frame[cells.clone()]);
                for (varsum, (&mean, &cell)) in tile_varsums[..n].iter_mut().zip(distances) {
                    *varsum += deviation(cell, mean);
                }
            }
        }
        fold(seen, (sums, varsums), depth, (&tile_sums[..n], &tile_varsums[..n]))?;
    }
    Ok(())
}

struct Worker<T: Cell> {
    layout: SigLayout,
    /// The frames seen so far of each slice.
    seen: Vec<usize>,
    moments: Moments<T::Total>,
    n_frames: usize,
}

impl<T: Cell> Accumulator for Worker<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let slice = tile.position.sig;
        let place = self.layout.range(slice);
        let seen = &mut self.seen[slice.index()];
        let sums = &mut self.moments.sums[place.clone()];
        fold_tile(T::view(tile.frames())?, *seen, sums, &mut self.moments.varsums[place])?;
        *seen += tile.frames().depth();
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let seen = self.seen[0];
        if self.seen.iter().any(|&n| n != seen) || (seen != self.n_frames && seen != 0) {
            return Err(Error::bug(format!(
                "the slices of a partition of {} frames were seen in {:?} frames",
                self.n_frames, self.seen
            )));
        }
        let n_frames = i64::try_from(seen)
            .map_err(|_| Error::limit(format!("{seen} frames are too many for a partition")))?;
        Ok(Partial::new()
            .with("sums", pack(self.moments.sums)?)
            .with("varsums", pack(self.moments.varsums)?)
            .with("num_frames", NativeArray::try_new(&[1], vec![n_frames])?))
    }
}

struct Merged<A> {
    layout: SigLayout,
    n_frames: usize,
    moments: Moments<A>,
    var_dtype: DType,
    mean_dtype: DType,
}

impl<A: Total> Merger for Merged<A> {
    fn merge(&mut self, _partition: &Partition, mut partial: Partial) -> Result<()> {
        let sums = A::unpack(partial.take_native("sums")?)?;
        let varsums = f64::unpack(partial.take_native("varsums")?)?;
        let frames = partial.take_native("num_frames")?;
        let n_frames = match frames.as_slice::<i64>()? {
            [n] => usize::try_from(*n).ok(),
            _ => None,
        };
        let n_frames = n_frames.ok_or_else(|| Error::bug("a partial result without its count"))?;
        let moments = (&mut self.moments.sums[..], &mut self.moments.varsums[..]);
        fold(self.n_frames, moments, n_frames, (&sums, &varsums))?;
        self.n_frames += n_frames;
        Ok(())
    }

    fn results(&self) -> Result<Vec<Array>> {
        let sums = self.layout.in_frame_order(&self.moments.sums);
        let varsums = self.layout.in_frame_order(&self.moments.varsums);
        let n = self.n_frames as f64;
        let vars: Vec<f64> = varsums.iter().map(|varsum| varsum / n).collect();
        let stds: Vec<f64> = vars.iter().map(|var| var.sqrt()).collect();
        let means: Vec<A::Value> = sums.iter().map(|sum| sum.value().over(n)).collect();
        let shape = self.layout.sig_shape();
        let real = |values: &[f64]| NativeArray::try_new(shape, convert(values, self.var_dtype)?);
        let count = i64::try_from(self.n_frames).unwrap_or(i64::MAX);
        Ok(vec![
            real(&varsums)?.into(),
            NativeArray::try_new(&[1], vec![count])?.into(),
            NativeArray::try_new(shape, round(&sums, self.mean_dtype)?)?.into(),
            real(&vars)?.into(),
            real(&stds)?.into(),
            NativeArray::try_new(shape, convert(&means, self.mean_dtype)?)?.into(),
        ])
    }
}
