//! Conversion of a tile to another dtype, into reusable memory.

use crate::element::for_each_element;
use crate::{
    Bool8, Complex64, Complex128, DType, DenseTile, Element, Error, F16, FramesView, Result,
    Scratch, TileFrames, dispatch_frames, narrow_f16, widen_f16,
};
use framefold_simd::{Simd, run};

/// Converts one value the way NumPy's `astype` does for safe casts.
pub(crate) trait CastTo<T> {
    fn cast(self) -> T;
}

macro_rules! cast_primitive {
    ($from:ty => $($to:ty),*) => {$(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                self as $to
            }
        }
    )*};
}
macro_rules! cast_real {
    ($($from:ty),*) => {$(
        cast_primitive!($from => u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);
        impl CastTo<Bool8> for $from {
            #[inline(always)]
            fn cast(self) -> Bool8 {
                Bool8::from(self != <$from>::default())
            }
        }
        impl CastTo<F16> for $from {
            #[inline(always)]
            fn cast(self) -> F16 {
                narrow_f16(self as f64)
            }
        }
        impl CastTo<Complex64> for $from {
            #[inline(always)]
            fn cast(self) -> Complex64 {
                Complex64::new(self as f32, 0.0)
            }
        }
        impl CastTo<Complex128> for $from {
            #[inline(always)]
            fn cast(self) -> Complex128 {
                Complex128::new(self as f64, 0.0)
            }
        }
    )*};
}
cast_real!(u8, u16, u32, u64, i8, i16, i32, i64, f32, f64);

/// Types that convert by way of another: `Bool8` as `u8`, `F16` as `f32`.
macro_rules! cast_via {
    ($from:ty, $value:ident => $via:expr; $($to:ty),*) => {$(
        impl CastTo<$to> for $from {
            #[inline(always)]
            fn cast(self) -> $to {
                let $value = self;
                $via.cast()
            }
        }
    )*};
}
cast_via!(Bool8, b => u8::from(b.get());
    u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, F16, Complex64, Complex128);
cast_via!(F16, h => widen_f16(h);
    Bool8, u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, Complex64, Complex128);
cast_via!(Complex64, c => c.re;
    Bool8, u8, u16, u32, u64, i8, i16, i32, i64, F16, f32, f64);
cast_via!(Complex128, c => c.re;
    Bool8, u8, u16, u32, u64, i8, i16, i32, i64, F16, f32, f64);

impl CastTo<Bool8> for Bool8 {
    #[inline(always)]
    fn cast(self) -> Bool8 {
        self
    }
}
impl CastTo<F16> for F16 {
    #[inline(always)]
    fn cast(self) -> F16 {
        self
    }
}
impl CastTo<Complex64> for Complex64 {
    #[inline(always)]
    fn cast(self) -> Complex64 {
        self
    }
}
impl CastTo<Complex128> for Complex64 {
    #[inline(always)]
    fn cast(self) -> Complex128 {
        Complex128::new(f64::from(self.re), f64::from(self.im))
    }
}
impl CastTo<Complex64> for Complex128 {
    #[inline(always)]
    fn cast(self) -> Complex64 {
        Complex64::new(self.re as f32, self.im as f32)
    }
}
impl CastTo<Complex128> for Complex128 {
    #[inline(always)]
    fn cast(self) -> Complex128 {
        self
    }
}

/// The tile in `dtype`: as it is if it has that dtype, otherwise converted into `scratch`, where
/// its frames lie without gaps.
///
/// # Errors
/// `Bug` if a complex tile is to become real: the planner only ever widens.
pub fn convert_tile<'t>(
    tile: &DenseTile<'t>,
    dtype: DType,
    scratch: &'t mut Scratch,
) -> Result<DenseTile<'t>> {
    convert_with(Simd::best(), tile, dtype, scratch)
}

/// Writes the cells of `frames` as `dtype` to `out`, frame after frame, by the rules of Rust's `as`: floats
/// are rounded towards zero to integers, and clipped to what those can be.
///
/// # Errors
/// `Bug` if complex cells are to become real, or `out` has another size.
pub fn cast_frames(frames: TileFrames<'_>, dtype: DType, out: &mut [u8]) -> Result<()> {
    let expected = frames.depth() * frames.frame_len() * dtype.size();
    if (frames.dtype().is_complex() && !dtype.is_complex()) || out.len() != expected {
        return Err(Error::bug(format!(
            "cells of {} were to become {expected} bytes of {dtype} in {}",
            frames.dtype(),
            out.len()
        )));
    }
    dispatch_frames!(frames, view => write_as(Simd::best(), view, dtype, out))
}

fn convert_with<'t>(
    simd: Simd,
    tile: &DenseTile<'t>,
    dtype: DType,
    scratch: &'t mut Scratch,
) -> Result<DenseTile<'t>> {
    let frames = tile.frames();
    if frames.dtype() == dtype {
        return Ok(tile.clone());
    }
    if frames.dtype().is_complex() && !dtype.is_complex() {
        return Err(Error::bug(format!("a tile of {} was to become {dtype}", frames.dtype())));
    }
    let (depth, len) = (frames.depth(), frames.frame_len());
    let len_bytes = depth
        .checked_mul(len)
        .and_then(|cells| cells.checked_mul(dtype.size()))
        .ok_or_else(|| Error::limit("a tile does not fit in memory"))?;
    let out = scratch.prepare(len_bytes)?;
    dispatch_frames!(frames, view => write_as(simd, view, dtype, out))?;
    let scratch: &Scratch = scratch;
    let bytes = &scratch.bytes()[..len_bytes];
    let frames = TileFrames::from_bytes(dtype, bytes, depth, len, len)?;
    DenseTile::lent(frames, scratch.owner())
}

macro_rules! define {
    ($(($variant:ident, $type:ty)),* $(,)?) => {
        /// Writes the cells of `view` as `dtype` to `out`, frame after frame.
        fn write_as<T>(
            simd: Simd,
            view: FramesView<'_, T>,
            dtype: DType,
            out: &mut [u8],
        ) -> Result<()>
        where
            T: Element $(+ CastTo<$type>)*,
        {
            match dtype {
                $(DType::$variant => write::<T, $type>(simd, view, cells_of(out)?),)*
            }
            Ok(())
        }
    };
}
for_each_element!(define);

fn write<S: CastTo<T> + Element, T: Element>(simd: Simd, view: FramesView<'_, S>, out: &mut [T]) {
    match view.contiguous() {
        Some(cells) => cast_cells(simd, cells, out),
        None => {
            for (frame, out) in view.frames().zip(out.chunks_exact_mut(view.frame_len())) {
                cast_cells(simd, frame, out);
            }
        }
    }
}

/// Converts cell by cell.
fn cast_cells<S: CastTo<T> + Copy, T: Element>(simd: Simd, cells: &[S], out: &mut [T]) {
    // To what is asked for in practice. For the rest, vectors would only make the library larger.
    if matches!(T::DTYPE, DType::F32 | DType::F64) {
        run!(simd, cast_each(cells, out));
    } else {
        cast_each(cells, out);
    }
}

#[inline(always)]
fn cast_each<S: CastTo<T> + Copy, T>(cells: &[S], out: &mut [T]) {
    for (cell, out) in cells.iter().zip(out) {
        *out = cell.cast();
    }
}

fn cells_of<T: Element>(out: &mut [u8]) -> Result<&mut [T]> {
    bytemuck::try_cast_slice_mut(out)
        .map_err(|e| Error::bug(format!("scratch as {}: {e}", T::DTYPE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_between_frames_disappear() {
        let values = [1u16, 2, 99, 3, 4];
        let frames = u16::wrap_frames(FramesView::try_new(&values, 2, 2, 3).unwrap());
        let tile = DenseTile::borrowed(frames);
        let mut scratch = Scratch::new();
        let converted = convert_tile(&tile, DType::F32, &mut scratch).unwrap();
        match converted.frames() {
            TileFrames::F32(view) => assert_eq!(view.contiguous().unwrap(), [1.0, 2.0, 3.0, 4.0]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn integers_widen_exactly() {
        let values = [u64::MAX, 1 << 53];
        let frames = u64::wrap_frames(FramesView::try_new(&values, 1, 2, 2).unwrap());
        let tile = DenseTile::borrowed(frames);
        let mut scratch = Scratch::new();
        let converted = convert_tile(&tile, DType::C128, &mut scratch).unwrap();
        match converted.frames() {
            TileFrames::C128(view) => {
                assert_eq!(view.frame(0)[0], Complex128::new(u64::MAX as f64, 0.0));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn complex_never_becomes_real() {
        let values = [Complex64::new(1.0, 2.0)];
        let frames = Complex64::wrap_frames(FramesView::try_new(&values, 1, 1, 1).unwrap());
        let tile = DenseTile::borrowed(frames);
        assert!(convert_tile(&tile, DType::F64, &mut Scratch::new()).is_err());
    }

    #[test]
    fn every_level_gives_the_same_bits() {
        let bytes: Vec<u8> = (0..16 * 67_u32).map(|i| (i * i / 7) as u8).collect();
        let mut aligned = Scratch::new();
        aligned.prepare(bytes.len()).unwrap().copy_from_slice(&bytes);
        for from in DType::all() {
            for to in DType::all().filter(|to| to.is_complex() || !from.is_complex()) {
                let len = bytes.len() / from.size() / 2 - 1;
                let bytes = &aligned.bytes()[..bytes.len()];
                let frames = TileFrames::from_bytes(from, bytes, 2, len, len + 1).unwrap();
                let tile = DenseTile::borrowed(frames);
                let of = |simd| {
                    let mut scratch = Scratch::new();
                    let tile = convert_with(simd, &tile, to, &mut scratch).unwrap();
                    tile.frames().as_bytes().to_vec()
                };
                let plain = of(Simd::plain());
                for simd in Simd::all() {
                    assert_eq!(of(simd), plain, "{from} to {to} with {simd:?}");
                }
            }
        }
    }
}
