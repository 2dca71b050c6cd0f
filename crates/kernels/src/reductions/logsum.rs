//! The sum of logarithmically scaled frames.

mod sparse;

use crate::cell::Real;
use crate::dispatch::dispatch_dtype;
use crate::entries::dense_or_sparse;
use crate::ln::ln;
use crate::loops::{GROUP, STRIP, smallest, strip};
use crate::row::Reduction;
use crate::total::{add_all, convert, pack};
use framefold_core::{
    Accumulator, Array, ArrayFormat, BufferDecl, BufferKind, DType, Error, FramesView, JobMeta,
    Merger, Method, NativeArray, Partial, Partition, Requirements, Result, RunMeta, SourceInfo,
    Tile, Udf, memory,
};
use framefold_simd::{Simd, run};
use sparse::SparseWorker;
use std::ops::Range;
use std::sync::Arc;

pub(super) const ROW: Reduction =
    Reduction::new("logsum", "sum of all frames on a logarithmic scale", &["logsum"], |_, _| {
        Ok(Arc::new(LogSum))
    });

/// Sums `ln(frame - min(frame) + 1)` over the selected frames: the buffer `logsum` (sig,
/// float32).
///
/// Weak features next to bright ones become visible. Computation is in double precision: the
/// logarithm is taken of products of several frames' terms, and is within two units in the last
/// place. Complex data have no minimum and are refused.
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
        Ok(Requirements { method: Method::Frame, ..dense_or_sparse() })
    }

    fn buffers(&self, _job: &JobMeta) -> Result<Vec<BufferDecl>> {
        Ok(vec![BufferDecl::new("logsum", BufferKind::Sig, DType::F32)])
    }

    fn accumulator(&self, run: &RunMeta, _partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let n_pixels = run.job.shape.frame_len();
        if run.format == ArrayFormat::Csr {
            return Ok(dispatch_dtype!(
                real run.job.input_dtype,
                T => Box::new(SparseWorker::<T>::try_new(n_pixels)?),
                complex => return Err(refuse_complex())
            ));
        }
        Ok(dispatch_dtype!(
            real run.job.input_dtype,
            T => Box::new(Worker::<T>::try_new(n_pixels)?),
            complex => return Err(refuse_complex())
        ))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        let shape = run.job.shape.sig().to_vec();
        Ok(Box::new(Merged { sums: memory::zeros(run.job.shape.frame_len())?, shape }))
    }
}

/// Multiplies what a group of frames has above their smallest pixels: `products[p] *= Π_f
/// (frame_f[p] - floor_f + 1)`.
fn multiply<T: Real>(
    simd: Simd,
    frames: FramesView<'_, T>,
    group: Range<usize>,
    products: &mut [f64],
) {
    run!(simd, {
        let mut floors = [T::LOWEST; GROUP];
        for (floor, i) in floors.iter_mut().zip(group.clone()) {
            if let Some(smallest) = smallest(frames.frame(i)) {
                *floor = smallest;
            }
        }
        let wide = products.len() - products.len() % STRIP;
        let (strips, rest) = products.split_at_mut(wide);
        multiply_strips::<T, STRIP>(frames, group.clone(), &floors, 0, strips);
        multiply_strips::<T, 1>(frames, group, &floors, wide, rest);
    });
}

#[inline(always)]
fn multiply_strips<T: Real, const W: usize>(
    frames: FramesView<'_, T>,
    group: Range<usize>,
    floors: &[T; GROUP],
    first: usize,
    products: &mut [f64],
) {
    for (index, products) in products.as_chunks_mut::<W>().0.iter_mut().enumerate() {
        let mut factors = *products;
        for (i, &floor) in group.clone().zip(floors) {
            let cells = strip::<T, W>(frames, i, first + index * W);
            for k in 0..W {
                factors[k] *= cells[k].steps(floor);
            }
        }
        *products = factors;
    }
}

/// Adds up logarithms by way of products: one logarithm for many frames, as many as a double takes
/// without overflow. Small integers are multiplied without any rounding.
struct Worker<T> {
    products: Vec<f64>,
    /// The number of frames in each product.
    n_factors: usize,
    /// Empty until the first time that products are turned into logarithms.
    sums: Vec<f64>,
    cell: std::marker::PhantomData<T>,
}

impl<T: Real> Worker<T> {
    fn try_new(n_pixels: usize) -> Result<Self> {
        let products = memory::filled(1.0, n_pixels)?;
        Ok(Worker { products, n_factors: 0, sums: Vec::new(), cell: std::marker::PhantomData })
    }

    /// Moves what the products hold to the sums.
    fn take_logarithms(&mut self, simd: Simd) -> Result<()> {
        memory::resize(&mut self.sums, self.products.len(), 0.0)?;
        let (sums, products) = (&mut self.sums, &mut self.products);
        run!(simd, {
            for (sum, product) in sums.iter_mut().zip(products.iter_mut()) {
                *sum += ln(*product);
                *product = 1.0;
            }
        });
        self.n_factors = 0;
        Ok(())
    }

    fn add(&mut self, simd: Simd, frames: FramesView<'_, T>) -> Result<()> {
        let mut first = 0;
        while first < frames.depth() {
            if self.n_factors == T::STEP_FACTORS {
                self.take_logarithms(simd)?;
            }
            let room = GROUP.min(T::STEP_FACTORS - self.n_factors);
            let last = frames.depth().min(first + room);
            multiply(simd, frames, first..last, &mut self.products);
            self.n_factors += last - first;
            first = last;
        }
        Ok(())
    }

    fn finish(mut self, simd: Simd) -> Result<Vec<f64>> {
        if self.n_factors > 0 || self.sums.is_empty() {
            self.take_logarithms(simd)?;
        }
        Ok(self.sums)
    }
}

impl<T: Real> Accumulator for Worker<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let frames = T::view(tile.frames())?;
        if frames.frame_len() != self.products.len() {
            return Err(Error::bug(format!(
                "a tile of {} of {} pixels came where whole frames were asked for",
                frames.frame_len(),
                self.products.len()
            )));
        }
        self.add(Simd::best(), frames)
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        Ok(Partial::new().with("sums", pack((*self).finish(Simd::best())?)?))
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

    fn take_partials(&mut self) -> Result<Option<Vec<Partial>>> {
        let sums = pack(std::mem::take(&mut self.sums))?;
        Ok(Some(vec![Partial::new().with("sums", sums)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums of logarithms of `depth` frames of 35 pixels, on every level.
    fn sums<T: Real>(depth: usize, cell: impl Fn(usize) -> T) -> Vec<f64> {
        let cells: Vec<T> = (0..depth * 35).map(cell).collect();
        let frames = FramesView::try_new(&cells, depth, 35, 35).unwrap();
        let all = |simd| {
            let mut worker = Worker::<T>::try_new(35).unwrap();
            worker.add(simd, frames).unwrap();
            worker.finish(simd).unwrap()
        };
        let plain = all(Simd::plain());
        for simd in Simd::all() {
            let same = plain.iter().zip(all(simd)).all(|(a, b)| a.to_bits() == b.to_bits());
            assert!(same, "{simd:?}");
        }
        plain
    }

    #[test]
    fn products_of_extremes_do_not_overflow() {
        // One dark pixel in each frame, and all others as bright as can be.
        macro_rules! check {
            ($($type:ty: $low:expr, $high:expr;)*) => {$(
                let (low, high): ($type, $type) = ($low, $high);
                let depth = 3 * <$type as Real>::STEP_FACTORS.min(100) + 1;
                let found = sums(depth, |i| if i % 35 == 3 { low } else { high });
                let expected = depth as f64 * high.steps(low).ln();
                for (p, &sum) in found.iter().enumerate() {
                    let expected = if p == 3 { 0.0 } else { expected };
                    let near = (sum - expected).abs() <= 1e-14 * expected;
                    assert!(near, "{} {sum} {expected}", stringify!($type));
                }
            )*};
        }
        check! {
            u8: u8::MIN, u8::MAX; i8: i8::MIN, i8::MAX; u16: u16::MIN, u16::MAX;
            i16: i16::MIN, i16::MAX; u32: u32::MIN, u32::MAX; i32: i32::MIN, i32::MAX;
            u64: u64::MIN, u64::MAX; i64: i64::MIN, i64::MAX; f32: f32::MIN, f32::MAX;
            f64: f64::MIN / 2.0, f64::MAX / 2.0;
        }
    }

    #[test]
    fn infinities_and_nan_leave_their_trace() {
        let found = sums(20, |i| if i == 40 { f32::INFINITY } else { (i % 35) as f32 });
        assert!(found.iter().enumerate().all(|(p, sum)| sum.is_infinite() == (p == 5)));
        let found = sums(20, |i| if i == 40 { f32::NAN } else { (i % 35) as f32 });
        assert!(found.iter().all(|sum| sum.is_nan()));
    }
}
