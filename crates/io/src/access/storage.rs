//! Byte access to one file, or to memory that looks like one.
//!
//! Readers see a file through [`Storage`] alone. Its length is that at open, for ever: a file that
//! grows is read as it was. A file that shrinks is noticed when the missing part is read
//! (buffered), or by [`Storage::verify`] (mapped); neither crashes the process. One that is written to
//! in place is noticed by its time of change, or, if it has grown as well, by its old ends.

mod buffered;
#[cfg(unix)]
mod guard;
mod mapped;
#[cfg(unix)]
mod registry;
pub(crate) mod stamp;
#[cfg(test)]
mod tests;

use crate::options::Backend;
use buffered::BufferedFile;
pub use framefold_core::SharedBytes;
use framefold_core::{Error, FileStamp, Owner, Result};
use mapped::MappedFile;
use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::fs::{File, Metadata};
use std::io::ErrorKind as IoKind;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Byte access to one file, or to shared memory. Clones share one mapping or file handle.
#[derive(Clone)]
pub struct Storage(Arc<Kind>);

enum Kind {
    Mapped(MappedFile),
    Buffered(BufferedFile),
    Shared {
        bytes: Arc<dyn SharedBytes>,
        len: u64,
        path: Option<PathBuf>,
    },
    /// Bytes within another storage.
    Part {
        whole: Storage,
        start: u64,
        len: u64,
    },
}

/// All that [`Storage::bytes`] lends.
impl SharedBytes for Kind {
    fn bytes(&self) -> &[u8] {
        match self {
            Kind::Mapped(file) => file.bytes(),
            Kind::Buffered(_) => &[],
            Kind::Shared { bytes, .. } => bytes.bytes(),
            Kind::Part { whole, start, len } => {
                let end = start.saturating_add(*len);
                whole.bytes(*start..end).unwrap_or_default()
            }
        }
    }
}

impl Storage {
    /// Opens a regular file.
    ///
    /// # Errors
    /// `Io` if the file is missing or unreadable, `InvalidArgument` if it is a directory or
    /// another thing that is not a file.
    pub fn open(path: impl AsRef<Path>, backend: Backend) -> Result<Self> {
        let path = path.as_ref();
        let (file, meta) = open_regular(path)?;
        let stamp = note(path, &file, &meta);
        Ok(Storage(Arc::new(match backend {
            Backend::Mmap if MappedFile::is_room() => {
                Kind::Mapped(MappedFile::try_new(path, &file, &meta, stamp)?)
            }
            Backend::Mmap | Backend::Buffered => {
                Kind::Buffered(BufferedFile::new(path, file, &meta, stamp))
            }
        })))
    }

    /// Wraps memory.
    pub fn shared(bytes: Arc<dyn SharedBytes>) -> Self {
        let len = u64::try_from(bytes.bytes().len()).unwrap_or(u64::MAX);
        Storage(Arc::new(Kind::Shared { bytes, len, path: None }))
    }

    /// Wraps what was decoded from a file.
    pub(crate) fn shared_of(bytes: Arc<dyn SharedBytes>, path: &Path) -> Self {
        let len = u64::try_from(bytes.bytes().len()).unwrap_or(u64::MAX);
        Storage(Arc::new(Kind::Shared { bytes, len, path: Some(path.to_path_buf()) }))
    }

    /// Part of this storage, as a storage. What leaves it is cut off.
    pub(crate) fn part(&self, range: Range<u64>) -> Self {
        let start = range.start.min(self.len());
        let len = range.end.min(self.len()).saturating_sub(start);
        Storage(Arc::new(Kind::Part { whole: self.clone(), start, len }))
    }

    /// The length in bytes when it was opened.
    pub fn len(&self) -> u64 {
        match &*self.0 {
            Kind::Mapped(file) => file.len(),
            Kind::Buffered(file) => file.len(),
            Kind::Shared { len, .. } | Kind::Part { len, .. } => *len,
        }
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The file; `None` for memory.
    pub fn path(&self) -> Option<&Path> {
        match &*self.0 {
            Kind::Mapped(file) => Some(file.path()),
            Kind::Buffered(file) => Some(file.path()),
            Kind::Shared { path, .. } => path.as_deref(),
            Kind::Part { whole, .. } => whole.path(),
        }
    }

    /// Whether [`Storage::bytes`] can lend memory.
    pub fn lends(&self) -> bool {
        match &*self.0 {
            Kind::Mapped(_) | Kind::Shared { .. } => true,
            Kind::Buffered(_) => false,
            Kind::Part { whole, .. } => whole.lends(),
        }
    }

    /// Whether it is a mapped file, which begins with a page wherever it is mapped.
    pub(crate) fn is_mapped(&self) -> bool {
        match &*self.0 {
            Kind::Mapped(_) => true,
            Kind::Buffered(_) | Kind::Shared { .. } => false,
            Kind::Part { whole, .. } => whole.is_mapped(),
        }
    }

    /// The bytes of `range` where they lie; `None` if it leaves the file, or the file is buffered.
    ///
    /// If the file shrinks meanwhile, what is missing reads as zeros, and [`Storage::verify`] says
    /// so afterwards.
    pub fn bytes(&self, range: Range<u64>) -> Option<&[u8]> {
        let all = match &*self.0 {
            Kind::Mapped(file) => file.bytes(),
            Kind::Buffered(_) => return None,
            Kind::Shared { bytes, .. } => bytes.bytes(),
            Kind::Part { whole, start, len } => {
                let within = range.end <= *len;
                let range = start.checked_add(range.start)?..start.checked_add(range.end)?;
                return if within { whole.bytes(range) } else { None };
            }
        };
        all.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
    }

    /// Has Linux read `range` of a mapped file, and nothing around it, before it is looked at. Around each page
    /// that is missing then, it reads megabytes, on some machines.
    pub(crate) fn will_need(&self, range: Range<u64>) {
        match &*self.0 {
            Kind::Mapped(file) => file.will_need(range),
            Kind::Part { whole, start, .. } => {
                whole.will_need(start.saturating_add(range.start)..start.saturating_add(range.end));
            }
            Kind::Buffered(_) | Kind::Shared { .. } => {}
        }
    }

    /// Fills `out` with the bytes from `offset` on.
    ///
    /// # Errors
    /// `BadFile` if the file ends (or ended when it was opened) before `out` is full; `Io`.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = u64::try_from(out.len()).ok().and_then(|len| offset.checked_add(len));
        let Some(end) = end.filter(|&end| end <= self.len()) else {
            let error = Error::bad_file(format!(
                "{} bytes were asked for, but there are only {} bytes in all",
                out.len(),
                self.len()
            ));
            return Err(self.locate(error).with_offset(offset));
        };
        match &*self.0 {
            Kind::Buffered(file) => return file.read_at(offset, out),
            Kind::Part { whole, start, .. } => return whole.read_at(start + offset, out),
            Kind::Mapped(_) | Kind::Shared { .. } => {}
        }
        match self.bytes(offset..end) {
            Some(bytes) => {
                out.copy_from_slice(bytes);
                Ok(())
            }
            None => Err(self.locate(Error::bug("shared memory became shorter"))),
        }
    }

    /// Keeps the bytes lent by [`Storage::bytes`] where they are while a clone of it is held.
    pub fn owner(&self) -> Owner {
        self.0.clone()
    }

    /// Readies the file for reading by a new worker: whatever the process did since the last
    /// call, faults in mapped files end in [`Storage::verify`] again.
    ///
    /// # Errors
    /// `Io` if the system refuses a signal handler.
    pub(crate) fn prepare(&self) -> Result<()> {
        match &*self.0 {
            Kind::Mapped(file) => file.prepare(),
            Kind::Buffered(_) | Kind::Shared { .. } => Ok(()),
            Kind::Part { whole, .. } => whole.prepare(),
        }
    }

    /// Confirms that everything read so far was in the file.
    ///
    /// # Errors
    /// `BadFile` that names the file, its present length and that at open, if it shrank; `Io` if
    /// the disk or network failed under a mapping.
    pub fn verify(&self) -> Result<()> {
        match &*self.0 {
            Kind::Mapped(file) => file.verify(),
            Kind::Buffered(file) => file.verify(),
            Kind::Shared { .. } => Ok(()),
            Kind::Part { whole, .. } => whole.verify(),
        }
    }

    /// Adds the path to an error, if there is one.
    pub(crate) fn locate(&self, error: Error) -> Error {
        match self.path() {
            Some(path) => error.with_path(path),
            None => error,
        }
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &*self.0 {
            Kind::Mapped(_) => "mapped",
            Kind::Buffered(_) => "buffered",
            Kind::Shared { .. } => "shared memory",
            Kind::Part { .. } => "part of a file",
        };
        write!(f, "Storage({kind}, {} bytes, {:?})", self.len(), self.path())
    }
}

thread_local! {
    /// The files that were opened since this was begun, if it was.
    static OPENED: RefCell<Option<Record>> = const { RefCell::new(None) };
}

/// The files that were opened, in the order in which they were.
#[derive(Default)]
struct Record {
    files: Vec<(PathBuf, FileStamp)>,
    /// Where each of them is in the list.
    places: HashMap<PathBuf, usize>,
    /// One that was another file when it was opened again. One that had grown is the same.
    changed: Option<Error>,
}

impl Record {
    fn add(&mut self, path: PathBuf, stamp: FileStamp) {
        match self.places.entry(path) {
            Entry::Vacant(place) => {
                self.files.push((place.key().clone(), stamp));
                place.insert(self.files.len() - 1);
            }
            Entry::Occupied(place) => {
                let known = self.files.get(*place.get());
                let same = known.map_or(Ok(()), |(path, was)| {
                    stamp::compare(path, was, &stamp::as_long(path, was, stamp))
                });
                if let Err(error) = same {
                    self.changed.get_or_insert(error);
                }
            }
        }
    }
}

/// Does some work, and tells which files this thread opened for it, in that order.
///
/// # Errors
/// Those of the work; `BadFile` if a file was opened twice, and was another one the second time.
pub(crate) fn recorded<T>(
    work: impl FnOnce() -> Result<T>,
) -> Result<(T, Vec<(PathBuf, FileStamp)>)> {
    let outer = OPENED.replace(Some(Record::default()));
    let done = work();
    let opened = OPENED.replace(outer).unwrap_or_default();
    OPENED.with_borrow_mut(|outer| {
        if let Some(outer) = outer {
            for (path, stamp) in &opened.files {
                outer.add(path.clone(), *stamp);
            }
        }
    });
    match opened.changed {
        Some(error) => Err(error),
        None => Ok((done?, opened.files)),
    }
}

/// Takes down that this file, which was opened, describes chunks in files of their own.
pub(crate) fn note_chunks(path: &Path) {
    OPENED.with_borrow_mut(|opened| {
        let Some(Record { files, places, .. }) = opened else { return };
        let place = places.get(&absolute(path));
        if let Some((_, stamp)) = place.and_then(|&place| files.get_mut(place)) {
            stamp.has_chunks = true;
        }
    });
}

/// A path that stays the same in another current folder.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

/// Takes down that a file was opened, and what it was.
fn note(path: &Path, file: &File, meta: &Metadata) -> FileStamp {
    OPENED.with_borrow_mut(|opened| match opened {
        Some(opened) => {
            let stamp = stamp::of(file, meta, opened.files.len() < MOST_WITH_ENDS);
            opened.add(absolute(path), stamp);
            stamp
        }
        None => stamp::of(file, meta, false),
    })
}

/// Of so many files of a data set, the first and last bytes are looked at: each may cost a moment.
const MOST_WITH_ENDS: usize = 64;

/// Opens a file for reading and makes sure that it is one.
fn open_regular(path: &Path) -> Result<(File, Metadata)> {
    // Asked first: opening a named pipe would wait for a writer for ever.
    let meta = std::fs::metadata(path).map_err(|source| open_error(path, source))?;
    if meta.is_dir() {
        return Err(Error::invalid("this is a directory, not a file")
            .with_path(path)
            .with_hint("name one of the files in it"));
    }
    if !meta.is_file() {
        return Err(Error::invalid("this is not a regular file")
            .with_path(path)
            .with_hint("copy its contents to a file first"));
    }
    let file = File::open(path).map_err(|source| open_error(path, source))?;
    let meta = file.metadata().map_err(|source| open_error(path, source))?;
    Ok((file, meta))
}

/// What to do about a path at which there is nothing.
pub(crate) fn check_path(path: &Path) -> &'static str {
    // `~`, `~/scan.npy` and `~ada/scan.npy`, but not the file `~scan.npy`.
    let mut names = path.iter();
    let first = names.next().unwrap_or_default();
    if first == "~" || first.as_encoded_bytes().starts_with(b"~") && names.next().is_some() {
        return "give the path of your home folder in full, as os.path.expanduser does in Python: a shell alone \
                knows what '~' stands for";
    }
    "check the path; relative paths start at the current directory"
}

fn open_error(path: &Path, source: std::io::Error) -> Error {
    let hint = match source.kind() {
        IoKind::NotFound
        | IoKind::NotADirectory
        | IoKind::InvalidFilename
        | IoKind::InvalidInput => check_path(path),
        IoKind::PermissionDenied => "ask for permission to read it, or copy it",
        _ if too_many_files(&source) => {
            "raise the limit on open files (ulimit -n), or use the mmap backend"
        }
        _ if is_circle_of_links(&source) => {
            "the links lead back to themselves; name the file itself"
        }
        _ => "check the disk or the network connection",
    };
    Error::io("open the file", source).with_path(path).with_hint(hint)
}

#[cfg(unix)]
fn too_many_files(source: &std::io::Error) -> bool {
    matches!(source.raw_os_error(), Some(libc::EMFILE | libc::ENFILE))
}

#[cfg(unix)]
fn is_circle_of_links(source: &std::io::Error) -> bool {
    source.raw_os_error() == Some(libc::ELOOP)
}

#[cfg(not(unix))]
fn is_circle_of_links(_: &std::io::Error) -> bool {
    false
}

#[cfg(not(unix))]
fn too_many_files(_: &std::io::Error) -> bool {
    false
}

/// The error for a file that lost bytes after it was opened.
fn shrunk(path: &Path, present_len: u64, len_at_open: u64) -> Error {
    Error::bad_file(format!(
        "the file was {len_at_open} bytes long when it was opened and is {present_len} bytes long now"
    ))
    .with_path(path)
    .with_offset(present_len)
    .with_hint("do not overwrite or truncate files while they are read; open it again")
}

/// Tells files apart, whatever their names.
#[cfg(unix)]
pub(crate) fn identity(meta: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (meta.dev(), meta.ino())
}
