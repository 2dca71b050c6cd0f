//! The Rust types behind the dtypes.

use crate::{DType, TileFrames, TypedSlice, TypedVec};
use bytemuck::{Pod, Zeroable};
use std::fmt::Debug;

/// Half-precision float.
pub type F16 = half::f16;

/// A half-precision number in single precision, which holds it exactly, as [`F16::to_f32`] gives it
/// (NaN stays NaN), but in a form that becomes vector instructions.
#[inline(always)]
pub fn widen_f16(half: F16) -> f32 {
    /// The exponent of infinity and NaN, moved to its place in `f32` as it is.
    const INFINITE: u32 = 0x1f << 23;
    /// What is to be added to other exponents.
    const REBIAS: u32 = (127 - 15) << 23;
    let bits = u32::from(half.to_bits());
    let magnitude = (bits & 0x7fff) << 13;
    // Of a subnormal number: the leading one that it does not have is put there, and taken away.
    let tiny = f32::from_bits(magnitude + REBIAS + (1 << 23)) - f32::from_bits(REBIAS + (1 << 23));
    let is_tiny = magnitude < 1 << 23;
    let rebias = if magnitude >= INFINITE { (255 - 31) << 23 } else { REBIAS };
    let widened = if is_tiny { tiny.to_bits() } else { magnitude + rebias };
    f32::from_bits(widened | (bits & 0x8000) << 16)
}

/// The half-precision number that is nearest, of two the one whose last bit is 0, as NumPy rounds.
///
/// By way of single precision, a number that is rounded to the middle of two would be rounded once
/// more, as if it were the middle: `half` does that. Rounded to an odd last bit, it stays on its side.
pub fn narrow_f16(value: f64) -> F16 {
    let nearest = value as f32;
    let widened = f64::from(nearest);
    if widened == value || value.is_nan() {
        return F16::from_f32(nearest);
    }
    let bits = nearest.to_bits();
    let towards_zero = if widened.abs() > value.abs() { bits - 1 } else { bits };
    F16::from_f32(f32::from_bits(towards_zero | 1))
}

/// Complex number of two `f32`: NumPy's complex64.
pub type Complex64 = num_complex::Complex<f32>;
/// Complex number of two `f64`: NumPy's complex128.
pub type Complex128 = num_complex::Complex<f64>;

/// A truth value as it lies in memory: one byte.
///
/// Unlike `bool`, any byte is a valid `Bool8`; files are not trusted to hold 0 and 1 only.
/// Readers normalise to 0 and 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Pod, Zeroable)]
#[repr(transparent)]
pub struct Bool8(pub u8);

impl Bool8 {
    /// The truth value: any byte but 0 is true.
    pub fn get(self) -> bool {
        self.0 != 0
    }
}

impl From<bool> for Bool8 {
    fn from(value: bool) -> Self {
        Bool8(u8::from(value))
    }
}

/// A type that pixels and results are made of.
pub trait Element: Pod + Debug + PartialEq + Send + Sync + Default {
    /// The dtype of this type.
    const DTYPE: DType;

    /// Wraps a vector without copying it.
    fn wrap(values: Vec<Self>) -> TypedVec;

    /// The values, if `values` has this element type.
    fn values(values: &TypedVec) -> Option<&[Self]>;

    /// The values themselves, if `values` has this element type.
    fn take(values: TypedVec) -> Option<Vec<Self>>;

    /// The values for writing, if `values` has this element type.
    fn values_mut(values: &mut TypedVec) -> Option<&mut [Self]>;

    /// Wraps the frames of a tile.
    fn wrap_frames(frames: crate::FramesView<'_, Self>) -> TileFrames<'_>;

    /// Wraps a slice.
    fn wrap_slice(values: &[Self]) -> TypedSlice<'_>;

    /// The values of a slice, if it has this element type.
    fn of_slice(values: TypedSlice<'_>) -> Option<&[Self]>;
}

/// Calls `$macro!` with the list of `(Variant, type)` of every dtype.
macro_rules! for_each_element {
    ($macro:ident) => {
        $macro! {
            (Bool, $crate::Bool8), (U8, u8), (U16, u16), (U32, u32), (U64, u64),
            (I8, i8), (I16, i16), (I32, i32), (I64, i64),
            (F16, $crate::F16), (F32, f32), (F64, f64),
            (C64, $crate::Complex64), (C128, $crate::Complex128),
        }
    };
}
pub(crate) use for_each_element;

macro_rules! implement {
    ($(($variant:ident, $type:ty)),* $(,)?) => {$(
        impl Element for $type {
            const DTYPE: DType = DType::$variant;

            fn wrap(values: Vec<Self>) -> TypedVec {
                TypedVec::$variant(values)
            }

            fn values(values: &TypedVec) -> Option<&[Self]> {
                match values {
                    TypedVec::$variant(values) => Some(values),
                    _ => None,
                }
            }

            fn take(values: TypedVec) -> Option<Vec<Self>> {
                match values {
                    TypedVec::$variant(values) => Some(values),
                    _ => None,
                }
            }

            fn values_mut(values: &mut TypedVec) -> Option<&mut [Self]> {
                match values {
                    TypedVec::$variant(values) => Some(values),
                    _ => None,
                }
            }

            fn wrap_frames(frames: $crate::FramesView<'_, Self>) -> TileFrames<'_> {
                TileFrames::$variant(frames)
            }

            fn wrap_slice(values: &[Self]) -> TypedSlice<'_> {
                TypedSlice::$variant(values)
            }

            fn of_slice(values: TypedSlice<'_>) -> Option<&[Self]> {
                match values {
                    TypedSlice::$variant(values) => Some(values),
                    _ => None,
                }
            }
        }
    )*};
}
for_each_element!(implement);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_is_widened_exactly() {
        for bits in 0..=u16::MAX {
            let half = F16::from_bits(bits);
            let (widened, expected) = (widen_f16(half), half.to_f32());
            let same = widened.to_bits() == expected.to_bits();
            assert!(same || (widened.is_nan() && expected.is_nan()), "{bits:#x}");
        }
    }

    #[test]
    fn doubles_become_the_nearest_half() {
        let largest = F16::MAX.to_bits();
        for bits in 0..=largest {
            let (below, above) = (F16::from_bits(bits), F16::from_bits(bits + 1));
            let low = below.to_f64();
            // What would come next if the exponent had more bits is where infinity begins.
            let high = if bits == largest { 65536.0 } else { above.to_f64() };
            let middle = low / 2.0 + high / 2.0;
            let even = if bits % 2 == 0 { below } else { above };
            for (value, expected) in [
                (low, below),
                (middle.next_down(), below),
                (middle, even),
                (middle.next_up(), above),
            ] {
                assert_eq!(narrow_f16(value).to_bits(), expected.to_bits(), "{value:e}");
                let (negative, expected) = (narrow_f16(-value), (-expected).to_bits());
                assert_eq!(negative.to_bits(), expected, "{:e}", -value);
            }
        }
        assert_eq!(narrow_f16(f64::MAX), F16::INFINITY);
        assert_eq!(narrow_f16(f64::NEG_INFINITY), F16::NEG_INFINITY);
        assert_eq!(narrow_f16(5e-324).to_bits(), 0);
        assert!(narrow_f16(f64::NAN).is_nan());
    }
}
