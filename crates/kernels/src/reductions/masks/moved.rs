//! What lies under masks that are moved against a frame.
//!
//! Masks moved by `+shift` and multiplied with a frame give the same sums as masks where they are,
//! multiplied with the frame moved by `-shift`: cell `i` of the masks lies on pixel `i + shift`.
//! Between pixels a mask is interpolated linearly along each axis, with zeros around it; in the
//! moved frame, each cell then is a weighted sum of the pixels around `i + shift`. Pixels of weight
//! zero are not looked at, and what lies outside of the frame does not count.

mod blend;

pub(super) use blend::{Part, Room};

use super::rows::Pixel;
use crate::total::Value;
use framefold_core::{Bool8, Complex64, Complex128, F16, Result, memory, stray_column};
use framefold_simd::Simd;
use std::ops::Range;

/// Shifts beyond this are as far away as any others; sums with places in a frame do not overflow.
const FAR: i64 = 1 << 60;

/// The shift along one axis: whole pixels, and the part of a pixel that is left.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Axis {
    first: i64,
    fraction: f64,
}

impl Axis {
    pub(super) fn new(shift: f64) -> Self {
        let whole = shift.floor();
        let first = (whole as i64).clamp(-FAR, FAR);
        match shift - whole {
            // A tiny number below zero, rounded.
            fraction if fraction >= 1.0 => Axis { first: first + 1, fraction: 0.0 },
            fraction => Axis { first, fraction },
        }
    }

    pub(super) fn is_whole(&self) -> bool {
        self.fraction == 0.0
    }

    /// By how much a cell lies before the pixels under it, and how much each of them counts.
    fn parts(&self) -> impl Iterator<Item = (i64, f64)> + use<> {
        let Axis { first, fraction } = *self;
        [(first, 1.0 - fraction), (first + 1, fraction)].into_iter().filter(|&(_, w)| w > 0.0)
    }
}

/// Those of the places `0..len` that are `shift` before another one of them.
fn overlap(len: usize, shift: i64) -> Range<usize> {
    let by = usize::try_from(shift.unsigned_abs()).unwrap_or(usize::MAX).min(len);
    if shift < 0 { by..len } else { 0..len - by }
}

/// What of a range lies within another; empty ones begin within it, too.
fn clipped(range: Range<usize>, within: &Range<usize>) -> Range<usize> {
    let start = range.start.clamp(within.start, within.end);
    start..range.end.clamp(start, within.end)
}

/// A place, moved within `0..len`.
fn moved(at: usize, by: i64, len: usize) -> Option<usize> {
    at.checked_add_signed(isize::try_from(by).ok()?).filter(|&at| at < len)
}

/// Frames of one shape, moved under masks.
pub(super) struct Moved<'a> {
    pub(super) simd: Simd,
    pub(super) sig: &'a [usize],
    /// The shift of this frame, one for each axis.
    pub(super) axes: &'a [Axis],
}

/// Lines of a frame along its last axis, and how much each of them counts.
pub(super) type Lines = Vec<(usize, f64)>;

impl Moved<'_> {
    fn width(&self) -> usize {
        self.sig.last().copied().unwrap_or(1).max(1)
    }

    /// The cells of each line of the masks that lie on a line of the frame, wholly or in part.
    pub(super) fn columns(&self) -> Range<usize> {
        let Some(axis) = self.axes.last() else { return 0..0 };
        let parts = axis.parts().map(|(shift, _)| overlap(self.width(), shift));
        let all = parts.filter(|columns| !columns.is_empty());
        all.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end)).unwrap_or(0..0)
    }

    /// The lines of the frame that a line of the masks lies on.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them.
    pub(super) fn lines(&self, line: usize, lines: &mut Lines) -> Result<()> {
        self.places(self.sig.len().saturating_sub(1), line, lines)
    }

    /// The same for what the first `n_outer` axes count: lines, planes, or what else.
    fn places(&self, n_outer: usize, number: usize, places: &mut Lines) -> Result<()> {
        places.clear();
        memory::push(places, (0, 1.0))?;
        let (mut rest, mut inner) = (number, self.sig[..n_outer].iter().product::<usize>());
        for (&len, axis) in self.sig[..n_outer].iter().zip(self.axes) {
            inner /= len.max(1);
            let at = rest / inner.max(1);
            rest -= at * inner;
            let n = places.len();
            for i in 0..n {
                let (outer, weight) = places[i];
                for (shift, part) in axis.parts() {
                    if let Some(at) = moved(at, shift, len) {
                        memory::push(places, (outer * len + at, weight * part))?;
                    }
                }
            }
            places.drain(..n);
        }
        Ok(())
    }

    /// The `pixels` of the masks, line by line: the line, and its columns.
    pub(super) fn by_line(
        &self,
        pixels: Range<usize>,
    ) -> impl Iterator<Item = (usize, Range<usize>)> + use<> {
        let width = self.width();
        let mut next = pixels.start;
        std::iter::from_fn(move || {
            if next >= pixels.end {
                return None;
            }
            let (line, start) = (next / width, next % width);
            let end = width.min(start + (pixels.end - next));
            next += end - start;
            Some((line, start..end))
        })
    }

    /// The cells of a `frame` under the `pixels` of masks that are moved by whole pixels.
    ///
    /// The last two axes make a plane, of which a run of pixels lies on one run of the frame's but for
    /// columns that leave the frame.
    pub(super) fn copy<T: Pixel>(&self, frame: &[T], pixels: Range<usize>, under: &mut [T]) {
        let n_axes = self.sig.len();
        let (n_rows, dy) = match n_axes.checked_sub(2) {
            Some(row) => (self.sig[row], self.axes[row].first),
            None => (1, 0),
        };
        let dx = self.axes.last().map_or(0, |axis| axis.first);
        let plane = Plane { n_rows, width: self.width(), dy, dx };
        let (len, mut rest, mut start) = (plane.len().max(1), under, pixels.start);
        while start < pixels.end {
            let (number, first) = (start / len, start % len);
            let cells = first..len.min(first + pixels.end - start);
            let (here, later) = rest.split_at_mut(cells.len());
            (rest, start) = (later, start + cells.len());
            match self.plane(number) {
                Some(source) => plane.copy(&frame[source * len..][..len], cells, here),
                None => here.fill(T::default()),
            }
        }
    }

    /// The plane of the frame that a plane of the masks lies on, if there is one.
    fn plane(&self, number: usize) -> Option<usize> {
        let n_outer = self.sig.len().saturating_sub(2);
        let (mut rest, mut stride, mut found) = (number, 1, 0);
        for (axis, &len) in self.axes.iter().zip(&self.sig[..n_outer]).rev() {
            found += moved(rest % len.max(1), axis.first, len)? * stride;
            rest /= len.max(1);
            stride *= len;
        }
        Some(found)
    }

    /// The cells of the masks that lie on a pixel of the frame, and how much it counts there.
    ///
    /// # Errors
    /// `BadFile` if there is no such pixel; `Limit` if there is no memory for them.
    pub(super) fn cells(&self, column: u32, cells: &mut Lines) -> Result<()> {
        cells.clear();
        memory::push(cells, (0, 1.0))?;
        let (mut rest, mut stride) = (column as usize, 1);
        for (&len, axis) in self.sig.iter().zip(self.axes).rev() {
            let at = rest % len.max(1);
            rest /= len.max(1);
            let n = cells.len();
            for i in 0..n {
                let (cell, weight) = cells[i];
                for (shift, part) in axis.parts() {
                    if let Some(at) = moved(at, -shift, len) {
                        memory::push(cells, (cell + at * stride, weight * part))?;
                    }
                }
            }
            cells.drain(..n);
            stride *= len;
        }
        if rest > 0 { Err(stray_column(column, stride)) } else { Ok(()) }
    }
}

/// Rows of a frame that are moved by whole pixels.
#[derive(Clone, Copy)]
struct Plane {
    n_rows: usize,
    width: usize,
    dy: i64,
    dx: i64,
}

impl Plane {
    fn len(&self) -> usize {
        self.n_rows * self.width
    }

    /// The pixels of a plane of the frame, `source`, under some pixels of the masks.
    fn copy<T: Pixel>(&self, source: &[T], pixels: Range<usize>, under: &mut [T]) {
        let &Plane { n_rows, width, dy, dx } = self;
        let (rows, columns) = (overlap(n_rows, dy), overlap(width, dx));
        let inside = clipped(rows.start * width..rows.end * width, &pixels);
        if inside.is_empty() || columns.is_empty() {
            return under.fill(T::default());
        }
        // Neither is larger than the frame.
        let by = dy * width as i64 + dx;
        let run = clipped(overlap(source.len(), by), &inside);
        if let Some(first) = moved(run.start, by, source.len()) {
            let here = &mut under[run.start - pixels.start..run.end - pixels.start];
            here.copy_from_slice(&source[first..][..run.len()]);
        }
        under[..inside.start - pixels.start].fill(T::default());
        under[inside.end - pixels.start..].fill(T::default());
        // What lies on the row before or after.
        let stray = if columns.start > 0 { 0..columns.start } else { columns.end..width };
        if stray.is_empty() {
            return;
        }
        for row in inside.start / width..inside.end.div_ceil(width) {
            let cells = clipped(row * width + stray.start..row * width + stray.end, &inside);
            for cell in &mut under[cells.start - pixels.start..cells.end - pixels.start] {
                *cell = T::default();
            }
        }
    }
}

/// A pixel of a frame that is moved.
pub(crate) trait Movable: Pixel {
    /// What lies between pixels, for results in single precision: that, where pixels have no more.
    type Between: Between;

    /// In double precision.
    type Wide: Between;

    /// The pixel as such a number.
    fn between(self) -> Self::Between;

    /// The pixel in double precision.
    fn wide(self) -> Self::Wide;
}

/// A number that pixels are interpolated in.
pub(crate) trait Between: Pixel {
    /// Itself times a weight.
    fn weighted(self, weight: f64) -> Self;

    /// The sum of both.
    fn plus(self, other: Self) -> Self;
}

macro_rules! between {
    ($($type:ty: |$a:ident, $b:ident, $weight:ident| $weighted:expr, $plus:expr);* $(;)?) => {$(
        impl Between for $type {
            #[inline(always)]
            fn weighted(self, $weight: f64) -> Self {
                let $a = self;
                $weighted
            }

            #[inline(always)]
            fn plus(self, $b: Self) -> Self {
                let $a = self;
                $plus
            }
        }
    )*};
}
between! {
    f32: |a, b, weight| a * weight as f32, a + b;
    f64: |a, b, weight| a * weight, a + b;
    Complex64: |a, b, weight| Complex64::new(a.re * weight as f32, a.im * weight as f32),
        Complex64::new(a.re + b.re, a.im + b.im);
    Complex128: |a, b, weight| Complex128::new(a.re * weight, a.im * weight),
        Complex128::new(a.re + b.re, a.im + b.im);
}

macro_rules! movable {
    ($($between:ty, $wide:ty: $($type:ty => |$cell:ident| $to:expr),*);* $(;)?) => {$($(
        impl Movable for $type {
            type Between = $between;
            type Wide = $wide;

            #[inline(always)]
            fn between(self) -> $between {
                let $cell = self;
                $to
            }

            #[inline(always)]
            fn wide(self) -> $wide {
                use crate::cell::Cell as _;
                self.value()
            }
        }
    )*)*};
}
movable! {
    f32, f64:
        Bool8 => |cell| f32::from(u8::from(cell.get())),
        u8 => |cell| f32::from(cell),
        i8 => |cell| f32::from(cell),
        u16 => |cell| f32::from(cell),
        i16 => |cell| f32::from(cell),
        F16 => |cell| cell.to_f32(),
        f32 => |cell| cell;
    f64, f64:
        u32 => |cell| f64::from(cell),
        i32 => |cell| f64::from(cell),
        u64 => |cell| cell as f64,
        i64 => |cell| cell as f64,
        f64 => |cell| cell;
    Complex64, Complex128: Complex64 => |cell| cell;
    Complex128, Complex128: Complex128 => |cell| cell.complex();
}

#[cfg(test)]
mod tests;
