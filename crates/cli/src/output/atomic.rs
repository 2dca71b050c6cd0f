//! Files that appear when they are complete, or not at all.

use framefold::{Cancel, Error, Result};
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Writes the file at `path` through `fill`: to a temporary file beside it, renamed at the end.
///
/// # Errors
/// Those of `fill`; `Io`; `Cancelled` if `cancel` was set in the meantime; `InvalidArgument` if
/// the file exists and `force` is not set.
pub(super) fn write(
    path: &Path,
    force: bool,
    cancel: &Cancel,
    fill: impl FnOnce(&mut BufWriter<&File>) -> Result<()>,
) -> Result<()> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".framefold-").suffix(".part");
    #[cfg(unix)]
    {
        // As any new file; the user's umask applies.
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let file = builder
        .tempfile_in(folder(path))
        .map_err(|error| Error::io("create a file in the output's directory", error))?;
    let mut out = BufWriter::new(file.as_file());
    fill(&mut out)?;
    out.flush().map_err(failed)?;
    drop(out);
    file.as_file().sync_all().map_err(failed)?;
    cancel.check()?;
    if force {
        file.persist(path).map_err(|error| failed(error.error))?;
    } else {
        file.persist_noclobber(path).map_err(|error| match error.error.kind() {
            ErrorKind::AlreadyExists => exists(path),
            _ => failed(error.error),
        })?;
    }
    Ok(())
}

/// The directory that `path` lies in.
pub(super) fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// The output exists and may not be replaced.
pub(super) fn exists(path: &Path) -> Error {
    Error::invalid("the output file exists")
        .with_path(path)
        .with_hint("choose another name, or replace it with --force")
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
