//! Dtypes as numbers of the C interface.

use framefold_abi::raw::{self, RawDType};
use framefold_core::DType;

/// The number of a dtype.
pub(crate) fn number(dtype: DType) -> RawDType {
    let kind = dtype.code().bytes().next().unwrap_or(0);
    raw::dtype(kind, u8::try_from(dtype.size()).unwrap_or(0))
}

/// The dtype of a number; 0 stands for `native`.
pub(crate) fn dtype(found: RawDType, native: DType) -> Option<DType> {
    if found == 0 { Some(native) } else { DType::all().find(|&dtype| number(dtype) == found) }
}

/// A number as people read it.
pub(crate) fn described(found: RawDType) -> String {
    match u8::try_from(found >> 8) {
        Ok(kind) if kind.is_ascii_graphic() => {
            format!("{found:#x} (kind '{}', {} bytes)", char::from(kind), found & 0xff)
        }
        _ => format!("{found:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_header() {
        for found in DType::all() {
            assert_eq!(dtype(number(found), DType::U8), Some(found));
        }
        assert_eq!(number(DType::C128), (u64::from(b'c') << 8) | 16);
        assert_eq!(dtype(0, DType::I16), Some(DType::I16));
        for odd in [2, raw::dtype(b'u', 3), raw::dtype(b'O', 8), u64::MAX] {
            assert_eq!(dtype(odd, DType::U8), None);
        }
        assert_eq!(described(raw::dtype(b'u', 3)), "0x7503 (kind 'u', 3 bytes)");
    }
}
