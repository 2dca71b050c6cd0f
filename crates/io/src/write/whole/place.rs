//! Names: of an output, and of what belongs to it while it is written.

use crate::access::files;
use crate::access::storage::check_path;
#[cfg(unix)]
use crate::access::storage::identity;
use crc32c::crc32c;
use framefold_core::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The longest name that is part of the hidden ones: file systems take 255 bytes in all.
const LONGEST_NAME: usize = 180;
/// Links to links that are followed; systems stop there, too.
const MAX_LINKS: usize = 40;

#[derive(Clone, Debug)]
pub(super) struct Place {
    /// Where it is in the end: no link, in a folder without links.
    pub(super) path: PathBuf,
    pub(super) part: PathBuf,
    pub(super) lock: PathBuf,
    pub(super) old: PathBuf,
    pub(super) record: PathBuf,
    pub(super) new_record: PathBuf,
}

impl Place {
    /// Where `path` leads to.
    ///
    /// # Errors
    /// `InvalidArgument` if it has no name, or leads in a circle; `Io` if there is no such folder.
    pub(super) fn of(path: &Path) -> Result<Self> {
        let mut real = path.to_path_buf();
        for _ in 0..MAX_LINKS {
            let name = real
                .file_name()
                .ok_or_else(|| Error::invalid("the output has no name").with_hint("name a file"))?;
            let parent = match real.parent() {
                Some(parent) if !parent.as_os_str().is_empty() => parent,
                _ => Path::new("."),
            };
            let folder = parent.canonicalize().map_err(|error| no_folder(error, parent))?;
            let here = folder.join(name);
            match std::fs::read_link(&here) {
                Ok(target) => real = folder.join(target),
                Err(_) => {
                    let hidden = |ending: &str| folder.join(hidden(name, ending));
                    let (part, lock, old) = (hidden("part"), hidden("lock"), hidden("old"));
                    let (record, new_record) = (hidden("record"), hidden("record-part"));
                    return Ok(Place { path: here, part, lock, old, record, new_record });
                }
            }
        }
        Err(Error::invalid("the output is a link that leads in a circle")
            .with_hint("choose another name"))
    }

    /// Refuses output that is an input, lies within one, holds one, or has a name that a pattern among them finds.
    pub(super) fn not_an_input(&self, inputs: &[PathBuf]) -> Result<()> {
        let there = self.path.metadata().ok();
        // Patterns find files, and of a folder those in it.
        let is_folder =
            self.path.extension().is_some_and(|ending| ending == "zarr" || ending == "zspy");
        let file = if is_folder { &self.path.join("zarr.json") } else { &self.path };
        for input in inputs {
            if there.is_none() && input.is_file() {
                continue; // of very many files, it takes time to follow the links to each
            }
            let Ok(input) = input.canonicalize() else {
                if files::would_find(input, file) {
                    let what =
                        "the output would be one of the files of the data set, which are found by";
                    return Err(Error::invalid(format!("{what} '{}'", input.display()))
                        .with_hint("choose another folder or name"));
                }
                continue;
            };
            let message = if input == self.path || is_same(there.as_ref(), &input) {
                "the output is one of the input files, that the data set is read from"
            } else if self.path.starts_with(&input) {
                "the output lies within the folder that the data set is read from"
            } else if input.starts_with(&self.path) {
                "the output would replace a folder that the data set is read from"
            } else {
                continue;
            };
            return Err(Error::invalid(message).with_hint("choose another path"));
        }
        Ok(())
    }
}

/// Whether a file has that path, too: where names differ in case alone, and where a folder is mounted twice.
#[cfg(unix)]
fn is_same(there: Option<&Metadata>, path: &Path) -> bool {
    let other = path.metadata().ok();
    there.zip(other.as_ref()).is_some_and(|(there, other)| identity(there) == identity(other))
}

#[cfg(not(unix))]
fn is_same(_there: Option<&Metadata>, _path: &Path) -> bool {
    false
}

fn hidden(name: &OsStr, ending: &str) -> OsString {
    let mut hidden = OsString::from(".");
    if name.len() <= LONGEST_NAME {
        hidden.push(name);
    } else {
        // Enough of it to be distinct from others: they would wait for each other.
        hidden.push(format!("{:08x}", crc32c(name.as_encoded_bytes())));
    }
    hidden.push(format!(".framefold-{ending}"));
    hidden
}

fn no_folder(error: std::io::Error, folder: &Path) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return super::failed(error, folder);
    }
    Error::io("find the folder of the output", error)
        .with_path(folder)
        .with_hint(format!("create it, or {}", check_path(folder)))
}
