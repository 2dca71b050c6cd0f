//! Exact sums and sums of squares: for integers of up to 32 bits.

use super::{Report, Seen, take_n_frames};
use crate::cell::Cell;
use crate::loops::{GROUP, STRIP, groups, strip};
use crate::sums::PixelSums;
use crate::total::{Total, add_all, pack};
use framefold_core::{
    Accumulator, Array, Bool8, DType, Error, FramesView, JobMeta, Merger, Partial, Partition,
    Result, RunMeta, Tile,
};
use framefold_simd::{Simd, run};
use std::ops::Range;

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
    dispatch!(run.job.input_dtype, T => Ok(Box::new(Worker::<T>::new(run, seen))))
}

pub(super) fn merger(run: &RunMeta, report: Report) -> Result<Box<dyn Merger>> {
    dispatch!(run.job.input_dtype, T => Ok(Box::new(Merged::<T>::new(report))))
}

/// An integer whose squares are summed exactly.
trait Exact: Cell<Total = i64> {
    /// What squares are summed in: enough for [`MOST_FRAMES`].
    type Squares: Total + Into<i128>;

    /// The absolute value.
    fn magnitude(self) -> u32;

    /// Adds the pixels `at..at + W` of a group of frames, and their squares.
    fn add<const W: usize>(
        frames: FramesView<'_, Self>,
        group: Range<usize>,
        at: usize,
        sums: &mut [Self::Block; W],
        squares: &mut [Self::Squares; W],
    );
}

macro_rules! exact {
    ($($type:ty, $squares:ty, $add:ident, |$cell:ident| $magnitude:expr);* $(;)?) => {$(
        impl Exact for $type {
            type Squares = $squares;

            #[inline(always)]
            fn magnitude(self) -> u32 {
                let $cell = self;
                u32::from($magnitude)
            }

            #[inline(always)]
            fn add<const W: usize>(
                frames: FramesView<'_, Self>,
                group: Range<usize>,
                at: usize,
                sums: &mut [Self::Block; W],
                squares: &mut [Self::Squares; W],
            ) {
                $add(frames, group, at, sums, squares);
            }
        }
    )*};
}
exact! {
    Bool8, u64, add_bytes, |cell| cell.get();
    u8, u64, add_bytes, |cell| cell;
    i8, u64, add_bytes, |cell| cell.unsigned_abs();
    u16, u64, add_words, |cell| cell;
    i16, u64, add_words, |cell| cell.unsigned_abs();
    u32, i128, add_longs, |cell| cell;
    i32, i128, add_longs, |cell| cell.unsigned_abs();
}

/// Squares of 16 bits: those of a group fit 32 bits.
#[inline(always)]
fn add_bytes<T: Exact<Squares = u64>, const W: usize>(
    frames: FramesView<'_, T>,
    group: Range<usize>,
    at: usize,
    sums: &mut [T::Block; W],
    squares: &mut [u64; W],
) {
    let mut plain = [T::Block::default(); W];
    let mut squared = [0u32; W];
    for i in group {
        let cells = strip::<T, W>(frames, i, at);
        for k in 0..W {
            let x = cells[k].magnitude();
            plain[k] += cells[k].block();
            squared[k] += x * x;
        }
    }
    for k in 0..W {
        sums[k] += plain[k];
        squares[k] += u64::from(squared[k]);
    }
}

/// Magnitudes below this have squares of which a group fits 32 bits.
const SMALL: u32 = 1 << 14;
const _: () = assert!((SMALL as u64 - 1).pow(2) * (GROUP as u64) < 1 << 32);

/// Squares of 32 bits. Counts are mostly small, so they are summed in 32 bits first; if any pixel
/// turns out to be large, once more in 64.
#[inline(always)]
fn add_words<T: Exact<Squares = u64>, const W: usize>(
    frames: FramesView<'_, T>,
    group: Range<usize>,
    at: usize,
    sums: &mut [T::Block; W],
    squares: &mut [u64; W],
) {
    let mut plain = [T::Block::default(); W];
    let mut squared = [0u32; W];
    let mut bits = [0; W];
    for i in group.clone() {
        let cells = strip::<T, W>(frames, i, at);
        for k in 0..W {
            let x = cells[k].magnitude();
            plain[k] += cells[k].block();
            bits[k] |= x;
            // With these bits alone, the product is one instruction for pairs of 16-bit numbers.
            let x = x & 0x7fff;
            squared[k] = squared[k].wrapping_add(x * x);
        }
    }
    for k in 0..W {
        sums[k] += plain[k];
    }
    if bits.iter().fold(0, |all, bits| all | bits) < SMALL {
        for k in 0..W {
            squares[k] += u64::from(squared[k]);
        }
        return;
    }
    let mut squared = [0u64; W];
    for i in group {
        let cells = strip::<T, W>(frames, i, at);
        for k in 0..W {
            let x = cells[k].magnitude();
            squared[k] += u64::from(x * x);
        }
    }
    for k in 0..W {
        squares[k] += squared[k];
    }
}

/// Squares of 64 bits, summed in halves.
#[inline(always)]
fn add_longs<T: Exact<Squares = i128>, const W: usize>(
    frames: FramesView<'_, T>,
    group: Range<usize>,
    at: usize,
    sums: &mut [T::Block; W],
    squares: &mut [i128; W],
) {
    let mut plain = [T::Block::default(); W];
    let mut low = [0u64; W];
    let mut high = [0u64; W];
    for i in group {
        let cells = strip::<T, W>(frames, i, at);
        for k in 0..W {
            let x = u64::from(cells[k].magnitude());
            plain[k] += cells[k].block();
            low[k] += (x * x) & 0xffff_ffff;
            high[k] += (x * x) >> 32;
        }
    }
    for k in 0..W {
        sums[k] += plain[k];
        squares[k] += i128::from(low[k]) + (i128::from(high[k]) << 32);
    }
}

/// Adds some frames of a tile, and their squares.
fn add_frames<T: Exact>(
    simd: Simd,
    frames: FramesView<'_, T>,
    which: Range<usize>,
    sums: &mut [T::Block],
    squares: &mut [T::Squares],
) {
    run!(simd, {
        for group in groups(which) {
            let wide = sums.len() - sums.len() % STRIP;
            let (sums, rest_sums) = sums.split_at_mut(wide);
            let (squares, rest_squares) = squares.split_at_mut(wide);
            add_strips::<T, STRIP>(frames, group.clone(), 0, sums, squares);
            add_strips::<T, 1>(frames, group, wide, rest_sums, rest_squares);
        }
    });
}

#[inline(always)]
fn add_strips<T: Exact, const W: usize>(
    frames: FramesView<'_, T>,
    group: Range<usize>,
    first: usize,
    sums: &mut [T::Block],
    squares: &mut [T::Squares],
) {
    let strips = sums.as_chunks_mut::<W>().0.iter_mut().zip(squares.as_chunks_mut::<W>().0);
    for (index, (sums, squares)) in strips.enumerate() {
        T::add(frames, group.clone(), first + index * W, sums, squares);
    }
}

struct Worker<T: Exact> {
    seen: Seen,
    sums: PixelSums<T>,
    squares: Vec<T::Squares>,
}

impl<T: Exact> Worker<T> {
    fn new(run: &RunMeta, seen: Seen) -> Self {
        let squares = vec![T::Squares::default(); run.job.shape.frame_len()];
        Worker { seen, sums: PixelSums::new(&run.tiling), squares }
    }
}

impl<T: Exact> Accumulator for Worker<T> {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let frames = T::view(tile.frames())?;
        self.seen.add(tile.position.sig, frames.depth());
        let squares = &mut self.squares;
        self.sums.add(tile.position.sig, frames.depth(), |which, place, sums| {
            add_frames(Simd::best(), frames, which, sums, &mut squares[place]);
        });
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        let partial = self.seen.partial()?;
        Ok(partial.with("sums", pack(self.sums.finish()?)?).with("squares", pack(self.squares)?))
    }
}

struct Merged<T: Exact> {
    report: Report,
    n_frames: usize,
    sums: Vec<i64>,
    squares: Vec<T::Squares>,
}

impl<T: Exact> Merged<T> {
    fn new(report: Report) -> Self {
        let len = report.layout.len();
        Merged { report, n_frames: 0, sums: vec![0; len], squares: vec![Default::default(); len] }
    }
}

impl<T: Exact> Merger for Merged<T> {
    fn merge(&mut self, _partition: &Partition, mut partial: Partial) -> Result<()> {
        self.n_frames += take_n_frames(&mut partial)?;
        add_all(&mut self.sums, &i64::unpack(partial.take_native("sums")?)?)?;
        add_all(&mut self.squares, &T::Squares::unpack(partial.take_native("squares")?)?)
    }

    fn results(&self) -> Result<Vec<Array>> {
        let pixels = self.sums.iter().zip(&self.squares);
        let varsum = |(&sum, &squares): (&i64, &T::Squares)| {
            varsum(self.n_frames, sum.into(), squares.into())
        };
        let varsums: Vec<f64> = pixels.map(varsum).collect();
        self.report.results(self.n_frames, &self.sums, &varsums)
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
