//! A file that is mapped into memory.

use super::shrunk;
use super::stamp::not_rewritten;
#[cfg(unix)]
use super::{guard, identity, registry};
use framefold_core::{Error, FileStamp, Result};
use memmap2::Mmap;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many files are mapped at a time; Linux allows about twice as many mappings.
const MOST_MAPPED: usize = 30_000;

/// How many are.
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// Counts one mapping.
struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        MAPPED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A mapped file. Its handle is closed again, so that sets of many files need no raised limit.
pub(super) struct MappedFile {
    path: PathBuf,
    /// The same, whatever becomes the current directory.
    absolute: PathBuf,
    len: u64,
    #[cfg(unix)]
    identity: (u64, u64),
    /// What it was when it was opened.
    stamp: FileStamp,
    /// Declared before `map`, so that it is dropped before it: what is not mapped any more must
    /// not be guarded.
    #[cfg(unix)]
    guarded: Option<registry::Registration>,
    /// `None` for an empty file, which cannot be mapped.
    map: Option<Mmap>,
    _counted: Counted,
}

impl MappedFile {
    /// Whether one more file can be mapped; if not, it has to be read piece by piece.
    pub(super) fn is_room() -> bool {
        MAPPED.load(Ordering::Relaxed) < MOST_MAPPED
    }

    pub(super) fn try_new(
        path: &Path,
        file: &File,
        meta: &Metadata,
        stamp: FileStamp,
    ) -> Result<Self> {
        let map = if meta.len() == 0 { None } else { Some(map(path, file, meta.len())?) };
        #[cfg(unix)]
        let guarded = match &map {
            None => None,
            Some(map) => {
                install_guard(path)?;
                Some(registry::register(map.as_ptr() as usize, map.len()))
            }
        };
        MAPPED.fetch_add(1, Ordering::Relaxed);
        Ok(MappedFile {
            path: path.to_path_buf(),
            absolute: std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()),
            len: meta.len(),
            #[cfg(unix)]
            identity: identity(meta),
            stamp,
            #[cfg(unix)]
            guarded,
            map,
            _counted: Counted,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn bytes(&self) -> &[u8] {
        self.map.as_deref().unwrap_or_default()
    }

    /// Only advice: what the system answers does not matter.
    pub(super) fn will_need(&self, range: Range<u64>) {
        #[cfg(target_os = "linux")]
        if let Some(map) = &self.map {
            let bound = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(map.len());
            let (start, end) = (bound(range.start), bound(range.end));
            if !is_cached(map, start) {
                let len = end.saturating_sub(start);
                let _ = map.advise_range(memmap2::Advice::WillNeed, start, len);
            }
        }
    }

    pub(super) fn prepare(&self) -> Result<()> {
        #[cfg(unix)]
        if self.map.is_some() {
            install_guard(&self.path)?;
        }
        Ok(())
    }

    #[cfg(unix)]
    pub(super) fn verify(&self) -> Result<()> {
        // Whatever lies at the path now matters only if it is still the file that is mapped; a
        // file that was deleted or replaced lives on, whole, for as long as it is mapped.
        let present =
            std::fs::metadata(&self.absolute).ok().filter(|meta| identity(meta) == self.identity);
        let present_len = present.as_ref().map(Metadata::len);
        let damaged = self.guarded.as_ref().is_some_and(registry::Registration::is_damaged);
        match present_len {
            Some(present_len) if present_len < self.len => {
                Err(shrunk(&self.path, present_len, self.len))
            }
            _ if damaged => Err(Error::bad_file(
                "part of the file could not be read: it was truncated, or the disk or network \
                 failed",
            )
            .with_path(&self.path)
            .with_hint("open it again; if it keeps happening, use the buffered backend")),
            _ => present.map_or(Ok(()), |meta| not_rewritten(&self.absolute, &self.stamp, &meta)),
        }
    }

    /// Here the system keeps mapped files from being truncated.
    #[cfg(not(unix))]
    pub(super) fn verify(&self) -> Result<()> {
        match std::fs::metadata(&self.absolute) {
            Ok(meta) if meta.len() < self.len => Err(shrunk(&self.path, meta.len(), self.len)),
            Ok(meta) => not_rewritten(&self.absolute, &self.stamp, &meta),
            Err(_) => Ok(()),
        }
    }
}

/// Whether the page with the byte `at` of a mapped file need not be read from the file any more.
#[cfg(target_os = "linux")]
pub(super) fn is_cached(map: &[u8], at: usize) -> bool {
    let Some(within) = at.checked_rem(guard::page_size()) else { return true };
    let mut cached = 0u8;
    let start = map.as_ptr().wrapping_add(at - within);
    // SAFETY: the system looks a page of the mapping up, which begins with a page, and writes one byte.
    let asked = unsafe { libc::mincore(start.cast_mut().cast(), 1, &raw mut cached) };
    asked == 0 && cached & 1 == 1
}

#[cfg(unix)]
fn install_guard(path: &Path) -> Result<()> {
    guard::ensure_installed().map_err(|source| {
        Error::io("guard the mapped file", source)
            .with_path(path)
            .with_hint("use the buffered backend")
    })
}

fn map(path: &Path, file: &File, len: u64) -> Result<Mmap> {
    let len = usize::try_from(len).map_err(|_| {
        Error::limit(format!("{len} bytes do not fit in the address space"))
            .with_path(path)
            .with_hint("use the buffered backend")
    })?;
    // SAFETY: the mapping is read-only. Another process may change or truncate the file, as with
    // every mapping: changed bytes are plain data, of which every pattern is valid, and missing
    // ones are replaced by zeros by the guard and reported by `verify`.
    unsafe { memmap2::MmapOptions::new().len(len).map(file) }.map_err(|source| {
        Error::io("map the file", source).with_path(path).with_hint("use the buffered backend")
    })
}
