//! NPY: one array.
//!
//! Version 1.0 of the format (2.0 if the header is long), C order, this machine's byte order; the
//! array begins on a multiple of 64 bytes.

use crate::write::whole::refused;
use framefold_core::{ByteOrder, DType, NativeArray, Result};
use std::io::Write;

/// Writes `array` as NPY.
///
/// # Errors
/// `Io`.
pub fn write_npy(out: &mut impl Write, array: &NativeArray) -> Result<()> {
    let header = header(array.dtype(), array.shape());
    let done = out.write_all(&header).and_then(|()| out.write_all(array.values().as_bytes()));
    done.map_err(|error| refused("write the array", error))
}

/// What stands before the elements.
pub(super) fn header(dtype: DType, shape: &[usize]) -> Vec<u8> {
    let order = match (dtype.size(), ByteOrder::NATIVE) {
        (1, _) => '|',
        (_, ByteOrder::Little) => '<',
        (_, ByteOrder::Big) => '>',
    };
    let dims: String = shape.iter().map(|dim| format!("{dim}, ")).collect();
    let dims = if shape.len() > 1 { dims.trim_end_matches(", ") } else { dims.trim_end() };
    let dict = format!(
        "{{'descr': '{order}{}', 'fortran_order': False, 'shape': ({dims}), }}",
        dtype.code()
    );
    let fits_version_1 = u16::try_from(dict.len() + 64).is_ok();
    let start = if fits_version_1 { 10 } else { 12 };
    // The dict is filled up with spaces and ends with a line feed.
    let padding = (64 - (start + dict.len() + 1) % 64) % 64;
    let text = format!("{dict}{}\n", " ".repeat(padding));
    let mut bytes = b"\x93NUMPY".to_vec();
    match u16::try_from(text.len()) {
        Ok(len) if fits_version_1 => {
            bytes.extend([1, 0]);
            bytes.extend(len.to_le_bytes());
        }
        _ => {
            bytes.extend([2, 0]);
            bytes.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        }
    }
    bytes.extend(text.into_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_aligned_and_spelled_as_numpy_does() {
        let text = |shape: &[usize]| {
            let header = header(DType::U16, shape);
            assert_eq!(header.len() % 64, 0);
            assert_eq!(header[6..8], [1, 0]);
            assert_eq!(usize::from(u16::from_le_bytes([header[8], header[9]])), header.len() - 10);
            assert_eq!(header.last(), Some(&b'\n'));
            String::from_utf8(header[10..].to_vec()).unwrap().trim_end().to_owned()
        };
        let order = if ByteOrder::NATIVE == ByteOrder::Little { '<' } else { '>' };
        assert_eq!(
            text(&[3, 4]),
            format!("{{'descr': '{order}u2', 'fortran_order': False, 'shape': (3, 4), }}")
        );
        assert!(text(&[3]).contains("'shape': (3,), "));
        assert!(text(&[]).contains("'shape': (), "));
        assert!(String::from_utf8_lossy(&header(DType::Bool, &[1])).contains("'|b1'"));
    }

    #[test]
    fn long_headers_get_version_2() {
        let header = header(DType::F64, &vec![1; 40_000]);
        assert_eq!(header[6..8], [2, 0]);
        assert_eq!(header.len() % 64, 0);
    }
}
