//! Renames that replace nothing, and that exchange two names in one step.

use std::io::{Error, ErrorKind, Result};
use std::path::Path;

/// Renames `from` to `to`, which must not exist: `AlreadyExists` otherwise.
pub(super) fn rename_new(from: &Path, to: &Path) -> Result<()> {
    match renamed(from, to, Rename::New) {
        Err(error) if unsupported(&error) => by_link(from, to),
        done => done,
    }
}

/// Gives each of two things the name of the other.
pub(super) fn exchange(one: &Path, other: &Path) -> Result<()> {
    renamed(one, other, Rename::Exchange)
}

/// Whether an error says that the file system or the system cannot do that.
pub(super) fn unsupported(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::InvalidInput)
}

/// The same with a second name: files only, and not on every file system.
fn by_link(from: &Path, to: &Path) -> Result<()> {
    let is_file = from.symlink_metadata()?.is_file();
    if is_file {
        match std::fs::hard_link(from, to) {
            Ok(()) => {
                super::step("linked");
                return std::fs::remove_file(from);
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
            Err(_) => {}
        }
    }
    // What comes between look and rename is replaced, if it is a file or an empty folder.
    if to.symlink_metadata().is_ok() {
        return Err(ErrorKind::AlreadyExists.into());
    }
    std::fs::rename(from, to)
}

#[derive(Clone, Copy)]
enum Rename {
    New,
    Exchange,
}

#[cfg(target_os = "linux")]
fn renamed(from: &Path, to: &Path, how: Rename) -> Result<()> {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;
    #[cfg(test)]
    super::tests::refused()?;
    let flag = match how {
        Rename::New => libc::RENAME_NOREPLACE,
        Rename::Exchange => libc::RENAME_EXCHANGE,
    };
    let from = CString::new(from.as_os_str().as_bytes())?;
    let to = CString::new(to.as_os_str().as_bytes())?;
    let (here, from, to) = (libc::AT_FDCWD, from.as_ptr(), to.as_ptr());
    // SAFETY: both are strings that end in zero and live until the call returns; it keeps neither.
    match unsafe { libc::syscall(libc::SYS_renameat2, here, from, here, to, flag) } {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    }
}

#[cfg(not(target_os = "linux"))]
fn renamed(_from: &Path, _to: &Path, _how: Rename) -> Result<()> {
    Err(ErrorKind::Unsupported.into())
}
