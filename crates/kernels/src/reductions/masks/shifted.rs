//! Products with masks that lie elsewhere on each frame.
//!
//! Frames are moved, a block of some frames and some pixels of the masks at a time, so that they
//! lie under those of the masks; then they are multiplied as any others. So a block of the masks is
//! read once for several frames, whatever their shifts are, and each sum is in the order in which
//! it is without shifts.

use super::moved::{Axis, Movable, Moved, Part, Room};
use super::product::Product;
use super::rows::Pixel;
use super::stack::{MaskStack, Weights};
use super::{Masks, combined};
use crate::entries::Entries;
use framefold_core::{Complex64, Complex128, Error, FramesView, Result, memory};
use framefold_simd::Simd;
use std::ops::Range;

/// Frames of a block for few masks, and for many.
const FEW: usize = super::few::ROWS;
const MANY: usize = super::many::ROWS;

/// Pixels of a block: a multiple of those that are multiplied at a time, and so many that the
/// processor foresees which memory of a frame comes next. A block fits the second-level cache.
const PIXELS: usize = 4096;
const _: () = assert!(PIXELS.is_multiple_of(super::few::PIXELS));
const _: () = assert!(PIXELS.is_multiple_of(super::many::PIXELS));

/// Keeps the same pixel of several frames out of the same set of the cache.
const GAP: usize = 32;

/// Moves the frames of tiles and multiplies them.
#[derive(Default)]
pub(super) struct Mover<T: Movable> {
    /// The shifts of the frames of a tile.
    axes: Vec<Axis>,
    room: Room<T::Between>,
    /// A block of frames that are moved by whole pixels.
    cells: Vec<T>,
    /// The same for other shifts.
    between: Vec<T::Between>,
    /// Both for results in double precision.
    wide_room: Room<T::Wide>,
    wide: Vec<T::Wide>,
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<T::Wide>,
}

impl<T: Movable> Mover<T> {
    /// Takes the shifts of the frames of the next tile, one after the other, all of their axes.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them.
    pub(super) fn set_shifts<'s>(
        &mut self,
        shifts: impl Iterator<Item = Result<&'s [f64]>>,
    ) -> Result<()> {
        self.axes.clear();
        for shift in shifts {
            let shift = shift?;
            memory::make_room(&mut self.axes, shift.len())?;
            self.axes.extend(shift.iter().map(|&shift| Axis::new(shift)));
        }
        Ok(())
    }

    /// Adds the products of whole frames with masks that are moved by the shifts. The first of
    /// `frames` is number `first` of the partition.
    ///
    /// # Errors
    /// `Limit` if there is no memory for a block; `Bug` if there are not as many shifts as frames.
    pub(super) fn add(
        &mut self,
        product: &mut Product,
        frames: FramesView<'_, T>,
        first: usize,
        stack: &MaskStack,
    ) -> Result<()> {
        let Mover { axes, room, cells, between, wide_room, wide, .. } = self;
        let sig = stack.sig_shape();
        let n_pixels = frames.frame_len();
        check(axes, frames.depth(), sig)?;
        let [n_frames, block_pixels] = match stack.weights() {
            Weights::Single(columns) if columns.are_few() => [FEW, PIXELS],
            Weights::Double(columns) if columns.are_few() => [FEW, PIXELS],
            Weights::Single(_) | Weights::Double(_) => [MANY, PIXELS],
            // These know where they have pixels.
            Weights::Sparse(_) => [1, n_pixels],
        };
        for start in (0..frames.depth()).step_by(n_frames) {
            let which = start..frames.depth().min(start + n_frames);
            let whole =
                axes[which.start * sig.len()..which.end * sig.len()].iter().all(Axis::is_whole);
            let block = Block { frames, which, axes, sig, first, stack };
            for start in (0..n_pixels).step_by(block_pixels) {
                let pixels = start..n_pixels.min(start + block_pixels);
                if whole {
                    block.add(product, pixels, room, cells, |moved, part, _, under| {
                        moved.copy(part.frame, part.pixels, under);
                        Ok(())
                    })?;
                } else if stack.in_double() {
                    block.add(product, pixels, wide_room, wide, |moved, part, room, under| {
                        moved.blend(part, room, under, T::wide)
                    })?;
                } else {
                    block.add(product, pixels, room, between, |moved, part, room, under| {
                        moved.blend(part, room, under, T::between)
                    })?;
                }
            }
        }
        Ok(())
    }

    /// The same for the entries of sparse frames, whose columns are pixels of the frame.
    ///
    /// # Errors
    /// As [`Mover::add`]; `BadFile` if a column lies outside of the frame.
    pub(super) fn add_entries(
        &mut self,
        product: &mut Product,
        entries: Entries<'_, T>,
        first: usize,
        stack: &MaskStack,
    ) -> Result<()> {
        let Mover { axes, room, starts, columns, values, .. } = self;
        let lines = &mut room.lines;
        let sig = stack.sig_shape();
        check(axes, entries.depth(), sig)?;
        starts.clear();
        columns.clear();
        values.clear();
        memory::push(starts, 0)?;
        for ((cells, cell_values), axes) in entries.by_frame().zip(axes.chunks_exact(sig.len())) {
            let moved = Moved { simd: Simd::best(), sig, axes };
            for (&column, value) in cells.iter().zip(cell_values) {
                moved.cells(column, lines)?;
                memory::make_room(columns, lines.len())?;
                memory::make_room(values, lines.len())?;
                for &(cell, weight) in &*lines {
                    // As the columns of a frame, those of the masks have 32 bits.
                    let Ok(cell) = u32::try_from(cell) else { continue };
                    columns.push(cell);
                    values.push(times(value.wide(), weight));
                }
            }
            memory::push(starts, columns.len())?;
        }
        product.add_entries(Entries::new(starts, columns, values), first, stack)
    }
}

/// Some frames of a tile.
struct Block<'a, T> {
    frames: FramesView<'a, T>,
    which: Range<usize>,
    /// The shifts of all frames.
    axes: &'a [Axis],
    sig: &'a [usize],
    /// The number of the tile's first frame in the partition.
    first: usize,
    stack: &'a MaskStack,
}

impl<T: Movable> Block<'_, T> {
    /// Frame `i` of the tile.
    fn moved(&self, i: usize) -> Moved<'_> {
        let n_axes = self.sig.len();
        let axes = &self.axes[i * n_axes..(i + 1) * n_axes];
        Moved { simd: Simd::best(), sig: self.sig, axes }
    }

    /// Which cells are looked at after those of frame `i` under the `pixels`.
    fn ahead(&self, i: usize, pixels: &Range<usize>) -> &[T] {
        let len = self.frames.frame_len();
        let (next, pixels) = match i + 1 < self.which.end {
            true => (i + 1, pixels.clone()),
            false if pixels.end < len => {
                (self.which.start, pixels.end..len.min(pixels.end + pixels.len()))
            }
            false => (self.which.end, 0..pixels.len()),
        };
        if next == self.frames.depth() {
            return &[];
        }
        &self.frames.frame(next)[self.moved(next).reach(&pixels)]
    }

    /// Adds the products of what `fill` finds under the `pixels` of the masks.
    fn add<U: Pixel, B>(
        &self,
        product: &mut Product,
        pixels: Range<usize>,
        room: &mut Room<B>,
        scratch: &mut Vec<U>,
        fill: impl Fn(&Moved<'_>, Part<'_, T>, &mut Room<B>, &mut [U]) -> Result<()>,
    ) -> Result<()> {
        let (n, stride) = (pixels.len(), pixels.len() + GAP);
        memory::resize(scratch, scratch.len().max(self.which.len() * stride), U::default())?;
        let first = self.first + self.which.start;
        for (i, under) in self.which.clone().zip(scratch.chunks_mut(stride)) {
            let (frame, ahead) = (self.frames.frame(i), self.ahead(i, &pixels));
            let part = Part { frame, pixels: pixels.clone(), ahead };
            fill(&self.moved(i), part, room, &mut under[..n])?;
        }
        if self.stack.are_finite() {
            // What lies outside of the frame is 0, and so is its product.
            let frames = FramesView::try_new(scratch, self.which.len(), n, stride)?;
            product.add(frames, first, 0..n, self.stack, pixels);
            return Ok(());
        }
        for (i, under) in self.which.clone().zip(scratch.chunks(stride)) {
            let moved = self.moved(i);
            let frame = FramesView::try_new(under, 1, n, n)?;
            let (inside, mut cell) = (moved.columns(), 0);
            for (line, columns) in moved.by_line(pixels.clone()) {
                moved.lines(line, &mut room.lines)?;
                let there = columns.start.max(inside.start)..columns.end.min(inside.end);
                if !room.lines.is_empty() && there.start < there.end {
                    let cells = cell + (there.start - columns.start)..;
                    let cells = cells.start..cells.start + there.len();
                    let start = pixels.start + cells.start;
                    let run = start..start + there.len();
                    product.add(frame, self.first + i, cells, self.stack, run);
                }
                cell += columns.len();
            }
        }
        Ok(())
    }
}

fn times<W: super::moved::Between>(value: W, weight: f64) -> W {
    if weight == 1.0 { value } else { value.weighted(weight) }
}

fn check(axes: &[Axis], n_frames: usize, sig: &[usize]) -> Result<()> {
    if !sig.is_empty() && axes.len() == n_frames * sig.len() {
        return Ok(());
    }
    let n = axes.len();
    Err(Error::bug(format!("{n} shifts for {n_frames} frames with {} axes", sig.len())))
}

/// The cells of a frame, or the entries of a sparse one.
#[derive(Clone, Copy, Debug)]
pub enum FrameCells<'a> {
    /// All cells, real, in single precision.
    Single(&'a [f32]),
    /// All cells, real.
    Double(&'a [f64]),
    /// All cells, complex, in single precision.
    SingleComplex(&'a [Complex64]),
    /// All cells, complex.
    DoubleComplex(&'a [Complex128]),
    /// Columns and values, real.
    Entries(&'a [u32], &'a [f64]),
    /// Columns and values, complex.
    ComplexEntries(&'a [u32], &'a [Complex128]),
}

/// Masks that are moved against single frames. It may be used by several threads.
pub struct ShiftedMasks {
    masks: Masks,
}

impl ShiftedMasks {
    /// For these masks.
    pub fn new(masks: Masks) -> Self {
        ShiftedMasks { masks }
    }

    /// The scalar product of a frame with each mask, of which cell `i` lies on pixel `i + shift` of
    /// the frame; what lies outside of the frame does not count. Sums are those of a run.
    ///
    /// # Errors
    /// `InvalidArgument` if frame, masks and shifts do not fit together; `BadFile` if a column lies
    /// outside of the frame.
    pub fn products(&self, frame: FrameCells<'_>, shifts: &[f64]) -> Result<Vec<Complex128>> {
        let n_axes = self.masks.stack.sig_shape().len();
        if shifts.len() != n_axes || !shifts.iter().all(|shift| shift.is_finite()) {
            return Err(Error::invalid(format!(
                "shifts {shifts:?} do not fit {n_axes} signal axes"
            ))
            .with_hint("give one finite number for each"));
        }
        match frame {
            FrameCells::Single(cells) => self.dense(cells, shifts),
            FrameCells::Double(cells) => self.dense(cells, shifts),
            FrameCells::SingleComplex(cells) => self.dense(cells, shifts),
            FrameCells::DoubleComplex(cells) => self.dense(cells, shifts),
            FrameCells::Entries(columns, values) => self.sparse(columns, values, shifts),
            FrameCells::ComplexEntries(columns, values) => self.sparse(columns, values, shifts),
        }
    }

    fn dense<T: Movable>(&self, cells: &[T], shifts: &[f64]) -> Result<Vec<Complex128>> {
        let sig = self.masks.stack.sig_shape();
        let len = sig.iter().product();
        if cells.len() != len {
            return Err(Error::invalid(format!(
                "a frame of {} pixels does not fit masks of shape {sig:?}",
                cells.len()
            )));
        }
        let frame = FramesView::try_new(cells, 1, len, len)?;
        self.add(shifts, |mover, product, stack| mover.add(product, frame, 0, stack))
    }

    fn sparse<T: Movable>(
        &self,
        columns: &[u32],
        values: &[T],
        shifts: &[f64],
    ) -> Result<Vec<Complex128>> {
        if columns.len() != values.len() {
            return Err(Error::invalid("there are not as many columns as values"));
        }
        let starts = [0, columns.len()];
        let entries = Entries::new(&starts, columns, values);
        self.add(shifts, |mover, product, stack| mover.add_entries(product, entries, 0, stack))
    }

    /// The products that `add` adds up.
    fn add<T: Movable>(
        &self,
        shifts: &[f64],
        add: impl FnOnce(&mut Mover<T>, &mut Product, &MaskStack) -> Result<()>,
    ) -> Result<Vec<Complex128>> {
        let stack = &self.masks.stack;
        let mut product = Product::try_new::<T>(Simd::best(), stack, 1)?;
        let mut mover = Mover::default();
        mover.set_shifts(std::iter::once(Ok(shifts)))?;
        add(&mut mover, &mut product, stack)?;
        combined::<T>(&product, stack)
    }
}
