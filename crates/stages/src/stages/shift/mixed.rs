//! Shifts by fractions of pixels: mixes of neighbours in double precision, rounded once.

use super::{Along, Rows};
use crate::cells::len_bytes;
use framefold_core::{
    Complex128, DType, DenseTile, Element, Error, FramesView, Result, Scratch, TileFrames,
    cast_frames, dispatch_frames, memory,
};
use framefold_simd::{Simd, run};
use std::ops::{Add, Mul};

/// Memory for one frame.
#[derive(Default)]
pub(super) struct Mixed {
    /// What is read, in double precision.
    wide: Scratch,
    real: Planes<f64>,
    complex: Planes<Complex128>,
}

impl Mixed {
    /// Writes the `i`-th frame of the tile to `out` in this dtype, moved.
    pub(super) fn write(
        &mut self,
        (tile, i): (&DenseTile<'_>, usize),
        (rows, columns): (&Rows, Along),
        fill: f64,
        (dtype, out): (DType, &mut [u8]),
    ) -> Result<()> {
        let wide_dtype = if dtype.is_complex() { DType::C128 } else { DType::F64 };
        let len = tile.frames().frame_len();
        let wide = self.wide.prepare(len_bytes(len, wide_dtype)?)?;
        dispatch_frames!(tile.frames(), view => widen(view, i, wide_dtype, wide))?;
        match TileFrames::from_bytes(wide_dtype, wide, 1, len, len)? {
            TileFrames::F64(view) => self.real.write(view.data(), rows, columns, fill, dtype, out),
            TileFrames::C128(view) => {
                let fill = Complex128::new(fill, 0.0);
                self.complex.write(view.data(), rows, columns, fill, dtype, out)
            }
            _ => Err(Error::bug(format!("pixels were to be mixed in {wide_dtype}"))),
        }
    }
}

fn widen<T: Element>(
    view: FramesView<'_, T>,
    i: usize,
    dtype: DType,
    out: &mut [u8],
) -> Result<()> {
    let len = view.frame_len();
    cast_frames(T::wrap_frames(FramesView::try_new(view.frame(i), 1, len, len)?), dtype, out)
}

#[derive(Default)]
struct Planes<A> {
    /// The mix of the rows that make a row: the pixel before its first one, and its pixels.
    line: Vec<A>,
    moved: Vec<A>,
}

impl<A: Element + Add<Output = A> + Mul<f64, Output = A>> Planes<A> {
    fn write(
        &mut self,
        frame: &[A],
        rows: &Rows,
        columns: Along,
        fill: A,
        dtype: DType,
        out: &mut [u8],
    ) -> Result<()> {
        let n_out = rows.taps.len() / rows.n_taps * columns.len;
        memory::resize(&mut self.line, columns.len + 1, A::default())?;
        memory::resize(&mut self.moved, n_out, A::default())?;
        run!(Simd::best(), mix(frame, rows, columns, fill, &mut self.line, &mut self.moved));
        let moved = FramesView::try_new(&self.moved, 1, n_out, n_out)?;
        cast_frames(A::wrap_frames(moved), dtype, out)
    }
}

/// Each pixel is the same sum in the same order, wherever its slice begins.
#[inline(always)]
fn mix<A: Element + Add<Output = A> + Mul<f64, Output = A>>(
    frame: &[A],
    rows: &Rows,
    columns: Along,
    fill: A,
    line: &mut [A],
    moved: &mut [A],
) {
    let offset = columns.offset - 1;
    let inside = columns.inside(offset, line.len());
    let first = usize::try_from(inside.start as i64 + offset).unwrap_or(0);
    let fraction = columns.fraction;
    let out = moved.chunks_exact_mut(columns.len);
    for (out, taps) in out.zip(rows.taps.chunks_exact(rows.n_taps)) {
        line.fill(A::default());
        for &(weight, row) in taps {
            let filled = fill * weight;
            let Some(row) = row.filter(|_| !inside.is_empty()) else {
                line.iter_mut().for_each(|cell| *cell = *cell + filled);
                continue;
            };
            let from = row * columns.of + first;
            let (before, rest) = line.split_at_mut(inside.start);
            let (within, behind) = rest.split_at_mut(inside.len());
            before.iter_mut().for_each(|cell| *cell = *cell + filled);
            behind.iter_mut().for_each(|cell| *cell = *cell + filled);
            for (cell, &pixel) in within.iter_mut().zip(&frame[from..]) {
                *cell = *cell + pixel * weight;
            }
        }
        let pixels = &line[1..];
        if fraction > 0.0 {
            for ((out, &pixel), &before) in out.iter_mut().zip(pixels).zip(&*line) {
                *out = pixel * (1.0 - fraction) + before * fraction;
            }
        } else {
            // What has no weight does not count, even if it is not finite.
            out.copy_from_slice(pixels);
        }
    }
}
