//! The header of an NPY file.

use framefold_core::{ByteOrder, DType, Error, Result};

/// Version 1 of the header, which pixels follow at a multiple of 64 bytes.
pub(super) fn header(shape: &[usize], dtype: DType) -> Result<Vec<u8>> {
    const START: usize = 10;
    let order = match (dtype.size(), ByteOrder::NATIVE) {
        (1, _) => '|',
        (_, ByteOrder::Little) => '<',
        (_, ByteOrder::Big) => '>',
    };
    let lens: Vec<String> = shape.iter().map(usize::to_string).collect();
    let comma = if lens.len() == 1 { "," } else { "" };
    let mut text = format!(
        "{{'descr': '{order}{}', 'fortran_order': False, 'shape': ({}{comma}), }}",
        dtype.code(),
        lens.join(", ")
    );
    let len = (START + text.len() + 1).next_multiple_of(64) - START;
    text.extend(std::iter::repeat_n(' ', len - 1 - text.len()));
    text.push('\n');
    let len = u16::try_from(len).map_err(|_| Error::limit("there are too many axes for NPY"))?;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(len.to_le_bytes());
    bytes.extend(text.as_bytes());
    Ok(bytes)
}
