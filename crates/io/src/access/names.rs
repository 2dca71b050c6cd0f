//! Names of files that belong together, which need not be UTF-8.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A name with one letter for each of its bytes: to compare names, and take them apart, where they need
/// not be UTF-8. It is not to be shown: only ASCII is as it was.
pub(crate) fn letters(name: &OsStr) -> String {
    name.as_encoded_bytes().iter().map(|&byte| char::from(byte)).collect()
}

/// The letters of a file's name without its extension; none if it has no name.
pub(crate) fn stem(path: &Path) -> String {
    path.file_stem().map(letters).unwrap_or_default()
}

/// The file beside `path` whose name has these letters.
pub(crate) fn beside(path: &Path, letters: &str) -> PathBuf {
    let bytes = letters.chars().filter_map(|letter| u8::try_from(letter).ok()).collect();
    path.with_file_name(name_of(bytes))
}

#[cfg(unix)]
fn name_of(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

/// Elsewhere, names are Unicode but for halves of letters.
#[cfg(not(unix))]
fn name_of(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}
