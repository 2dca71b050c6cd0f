//! Mean, variance and standard deviation of each pixel.

mod exact;
mod spread;

use crate::cell::{Cell, check_terms};
use crate::dispatch::dispatch_dtype;
use crate::entries::dense_or_sparse;
use crate::layout::SigLayout;
use crate::row::{DefaultValue, Parameter, ParameterKind, Reduction};
use crate::total::{Total, Value, convert, round};
use framefold_core::{
    Accumulator, Array, ArrayFormat, BufferDecl, BufferKind, DType, Error, JobMeta, Merger,
    NativeArray, Partial, Partition, Requirements, Result, RunMeta, SigSlice, SourceInfo, Udf,
    memory,
};
use std::sync::Arc;

pub(super) const ROW: Reduction = Reduction::new(
    "stddev",
    "mean, variance and standard deviation of each pixel",
    &["varsum", NUM_FRAMES, "sum", "var", "std", "mean"],
    |parameters, _| Ok(Arc::new(StdDev { dtype: parameters.dtype("dtype")? })),
)
.with_main_buffer("std")
.with_parameters(&[Parameter::new(
    "dtype",
    ParameterKind::DType,
    DefaultValue::Is("float64"),
    "the dtype of the results, float or complex",
)
.with_option("result-dtype")]);

/// Statistics of each pixel over the selected frames.
///
/// Buffers, all of kind `sig` but `num_frames`: `varsum` (the sum of squared distances from the
/// mean), `num_frames` (`single`, int64), `sum`, `var` (`varsum / num_frames`), `std` and `mean`.
/// Of complex data, `sum` and `mean` are complex and the others real.
///
/// Sums of integers are exact. So are sums of squares of integers of up to 32 bits, from which
/// `varsum` follows with a single rounding. For other data, squared distances are taken from the
/// mean of a few frames and merged pairwise, so that a small variance on top of a large mean is not
/// lost: T. F. Chan, G. H. Golub and R. J. LeVeque, "Algorithms for computing the sample variance:
/// analysis and recommendations", The American Statistician 37 (1983), 242–247. Distances of integers
/// of 64 bits are exact until they are squared.
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
        Ok(Requirements { cellwise: true, ..dense_or_sparse() })
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
        let seen = Seen::try_new(run, partition)?;
        if exact::is_possible(&run.job) {
            return exact::accumulator(run, seen);
        }
        if run.format == ArrayFormat::Csr {
            return Ok(dispatch_dtype!(run.job.input_dtype, T => {
                Box::new(spread::SparseWorker::<T>::try_new(run, partition, seen)?)
            }));
        }
        Ok(dispatch_dtype!(run.job.input_dtype, T => {
            Box::new(spread::Worker::<T>::try_new(run, seen)?)
        }))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        let (var_dtype, mean_dtype) = self.result_dtypes(&run.job)?;
        let report = Report { layout: SigLayout::try_new(&run.tiling)?, var_dtype, mean_dtype };
        if exact::is_possible(&run.job) {
            return exact::merger(run, report);
        }
        dispatch_dtype!(run.job.input_dtype, T => {
            check_terms::<T>(run.job.n_selected(), "frames")?;
            Ok(Box::new(spread::Merged::<<T as Cell>::Total>::try_new(report)?))
        })
    }
}

/// The frames that an accumulator has seen of each slice.
struct Seen {
    frames: Vec<usize>,
    n_frames: usize,
}

const NUM_FRAMES: &str = "num_frames";

impl Seen {
    fn try_new(run: &RunMeta, partition: &Partition) -> Result<Self> {
        let frames = memory::zeros(run.tiling.slices().len())?;
        Ok(Seen { frames, n_frames: partition.n_frames() })
    }

    /// The frames seen of a slice, after which there are `depth` more.
    fn add(&mut self, slice: &SigSlice, depth: usize) -> usize {
        let seen = self.frames[slice.index()];
        self.frames[slice.index()] += depth;
        seen
    }

    /// The frames seen of a slice.
    fn of(&self, slice: &SigSlice) -> usize {
        self.frames[slice.index()]
    }

    /// A partial result with the number of frames.
    fn partial(&self) -> Result<Partial> {
        let seen = self.frames[0];
        if self.frames.iter().any(|&n| n != seen) || (seen != self.n_frames && seen != 0) {
            return Err(Error::bug(format!(
                "the slices of a partition of {} frames were seen in {:?} frames",
                self.n_frames, self.frames
            )));
        }
        partial_of(seen)
    }
}

/// A partial result with the number of frames.
fn partial_of(n_frames: usize) -> Result<Partial> {
    let count = i64::try_from(n_frames)
        .map_err(|_| Error::limit(format!("{n_frames} frames are too many to count")))?;
    Ok(Partial::new().with(NUM_FRAMES, NativeArray::try_new(&[1], vec![count])?))
}

/// The number of frames of a partial result.
fn take_n_frames(partial: &mut Partial) -> Result<usize> {
    let n_frames = match partial.take_native(NUM_FRAMES)?.as_slice::<i64>()? {
        [n] => usize::try_from(*n).ok(),
        _ => None,
    };
    n_frames.ok_or_else(|| Error::bug("a partial result without its count"))
}

/// How results are reported.
struct Report {
    layout: SigLayout,
    var_dtype: DType,
    mean_dtype: DType,
}

impl Report {
    /// The result buffers, from sums that are kept slice after slice.
    fn results<A: Total>(
        &self,
        n_frames: usize,
        sums: &[A],
        varsums: &[f64],
    ) -> Result<Vec<Array>> {
        let sums = self.layout.in_frame_order(sums)?;
        let varsums = self.layout.in_frame_order(varsums)?;
        let n = n_frames as f64;
        let vars = memory::collected(varsums.iter().map(|varsum| varsum / n))?;
        let stds = memory::collected(vars.iter().map(|var| var.sqrt()))?;
        let means = memory::collected(sums.iter().map(|sum| sum.value().over(n)))?;
        let shape = self.layout.sig_shape();
        let real = |values: &[f64]| NativeArray::try_new(shape, convert(values, self.var_dtype)?);
        let count = i64::try_from(n_frames).unwrap_or(i64::MAX);
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
