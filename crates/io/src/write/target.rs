//! A file or folder that appears when it is complete, or not at all.

use crate::codec::crc32c;
use framefold_core::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How names of what is not complete end.
const ENDING: &str = ".framefold-part";
/// The file within a folder that tells that somebody still works on it.
const LOCK: &str = ".lock";
/// How long a folder may be without that file while somebody still works on it: for a moment when it is
/// new, and when it is complete.
const WITHOUT_LOCK: Duration = Duration::from_secs(60);
/// The longest name that is part of the temporary one: file systems take 255 bytes in all.
const LONGEST_NAME: usize = 180;
/// Names that are tried, should somebody who cleans up be faster than the lock.
const ATTEMPTS: usize = 8;
/// What a folder that may be replaced holds.
const DESCRIPTIONS: [&str; 3] = ["zarr.json", ".zarray", ".zgroup"];

/// Where output is to appear, and under which name it is written until then. Whatever is not
/// published is removed when this is dropped.
pub(super) struct Target {
    path: PathBuf,
    temporary: PathBuf,
    is_folder: bool,
    force: bool,
    /// Locked as long as it is open: others see that the temporary name is in use.
    file: File,
}

impl Target {
    /// Plans `path`, made of data from `inputs`, and creates it under a temporary name beside it.
    /// What runs that were killed have left of the same output is removed.
    ///
    /// # Errors
    /// `InvalidArgument` if it exists and is not to be replaced, or an input is in the way; `Io`.
    pub(super) fn create(
        path: &Path,
        is_folder: bool,
        force: bool,
        inputs: &[PathBuf],
    ) -> Result<Self> {
        let named = || Error::invalid("the output has no name").with_hint("name a file");
        let name = path.file_name().ok_or_else(named)?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let folder = parent.canonicalize().map_err(|error| no_folder(error, parent, path))?;
        not_an_input(&folder.join(name), inputs)?;
        let mut permissions = None;
        if let Ok(meta) = path.symlink_metadata() {
            if !force {
                return Err(exists());
            }
            if meta.is_symlink()
                && let Ok(real) = path.canonicalize()
            {
                // The link stays, and what it leads to is replaced, where that is.
                return Target::create(&real, is_folder, force, inputs);
            }
            replaceable(path, &meta, is_folder)?;
            permissions = Some(meta.permissions()).filter(|_| !is_folder && meta.is_file());
        }
        let prefix = temporary_prefix(name);
        clean(&folder, &prefix);

        for _ in 0..ATTEMPTS {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos());
            let mut name = prefix.clone();
            name.push(format!("{}-{now:x}{ENDING}", std::process::id()));
            let temporary = folder.join(name);
            let mut file = temporary.clone();
            if is_folder {
                std::fs::create_dir(&temporary).map_err(|error| failed(error, path))?;
                file.push(LOCK);
            }
            let opened = OpenOptions::new().read(true).write(true).create_new(true).open(&file);
            let opened = opened.map_err(|error| {
                let _ = std::fs::remove_dir(&temporary);
                failed(error, path)
            })?;
            // Where there are no locks, nobody takes the file for abandoned, either.
            let taken = matches!(opened.try_lock(), Err(TryLockError::WouldBlock));
            if let Some(permissions) = &permissions {
                // Where that is not allowed, those of a new file have to do.
                let _ = opened.set_permissions(permissions.clone());
            }
            let target =
                Target { path: path.to_path_buf(), temporary, is_folder, force, file: opened };
            // Somebody may have looked at it before it was locked, and removed it.
            if !taken && file.symlink_metadata().is_ok() {
                return Ok(target);
            }
        }
        Err(failed(ErrorKind::WouldBlock.into(), path))
    }

    /// The temporary name.
    pub(super) fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// The file, if it is one.
    pub(super) fn file(&self) -> &File {
        &self.file
    }

    /// Gives it its name, in the place of what has it.
    ///
    /// # Errors
    /// `InvalidArgument` if somebody else was faster; `Io`.
    pub(super) fn publish(self) -> Result<()> {
        let moved = |error| failed(error, &self.path);
        if self.is_folder {
            std::fs::remove_file(self.temporary.join(LOCK)).map_err(moved)?;
        } else {
            self.file.sync_all().map_err(moved)?;
        }
        if !self.force {
            if self.path.symlink_metadata().is_ok() {
                return Err(exists());
            }
            return std::fs::rename(&self.temporary, &self.path).map_err(moved);
        }
        if !self.path.is_dir() || self.path.is_symlink() {
            if self.is_folder {
                let _ = std::fs::remove_file(&self.path);
            }
            return std::fs::rename(&self.temporary, &self.path).map_err(moved);
        }
        // A folder with files in it cannot be replaced in one step.
        let mut old = self.temporary.clone().into_os_string();
        old.push(".old");
        std::fs::rename(&self.path, &old).map_err(moved)?;
        if let Err(error) = std::fs::rename(&self.temporary, &self.path) {
            let _ = std::fs::rename(&old, &self.path);
            return Err(moved(error));
        }
        std::fs::remove_dir_all(&old).map_err(moved)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        remove(&self.temporary);
    }
}

fn remove(path: &Path) {
    // Nobody can do anything about what cannot be removed.
    let _ = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
}

/// Removes what was left in `folder` under names that begin with `prefix`, and that nobody holds.
fn clean(folder: &Path, prefix: &OsString) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let bytes = name.as_encoded_bytes();
        if !bytes.starts_with(prefix.as_encoded_bytes()) || !bytes.ends_with(ENDING.as_bytes()) {
            continue;
        }
        let path = entry.path();
        let lock = if path.is_dir() { path.join(LOCK) } else { path.clone() };
        let held = match OpenOptions::new().read(true).write(true).open(lock) {
            Ok(file) => match file.try_lock() {
                Ok(()) => false,
                Err(TryLockError::WouldBlock | TryLockError::Error(_)) => true,
            },
            Err(error) => error.kind() != ErrorKind::NotFound || changed_just_now(&path),
        };
        if !held {
            remove(&path);
        }
    }
}

/// Whether something was created or removed in a folder not long ago, or that cannot be told.
fn changed_just_now(folder: &Path) -> bool {
    let changed = folder.symlink_metadata().and_then(|meta| meta.modified());
    changed.map_or(true, |changed| changed.elapsed().map_or(true, |age| age < WITHOUT_LOCK))
}

/// Refuses output that is an input, lies within one, or holds one.
fn not_an_input(output: &Path, inputs: &[PathBuf]) -> Result<()> {
    let output = output.canonicalize().unwrap_or_else(|_| output.to_path_buf());
    for input in inputs {
        let Ok(input) = input.canonicalize() else { continue };
        let message = if input == output {
            "the output is one of the input files, that the data set is read from"
        } else if output.starts_with(&input) {
            "the output lies within the folder that the data set is read from"
        } else if input.starts_with(&output) {
            "the output would replace a folder that the data set is read from"
        } else {
            continue;
        };
        return Err(Error::invalid(message).with_hint("choose another path"));
    }
    Ok(())
}

/// What temporary names of an output begin with: its own, if there is room for more.
fn temporary_prefix(name: &OsStr) -> OsString {
    let mut prefix = OsString::from(".");
    if name.len() <= LONGEST_NAME {
        prefix.push(name);
    } else {
        prefix.push(format!("{:08x}", crc32c(name.as_encoded_bytes())));
    }
    prefix.push(".");
    prefix
}

/// Refuses to replace a file by a folder or the other way round, folders that hold other things, and
/// what is neither.
fn replaceable(path: &Path, meta: &Metadata, is_folder: bool) -> Result<()> {
    let is_dir = meta.is_dir();
    if !is_dir && !meta.is_file() && !meta.is_symlink() {
        return Err(Error::invalid("the output exists, and is neither a file nor a folder")
            .with_hint("choose another name"));
    }
    let ours = || DESCRIPTIONS.iter().any(|name| path.join(name).is_file());
    let empty = || std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    match (is_dir, is_folder) {
        (true, false) => Err(Error::invalid("the output is a folder that exists")
            .with_hint("choose another name, or remove the folder")),
        (true, true) if !ours() && !empty() => {
            Err(Error::invalid("the output exists, and is a folder without Zarr arrays in it")
                .with_hint("choose another name, or remove the folder"))
        }
        _ => Ok(()),
    }
}

fn no_folder(error: std::io::Error, folder: &Path, path: &Path) -> Error {
    if error.kind() != ErrorKind::NotFound {
        return failed(error, path);
    }
    Error::io("find the folder of the output", error)
        .with_path(folder)
        .with_hint("create it, or check the path; relative paths start at the current directory")
}

pub(super) fn failed(error: std::io::Error, path: &Path) -> Error {
    Error::io("write the output", error)
        .with_path(path)
        .with_hint("check the space on the disk and the permissions of the folder")
}

fn exists() -> Error {
    Error::invalid("the output exists")
        .with_hint("choose another name, or replace it (--force, overwrite=True)")
}

/// Writes bytes to their place in a file, whoever else does the same.
///
/// # Errors
/// `Io`.
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64, path: &Path) -> Result<()> {
    #[cfg(unix)]
    let done = std::os::unix::fs::FileExt::write_all_at(file, bytes, offset);
    #[cfg(windows)]
    let done = (|| {
        let (mut rest, mut offset) = (bytes, offset);
        while !rest.is_empty() {
            let n = std::os::windows::fs::FileExt::seek_write(file, rest, offset)?;
            rest = &rest[n..];
            offset += n as u64;
        }
        Ok(())
    })();
    done.map_err(|error| failed(error, path).with_offset(offset))
}
