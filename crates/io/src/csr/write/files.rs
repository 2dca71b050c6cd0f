//! Files that appear together when all are complete, or not at all.

use framefold_core::{Error, Result};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// Where a descriptor and its arrays are to appear.
pub(super) struct Outputs {
    folder: PathBuf,
    paths: [PathBuf; 4],
    force: bool,
}

/// One file, under a temporary name. It is removed unless it is published.
pub(super) struct Output {
    writer: BufWriter<File>,
    temporary: TempPath,
    target: PathBuf,
}

impl Outputs {
    pub(super) const DESCRIPTOR: usize = 0;
    pub(super) const ROW_POINTERS: usize = 1;
    pub(super) const COLUMNS: usize = 2;
    pub(super) const VALUES: usize = 3;

    /// Plans a descriptor at `path`, of data from the files `inputs`. Nothing is written yet.
    ///
    /// # Errors
    /// `InvalidArgument` if `path` names no file, one of the files exists and is not to be
    /// replaced, or is an input.
    pub(super) fn try_new(path: &Path, force: bool, inputs: &[PathBuf]) -> Result<Self> {
        let Some(stem) = path.file_stem().filter(|_| path.extension().is_some()) else {
            return Err(Error::invalid("the output's name has no extension")
                .with_path(path)
                .with_hint("call it NAME.toml; the arrays get names that begin with NAME"));
        };
        let array = |ending: &str| {
            let mut name = OsString::from(stem);
            name.push(ending);
            path.with_file_name(name)
        };
        let paths = [path.to_path_buf(), array(".indptr"), array(".indices"), array(".data")];
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => PathBuf::from("."),
        };
        let inputs: Vec<PathBuf> =
            inputs.iter().filter_map(|input| input.canonicalize().ok()).collect();
        for path in &paths {
            if path.canonicalize().is_ok_and(|path| inputs.contains(&path)) {
                return Err(Error::invalid("the output is one of the input files")
                    .with_path(path)
                    .with_hint("choose another name"));
            }
            if !force && path.symlink_metadata().is_ok() {
                return Err(exists(path));
            }
        }
        Ok(Outputs { folder, paths, force })
    }

    /// The names of row pointers, columns and values, as the descriptor has them.
    ///
    /// # Errors
    /// `InvalidArgument` if they are not Unicode.
    pub(super) fn array_names(&self) -> Result<[&str; 3]> {
        let name = |i: usize| {
            let name = self.paths.get(i).and_then(|path| path.file_name()?.to_str());
            name.ok_or_else(|| {
                Error::invalid("the output's name cannot be written to a TOML file")
                    .with_hint("choose a name that is valid Unicode")
            })
        };
        Ok([name(Self::ROW_POINTERS)?, name(Self::COLUMNS)?, name(Self::VALUES)?])
    }

    /// Begins the `i`-th file.
    pub(super) fn create(&self, i: usize) -> Result<Output> {
        let target = self.paths.get(i).ok_or_else(|| Error::bug("there is no such output"))?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".framefold-").suffix(".part");
        #[cfg(unix)]
        {
            // As any new file; the user's umask applies.
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder.tempfile_in(&self.folder).map_err(|error| {
            Error::io("create a file in the output's directory", error).with_path(target)
        })?;
        let (file, temporary) = file.into_parts();
        let writer = BufWriter::with_capacity(1 << 18, file);
        Ok(Output { writer, temporary, target: target.clone() })
    }

    /// Gives all files their names, the descriptor's last; if that fails, none stays.
    pub(super) fn publish(self, descriptor: Output, arrays: [Output; 3]) -> Result<Vec<PathBuf>> {
        if self.force {
            // While arrays are replaced, the old descriptor would tell lies about the new ones.
            match std::fs::remove_file(&descriptor.target) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    let error = Error::io("replace the file", error);
                    return Err(error.with_path(&descriptor.target));
                }
                _ => {}
            }
        }
        let mut published: Vec<PathBuf> = Vec::new();
        for output in arrays.into_iter().chain([descriptor]) {
            match output.publish(self.force) {
                Ok(path) => published.push(path),
                Err(error) => {
                    for path in published {
                        // The first error counts.
                        let _ = std::fs::remove_file(path);
                    }
                    return Err(error);
                }
            }
        }
        Ok(self.paths.to_vec())
    }
}

impl Output {
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write_all(bytes).map_err(|error| failed(error, &self.target))
    }

    /// Brings the file to the disk, and holds its length against what it should be.
    pub(super) fn complete(&mut self, len_bytes: u64) -> Result<()> {
        let target = &self.target;
        self.writer.flush().map_err(|error| failed(error, target))?;
        let file = self.writer.get_ref();
        file.sync_all().map_err(|error| failed(error, target))?;
        let found = file.metadata().map_err(|error| failed(error, target))?.len();
        if found == len_bytes {
            return Ok(());
        }
        let message = format!("{len_bytes} bytes were written, but the file has {found}");
        Err(failed(std::io::Error::other(message), target))
    }

    fn publish(self, force: bool) -> Result<PathBuf> {
        let Output { writer, temporary, target } = self;
        drop(writer);
        if force {
            temporary.persist(&target).map_err(|error| failed(error.error, &target))?;
        } else {
            temporary.persist_noclobber(&target).map_err(|error| match error.error.kind() {
                ErrorKind::AlreadyExists => exists(&target),
                _ => failed(error.error, &target),
            })?;
        }
        Ok(target)
    }
}

fn failed(error: std::io::Error, target: &Path) -> Error {
    Error::io("write the file", error)
        .with_path(target)
        .with_hint("check the space on the disk and the permissions of the folder")
}

fn exists(path: &Path) -> Error {
    Error::invalid("the output file exists")
        .with_path(path)
        .with_hint("choose another name, or replace it (--force)")
}
