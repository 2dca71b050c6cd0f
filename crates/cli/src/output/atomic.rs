//! Files that appear when they are complete, or not at all.

use framefold::io::{OutputKind, WholeOutput, refused};
use framefold::{Error, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes the file that is to be at `path` through `fill`; it is there when it is published.
///
/// # Errors
/// Those of `fill`; `Io`; `InvalidArgument` if the file exists and `force` is not set, or another
/// process is writing it.
pub(super) fn write(
    path: &Path,
    force: bool,
    fill: impl FnOnce(&mut BufWriter<&File>) -> Result<()>,
) -> Result<WholeOutput> {
    let whole = WholeOutput::create(path, OutputKind::File, force, &[])?;
    let mut out = BufWriter::new(whole.file()?);
    fill(&mut out)?;
    out.flush().map_err(failed)?;
    drop(out);
    Ok(whole)
}

/// Makes `folder`, if it is not there. It goes again with what this gives if it is still empty then.
///
/// # Errors
/// `Io`.
pub(super) fn make_folder(folder: &Path) -> Result<Option<NewFolder>> {
    match std::fs::create_dir(folder) {
        Ok(()) => Ok(Some(NewFolder(folder.to_path_buf()))),
        Err(_) if folder.is_dir() => Ok(None),
        Err(error) => Err(Error::io("make the folder", error).with_path(folder)),
    }
}

/// A folder that is removed with this, if it is empty then.
#[derive(Debug)]
pub(crate) struct NewFolder(PathBuf);

impl Drop for NewFolder {
    fn drop(&mut self) {
        // It stays if there is anything in it.
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The directory that `path` lies in.
pub(super) fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// The error of a write that the operating system refused.
pub(super) fn failed(error: std::io::Error) -> Error {
    refused("write the result", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn nothing_is_left_behind_when_writing_fails_or_is_not_published() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let failing = write(&path, false, |out| {
            out.write_all(b"half").map_err(failed)?;
            Err(Error::bug("on purpose"))
        });
        assert!(failing.is_err());
        drop(write(&path, false, |_| Ok(())).unwrap());
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }

    #[test]
    fn existing_files_are_replaced_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let put = |force, text: &'static [u8]| {
            write(&path, force, |out| out.write_all(text).map_err(failed))?.publish()
        };
        put(false, b"first").unwrap();
        assert!(put(false, b"second").is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        put(true, b"third").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"third");
        assert_eq!(names(folder.path()), ["x.npy"]);
    }

    #[test]
    fn new_folders_stay_if_they_are_used() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        drop(make_folder(&path).unwrap().unwrap());
        assert!(!path.exists());
        let made = make_folder(&path).unwrap();
        assert!(make_folder(&path).unwrap().is_none());
        std::fs::write(path.join("x"), "x").unwrap();
        drop(made);
        assert!(path.is_dir());
        assert!(make_folder(&path.join("a/b")).is_err());
    }
}
