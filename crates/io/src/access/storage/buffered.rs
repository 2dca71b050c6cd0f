//! A file that is read piece by piece.
//!
//! Of the first few hundred files, handles are kept. Of all further ones, each is opened for every
//! piece that is read, so that a stack of ten thousand files needs no raised limit.

use super::stamp::{not_rewritten, open_not_rewritten};
use super::{open_error, shrunk};
use framefold_core::{Error, FileStamp, Result};
use std::fs::{File, Metadata};
use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

/// So many handles are kept; systems allow 256 or more.
const MOST_KEPT: usize = 192;

/// How many are.
static KEPT: AtomicUsize = AtomicUsize::new(0);

/// A handle that is kept.
struct Kept(File);

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A file that is read by position, so that threads can share its handle.
pub(super) struct BufferedFile {
    path: PathBuf,
    /// `None` if it is opened for each piece.
    file: Option<Kept>,
    /// The same as `path`, whatever becomes the current directory.
    absolute: PathBuf,
    len: u64,
    /// What it was when it was opened.
    stamp: FileStamp,
    /// When it was made, where the file system knows: the inode of a file that was removed is given
    /// to the next one.
    created: Option<SystemTime>,
    #[cfg(unix)]
    identity: (u64, u64),
}

impl BufferedFile {
    pub(super) fn new(path: &Path, file: File, meta: &Metadata, stamp: FileStamp) -> Self {
        let kept = KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
            (n < MOST_KEPT).then_some(n + 1)
        });
        BufferedFile {
            path: path.to_path_buf(),
            file: kept.is_ok().then(|| Kept(file)),
            absolute: std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()),
            len: meta.len(),
            stamp,
            created: meta.created().ok(),
            #[cfg(unix)]
            identity: super::identity(meta),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let opened;
        let file = match &self.file {
            Some(Kept(file)) => file,
            None => {
                opened = self.open_again()?;
                &opened
            }
        };
        read_exact_at(file, offset, out).map_err(|source| {
            if source.kind() == IoKind::UnexpectedEof
                && let Ok(meta) = file.metadata()
            {
                return shrunk(&self.path, meta.len(), self.len).with_source(source);
            }
            Error::io(format!("read {} bytes", out.len()), source)
                .with_path(&self.path)
                .with_offset(offset)
                .with_hint("check the disk or the network connection")
        })
    }

    pub(super) fn verify(&self) -> Result<()> {
        let look = |source| Error::io("look at the file", source).with_path(&self.path);
        let meta = match &self.file {
            Some(Kept(file)) => file.metadata().map_err(look)?,
            None => {
                let meta = std::fs::metadata(&self.absolute).map_err(look)?;
                self.check_same(&meta)?;
                meta
            }
        };
        if meta.len() < self.len {
            return Err(shrunk(&self.path, meta.len(), self.len));
        }
        match &self.file {
            Some(Kept(file)) => open_not_rewritten(&self.absolute, file, &self.stamp, &meta),
            None => not_rewritten(&self.absolute, &self.stamp, &meta),
        }
    }

    fn open_again(&self) -> Result<File> {
        // Asked first: opening a named pipe would wait for a writer for ever.
        let failed = |source| open_error(&self.path, source);
        self.check_same(&std::fs::metadata(&self.absolute).map_err(failed)?)?;
        let file = File::open(&self.absolute).map_err(failed)?;
        self.check_same(&file.metadata().map_err(failed)?)?;
        Ok(file)
    }

    /// Confirms that what is at the path now is the file that was opened.
    fn check_same(&self, present: &Metadata) -> Result<()> {
        let created = self.created.zip(present.created().ok());
        let same = present.is_file() && created.is_none_or(|(was, now)| was == now);
        #[cfg(unix)]
        let same = same && super::identity(present) == self.identity;
        if same {
            return Ok(());
        }
        let what = if present.is_file() { "another file" } else { "what is not a file" };
        Err(Error::bad_file(format!("{what} took its place since it was opened"))
            .with_path(&self.path)
            .with_hint("do not replace files while they are read; open them again"))
    }
}

#[cfg(unix)]
fn read_exact_at(file: &File, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(windows)]
fn read_exact_at(file: &File, mut offset: u64, mut out: &mut [u8]) -> std::io::Result<()> {
    while !out.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, out, offset) {
            Ok(0) => return Err(IoKind::UnexpectedEof.into()),
            Ok(n) => {
                out = out.get_mut(n..).unwrap_or_default();
                offset += n as u64;
            }
            Err(source) if source.kind() == IoKind::Interrupted => {}
            Err(source) => return Err(source),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file of sevens of which no handle is kept.
    fn reopened(path: &Path) -> BufferedFile {
        std::fs::write(path, [7; 100]).unwrap();
        let file = File::open(path).unwrap();
        let meta = file.metadata().unwrap();
        let stamp = crate::access::storage::stamp::of_meta(&meta);
        BufferedFile { file: None, ..BufferedFile::new(path, file, &meta, stamp) }
    }

    #[test]
    fn a_file_that_is_opened_again_is_the_one_that_was_opened() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data.bin");
        let file = reopened(&path);
        let mut out = [0; 10];
        file.read_at(90, &mut out).unwrap();
        assert_eq!(out, [7; 10]);
        file.verify().unwrap();
        // Times of files are those of a clock that ticks slowly.
        std::thread::sleep(std::time::Duration::from_millis(20));
        // Its inode is free now, and may be that of the next file.
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, [1; 200]).unwrap();
        for error in [file.read_at(0, &mut out).unwrap_err(), file.verify().unwrap_err()] {
            assert!(error.to_string().contains("another file took its place"), "{error}");
            assert_eq!(error.path(), Some(path.as_path()));
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_in_place_of_a_file_is_not_waited_for() {
        use std::os::unix::ffi::OsStrExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data.bin");
        let file = reopened(&path);
        std::fs::remove_file(&path).unwrap();
        let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
        // SAFETY: the name ends with a zero byte.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        let (said, heard) = std::sync::mpsc::channel();
        std::thread::spawn(move || said.send(file.read_at(0, &mut [0; 10])));
        let result = heard.recv_timeout(std::time::Duration::from_secs(20));
        let error = result.expect("it waits for a writer").unwrap_err();
        assert!(error.to_string().contains("what is not a file took its place"), "{error}");
    }
}
