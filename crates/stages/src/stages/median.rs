//! The median of the pixels around each pixel.

use super::middle::{AT_ONCE, MiddleOf};
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
/// Beyond that, one window after the other is quicker for pixels of 64 bits.
const MOST_AT_ONCE: usize = 15 * 15;

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
        let n_pixels = n_pixels.filter(|&n| n <= MOST_PIXELS).ok_or_else(|| {
            arguments.refuse(format_args!("a window has {MOST_PIXELS} pixels at most"))
        })?;
        if input.dtype.is_complex() {
            return Err(refuse_dtype("median", input.dtype, "complex numbers have no order"));
        }
        let network = (n_pixels <= MOST_AT_ONCE).then(|| MiddleOf::new(n_pixels));
        Ok(Arc::new(Median { sizes, kind: input, network }))
    },
};

#[derive(Debug)]
struct Median {
    sizes: Vec<usize>,
    kind: FrameKind,
    /// What finds the middle ones of small windows.
    network: Option<MiddleOf>,
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
        Ok(Box::new(Part {
            network: self.network.as_ref(),
            window,
            surrounded,
            offsets,
            rows,
            width,
        }))
    }
}

/// The cells of a slice of an array of this shape, in C order.
fn cells_of(slice: &SigSlice, shape: &[usize]) -> Result<Vec<usize>> {
    let mut cells = memory::with_room(slice.shape().iter().product::<usize>())?;
    cells.extend(slice.runs(shape).flatten());
    Ok(cells)
}

struct Part<'s> {
    network: Option<&'s MiddleOf>,
    window: Window,
    /// The shape of the slice with all that is around it.
    surrounded: Vec<usize>,
    offsets: Vec<usize>,
    rows: Vec<usize>,
    width: usize,
}

impl StagePart for Part<'_> {
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

impl Part<'_> {
    fn filter<T: Ordered>(&self, view: FramesView<'_, T>, out: &mut [u8]) -> Result<()> {
        let out: &mut [T] = cells_mut(out)?;
        let n_out: usize = self.window.axes.iter().map(|axis| axis.len).product();
        let mut keys: Vec<T::Key> = memory::with_room(self.surrounded.iter().product::<usize>())?;
        let places = self.places()?;
        let n_lines = if self.network.is_some() { self.offsets.len() } else { 0 };
        let mut lines = memory::filled([T::Key::default(); AT_ONCE], n_lines)?;
        for (frame, out) in view.frames().zip(out.chunks_exact_mut(n_out)) {
            keys.clear();
            keys.extend(places.iter().map(|&place| frame[place].key()));
            for (&row, out) in self.rows.iter().zip(out.chunks_exact_mut(self.width)) {
                let (keys, offsets) = (&keys[row..], self.offsets.as_slice());
                match self.network {
                    Some(network) => {
                        run!(Simd::best(), middles_at_once(keys, offsets, network, &mut lines, out))
                    }
                    None => middles(keys, offsets, out),
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

/// The middle ones of large windows, one after the other.
fn middles<T: Ordered>(keys: &[T::Key], offsets: &[usize], out: &mut [T]) {
    let mut window: Vec<T::Key> = Vec::with_capacity(offsets.len());
    for (i, out) in out.iter_mut().enumerate() {
        window.clear();
        window.extend(offsets.iter().map(|offset| keys[i + offset]));
        let (_, middle, _) = window.select_nth_unstable(offsets.len() / 2);
        *out = T::of_key(*middle);
    }
}

/// Those of the windows of a row, many at once; `lines` has a line for each pixel of a window.
#[inline(always)]
fn middles_at_once<T: Ordered>(
    keys: &[T::Key],
    offsets: &[usize],
    network: &MiddleOf,
    lines: &mut [[T::Key; AT_ONCE]],
    out: &mut [T],
) {
    for (block, out) in out.chunks_mut(AT_ONCE).enumerate() {
        for (line, &offset) in lines.iter_mut().zip(offsets) {
            let at = offset + block * AT_ONCE;
            line[..out.len()].copy_from_slice(&keys[at..at + out.len()]);
        }
        for (out, &key) in out.iter_mut().zip(network.find(lines).into_iter().flatten()) {
            *out = T::of_key(key);
        }
    }
}

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
