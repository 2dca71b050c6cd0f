//! Conversion of a tile to another dtype, into reusable memory.

use crate::element::for_each_element;
use crate::{
    Bool8, Complex64, Complex128, DType, DenseTile, Element, Error, F16, FramesView, Result,
    Scratch, TileFrames, dispatch_frames,
};

/// Converts one value the way NumPy's `astype` does for safe casts.
pub(crate) trait CastTo<T> {
    fn cast(self) -> T;
}

macro_rules! cast_primitive {
    ($from:ty => $($to:ty),*) => {$(
        impl CastTo<$to> for $from {
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
            fn cast(self) -> Bool8 {
                Bool8::from(self != <$from>::default())
            }
        }
        impl CastTo<F16> for $from {
            fn cast(self) -> F16 {
                F16::from_f64(self as f64)
            }
        }
        impl CastTo<Complex64> for $from {
            fn cast(self) -> Complex64 {
                Complex64::new(self as f32, 0.0)
            }
        }
        impl CastTo<Complex128> for $from {
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
            fn cast(self) -> $to {
                let $value = self;
                $via.cast()
            }
        }
    )*};
}
cast_via!(Bool8, b => u8::from(b.get());
    u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, F16, Complex64, Complex128);
cast_via!(F16, h => h.to_f32();
    Bool8, u8, u16, u32, u64, i8, i16, i32, i64, f32, f64, Complex64, Complex128);
cast_via!(Complex64, c => c.re;
    Bool8, u8, u16, u32, u64, i8, i16, i32, i64, F16, f32, f64);
cast_via!(Complex128, c => c.re;
    Bool8, u8, u16, u32, u64, i8, i16, i32, i64, F16, f32, f64);

impl CastTo<Bool8> for Bool8 {
    fn cast(self) -> Bool8 {
        self
    }
}
impl CastTo<F16> for F16 {
    fn cast(self) -> F16 {
        self
    }
}
impl CastTo<Complex64> for Complex64 {
    fn cast(self) -> Complex64 {
        self
    }
}
impl CastTo<Complex128> for Complex64 {
    fn cast(self) -> Complex128 {
        Complex128::new(f64::from(self.re), f64::from(self.im))
    }
}
impl CastTo<Complex64> for Complex128 {
    fn cast(self) -> Complex64 {
        Complex64::new(self.re as f32, self.im as f32)
    }
}
impl CastTo<Complex128> for Complex128 {
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
    let frames = tile.frames;
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
    let out = scratch.prepare(len_bytes);
    dispatch_frames!(frames, view => write_as(view, dtype, out))?;
    let scratch: &Scratch = scratch;
    let bytes = &scratch.bytes()[..len_bytes];
    let frames = TileFrames::from_bytes(dtype, bytes, depth, len, len)?;
    Ok(DenseTile { frames, owner: Some(scratch.owner()) })
}

macro_rules! define {
    ($(($variant:ident, $type:ty)),* $(,)?) => {
        /// Writes the cells of `view` as `dtype` to `out`, frame after frame.
        fn write_as<T>(view: FramesView<'_, T>, dtype: DType, out: &mut [u8]) -> Result<()>
        where
            T: Element $(+ CastTo<$type>)*,
        {
            match dtype {
                $(DType::$variant => {
                    let out: &mut [$type] = bytemuck::try_cast_slice_mut(out)
                        .map_err(|e| Error::bug(format!("scratch as {dtype}: {e}")))?;
                    for (frame, out) in view.frames().zip(out.chunks_exact_mut(view.frame_len())) {
                        for (value, out) in frame.iter().zip(out) {
                            *out = value.cast();
                        }
                    }
                })*
            }
            Ok(())
        }
    };
}
for_each_element!(define);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_between_frames_disappear() {
        let values = [1u16, 2, 99, 3, 4];
        let frames = u16::wrap_frames(FramesView::try_new(&values, 2, 2, 3).unwrap());
        let tile = DenseTile { frames, owner: None };
        let mut scratch = Scratch::new();
        let converted = convert_tile(&tile, DType::F32, &mut scratch).unwrap();
        match converted.frames {
            TileFrames::F32(view) => assert_eq!(view.contiguous().unwrap(), [1.0, 2.0, 3.0, 4.0]),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn integers_widen_exactly() {
        let values = [u64::MAX, 1 << 53];
        let frames = u64::wrap_frames(FramesView::try_new(&values, 1, 2, 2).unwrap());
        let tile = DenseTile { frames, owner: None };
        let mut scratch = Scratch::new();
        let converted = convert_tile(&tile, DType::C128, &mut scratch).unwrap();
        match converted.frames {
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
        let tile = DenseTile { frames, owner: None };
        assert!(convert_tile(&tile, DType::F64, &mut Scratch::new()).is_err());
    }
}
