//! Files that appear when they are complete, or not at all.

use framefold::io::{OutputKind, WholeOutput};
use framefold::{Cancel, Error, Result};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes the file at `path` through `fill`.
///
/// # Errors
/// Those of `fill`; `Io`; `Cancelled` if `cancel` was set in the meantime; `InvalidArgument` if
/// the file exists and `force` is not set, or another process is writing it.
pub(super) fn write(
    path: &Path,
    force: bool,
    cancel: &Cancel,
    fill: impl FnOnce(&mut BufWriter<&File>) -> Result<()>,
) -> Result<()> {
    let whole = WholeOutput::create(path, OutputKind::File, force, &[])?;
    let mut out = BufWriter::new(whole.file()?);
    fill(&mut out)?;
    out.flush().map_err(failed)?;
    drop(out);
    cancel.check()?;
    whole.publish()
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
    Error::io("write the result", error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn nothing_is_left_behind_when_writing_fails_or_is_cancelled() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let failing = write(&path, false, &Cancel::new(), |out| {
            out.write_all(b"half").map_err(failed)?;
            Err(Error::bug("on purpose"))
        });
        assert!(failing.is_err());
        let cancel = Cancel::new();
        cancel.cancel();
        let error = write(&path, false, &cancel, |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), framefold::ErrorKind::Cancelled);
        assert_eq!(names(folder.path()), Vec::<String>::new());
    }

    #[test]
    fn existing_files_are_replaced_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.npy");
        let put = |force, text: &'static [u8]| {
            write(&path, force, &Cancel::new(), |out| out.write_all(text).map_err(failed))
        };
        put(false, b"first").unwrap();
        assert!(put(false, b"second").is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        put(true, b"third").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"third");
        assert_eq!(names(folder.path()), ["x.npy"]);
    }
}
