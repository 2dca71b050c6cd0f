//! The median of the pixels around each pixel.

use super::window::Window;
use crate::cells::{cells_mut, refuse_dtype, strides};
use crate::row::StageRow;
use framefold_core::{
    Bool8, DenseTile, Element, Error, F16, FrameIndices, FrameKind, FramesView, Result, SigSlice,
    Stage, StagePart, TileFrames, memory,
};
use framefold_simd::{Simd, run};
use std::fmt;
use std::sync::Arc;

/// A window has at most so many pixels.
const MOST_PIXELS: usize = 1 << 12;

pub(super) const ROW: StageRow = StageRow {
    name: "median",
    summary: "the median of the pixels around each pixel, reflected at the edges of frames",
    value: "SIZE|NY,NX",
    options: &[],
    example: "3",
    make: |arguments, input| {
        let sizes = arguments.lengths("frames", input.shape.len())?;
        if sizes.iter().any(|size| size % 2 == 0) {
            return Err(arguments.refuse("the sizes of a window are odd, so that it has a middle"));
        }
        let n_pixels = sizes.iter().try_fold(1usize, |n, &size| n.checked_mul(size));
        if n_pixels.is_none_or(|n| n > MOST_PIXELS) {
            return Err(arguments.refuse(format_args!("a window has {MOST_PIXELS} pixels at most")));
        }
        if input.dtype.is_complex() {
            return Err(refuse_dtype("median", input.dtype, "complex numbers have no order"));
        }
        Ok(Arc::new(Median { sizes, kind: input }))
    },
};

#[derive(Debug)]
struct Median {
    sizes: Vec<usize>,
    kind: FrameKind,
}

impl Stage for Median {
    fn input(&self) -> &FrameKind {
        &self.kind
    }

    fn output(&self) -> &FrameKind {
        &self.kind
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        let shape = &self.kind.shape;
        let radii: Vec<usize> = self.sizes.iter().map(|size| size / 2).collect();
        let window = Window::new(sig, shape, &radii)?;
        let surrounded: Vec<usize> = window.axes.iter().map(|axis| axis.places.len()).collect();
        // Where the pixels of a window are, from its first one on; and where windows begin, in rows.
        let corner = vec![0; shape.len()];
        let offsets = cells_of(
            &SigSlice::try_within(corner.clone(), self.sizes.clone(), &surrounded)?,
            &surrounded,
        )?;
        let width = sig.shape().last().copied().unwrap_or(1);
        let mut column = sig.shape().to_vec();
        if let Some(last) = column.last_mut() {
            *last = 1;
        }
        let rows = cells_of(&SigSlice::try_within(corner, column, &surrounded)?, &surrounded)?;
        Ok(Box::new(Part { window, surrounded, offsets, rows, width }))
    }
}

/// The cells of a slice of an array of this shape, in C order.
fn cells_of(slice: &SigSlice, shape: &[usize]) -> Result<Vec<usize>> {
    let mut cells = memory::with_room(slice.shape().iter().product::<usize>())?;
    cells.extend(slice.runs(shape).flatten());
    Ok(cells)
}

struct Part {
    window: Window,
    /// The shape of the slice with all that is around it.
    surrounded: Vec<usize>,
    offsets: Vec<usize>,
    rows: Vec<usize>,
    width: usize,
}

impl StagePart for Part {
    fn read(&self) -> &SigSlice {
        &self.window.read
    }

    fn apply(
        &mut self,
        tile: &DenseTile<'_>,
        _frames: &FrameIndices<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        match tile.frames() {
            TileFrames::Bool(view) => self.filter(view, out),
            TileFrames::U8(view) => self.filter(view, out),
            TileFrames::U16(view) => self.filter(view, out),
            TileFrames::U32(view) => self.filter(view, out),
            TileFrames::U64(view) => self.filter(view, out),
            TileFrames::I8(view) => self.filter(view, out),
            TileFrames::I16(view) => self.filter(view, out),
            TileFrames::I32(view) => self.filter(view, out),
            TileFrames::I64(view) => self.filter(view, out),
            TileFrames::F16(view) => self.filter(view, out),
            TileFrames::F32(view) => self.filter(view, out),
            TileFrames::F64(view) => self.filter(view, out),
            TileFrames::C64(_) | TileFrames::C128(_) => {
                Err(Error::bug("complex pixels were put in order"))
            }
        }
    }
}

impl Part {
    fn filter<T: Ordered>(&self, view: FramesView<'_, T>, out: &mut [u8]) -> Result<()> {
        let out: &mut [T] = cells_mut(out)?;
        let n_out: usize = self.window.axes.iter().map(|axis| axis.len).product();
        let mut keys: Vec<T::Key> = memory::with_room(self.surrounded.iter().product::<usize>())?;
        let places = self.places()?;
        let mut lines: Vec<T::Key> =
            memory::filled(T::Key::default(), self.width.saturating_mul(9))?;
        for (frame, out) in view.frames().zip(out.chunks_exact_mut(n_out)) {
            keys.clear();
            keys.extend(places.iter().map(|&place| frame[place].key()));
            for (&row, out) in self.rows.iter().zip(out.chunks_exact_mut(self.width)) {
                match self.offsets.as_slice().try_into() {
                    Ok(offsets) => {
                        run!(Simd::best(), middles_of_9(&keys[row..], offsets, &mut lines, out));
                    }
                    Err(_) => middles(&keys[row..], &self.offsets, out),
                }
            }
        }
        Ok(())
    }

    /// For each cell of the slice with its surroundings, the cell that was read.
    fn places(&self) -> Result<Vec<usize>> {
        let steps = strides(self.window.read.shape());
        let mut places = memory::filled(0, 1)?;
        for (axis, step) in self.window.axes.iter().zip(steps) {
            let mut next = memory::with_room(places.len().saturating_mul(axis.places.len()))?;
            for before in places {
                next.extend(axis.places.iter().map(|place| before + place * step));
            }
            places = next;
        }
        Ok(places)
    }
}

fn middles<T: Ordered>(keys: &[T::Key], offsets: &[usize], out: &mut [T]) {
    let mut window: Vec<T::Key> = Vec::with_capacity(offsets.len());
    for (i, out) in out.iter_mut().enumerate() {
        window.clear();
        window.extend(offsets.iter().map(|offset| keys[i + offset]));
        let (_, middle, _) = window.select_nth_unstable(offsets.len() / 2);
        *out = T::of_key(*middle);
    }
}

/// The windows of a row, all at once: `lines` has room for nine rows, and each exchange is a loop over two.
#[inline(always)]
fn middles_of_9<T: Ordered>(
    keys: &[T::Key],
    offsets: &[usize; 9],
    lines: &mut [T::Key],
    out: &mut [T],
) {
    let width = out.len();
    for (line, &offset) in lines.chunks_exact_mut(width).zip(offsets) {
        line.copy_from_slice(&keys[offset..offset + width]);
    }
    for (low, high) in MIDDLE_OF_9 {
        let (low, high) = (low * width, high * width);
        let both = lines.get_disjoint_mut([low..low + width, high..high + width]);
        if let Ok([low, high]) = both {
            exchange(low, high);
        }
    }
    for (out, &key) in out.iter_mut().zip(&lines[4 * width..5 * width]) {
        *out = T::of_key(key);
    }
}

#[inline(always)]
fn exchange<K: Ord + Copy>(low: &mut [K], high: &mut [K]) {
    for (low, high) in low.iter_mut().zip(high) {
        (*low, *high) = ((*low).min(*high), (*low).max(*high));
    }
}

/// Exchanges that bring the middle one of nine to place 4. A. W. Paeth, "Median finding on a 3 × 3 grid",
/// Graphics Gems (1990).
#[rustfmt::skip]
const MIDDLE_OF_9: [(usize, usize); 19] = [
    (1, 2), (4, 5), (7, 8), (0, 1), (3, 4), (6, 7), (1, 2), (4, 5), (7, 8), (0, 3),
    (5, 8), (4, 7), (3, 6), (1, 4), (2, 5), (4, 7), (4, 2), (6, 4), (4, 2),
];

/// A real pixel as an integer of the same order; NaN is the largest.
trait Ordered: Element {
    type Key: Ord + Copy + Default;

    fn key(self) -> Self::Key;
    fn of_key(key: Self::Key) -> Self;
}

macro_rules! ordered {
    ($($type:ty, $key:ty, |$cell:ident| $to:expr, |$value:ident| $from:expr);* $(;)?) => {$(
        impl Ordered for $type {
            type Key = $key;

            #[inline(always)]
            fn key(self) -> $key {
                let $cell = self;
                $to
            }

            #[inline(always)]
            fn of_key($value: $key) -> $type {
                $from
            }
        }
    )*};
}

/// Bits of a float in the order of their values.
macro_rules! by_bits {
    ($bits:expr, $key:ty) => {{
        let bits: $key = $bits;
        let sign: $key = 1 << (<$key>::BITS - 1);
        if bits & sign == 0 { bits | sign } else { !bits }
    }};
}
macro_rules! to_bits {
    ($key_of:expr, $key:ty) => {{
        let key: $key = $key_of;
        let sign: $key = 1 << (<$key>::BITS - 1);
        if key & sign == 0 { !key } else { key ^ sign }
    }};
}

ordered! {
    Bool8, bool, |cell| cell.get(), |key| Bool8::from(key);
    u8, u8, |cell| cell, |key| key;
    u16, u16, |cell| cell, |key| key;
    u32, u32, |cell| cell, |key| key;
    u64, u64, |cell| cell, |key| key;
    i8, i8, |cell| cell, |key| key;
    i16, i16, |cell| cell, |key| key;
    i32, i32, |cell| cell, |key| key;
    i64, i64, |cell| cell, |key| key;
    F16, u16,
        |cell| if cell.is_nan() { u16::MAX } else { by_bits!(cell.to_bits(), u16) },
        |key| F16::from_bits(to_bits!(key, u16));
    f32, u32,
        |cell| if cell.is_nan() { u32::MAX } else { by_bits!(cell.to_bits(), u32) },
        |key| f32::from_bits(to_bits!(key, u32));
    f64, u64,
        |cell| if cell.is_nan() { u64::MAX } else { by_bits!(cell.to_bits(), u64) },
        |key| f64::from_bits(to_bits!(key, u64));
}

impl fmt::Display for Median {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sizes: Vec<String> = self.sizes.iter().map(ToString::to_string).collect();
        write!(f, "median {}", sizes.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_nine_is_found() {
        // A network that sorts every row of 0 and 1 right does so for all values.
        for bits in 0..512_u16 {
            let keys: Vec<u8> = (0..9).map(|i| u8::from(bits >> i & 1 == 1)).collect();
            let (mut lines, mut out) = ([0; 9], [9_u8]);
            middles_of_9(&keys, &[0, 1, 2, 3, 4, 5, 6, 7, 8], &mut lines, &mut out);
            assert_eq!(out[0], u8::from(bits.count_ones() >= 5), "{bits:b}");
        }
    }

    #[test]
    fn floats_keep_their_order() {
        let values = [f32::NEG_INFINITY, -2.5, -0.0, 0.0, 1e-40, 3.0, f32::INFINITY, f32::NAN];
        let keys: Vec<u32> = values.iter().map(|value| value.key()).collect();
        assert!(keys.is_sorted(), "{keys:?}");
        for (value, key) in values.iter().zip(keys) {
            let back = f32::of_key(key);
            assert!(back.to_bits() == value.to_bits() || (back.is_nan() && value.is_nan()));
        }
        assert_eq!((-f32::NAN).key(), u32::MAX);
    }
}
