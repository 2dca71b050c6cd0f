//! The sum of logarithmically scaled frames, from the pixels that are not zero.

use crate::cell::Real;
use crate::entries::{Entries, scatter};
use crate::layout::filled;
use crate::ln::ln;
use crate::total::pack;
use framefold_core::{Accumulator, CsrTile, Error, Partial, Result, Tile, TilePosition};
use framefold_simd::{Simd, run};

/// The entries whose logarithms are taken at a time.
const CHUNK: usize = 256;

/// Adds up logarithms. Pixels without an entry all have the same one, which is added once for all
/// pixels; each entry adds what its own differs by.
pub(super) struct SparseWorker<T> {
    /// The sum of the logarithms of zeros.
    zeros: f64,
    /// What each pixel has on top.
    sums: Vec<f64>,
    /// The logarithms of some entries.
    logs: Vec<f64>,
    cell: std::marker::PhantomData<T>,
}

impl<T: Real> SparseWorker<T> {
    pub(super) fn try_new(n_pixels: usize) -> Result<Self> {
        Ok(SparseWorker {
            zeros: 0.0,
            sums: filled(0.0, n_pixels)?,
            logs: vec![0.0; CHUNK],
            cell: std::marker::PhantomData,
        })
    }

    fn add(&mut self, simd: Simd, (columns, values): (&[u32], &[T])) -> Result<()> {
        let zero = T::default();
        let is_full = values.len() == self.sums.len();
        let start = values.first().copied().filter(|_| is_full).unwrap_or(zero);
        let floor = values.iter().fold(start, |floor, &value| floor.smaller(value));
        // Mostly, zero is the smallest value.
        let of_zero = if is_full || floor == zero { 0.0 } else { ln(zero.steps(floor)) };
        for (columns, values) in columns.chunks(CHUNK).zip(values.chunks(CHUNK)) {
            let logs = &mut self.logs[..values.len()];
            run!(simd, {
                for (log, &value) in logs.iter_mut().zip(values) {
                    *log = ln(value.steps(floor));
                }
            });
            scatter(&mut self.sums, (columns, &*logs), |sum, log| {
                // Infinities that are the same do not differ.
                *sum += if log == of_zero { 0.0 } else { log - of_zero };
            })?;
        }
        self.zeros += of_zero;
        Ok(())
    }

    fn finish(mut self) -> Vec<f64> {
        self.sums.iter_mut().for_each(|sum| *sum += self.zeros);
        self.sums
    }
}

impl<T: Real> Accumulator for SparseWorker<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let depth = tile.frames().depth();
        Err(Error::bug(format!("a dense tile of {depth} frames came where a sparse one was due")))
    }

    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        let n_pixels = position.sig.len();
        if n_pixels != self.sums.len() {
            return Err(Error::bug(format!(
                "a sparse tile of {n_pixels} of {} pixels came where whole frames were asked for",
                self.sums.len()
            )));
        }
        let entries = Entries::<T>::of(tile)?;
        entries.by_frame().try_for_each(|frame| self.add(Simd::best(), frame))
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        Ok(Partial::new().with("sums", pack((*self).finish())?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums<T: Real>(simd: Simd, frames: &[(&[u32], &[T])]) -> Vec<f64> {
        let mut worker = SparseWorker::<T>::try_new(4).unwrap();
        frames.iter().for_each(|&frame| worker.add(simd, frame).unwrap());
        worker.finish()
    }

    #[test]
    fn zeros_are_the_floor_unless_there_is_something_below() {
        for simd in Simd::all() {
            assert_eq!(sums::<u8>(simd, &[(&[], &[]), (&[2], &[1])]), [0.0, 0.0, ln(2.0), 0.0]);
            assert_eq!(sums(simd, &[(&[1], &[-2i16])]), [ln(3.0), 0.0, ln(3.0), ln(3.0)]);
            // No zeros at all: the floor is 5.
            let full = sums(simd, &[(&[0, 1, 2, 3], &[5u8, 5, 6, 8])]);
            assert_eq!(full, [0.0, 0.0, ln(2.0), ln(4.0)]);
        }
    }

    #[test]
    fn nan_and_infinities_are_as_in_dense_frames() {
        let inf = f32::INFINITY;
        let of = |value: f32| sums(Simd::best(), &[(&[1, 3], &[value, 2.0])]);
        assert!(of(f32::NAN).iter().all(|sum| sum.is_nan()));
        assert_eq!(of(inf), [0.0, f64::INFINITY, 0.0, ln(3.0)]);
        let below = of(-inf);
        assert!(below[1].is_nan(), "{below:?}");
        assert!([0, 2, 3].iter().all(|&p| below[p] == f64::INFINITY), "{below:?}");
    }
}
