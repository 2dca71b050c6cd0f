//! The blocked product of frames with masks.
//!
//! Pixels are taken in blocks that fit the cache, and multiplied by one of two loops: with [`Few`]
//! masks, lanes are neighbouring pixels, which are mostly converted on their way into registers;
//! with [`Many`], lanes are masks, and a block is converted once for all of them.
//!
//! Each lane sums at most [`TERMS`] products, in single precision where that loses nothing of
//! the factors, and is then added to totals of double precision.

use super::columns::Columns;
use super::entries::{Place, add_frames};
use super::few::{self, Few};
use super::lanes::Float;
use super::many::{self, Many};
use super::number::{Number, Operand};
use super::rows::{Pixel, Rows, imaginary, real, rows_per_frame};
use super::sparse::Segments;
use super::stack::{MaskStack, Weights};
use crate::cell::Cell;
use crate::entries::Entries;
use framefold_core::{DType, FramesView, Result, memory};
use framefold_simd::Simd;
use std::ops::Range;

/// The most products that a sum in single precision takes before it is added to its total: 256
/// pixels of 16 bits add up to less than 2^24, so they are counted exactly.
pub(super) const TERMS: usize = 256;

/// Below this, all integers have single precision.
const EXACT: f64 = 16_777_216.0;

/// Multiplies the frames of one partition with a stack of masks.
pub(super) struct Product {
    simd: Simd,
    blocks: Blocks,
    totals: Vec<f64>,
    n_products: usize,
    /// Some values of a sparse tile.
    values: Vec<f64>,
}

/// Room for the pixels of a block in the right precision, for few masks or for many; for sparse
/// masks, where they lie.
enum Blocks {
    FewSingle(Rows<f32, { few::PIXELS }>),
    FewDouble(Rows<f64, { few::PIXELS }>),
    ManySingle(Rows<f32, { many::PIXELS }>),
    ManyDouble(Rows<f64, { many::PIXELS }>),
    Sparse(Segments),
}

impl Blocks {
    fn new(few: bool, single: bool) -> Self {
        match (few, single) {
            (true, true) => Blocks::FewSingle(Rows::new(few::ROWS)),
            (true, false) => Blocks::FewDouble(Rows::new(few::ROWS)),
            (false, true) => Blocks::ManySingle(Rows::new(many::ROWS)),
            (false, false) => Blocks::ManyDouble(Rows::new(many::ROWS)),
        }
    }
}

impl Product {
    /// For `n_frames` frames of dtype `T`.
    ///
    /// # Errors
    /// `Limit` if there is no memory for their products.
    pub(super) fn try_new<T: Pixel>(
        simd: Simd,
        stack: &MaskStack,
        n_frames: usize,
    ) -> Result<Self> {
        let (blocks, n_products) = match stack.weights() {
            Weights::Sparse(columns) => (Blocks::Sparse(Segments::default()), columns.n_columns()),
            Weights::Single(columns) => {
                let single = in_single(T::DTYPE, stack);
                (Blocks::new(columns.are_few(), single), columns.n_products())
            }
            Weights::Double(columns) => {
                (Blocks::new(columns.are_few(), false), columns.n_products())
            }
        };
        let per_frame = n_products.saturating_mul(rows_per_frame::<T>());
        let totals = memory::zeros(n_frames.saturating_mul(per_frame))?;
        Ok(Product { simd, blocks, totals, n_products, values: Vec::new() })
    }

    /// Adds the products of the `cells` of each frame with the pixels `run` of each mask. The
    /// first of `frames` is number `first` of the partition.
    pub(super) fn add<T: Pixel>(
        &mut self,
        frames: FramesView<'_, T>,
        first: usize,
        cells: Range<usize>,
        stack: &MaskStack,
        run: Range<usize>,
    ) {
        let per_frame = rows_per_frame::<T>() * self.n_products;
        let totals = &mut self.totals[first * per_frame..(first + frames.depth()) * per_frame];
        let job = Job { simd: self.simd, frames, cells, run, totals, per_frame };
        match (&mut self.blocks, stack.weights()) {
            (Blocks::FewSingle(rows), Weights::Single(columns)) => {
                if T::raw(&[]).is_some() {
                    job.few_raw(columns)
                } else {
                    job.few(rows, columns)
                }
            }
            (Blocks::FewDouble(rows), Weights::Single(columns)) => job.few(rows, columns),
            (Blocks::FewDouble(rows), Weights::Double(columns)) => job.few(rows, columns),
            (Blocks::ManySingle(rows), Weights::Single(columns)) => job.many(rows, columns),
            (Blocks::ManyDouble(rows), Weights::Single(columns)) => job.many(rows, columns),
            (Blocks::ManyDouble(rows), Weights::Double(columns)) => job.many(rows, columns),
            (Blocks::Sparse(segments), Weights::Sparse(columns)) => {
                let Job { simd, frames, cells, run, totals, .. } = job;
                segments.add(simd, frames, cells.start, columns, &run, totals);
            }
            // `try_new` makes no other pairs.
            (_, Weights::Single(_) | Weights::Double(_) | Weights::Sparse(_)) => {}
        }
    }

    /// Adds the products of sparse frames, whose columns are pixels of the frame, with each mask.
    /// The first of them is number `first` of the partition.
    ///
    /// # Errors
    /// `BadFile` if a column lies outside of the frame.
    pub(super) fn add_entries<T: Cell>(
        &mut self,
        entries: Entries<'_, T>,
        first: usize,
        stack: &MaskStack,
    ) -> Result<()> {
        let per_frame = rows_per_frame::<T>() * self.n_products;
        let totals = &mut self.totals[first * per_frame..];
        let mut add = |row: usize, frames: Range<usize>, entries: Entries<'_, f64>| {
            let totals = &mut totals[frames.start * per_frame..frames.end * per_frame];
            let place = Place { row: row * self.n_products, per_frame, totals };
            add_frames(self.simd, stack, entries, place)
        };
        entries.in_double(self.simd, &mut self.values, real, |f, e| add(0, f, e))?;
        if rows_per_frame::<T>() == 2 {
            entries.in_double(self.simd, &mut self.values, imaginary, |f, e| add(1, f, e))?;
        }
        Ok(())
    }

    /// The totals, row by row, and how many there are of each row.
    pub(super) fn totals(&self) -> (&[f64], usize) {
        (&self.totals, self.n_products)
    }
}

/// Whether blocks are summed in single precision: if pixels and masks have that already, and
/// integers times masks of integers stay exact.
fn in_single(dtype: DType, stack: &MaskStack) -> bool {
    let largest = match dtype {
        DType::Bool => Some(1.0),
        DType::U8 => Some(255.0),
        DType::I8 => Some(128.0),
        DType::U16 => Some(65535.0),
        DType::I16 => Some(32768.0),
        DType::F16 | DType::F32 | DType::C64 => None,
        DType::U32 | DType::I32 | DType::U64 | DType::I64 | DType::F64 | DType::C128 => {
            return false;
        }
    };
    let exact = largest.is_none_or(|cell| cell * stack.largest_integer() * TERMS as f64 <= EXACT);
    exact && matches!(stack.weights(), Weights::Single(_))
}

/// One run of pixels of one tile.
struct Job<'a, 't, T> {
    simd: Simd,
    frames: FramesView<'a, T>,
    cells: Range<usize>,
    run: Range<usize>,
    /// Those of the tile's frames.
    totals: &'t mut [f64],
    per_frame: usize,
}

impl<'a, T: Pixel> Job<'a, '_, T> {
    /// A few frames are read along all their pixels, as memory likes it best; the masks come from
    /// the cache, again and again.
    fn few<S: Number, M: Operand<S>>(
        mut self,
        rows: &mut Rows<S, { few::PIXELS }>,
        columns: &Columns<M>,
    ) {
        for (frames, cells) in self.blocks() {
            let (simd, pixels, products) = self.block(rows, &frames, &cells);
            let rows = rows.slices::<{ few::ROWS }>(pixels.len());
            let rows = &rows[..frames.len() * rows_per_frame::<T>()];
            S::run(simd, Few { rows, ahead: &[], columns, pixels, products });
        }
    }

    /// The same for cells that need not be converted beforehand.
    fn few_raw(mut self, columns: &Columns<f32>) {
        let mut blocks = self.blocks().peekable();
        let mut next = blocks.peek().and_then(|(frames, cells)| self.raw(frames, cells));
        while let (Some(rows), Some((frames, cells))) = (next, blocks.next()) {
            next = blocks.peek().and_then(|(frames, cells)| self.raw(frames, cells));
            let ahead = next.as_ref().map_or(&[][..], |ahead| ahead);
            let (simd, pixels, products) = self.place(&frames, &cells);
            f32::run(simd, Few { rows: &rows[..frames.len()], ahead, columns, pixels, products });
        }
    }

    /// The blocks of few masks: their frames and cells.
    fn blocks(&self) -> impl Iterator<Item = (Range<usize>, Range<usize>)> + use<T> {
        let len = self.cells.len();
        let frames = pieces(self.frames.depth(), few::ROWS / rows_per_frame::<T>());
        frames.flat_map(move |frames| {
            pieces(len, few::PIXELS).map(move |cells| (frames.clone(), cells))
        })
    }

    /// The cells of a block as they are, if they need not be converted beforehand.
    fn raw(
        &self,
        frames: &Range<usize>,
        cells: &Range<usize>,
    ) -> Option<[&'a [T::Raw]; few::ROWS]> {
        let cells = self.cells.start + cells.start..self.cells.start + cells.end;
        let mut rows: [&[T::Raw]; few::ROWS] = [&[]; few::ROWS];
        for (row, i) in rows.iter_mut().zip(frames.clone()) {
            *row = T::raw(&self.frames.frame(i)[cells.clone()])?;
        }
        Some(rows)
    }

    /// A part of the masks stays in the cache while all frames pass.
    fn many<S: Number, M: Operand<S>>(
        mut self,
        rows: &mut Rows<S, { many::PIXELS }>,
        columns: &Columns<M>,
    ) {
        for cells in pieces(self.cells.len(), many::PIXELS) {
            for frames in pieces(self.frames.depth(), many::ROWS / rows_per_frame::<T>()) {
                let (simd, pixels, products) = self.block(rows, &frames, &cells);
                S::run(simd, Many { rows, columns, pixels, products });
            }
        }
    }

    /// Converts a block; gives its pixels of the masks, and its totals.
    fn block<S: Number, const P: usize>(
        &mut self,
        rows: &mut Rows<S, P>,
        frames: &Range<usize>,
        cells: &Range<usize>,
    ) -> (Simd, Range<usize>, &mut [f64]) {
        let here = self.cells.start + cells.start..self.cells.start + cells.end;
        rows.load(self.simd, self.frames, frames.clone(), &here);
        self.place(frames, cells)
    }

    /// The pixels of a block in the masks, and its totals.
    fn place(
        &mut self,
        frames: &Range<usize>,
        cells: &Range<usize>,
    ) -> (Simd, Range<usize>, &mut [f64]) {
        let totals = frames.start * self.per_frame..frames.end * self.per_frame;
        let pixels = self.run.start + cells.start..self.run.start + cells.end;
        (self.simd, pixels, &mut self.totals[totals])
    }
}

/// `0..len` in pieces of `size`, the last one smaller.
fn pieces(len: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(size).map(move |start| start..len.min(start + size))
}

#[cfg(test)]
mod tests;
