//! What goes wrong in the HDF5 library, in the engine's words.

use super::spelling::SAME;
use framefold_core::{Error, Result};
use std::panic::AssertUnwindSafe;

/// Does `work`, in which the library is used; its panics become errors.
///
/// # Errors
/// Those of `work`; `BadFile` if it panicked.
pub(super) fn contained<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::bad_file("the HDF5 library gave up on this file")
            .with_hint("the file is damaged; if others read it, report it together with the file"))
    })
}

/// The library's errors in the engine's words.
pub(super) fn translate(error: &hdf5_reader::error::Error) -> Error {
    let text = error.to_string();
    if text.contains("unsupported") {
        return Error::unsupported(format!("the HDF5 library cannot read it: {text}"))
            .with_hint("rewrite the file with h5repack");
    }
    if matches!(error, hdf5_reader::error::Error::InvalidMagic) {
        return Error::bad_file("it is no HDF5 file: the signature \\x89HDF is not there")
            .with_hint("load it as 'auto' to find out what it is");
    }
    if let Some((_, limit)) = text.split_once("resource limit: ") {
        return Error::limit(limit).with_hint("name a data set by ds_path");
    }
    if let Some(at) = text.find(SAME) {
        return Error::unsupported(text.get(at..).unwrap_or_default())
            .with_hint("rename them, as with move() of h5py, and rewrite the file with h5repack");
    }
    Error::bad_file(format!("the file is damaged: {text}")).with_hint(DAMAGED)
}

/// What helps with a damaged file, as long as no more is known.
pub(super) const DAMAGED: &str =
    "copy the file again; it may not have been closed when it was written";

/// That a file is of the older format that shares the name, if its first bytes are of that.
pub(crate) fn older(bytes: &[u8]) -> Option<Error> {
    bytes.starts_with(&[0x0E, 0x03, 0x13, 0x01]).then(|| {
        Error::unsupported("it is HDF4, which has nothing but its name in common with HDF5")
            .with_hint("convert it with h4toh5")
    })
}
