//! Types of elements.

use crate::raw::{self, RawDType};
use std::fmt;

/// The type of elements, by NumPy's letter of its kind and the bytes of an element.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DType(pub(crate) RawDType);

impl DType {
    /// Stands for the type that the data set has.
    pub const NATIVE: DType = DType(0);

    /// That of a Rust type.
    pub const fn of<T: Element>() -> Self {
        T::DTYPE
    }

    /// From its number in the C interface, which is not checked.
    pub const fn from_raw(number: RawDType) -> Self {
        DType(number)
    }

    /// Its number in the C interface.
    pub const fn as_raw(self) -> RawDType {
        self.0
    }

    /// Bytes of an element.
    pub const fn size(self) -> usize {
        (self.0 & 0xff) as usize
    }

    /// NumPy's letter: `b`, `u`, `i`, `f` or `c`.
    pub const fn kind(self) -> u8 {
        ((self.0 >> 8) & 0xff) as u8
    }
}

impl fmt::Display for DType {
    /// As NumPy writes it: `uint16`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind() {
            b'b' => return f.write_str("bool"),
            b'u' => "uint",
            b'i' => "int",
            b'f' => "float",
            b'c' => "complex",
            _ => return write!(f, "dtype {:#x}", self.0),
        };
        write!(f, "{kind}{}", self.size() * 8)
    }
}

impl fmt::Debug for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A truth value as it lies in memory: one byte, of which any but 0 is true.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bool(pub u8);

/// The bits of a number of half precision.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Half(pub u16);

/// A complex number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Complex<T> {
    /// Its real part.
    pub re: T,
    /// Its imaginary part.
    pub im: T,
}

/// A type that pixels and results are made of.
///
/// # Safety
/// Any bytes are a value of it, and it has the size and the alignment that its dtype says.
pub unsafe trait Element: Copy + Default + Send + Sync + 'static {
    /// Its dtype.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($type:ty => $kind:literal),* $(,)?) => {$(
        // SAFETY: a number, or a struct of numbers without gaps.
        unsafe impl Element for $type {
            const DTYPE: DType = DType(raw::dtype($kind, size_of::<$type>() as u8));
        }
    )*};
}
elements! {
    Bool => b'b', u8 => b'u', u16 => b'u', u32 => b'u', u64 => b'u',
    i8 => b'i', i16 => b'i', i32 => b'i', i64 => b'i', Half => b'f', f32 => b'f', f64 => b'f',
    Complex<f32> => b'c', Complex<f64> => b'c',
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_numpy() {
        let names = [
            DType::of::<Bool>(),
            DType::of::<u16>(),
            DType::of::<i64>(),
            DType::of::<Half>(),
            DType::of::<Complex<f64>>(),
        ];
        let names = names.map(|dtype| dtype.to_string());
        assert_eq!(names, ["bool", "uint16", "int64", "float16", "complex128"]);
    }
}
