//! The blocked product of frames with masks.
//!
//! Frames are taken four at a time and pixels in blocks that fit the first-level cache: a block
//! is converted to double precision once and then multiplied with every mask, and each mask
//! value that is read serves four frames.

use super::stack::{MaskStack, Plane};
use crate::cell::Cell;
use crate::total::Value;
use framefold_core::FramesView;
use std::marker::PhantomData;
use std::ops::Range;

/// Frames that share one reading of a mask.
const FRAMES: usize = 4;
/// Pixels of a block: 4 frames of them in double precision are 16 KiB.
const CELLS: usize = 512;
/// Independent sums per frame and mask.
const LANES: usize = 4;

type Block = [[f64; CELLS]; FRAMES];

/// Room for a block of pixels: their real and, if they are complex, imaginary parts.
pub(super) struct Planes<T> {
    real: Box<Block>,
    imaginary: Option<Box<Block>>,
    cell: PhantomData<T>,
}

impl<T: Cell> Planes<T> {
    pub(super) fn new() -> Self {
        let block = || Box::new([[0.0; CELLS]; FRAMES]);
        let imaginary = T::DTYPE.is_complex().then(block);
        Planes { real: block(), imaginary, cell: PhantomData }
    }

    /// Takes in the `cells` of up to four frames from `first` on; returns how many frames.
    fn load(&mut self, frames: FramesView<'_, T>, first: usize, cells: Range<usize>) -> usize {
        let n = (frames.depth() - first).min(FRAMES);
        for i in 0..n {
            let cells = &frames.frame(first + i)[cells.clone()];
            match &mut self.imaginary {
                None => {
                    for (real, cell) in self.real[i].iter_mut().zip(cells) {
                        *real = cell.value().complex().re;
                    }
                }
                Some(imaginary) => {
                    let parts = self.real[i].iter_mut().zip(imaginary[i].iter_mut());
                    for ((real, imaginary), cell) in parts.zip(cells) {
                        let value = cell.value().complex();
                        (*real, *imaginary) = (value.re, value.im);
                    }
                }
            }
        }
        n
    }
}

/// Adds to `products` (frame by frame, one per mask) those of the `cells` of each frame with the
/// pixels `run` of each mask. The second slice takes imaginary parts and is empty if all products
/// are real.
pub(super) fn add_products<T: Cell>(
    frames: FramesView<'_, T>,
    cells: Range<usize>,
    stack: &MaskStack,
    run: Range<usize>,
    planes: &mut Planes<T>,
    (real, imaginary): (&mut [f64], &mut [f64]),
) {
    let n_masks = stack.n_masks();
    for offset in (0..cells.len()).step_by(CELLS) {
        let len = CELLS.min(cells.len() - offset);
        let from = cells.start + offset;
        let pixels = run.start + offset..run.start + offset + len;
        for first in (0..frames.depth()).step_by(FRAMES) {
            let n = planes.load(frames, first, from..from + len);
            let here = first * n_masks..(first + n) * n_masks;
            let real = &mut real[here.clone()];
            multiply(&planes.real, n, stack.real(), &pixels, n_masks, 1.0, real);
            if let Some(imaginary) = imaginary.get_mut(here) {
                if let Some(mask) = stack.imaginary() {
                    multiply(&planes.real, n, mask, &pixels, n_masks, 1.0, imaginary);
                }
                if let Some(block) = &planes.imaginary {
                    multiply(block, n, stack.real(), &pixels, n_masks, 1.0, imaginary);
                    if let Some(mask) = stack.imaginary() {
                        multiply(block, n, mask, &pixels, n_masks, -1.0, real);
                    }
                }
            }
        }
    }
}

/// `products[f * n_masks + m] += sign * Σ_p block[f][p] * mask_m[p]` for the first `n` frames.
fn multiply(
    block: &Block,
    n: usize,
    plane: &Plane,
    pixels: &Range<usize>,
    n_masks: usize,
    sign: f64,
    products: &mut [f64],
) {
    fn all<M: Copy + Into<f64>>(
        (block, n): (&Block, usize),
        masks: &[M],
        pixels: &Range<usize>,
        n_masks: usize,
        sign: f64,
        products: &mut [f64],
    ) {
        for (m, mask) in masks.chunks_exact(masks.len() / n_masks).enumerate() {
            let sums = dots(block, n, &mask[pixels.clone()]);
            for (row, sum) in products.chunks_exact_mut(n_masks).zip(sums) {
                row[m] += sign * sum;
            }
        }
    }
    match plane {
        Plane::Single(masks) => all((block, n), masks, pixels, n_masks, sign, products),
        Plane::Double(masks) => all((block, n), masks, pixels, n_masks, sign, products),
    }
}

/// The products of the first `n` frames of a block with one mask.
fn dots<M: Copy + Into<f64>>(block: &Block, n: usize, mask: &[M]) -> [f64; FRAMES] {
    if n < FRAMES {
        let mut sums = [0.0; FRAMES];
        for (sum, cells) in sums.iter_mut().zip(&block[..n]) {
            *sum = dots_of([&cells[..mask.len()]], mask)[0];
        }
        return sums;
    }
    let [a, b, c, d] = block;
    let len = mask.len();
    dots_of([&a[..len], &b[..len], &c[..len], &d[..len]], mask)
}

/// The products of `N` rows of pixels with one mask: each row is summed in the same order
/// whatever `N` is.
fn dots_of<const N: usize, M: Copy + Into<f64>>(rows: [&[f64]; N], mask: &[M]) -> [f64; N] {
    let mut sums = [[0.0; LANES]; N];
    let (fours, rest) = mask.as_chunks::<LANES>();
    for (i, four) in fours.iter().enumerate() {
        let weights = four.map(Into::into);
        for (sums, row) in sums.iter_mut().zip(&rows) {
            let cells = &row[i * LANES..(i + 1) * LANES];
            for lane in 0..LANES {
                sums[lane] += cells[lane] * weights[lane];
            }
        }
    }
    let start = fours.len() * LANES;
    for (sums, row) in sums.iter_mut().zip(&rows) {
        for (lane, (&weight, cell)) in rest.iter().zip(&row[start..]).enumerate() {
            sums[lane] += cell * weight.into();
        }
    }
    sums.map(|[a, b, c, d]| (a + b) + (c + d))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equals_the_plain_product_for_every_length() {
        let mut block = [[0.0; CELLS]; FRAMES];
        for (f, row) in block.iter_mut().enumerate() {
            for (i, cell) in row.iter_mut().enumerate() {
                *cell = ((i * 7 + f * 31) % 101) as f64;
            }
        }
        let mask: Vec<f32> = (0..CELLS).map(|i| ((i * 13) % 17) as f32 - 8.0).collect();
        for len in [1, 3, 4, 5, 511, 512] {
            for n in 1..=FRAMES {
                let found = dots(&block, n, &mask[..len]);
                for f in 0..n {
                    let plain: f64 =
                        block[f].iter().zip(&mask[..len]).map(|(&x, &m)| x * f64::from(m)).sum();
                    assert_eq!(found[f], plain, "{n} frames, {len} pixels");
                }
            }
        }
    }
}
