//! A file that is read piece by piece.
//!
//! Of the first few hundred files, handles are kept. Of all further ones, each is opened for every
//! piece that is read, so that a stack of ten thousand files needs no raised limit.

use super::{not_rewritten, open_error, shrunk};
use framefold_core::{Error, Result};
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
    /// When it was written to last.
    modified: Option<SystemTime>,
    #[cfg(unix)]
    identity: (u64, u64),
}

impl BufferedFile {
    pub(super) fn new(path: &Path, file: File, meta: &Metadata) -> Self {
        let kept = KEPT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| {
            (n < MOST_KEPT).then_some(n + 1)
        });
        BufferedFile {
            path: path.to_path_buf(),
            file: kept.is_ok().then(|| Kept(file)),
            absolute: std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()),
            len: meta.len(),
            modified: meta.modified().ok(),
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
        let meta = match &self.file {
            Some(Kept(file)) => file.metadata(),
            None => std::fs::metadata(&self.absolute),
        };
        let meta =
            meta.map_err(|source| Error::io("look at the file", source).with_path(&self.path))?;
        if meta.len() < self.len {
            return Err(shrunk(&self.path, meta.len(), self.len));
        }
        not_rewritten(&self.path, &meta, self.len, self.modified)
    }

    fn open_again(&self) -> Result<File> {
        let file = File::open(&self.absolute).map_err(|source| open_error(&self.path, source))?;
        #[cfg(unix)]
        {
            let meta = file.metadata().map_err(|source| open_error(&self.path, source))?;
            if super::identity(&meta) != self.identity {
                return Err(Error::bad_file("another file took its place since it was opened")
                    .with_path(&self.path)
                    .with_hint("do not replace files while they are read; open them again"));
            }
        }
        Ok(file)
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
                out = &mut out[n..];
                offset += n as u64;
            }
            Err(source) if source.kind() == IoKind::Interrupted => {}
            Err(source) => return Err(source),
        }
    }
    Ok(())
}
