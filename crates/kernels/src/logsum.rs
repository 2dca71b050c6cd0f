//! The sum of logarithmically scaled frames.

use crate::cell::Real;
use crate::dispatch::dispatch_dtype;
use crate::loops::smallest;
use crate::total::{add_all, convert, pack};
use framefold_core::{
    Accumulator, Array, BufferDecl, BufferKind, DType, Error, JobMeta, Merger, Method, NativeArray,
    Partial, Partition, Requirements, Result, RunMeta, SourceInfo, Tile, Udf,
};
use std::sync::LazyLock;

/// Sums `ln(frame - min(frame) + 1)` over the selected frames: the buffer `logsum` (sig,
/// float32).
///
/// Weak features next to bright ones become visible. Computation is in double precision. Complex
/// data have no minimum and are refused.
#[derive(Clone, Debug, Default)]
pub struct LogSum;

fn refuse_complex() -> Error {
    Error::unsupported("complex frames have no minimum to scale from")
        .with_hint("use their magnitude instead")
}

impl Udf for LogSum {
    fn name(&self) -> &str {
        "logsum"
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        if source.dtype.dtype.is_complex() {
            return Err(refuse_complex());
        }
        Ok(Requirements { method: Method::Frame, ..Requirements::native_tiles() })
    }

    fn buffers(&self, _job: &JobMeta) -> Result<Vec<BufferDecl>> {
        Ok(vec![BufferDecl::new("logsum", BufferKind::Sig, DType::F32)])
    }

    fn accumulator(&self, run: &RunMeta, _partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let sums = vec![0.0; run.job.shape.frame_len()];
        Ok(dispatch_dtype!(
            real run.job.input_dtype,
            T => Box::new(Worker::<T> { sums, cell: std::marker::PhantomData }),
            complex => return Err(refuse_complex())
        ))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        let shape = run.job.shape.sig().to_vec();
        Ok(Box::new(Merged { sums: vec![0.0; run.job.shape.frame_len()], shape }))
    }
}

/// Logarithms of `1 + k` for `k` from 0 up: counts are mostly small, and looking a logarithm up
/// is many times faster than computing it. Small enough for the first-level cache.
static LOGS: LazyLock<[f64; N_LOGS]> =
    LazyLock::new(|| std::array::from_fn(|k| (k as f64).ln_1p()));
const N_LOGS: usize = 2048;

/// Adds one frame: `sums[p] += ln(frame[p] - floor + 1)`.
fn add_logs<T: Real>(sums: &mut [f64], frame: &[T], floor: T) {
    if !T::DTYPE.is_integer() {
        for (sum, cell) in sums.iter_mut().zip(frame) {
            *sum += (cell.above(floor) + 1.0).ln();
        }
        return;
    }
    let logs = &*LOGS;
    for (sum, cell) in sums.iter_mut().zip(frame) {
        let steps = cell.above(floor);
        *sum += logs.get(steps as usize).copied().unwrap_or_else(|| (steps + 1.0).ln());
    }
}

struct Worker<T> {
    sums: Vec<f64>,
    cell: std::marker::PhantomData<T>,
}

impl<T: Real> Accumulator for Worker<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let frames = T::view(tile.frames())?;
        if frames.frame_len() != self.sums.len() {
            return Err(Error::bug(format!(
                "a tile of {} of {} pixels came where whole frames were asked for",
                frames.frame_len(),
                self.sums.len()
            )));
        }
        for frame in frames.frames() {
            if let Some(floor) = smallest(frame) {
                add_logs(&mut self.sums, frame, floor);
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        Ok(Partial::new().with("sums", pack(self.sums)?))
    }
}

struct Merged {
    sums: Vec<f64>,
    shape: Vec<usize>,
}

impl Merger for Merged {
    fn merge(&mut self, _partition: &Partition, mut partial: Partial) -> Result<()> {
        add_all(&mut self.sums, partial.take_native("sums")?.as_slice()?)
    }

    fn results(&self) -> Result<Vec<Array>> {
        let cells = convert(&self.sums, DType::F32)?;
        Ok(vec![NativeArray::try_new(&self.shape, cells)?.into()])
    }
}
