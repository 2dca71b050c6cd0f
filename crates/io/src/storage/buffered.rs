//! A file that is read piece by piece.

use super::shrunk;
use framefold_core::{Error, Result};
use std::fs::File;
use std::io::ErrorKind as IoKind;
use std::path::{Path, PathBuf};

/// A file that is read by position, so that threads can share its handle.
pub(super) struct BufferedFile {
    path: PathBuf,
    file: File,
    len: u64,
}

impl BufferedFile {
    pub(super) fn new(path: &Path, file: File, len: u64) -> Self {
        BufferedFile { path: path.to_path_buf(), file, len }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        read_exact_at(&self.file, offset, out).map_err(|source| {
            if source.kind() == IoKind::UnexpectedEof
                && let Ok(meta) = self.file.metadata()
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
        let meta = self
            .file
            .metadata()
            .map_err(|source| Error::io("look at the file", source).with_path(&self.path))?;
        if meta.len() < self.len { Err(shrunk(&self.path, meta.len(), self.len)) } else { Ok(()) }
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
