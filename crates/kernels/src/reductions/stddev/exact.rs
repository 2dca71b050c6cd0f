//! Exact variances: for integers of up to 32 bits.

mod entries;
mod squares;

use super::{Report, Seen, partial_of, take_n_frames};
use crate::entries::Entries;
use crate::layout::SigLayout;
use crate::sums::PixelSums;
use crate::total::{Total, add_all, pack};
use entries::add_entries;
use framefold_core::{
    Accumulator, Array, Bool8, CsrTile, DType, Error, JobMeta, Merger, Partial, Partition, Result,
    RunMeta, Tile, TilePosition, memory,
};
use framefold_simd::Simd;
use squares::{Exact, Squares, add_frames};

/// The number of frames up to which no intermediate result overflows: for `x` of 32 bits,
/// `n Σx²` and `(Σx)²` stay below 2^126.
const MOST_FRAMES: usize = 1 << 31;

/// Whether the statistics of all selected frames can be had exactly.
pub(super) fn is_possible(job: &JobMeta) -> bool {
    use DType::{Bool, I8, I16, I32, U8, U16, U32};
    matches!(job.input_dtype, Bool | U8 | I8 | U16 | I16 | U32 | I32)
        && job.n_selected() <= MOST_FRAMES
}

macro_rules! dispatch {
    ($dtype:expr, $T:ident => $body:expr; $($variant:ident $type:ty),*) => {
        match $dtype {
            $(DType::$variant => {
                type $T = $type;
                $body
            })*
            other => Err(Error::bug(format!("squares of {other} are not summed exactly"))),
        }
    };
    ($dtype:expr, $T:ident => $body:expr) => {
        dispatch!(
            $dtype, $T => $body;
            Bool Bool8, U8 u8, I8 i8, U16 u16, I16 i16, U32 u32, I32 i32
        )
    };
}

pub(super) fn accumulator(run: &RunMeta, seen: Seen) -> Result<Box<dyn Accumulator>> {
    dispatch!(run.job.input_dtype, T => Ok(Box::new(Worker::<T>::try_new(run, seen)?)))
}

pub(super) fn merger(run: &RunMeta, report: Report) -> Result<Box<dyn Merger>> {
    dispatch!(run.job.input_dtype, T => Ok(Box::new(Merged::try_new::<T>(report)?)))
}

struct Worker<T: Exact> {
    seen: Seen,
    sums: PixelSums<T>,
    squares: Squares,
}

impl<T: Exact> Worker<T> {
    fn try_new(run: &RunMeta, seen: Seen) -> Result<Self> {
        let squares = Squares::zeros::<T>(SigLayout::try_new(&run.tiling)?.len())?;
        Ok(Worker { seen, sums: PixelSums::try_new(&run.tiling)?, squares })
    }
}

impl<T: Exact> Accumulator for Worker<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let frames = T::view(tile.frames())?;
        self.seen.add(tile.position.sig, frames.depth());
        let squares = &mut self.squares;
        self.sums.add(tile.position.sig, frames.depth(), |which, place, sums| {
            add_frames(Simd::best(), frames, which, sums, squares.of(place));
            Ok(())
        })
    }

    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        let entries = Entries::<T>::of(tile)?;
        self.seen.add(position.sig, entries.depth());
        let squares = &mut self.squares;
        self.sums.add(position.sig, entries.depth(), |which, place, sums| {
            add_entries(entries.frames(which), sums, squares.of(place))
        })
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let partial = self.seen.partial()?;
        Ok(partial
            .with("sums", pack(self.sums.finish()?)?)
            .with("squares_low", pack(self.squares.low)?)
            .with("squares_high", pack(self.squares.high)?))
    }
}

struct Merged {
    report: Report,
    n_frames: usize,
    sums: Vec<i64>,
    squares: Squares,
}

impl Merged {
    fn try_new<T: Exact>(report: Report) -> Result<Self> {
        let len = report.layout.len();
        let (sums, squares) = (memory::zeros(len)?, Squares::zeros::<T>(len)?);
        Ok(Merged { report, n_frames: 0, sums, squares })
    }
}

impl Merger for Merged {
    fn merge(&mut self, _partition: &Partition, mut partial: Partial) -> Result<()> {
        self.n_frames += take_n_frames(&mut partial)?;
        add_all(&mut self.sums, &i64::unpack(partial.take_native("sums")?)?)?;
        add_all(&mut self.squares.low, &u64::unpack(partial.take_native("squares_low")?)?)?;
        add_all(&mut self.squares.high, &u64::unpack(partial.take_native("squares_high")?)?)
    }

    fn results(&self) -> Result<Vec<Array>> {
        let pixels = self.sums.iter().zip(self.squares.wholes());
        let varsum = |(&sum, squares): (&i64, i128)| varsum(self.n_frames, sum.into(), squares);
        let mut varsums = memory::with_room(self.sums.len())?;
        varsums.extend(pixels.map(varsum));
        self.report.results(self.n_frames, &self.sums, &varsums)
    }

    fn take_partials(&mut self) -> Result<Option<Vec<Partial>>> {
        let (sums, squares) = (std::mem::take(&mut self.sums), &mut self.squares);
        let partial = partial_of(std::mem::take(&mut self.n_frames))?
            .with("sums", pack(sums)?)
            .with("squares_low", pack(std::mem::take(&mut squares.low))?)
            .with("squares_high", pack(std::mem::take(&mut squares.high))?);
        Ok(Some(vec![partial]))
    }
}

/// `Σx² - (Σx)² / n`, rounded once.
fn varsum(n: usize, sum: i128, squares: i128) -> f64 {
    let times_n = (n as i128 * squares - sum * sum).unsigned_abs();
    if times_n == 0 {
        return 0.0;
    }
    if times_n < 1 << 53 {
        return times_n as f64 / n as f64;
    }
    // A quotient of many more digits than are kept; the last one stands for all that follow.
    let shift = times_n.leading_zeros();
    let (quotient, rest) = ((times_n << shift) / n as u128, (times_n << shift) % n as u128);
    let quotient = quotient | u128::from(rest != 0);
    quotient as f64 * 0.5f64.powi(shift.cast_signed())
}

#[cfg(test)]
mod tests;
