//! What lies between the pixels of a frame, under masks that are moved by fractions of a pixel.
//!
//! Two lines of the frame lie under each line of the masks. They are weighted and added up, and their
//! sum is then interpolated along itself: both are loops over a whole line.

use super::{Axis, Between, Lines, Movable, Moved, moved};
use framefold_core::{Result, memory};
use framefold_simd::{prefetch, run};
use std::ops::Range;

/// What it takes to interpolate, kept from one block to the next.
#[derive(Default)]
pub(in super::super) struct Room<B> {
    /// Lines of a frame, or planes of them.
    pub(in super::super) lines: Lines,
    /// The sum of some lines, which is not yet interpolated along itself.
    line: Vec<B>,
}

/// Some pixels of the masks, on a frame.
pub(in super::super) struct Part<'a, T> {
    pub(in super::super) frame: &'a [T],
    pub(in super::super) pixels: Range<usize>,
    /// Cells that are looked at after these, to be asked for in time; any others will do.
    pub(in super::super) ahead: &'a [T],
}

impl Moved<'_> {
    /// The cells of a frame of which nearly all of what lies under the `pixels` of the masks is made.
    pub(in super::super) fn reach(&self, pixels: &Range<usize>) -> Range<usize> {
        let (mut by, mut stride) = (0_i64, 1_i64);
        for (axis, &len) in self.axes.iter().zip(self.sig).rev() {
            by = by.saturating_add(axis.first.saturating_mul(stride));
            stride = stride.saturating_mul(len as i64);
        }
        let place = |pixel: usize| (pixel as i64).saturating_add(by).clamp(0, stride) as usize;
        place(pixels.start)..place(pixels.end + self.width() + 1)
    }

    /// The cells of a frame under some pixels of masks that are moved anyhow, as numbers that keep
    /// what lies between pixels; `convert` makes such a one of a pixel.
    ///
    /// # Errors
    /// As [`Moved::lines`].
    pub(in super::super) fn blend<T: Movable, B: Between>(
        &self,
        part: Part<'_, T>,
        room: &mut Room<B>,
        under: &mut [B],
        convert: impl Fn(T) -> B + Copy,
    ) -> Result<()> {
        memory::resize(&mut room.line, self.width() + 1, B::default())?;
        run!(self.simd, self.blend_with(part, room, under, convert))
    }

    #[inline(always)]
    fn blend_with<T: Movable, B: Between>(
        &self,
        part: Part<'_, T>,
        room: &mut Room<B>,
        under: &mut [B],
        convert: impl Fn(T) -> B + Copy,
    ) -> Result<()> {
        let (width, n_outer) = (self.width(), self.sig.len().saturating_sub(2));
        let Some((across, outer)) = self.axes.split_last() else { return Ok(()) };
        let (n_rows, down) = match outer.last() {
            Some(&axis) => (self.sig[n_outer].max(1), axis),
            None => (1, Axis::default()),
        };
        let (left, right) = (1.0 - across.fraction, across.fraction);
        let Room { lines: planes, line } = room;
        let (mut rest, mut found) = (under, None);
        let Part { frame, pixels, ahead } = part;
        let mut ahead = ahead.chunks(width);
        prefetch(ahead.next().unwrap_or_default());
        for (number, columns) in self.by_line(pixels) {
            // The processor cannot foresee where the next frame begins.
            prefetch(ahead.next().unwrap_or_default());
            let (here, later) = rest.split_at_mut(columns.len());
            rest = later;
            let (plane, row) = (number / n_rows, number % n_rows);
            if found.replace(plane) != Some(plane) {
                self.places(n_outer, plane, planes)?;
            }
            let sum = match across.is_whole() {
                true => &mut *here,
                false => &mut line[..=columns.len()],
            };
            let (pixels, inside) = overlap_of(width, columns.start, across.first, sum.len());
            sum[..inside.start].fill(B::default());
            sum[inside.end..].fill(B::default());
            let sum = &mut sum[inside];
            if planes.is_empty() {
                sum.fill(B::default());
            }
            for (i, &(plane, weight)) in planes.iter().enumerate() {
                let source = |shift: i64, part: f64| {
                    let row = moved(row, shift, n_rows).filter(|_| part > 0.0)?;
                    let cells = &frame[(plane * n_rows + row) * width..][..width];
                    Some((&cells[pixels.clone()], weight * part))
                };
                let upper = source(down.first, 1.0 - down.fraction);
                let lower = source(down.first + 1, down.fraction);
                add_lines(sum, upper, lower, convert, i == 0);
            }
            if !across.is_whole() {
                for ((cell, a), b) in here.iter_mut().zip(&*line).zip(&line[1..]) {
                    *cell = a.weighted(left).plus(b.weighted(right));
                }
            }
        }
        Ok(())
    }
}

/// Which pixels of a line `len` cells lie on, of which the first one is cell `start` of a line of
/// masks that are moved by `shift`; and which of the cells these are.
#[inline(always)]
fn overlap_of(width: usize, start: usize, shift: i64, len: usize) -> (Range<usize>, Range<usize>) {
    // Neither is larger than the frame, or the shift is so large that all lies outside.
    let first = start as i64 + shift;
    let place = |at: i64| usize::try_from(at).unwrap_or(0);
    let pixels = place(first).min(width)..place(first + len as i64).min(width);
    let before = place(-first).min(len);
    let inside = before..before + pixels.len();
    (pixels, inside)
}

/// Makes `sum` the sum of two lines, if they are there, each times its weight; if they are not the
/// `first` ones, what is there is added to it.
#[inline(always)]
fn add_lines<T: Movable, B: Between>(
    sum: &mut [B],
    upper: Option<(&[T], f64)>,
    lower: Option<(&[T], f64)>,
    convert: impl Fn(T) -> B,
    first: bool,
) {
    match (upper, lower) {
        (Some((upper, above)), Some((lower, below))) if first => {
            for ((sum, &a), &b) in sum.iter_mut().zip(upper).zip(lower) {
                *sum = convert(a).weighted(above).plus(convert(b).weighted(below));
            }
        }
        (Some((only, weight)), None) | (None, Some((only, weight))) if first => {
            for (sum, &a) in sum.iter_mut().zip(only) {
                *sum = convert(a).weighted(weight);
            }
        }
        (None, None) if first => sum.fill(B::default()),
        (upper, lower) => {
            for (line, weight) in [upper, lower].into_iter().flatten() {
                for (sum, &a) in sum.iter_mut().zip(line) {
                    *sum = sum.plus(convert(a).weighted(weight));
                }
            }
        }
    }
}
