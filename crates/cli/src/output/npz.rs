//! NPZ: a ZIP archive of NPY files, stored without compression as by `numpy.savez`.
//!
//! It holds every result buffer in its own dtype and, where a buffer has one entry per scan
//! position, `valid`: one truth value per scan position, false where there is no data. In
//! buffers of floats these entries are NaN, in others 0: look at `valid`.

use super::atomic::failed;
use super::npy;
use crate::field::Field;
use framefold::core::{Bool8, BufferKind, NativeArray};
use framefold::{Error, Result};
use std::io::{Seek, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter, result::ZipError};

/// The name of the mask of scan positions with data.
const VALID: &str = "valid";

/// Writes all `fields` and the mask of the scan positions with data, given with its shape.
///
/// # Errors
/// `Io`; `Unsupported` if a buffer is called `valid`.
pub(super) fn write(
    out: &mut (impl Write + Seek),
    fields: &[Field],
    valid_nav: (&[usize], &[bool]),
) -> Result<()> {
    let mut archive = ZipWriter::new(out);
    for field in fields {
        if field.name == VALID {
            return Err(Error::unsupported("a result buffer is called 'valid', as the mask is")
                .with_hint("write it as .npy"));
        }
        add(&mut archive, &field.name, &field.array)?;
    }
    if fields.iter().any(|field| field.kind == BufferKind::Nav) {
        let (shape, valid) = valid_nav;
        let cells: Vec<Bool8> = valid.iter().copied().map(Bool8::from).collect();
        add(&mut archive, VALID, &NativeArray::try_new(shape, cells)?)?;
    }
    archive.finish().map_err(zip_failed)?;
    Ok(())
}

fn add<W: Write + Seek>(archive: &mut ZipWriter<W>, name: &str, array: &NativeArray) -> Result<()> {
    let len_bytes = array.values().as_bytes().len();
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        // Room for the header included; larger members need the 64-bit fields.
        .large_file(u32::try_from(len_bytes).map_or(true, |len| len > u32::MAX - 65_536));
    archive.start_file(format!("{name}.npy"), options).map_err(zip_failed)?;
    npy::write(archive, array)
}

fn zip_failed(error: ZipError) -> Error {
    match error {
        ZipError::Io(error) => failed(error),
        other => Error::bug(format!("the archive could not be made: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::field;
    use std::io::{Cursor, Read};
    use zip::ZipArchive;

    #[test]
    fn all_buffers_and_the_mask_are_in_the_archive() {
        let mut named = field(&[2], vec![7u8, 0], 0, Some(vec![true, false]));
        named.name = "intensity".into();
        let mut bytes = Cursor::new(Vec::new());
        write(&mut bytes, &[named], (&[2], &[true, false])).unwrap();
        let mut archive = ZipArchive::new(bytes).unwrap();
        let mut member = |name: &str| {
            let mut content = Vec::new();
            archive.by_name(name).unwrap().read_to_end(&mut content).unwrap();
            content
        };
        let intensity = member("intensity.npy");
        assert!(intensity.starts_with(b"\x93NUMPY") && intensity.ends_with(&[7, 0]));
        assert!(member("valid.npy").ends_with(b"\n\x01\x00"));
    }

    #[test]
    fn a_buffer_called_valid_is_refused() {
        let mut named = field(&[1], vec![7u8], 0, None);
        named.name = VALID.into();
        let result = write(&mut Cursor::new(Vec::new()), &[named], (&[1], &[true]));
        assert!(result.is_err());
    }
}
