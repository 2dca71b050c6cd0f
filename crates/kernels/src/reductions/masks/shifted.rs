//! Products of single frames with masks that lie elsewhere on each of them.
//!
//! The frame is moved, so that its pixels lie under those of the masks. All sums run in double
//! precision, so those of integers are exact up to 2^53; their order follows from the shape of a
//! frame alone.

use super::product::Product;
use super::rows::Pixel;
use super::{Masks, combined};
use crate::entries::Entries;
use framefold_core::{Complex64, Complex128, Error, FramesView, Result, memory, stray_column};
use framefold_simd::Simd;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

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

/// Masks that are moved against each frame. It may be used by several threads.
pub struct ShiftedMasks {
    masks: Masks,
    real: Pool<f64>,
    complex: Pool<Complex128>,
}

/// What is used again from frame to frame, by one thread at a time.
type Pool<T> = Mutex<Vec<Scratch<T>>>;

struct Scratch<T> {
    moved: Vec<T>,
    product: Product,
}

impl ShiftedMasks {
    /// For these masks.
    pub fn new(masks: Masks) -> Self {
        ShiftedMasks { masks, real: Mutex::default(), complex: Mutex::default() }
    }

    /// The scalar product of a frame with each mask, of which cell `i` lies on pixel `i + shift` of
    /// the frame; what lies outside of the frame does not count.
    ///
    /// # Errors
    /// `InvalidArgument` if frame, masks and shifts do not fit together; `BadFile` if a column lies
    /// outside of the frame.
    pub fn products(&self, frame: FrameCells<'_>, shifts: &[i64]) -> Result<Vec<Complex128>> {
        let n_axes = self.masks.stack.sig_shape().len();
        if shifts.len() != n_axes {
            let n = shifts.len();
            return Err(Error::invalid(format!("{n} shifts do not fit {n_axes} signal axes")));
        }
        match frame {
            FrameCells::Single(cells) => self.dense(&self.real, cells, shifts, f64::from),
            FrameCells::Double(cells) => self.dense(&self.real, cells, shifts, |cell| cell),
            FrameCells::SingleComplex(cells) => self.dense(&self.complex, cells, shifts, |cell| {
                Complex128::new(f64::from(cell.re), f64::from(cell.im))
            }),
            FrameCells::DoubleComplex(cells) => {
                self.dense(&self.complex, cells, shifts, |cell| cell)
            }
            FrameCells::Entries(columns, values) => {
                self.sparse(&self.real, columns, values, shifts)
            }
            FrameCells::ComplexEntries(columns, values) => {
                self.sparse(&self.complex, columns, values, shifts)
            }
        }
    }

    fn dense<T: Copy, W: Pixel>(
        &self,
        pool: &Pool<W>,
        cells: &[T],
        shifts: &[i64],
        wide: impl Fn(T) -> W,
    ) -> Result<Vec<Complex128>> {
        let stack = &self.masks.stack;
        let sig = stack.sig_shape();
        let len = sig.iter().product();
        if cells.len() != len {
            return Err(Error::invalid(format!(
                "a frame of {} pixels does not fit masks of shape {sig:?}",
                cells.len()
            )));
        }
        self.with_scratch(pool, |Scratch { moved, product }| {
            moved.clear();
            memory::resize(moved, len, W::default())?;
            let runs = runs(sig, shifts)?;
            for (cells_of_run, run) in &runs {
                let cells = cells[cells_of_run.clone()].iter();
                for (place, &cell) in moved[run.clone()].iter_mut().zip(cells) {
                    *place = wide(cell);
                }
            }
            let frame = FramesView::try_new(moved, 1, len, len)?;
            if stack.are_finite() {
                // What lies outside of the frame is 0, and so is its product.
                product.add(frame, 0, 0..len, stack, 0..len);
            } else {
                for (_, run) in runs {
                    product.add(frame, 0, run.clone(), stack, run);
                }
            }
            Ok(())
        })
    }

    fn sparse<W: Pixel>(
        &self,
        pool: &Pool<W>,
        columns: &[u32],
        values: &[W],
        shifts: &[i64],
    ) -> Result<Vec<Complex128>> {
        let stack = &self.masks.stack;
        if columns.len() != values.len() {
            return Err(Error::invalid("there are not as many columns as values"));
        }
        self.with_scratch(pool, |Scratch { moved, product }| {
            let mut cells = memory::with_room(columns.len())?;
            moved.clear();
            memory::make_room(moved, columns.len())?;
            for (&column, &value) in columns.iter().zip(values) {
                if let Some(cell) = moved_to(column, stack.sig_shape(), shifts)? {
                    cells.push(cell);
                    moved.push(value);
                }
            }
            product.add_entries(Entries::new(&[0, cells.len()], &cells, moved), 0, stack)
        })
    }

    /// The products that `add` adds up.
    fn with_scratch<W: Pixel>(
        &self,
        pool: &Pool<W>,
        add: impl FnOnce(&mut Scratch<W>) -> Result<()>,
    ) -> Result<Vec<Complex128>> {
        let stack = &self.masks.stack;
        let idle = pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut scratch = match idle {
            Some(scratch) => scratch,
            None => {
                let product = Product::try_new::<W>(Simd::best(), stack, 1)?;
                Scratch { moved: Vec::new(), product }
            }
        };
        scratch.product.clear();
        add(&mut scratch)?;
        let products = combined::<W>(&scratch.product, stack)?;
        pool.lock().unwrap_or_else(PoisonError::into_inner).push(scratch);
        Ok(products)
    }
}

/// Where the cells of the frame that masks lie on are, and the pixels of the masks for them.
///
/// # Errors
/// `Limit` if there is no memory for them.
fn runs(sig: &[usize], shifts: &[i64]) -> Result<Vec<(Range<usize>, Range<usize>)>> {
    let mut runs = vec![(0..1, 0..1)];
    for (&len, &shift) in sig.iter().zip(shifts) {
        let by = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX).min(len);
        // Of this axis: the first cell of the frame and of the masks.
        let (cell, pixel) = if shift < 0 { (0, by) } else { (by, 0) };
        if by == 0 {
            // Whole lines follow each other.
            for range in runs.iter_mut().flat_map(|(cells, pixels)| [cells, pixels]) {
                *range = range.start * len..range.end * len;
            }
            continue;
        }
        let line = |(c, p): (usize, usize)| {
            let (cell, pixel) = (c * len + cell, p * len + pixel);
            (cell..cell + (len - by), pixel..pixel + (len - by))
        };
        let mut lines = Vec::new();
        for (cells, pixels) in runs {
            memory::make_room(&mut lines, cells.len())?;
            lines.extend(cells.zip(pixels).map(line));
        }
        runs = lines;
    }
    runs.retain(|(cells, _)| !cells.is_empty());
    Ok(runs)
}

/// The cell of the masks that lies on a pixel of the frame, if there is one.
fn moved_to(column: u32, sig: &[usize], shifts: &[i64]) -> Result<Option<u32>> {
    let (mut rest, mut cell, mut stride) = (column as usize, 0, 1);
    let mut inside = true;
    for (&len, &shift) in sig.iter().zip(shifts).rev() {
        let at = (rest % len.max(1)) as i128 - i128::from(shift);
        match usize::try_from(at).ok().filter(|&at| at < len) {
            Some(at) => cell += at * stride,
            None => inside = false,
        }
        rest /= len.max(1);
        stride *= len;
    }
    if rest > 0 {
        return Err(stray_column(column, stride));
    }
    Ok(u32::try_from(cell).ok().filter(|_| inside))
}

#[cfg(test)]
mod tests;
