//! NPZ: a ZIP archive of NPY files, stored without compression as by `numpy.savez`.
//!
//! It holds every result buffer in its own dtype, and arrays that say where there is data (see
//! [`Extra`]). In buffers of floats entries without data are NaN, in others 0: look at `valid`.

use super::atomic::failed;
use crate::field::Field;
use framefold::core::NativeArray;
use framefold::io::write_npy;
use framefold::{Error, Result};
use std::io::{Seek, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter, result::ZipError};

/// An array that helps to understand the others: the mask `valid`, which has a truth value for
/// each entry of `nav` buffers, or the `positions` of picked frames.
pub(crate) struct Extra {
    /// Its name in the archive.
    pub name: &'static str,
    /// Its values.
    pub array: NativeArray,
}

/// Writes all `fields` and `extras`.
///
/// # Errors
/// `Io`; `Unsupported` if a buffer has the name of an extra array.
pub(super) fn write(
    out: &mut (impl Write + Seek),
    fields: &[Field],
    extras: &[Extra],
) -> Result<()> {
    for field in fields {
        if extras.iter().any(|extra| extra.name == field.name) {
            return Err(Error::unsupported(format!(
                "a result buffer is called '{}', as an array that is added to it",
                field.name
            ))
            .with_hint("write it as .npy"));
        }
    }
    let mut archive = ZipWriter::new(out);
    let of_fields = fields.iter().map(|field| (field.name.as_str(), &field.array));
    let mut arrays = of_fields.chain(extras.iter().map(|extra| (extra.name, &extra.array)));
    if let Err(error) = arrays.try_for_each(|(name, array)| add(&mut archive, name, array)) {
        // When it is dropped, it prints that it cannot be completed.
        std::mem::forget(archive);
        return Err(error);
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
    write_npy(archive, array)
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
    use framefold::core::Bool8;
    use std::io::{Cursor, Read};
    use zip::ZipArchive;

    fn valid(mask: &[bool]) -> Extra {
        let cells: Vec<Bool8> = mask.iter().copied().map(Bool8::from).collect();
        Extra { name: "valid", array: NativeArray::try_new(&[mask.len()], cells).unwrap() }
    }

    #[test]
    fn all_buffers_and_the_mask_are_in_the_archive() {
        let mut named = field(&[2], vec![7u8, 0], 0, Some(vec![true, false]));
        named.name = "intensity".into();
        let mut bytes = Cursor::new(Vec::new());
        write(&mut bytes, &[named], &[valid(&[true, false])]).unwrap();
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
        named.name = "valid".into();
        assert!(write(&mut Cursor::new(Vec::new()), &[named], &[valid(&[true])]).is_err());
    }
}
