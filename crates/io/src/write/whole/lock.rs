//! Who writes an output: the one that holds the lock.

use framefold_core::{Error, Result};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Files that are tried, should those who have them go while they are looked at.
const ATTEMPTS: usize = 64;

/// A locked file. It is removed by the process that made it, and left by a killed one.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    /// Locked as long as it is open.
    _file: File,
    process: u32,
}

impl Lock {
    /// # Errors
    /// `InvalidArgument` if another process has it; `Io`.
    pub(super) fn take(path: &Path) -> Result<Self> {
        for _ in 0..ATTEMPTS {
            let mut options = OpenOptions::new();
            options.read(true).write(true);
            let (file, is_new) = match options.clone().create_new(true).open(path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    (options.open(path), false)
                }
                made => (made, true),
            };
            let file = match file {
                Err(error) if error.kind() == ErrorKind::NotFound && !is_new => continue,
                file => file.map_err(|error| super::failed(error, path))?,
            };
            super::step("opened");
            match file.try_lock() {
                Ok(()) => {}
                // Where there are no locks, it belongs to who made it.
                Err(TryLockError::Error(_)) if is_new => {}
                Err(TryLockError::Error(_) | TryLockError::WouldBlock) => return Err(busy(path)),
            }
            // It may have been removed before it was locked.
            if is_at(&file, path) {
                let process = std::process::id();
                return Ok(Lock { path: path.to_path_buf(), _file: file, process });
            }
        }
        Err(busy(path))
    }

    /// Whether this process took it; forks share it.
    pub(super) fn is_of_this_process(&self) -> bool {
        self.process == std::process::id()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        if self.is_of_this_process() {
            // While it is locked: no other process can have taken it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    match (file.metadata(), path.symlink_metadata()) {
        (Ok(file), Ok(there)) => (file.dev(), file.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_file: &File, path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn busy(path: &Path) -> Error {
    Error::invalid("another run is writing it").with_hint(format!(
        "wait for it, choose another name, or remove '{}' if it is not so",
        path.display()
    ))
}
