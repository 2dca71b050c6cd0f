//! The dtypes of pixels and results, and their names.

use crate::{Error, Result};
use std::fmt;

/// The element type of an array, in native byte order.
///
/// Names follow NumPy: `C64` is a complex number of two 32-bit floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it all")]
pub enum DType {
    Bool,
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F16,
    F32,
    F64,
    C64,
    C128,
}

/// Order of the bytes of an element in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    /// The byte order of this machine.
    pub const NATIVE: ByteOrder =
        if cfg!(target_endian = "little") { ByteOrder::Little } else { ByteOrder::Big };
}

/// A dtype together with its byte order in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StoredDType {
    /// What the elements are.
    pub dtype: DType,
    /// How their bytes are ordered; of no meaning for one-byte elements.
    pub order: ByteOrder,
}

const NAMES: &[(DType, &str, &str)] = &[
    (DType::Bool, "bool", "b1"),
    (DType::U8, "uint8", "u1"),
    (DType::U16, "uint16", "u2"),
    (DType::U32, "uint32", "u4"),
    (DType::U64, "uint64", "u8"),
    (DType::I8, "int8", "i1"),
    (DType::I16, "int16", "i2"),
    (DType::I32, "int32", "i4"),
    (DType::I64, "int64", "i8"),
    (DType::F16, "float16", "f2"),
    (DType::F32, "float32", "f4"),
    (DType::F64, "float64", "f8"),
    (DType::C64, "complex64", "c8"),
    (DType::C128, "complex128", "c16"),
];

impl DType {
    /// Every dtype.
    pub fn all() -> impl Iterator<Item = DType> {
        NAMES.iter().map(|entry| entry.0)
    }

    /// NumPy's name: `uint16`.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|entry| entry.0 == self).map_or("", |entry| entry.1)
    }

    /// NumPy's kind and size: `u2`.
    pub fn code(self) -> &'static str {
        NAMES.iter().find(|entry| entry.0 == self).map_or("", |entry| entry.2)
    }

    /// Size of one element in bytes.
    pub fn size(self) -> usize {
        match self {
            DType::Bool | DType::U8 | DType::I8 => 1,
            DType::U16 | DType::I16 | DType::F16 => 2,
            DType::U32 | DType::I32 | DType::F32 => 4,
            DType::U64 | DType::I64 | DType::F64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// Size of the unit whose bytes are swapped: a complex number is two units.
    pub fn swap_size(self) -> usize {
        if self.is_complex() { self.size() / 2 } else { self.size() }
    }

    /// Whether this is a signed or unsigned integer.
    pub fn is_integer(self) -> bool {
        use DType::{I8, I16, I32, I64, U8, U16, U32, U64};
        matches!(self, U8 | U16 | U32 | U64 | I8 | I16 | I32 | I64)
    }

    /// Whether this is a real floating-point number.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F16 | DType::F32 | DType::F64)
    }

    /// Whether this is a complex number.
    pub fn is_complex(self) -> bool {
        matches!(self, DType::C64 | DType::C128)
    }

    /// The smallest dtype that both convert to safely, as `numpy.result_type`.
    pub fn promote(a: DType, b: DType) -> DType {
        crate::promote::promote(a, b)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl StoredDType {
    /// A dtype in this machine's byte order.
    pub fn native(dtype: DType) -> Self {
        StoredDType { dtype, order: ByteOrder::NATIVE }
    }

    /// Whether the bytes can be used as they are on this machine.
    pub fn is_native(self) -> bool {
        self.dtype.size() == 1 || self.order == ByteOrder::NATIVE
    }

    /// Parses a NumPy name or type string: `uint16`, `<u2`, `>f4`, `|b1`, `=i8`, `u2`, `float`.
    ///
    /// # Errors
    /// `InvalidArgument` that lists the known names.
    pub fn parse(text: &str) -> Result<Self> {
        let trimmed = text.trim();
        let (order, name) = match trimmed.chars().next() {
            Some('<') => (ByteOrder::Little, &trimmed[1..]),
            Some('>') => (ByteOrder::Big, &trimmed[1..]),
            Some('=' | '|') => (ByteOrder::NATIVE, &trimmed[1..]),
            _ => (ByteOrder::NATIVE, trimmed),
        };
        let name = match name {
            "float" | "double" => "float64",
            "int" => "int64",
            "single" => "float32",
            "half" => "float16",
            "complex" => "complex128",
            "?" => "bool",
            other => other,
        };
        NAMES
            .iter()
            .find(|entry| entry.1 == name || entry.2 == name)
            .map(|entry| StoredDType { dtype: entry.0, order })
            .ok_or_else(|| {
                let known: Vec<&str> = NAMES.iter().map(|entry| entry.1).collect();
                Error::invalid(format!("unknown dtype '{text}'")).with_hint(format!(
                    "use one of {}, or a type string such as '<u2' or '>f4'",
                    known.join(", ")
                ))
            })
    }
}

impl From<DType> for StoredDType {
    fn from(dtype: DType) -> Self {
        StoredDType::native(dtype)
    }
}

impl fmt::Display for StoredDType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_native() {
            write!(f, "{}", self.dtype)
        } else {
            let order = match self.order {
                ByteOrder::Little => "little-endian",
                ByteOrder::Big => "big-endian",
            };
            write!(f, "{} ({order})", self.dtype)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_round_trip() {
        for dtype in DType::all() {
            assert_eq!(StoredDType::parse(dtype.name()).unwrap().dtype, dtype);
            let big = StoredDType::parse(&format!(">{}", dtype.code())).unwrap();
            assert_eq!((big.dtype, big.order), (dtype, ByteOrder::Big));
        }
    }

    #[test]
    fn unknown_names_are_refused_with_the_list() {
        let error = StoredDType::parse("uint17").unwrap_err();
        assert!(error.to_string().contains("'uint17'") && error.to_string().contains("uint16"));
        assert!(StoredDType::parse("").is_err());
        assert!(StoredDType::parse("é").is_err());
    }
}
