//! Chunks in files of their own, or in files of several; the files in folders, or in an archive.

use super::meta::Meta;
use super::place::Place;
use super::shard::{Sharding, Version};
use crate::access::archive::Archive;
use crate::access::storage::stamp::{compare, digest, nanoseconds, of_meta, seen};
use crate::readers::chunked::{ChunkStore, Stored};
use framefold_core::{Error, FileStamp, Result};
use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files that were deflated in an archive and decode to more are refused.
const LARGEST_DECODED: u64 = 1 << 31;

/// What the files of an array's chunks are, together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkFiles {
    /// How many there are; chunks that were never written have none.
    pub(crate) n: u64,
    /// A digest of their places, sizes, and times of change in seconds, as copies keep no more of it.
    pub(crate) of_seconds: u64,
    /// The same with all of the times.
    pub(crate) of_nanoseconds: u64,
    /// How many there can be.
    pub(crate) n_places: u64,
}

/// The chunks of one array.
#[derive(Debug)]
pub(super) struct Folder {
    place: Place,
    meta: Meta,
    /// How chunks are found in files of several.
    sharding: Option<Sharding>,
    /// Chunks along each axis.
    grid: Vec<usize>,
    /// The longest that a stored chunk may be.
    longest: u64,
    /// The file that describes the array, and what it was: it changes with the array.
    description: Option<(PathBuf, FileStamp)>,
    /// Chunks that were written to after this time, in nanoseconds since 1970, are not those of the
    /// array that was opened; `None` if the times of files are those of another clock.
    opened_ns: Option<i128>,
}

impl Folder {
    pub(super) fn new(place: &Place, meta: Meta) -> Self {
        let grid =
            meta.shape.iter().zip(&meta.chunk).map(|(&n, &chunk)| n.div_ceil(chunk)).collect();
        let cells = framefold_core::checked_product(&meta.chunk).unwrap_or(u64::MAX);
        let size = u64::try_from(meta.dtype.dtype.size()).unwrap_or(u64::MAX);
        let widest = meta.pipeline.widest(cells.saturating_mul(size));
        // What cannot be compressed grows a little.
        let longest = widest.saturating_mul(2).saturating_add(1 << 16);
        let sharding = meta.shards.as_ref().map(|shards| Sharding::new(shards, &meta.chunk));
        let (mut description, mut opened_ns) = (None, None);
        if let Place::Folder(folder, _) = place {
            let path = folder.join(meta.file_name());
            description = std::fs::metadata(&path).ok().map(|about| (path, of_meta(&about)));
            opened_ns = has_our_clock(folder).then(seen);
        }
        Folder { place: place.clone(), meta, sharding, grid, longest, description, opened_ns }
    }

    /// The place of a chunk in the grid. Chunks are counted in the order of the geometry, which has
    /// its axes in the order of the chunk.
    fn place(&self, index: u64) -> Vec<usize> {
        place_in(&self.grid, self.meta.order.iter().copied(), index)
    }

    /// The name of the file that holds a chunk.
    fn name(&self, place: &[usize]) -> String {
        let numbers: Vec<String> = place.iter().map(usize::to_string).collect();
        let separator = self.meta.keys.separator.to_string();
        let key = numbers.join(&separator);
        let prefix = self.meta.keys.prefix;
        let key = if prefix.is_empty() { key } else { format!("{prefix}{separator}{key}") };
        if key.is_empty() { "0".to_owned() } else { key }
    }

    /// The file of a chunk, and where in it the chunk lies.
    fn find(&self, index: u64) -> Result<Option<(Opened<'_>, Range<u64>)>> {
        let place = self.place(index);
        let Some(sharding) = &self.sharding else {
            let Some(file) = self.open(&self.name(&place))? else { return Ok(None) };
            let len = file.len();
            return Ok(Some((file, 0..len)));
        };
        let name = self.name(&sharding.file_of(&place));
        let Some(mut file) = self.open(&name)? else { return Ok(None) };
        let found = sharding.find(&place, file.version(), |start, out| file.read(start, out));
        let range = found.map_err(|error| error.with_path(self.place.file(&name)))?;
        Ok(range.map(|range| (file, range)))
    }
}

impl Folder {
    fn archive(&self) -> Option<&Arc<Archive>> {
        match &self.place {
            Place::Folder(..) => None,
            Place::Archive(archive, _) => Some(archive),
        }
    }

    /// What the files of all chunks are, if there is room for no more than `most`, in a folder on a disk
    /// of this machine: on those of others, which all hosts see alike, it would take too long.
    pub(super) fn chunk_files(&self, most: u64) -> Option<ChunkFiles> {
        let (Place::Folder(folder, _), Some(_)) = (&self.place, self.opened_ns) else {
            return None;
        };
        let last: Vec<usize> = self.grid.iter().map(|n| n.saturating_sub(1)).collect();
        let last = self.sharding.as_ref().map_or(last.clone(), |files| files.file_of(&last));
        let lens: Vec<usize> = last.iter().map(|at| at + 1).collect();
        let n_places = framefold_core::checked_product(&lens).filter(|&n| n <= most)?;
        let mut found = ChunkFiles { n: 0, of_seconds: 0, of_nanoseconds: 0, n_places };
        for index in 0..n_places {
            let name = self.name(&place_in(&lens, 0..lens.len(), index));
            let Ok(meta) = std::fs::metadata(folder.join(name)) else { continue };
            let changed = meta.modified().ok().and_then(nanoseconds).unwrap_or(0);
            let with = |before: u64, time: i128| {
                let parts = [before, index, meta.len()].map(u64::to_le_bytes).concat();
                digest([parts, time.to_le_bytes().to_vec()].concat())
            };
            found.n += 1;
            found.of_seconds = with(found.of_seconds, changed.div_euclid(1_000_000_000));
            found.of_nanoseconds = with(found.of_nanoseconds, changed);
        }
        Some(found)
    }

    /// The place of the file that holds a chunk in the grid of files.
    fn place_of_file(&self, index: u64) -> Vec<usize> {
        let place = self.place(index);
        self.sharding.as_ref().map_or(place.clone(), |sharding| sharding.file_of(&place))
    }

    /// Opens a file; `None` if it was never written.
    fn open(&self, name: &str) -> Result<Option<Opened<'_>>> {
        let (archive, prefix) = match &self.place {
            Place::Archive(archive, prefix) => (archive, prefix),
            Place::Folder(folder, around) => {
                let path = folder.join(name);
                around.check(&path)?;
                let Some((file, version, written_ns)) = open(&path)? else { return Ok(None) };
                if written_ns.zip(self.opened_ns).is_some_and(|(ns, opened)| ns > opened) {
                    return Err(changed(
                        "this chunk was written since the array was opened",
                        &path,
                    ));
                }
                return Ok(Some(Opened::File(path, file, version)));
            }
        };
        let name = format!("{prefix}{name}");
        let Some(member) = archive.get(&name) else { return Ok(None) };
        Ok(Some(match archive.in_place(&name, member)? {
            Some(place) => Opened::Member(archive, place),
            None => Opened::Decoded(archive, archive.read(&name, member, self.longest_file())?),
        }))
    }

    /// The longest that a file may be.
    fn longest_file(&self) -> u64 {
        let n_chunks = self.sharding.as_ref().map_or(1, Sharding::n_chunks);
        let shards = u64::try_from(n_chunks).unwrap_or(u64::MAX);
        self.longest.saturating_mul(shards).min(LARGEST_DECODED)
    }
}

/// The place with this number in a grid that is counted by these axes, the last one first.
fn place_in(
    grid: &[usize],
    axes: impl DoubleEndedIterator<Item = usize>,
    index: u64,
) -> Vec<usize> {
    let mut rest = usize::try_from(index).unwrap_or(usize::MAX);
    let mut place = vec![0; grid.len()];
    for axis in axes.rev() {
        if let (Some(at), Some(&n)) = (place.get_mut(axis), grid.get(axis)) {
            *at = rest % n.max(1);
            rest /= n.max(1);
        }
    }
    place
}

/// A file that holds chunks.
enum Opened<'a> {
    File(PathBuf, File, Version),
    /// Bytes of an archive.
    Member(&'a Archive, Range<u64>),
    /// Bytes that were decoded from an archive.
    Decoded(&'a Archive, Vec<u8>),
}

impl Opened<'_> {
    fn len(&self) -> u64 {
        match self {
            Opened::File(_, _, version) => version.len,
            Opened::Member(_, place) => place.end - place.start,
            Opened::Decoded(_, bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        }
    }

    fn version(&self) -> Version {
        match self {
            Opened::File(_, _, version) => *version,
            _ => Version { len: self.len(), changed: None },
        }
    }

    fn read(&mut self, start: u64, out: &mut [u8]) -> Result<()> {
        match self {
            Opened::File(path, file, _) => read_exact(path, file, start, out),
            Opened::Member(archive, place) => {
                archive.storage().part(place.clone()).read_at(start, out)
            }
            Opened::Decoded(archive, bytes) => {
                let from = usize::try_from(start).ok().and_then(|start| bytes.get(start..));
                match from.and_then(|from| from.get(..out.len())) {
                    Some(from) => {
                        out.copy_from_slice(from);
                        Ok(())
                    }
                    None => Err(archive.storage().locate(Error::bad_file(format!(
                        "a file in the archive has {} bytes, but {} from byte {start} on are needed",
                        bytes.len(),
                        out.len()
                    )))),
                }
            }
        }
    }
}

impl ChunkStore for Folder {
    fn fetch<'b>(&'b self, index: u64, buffer: &'b mut Vec<u8>) -> Result<Option<Stored<'b>>> {
        let Some((mut file, range)) = self.find(index)? else { return Ok(None) };
        let len = range.end - range.start;
        let n = usize::try_from(len).ok().filter(|_| len <= self.longest).ok_or_else(|| {
            Error::bad_file(format!(
                "a chunk has {len} bytes, which is more than its shape {:?} can need",
                self.meta.chunk
            ))
            .with_path(self.place.file(&self.name(&self.place_of_file(index))))
        })?;
        if let Opened::Member(archive, place) = &file {
            let start = place.start.saturating_add(range.start);
            if let Some(bytes) = archive.storage().bytes(start..start.saturating_add(len)) {
                return Ok(Some(Stored { bytes, mask: 0, lent: true }));
            }
        }
        if buffer.len() < n {
            buffer.resize(n, 0);
        }
        let bytes = buffer.get_mut(..n).unwrap_or_default();
        file.read(range.start, bytes)?;
        Ok(Some(Stored { bytes, mask: 0, lent: false }))
    }

    fn locate(&self, index: u64, error: Error) -> Error {
        error.with_path(self.place.file(&self.name(&self.place_of_file(index))))
    }

    fn prepare(&self) -> Result<()> {
        self.archive().map_or(Ok(()), |archive| archive.storage().prepare())
    }

    fn verify(&self) -> Result<()> {
        if let Some(archive) = self.archive() {
            return archive.storage().verify();
        }
        // Chunks are opened by name, one by one, so what took the place of the array would be read.
        let Some((path, was)) = &self.description else { return Ok(()) };
        match std::fs::metadata(path) {
            Ok(meta) => compare(path, was, &of_meta(&meta)),
            Err(_) => Err(changed("the array was removed since it was opened", path)),
        }
    }
}

fn changed(what: &str, path: &Path) -> Error {
    Error::bad_file(what)
        .with_path(path)
        .with_hint("open it again to use what it holds now; do not replace or change files in use")
}

/// Whether the times of files in a folder are those of this machine's clock: those on disks of
/// others are of clocks that may differ by more than it takes to write an array and open it.
#[cfg(target_os = "linux")]
fn has_our_clock(folder: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(name) = std::ffi::CString::new(folder.as_os_str().as_bytes()) else { return false };
    // SAFETY: all bytes zero are a value of this struct of integers.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: `name` ends in a zero byte, and `about` is one struct to write to.
    if unsafe { libc::statfs(name.as_ptr(), &raw mut about) } != 0 {
        return false;
    }
    LOCAL.iter().any(|&kind| i128::from(about.f_type) & 0xffff_ffff == i128::from(kind))
}

/// Numbers of file systems on disks and in memory of this machine: ext, XFS, Btrfs, tmpfs,
/// overlayfs, ZFS, F2FS, bcachefs.
#[cfg(target_os = "linux")]
const LOCAL: [u32; 8] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0x0102_1994,
    0x794c_7630,
    0x2fc1_2fc1,
    0xf2f5_2010,
    0xca45_1a4e,
];

#[cfg(not(target_os = "linux"))]
fn has_our_clock(_folder: &Path) -> bool {
    false
}

/// When a file was written to, in nanoseconds since 1970, at the earliest.
///
/// Copies have the time of what they were made from, which may be of a clock that was ahead; the
/// time of the inode is always of the system's clock, but is also that of links made to it.
fn written_ns(meta: &Metadata) -> Option<i128> {
    let written = meta.modified().ok().and_then(nanoseconds)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let inode = i128::from(meta.ctime()) * 1_000_000_000 + i128::from(meta.ctime_nsec());
        Some(written.min(inode))
    }
    #[cfg(not(unix))]
    Some(written)
}

/// Opens the file of a chunk, and tells when it was written; `None` if it never was.
fn open(path: &Path) -> Result<Option<(File, Version, Option<i128>)>> {
    let failed = |error| Error::io("open the file of a chunk", error).with_path(path);
    // Asked first: opening a named pipe would wait for a writer for ever.
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() => {
            let version = Version { len: meta.len(), changed: meta.modified().ok() };
            File::open(path).map(|file| Some((file, version, written_ns(&meta)))).map_err(failed)
        }
        Ok(_) => Err(Error::bad_file("a chunk is not a regular file").with_path(path)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(error)),
    }
}

fn read_exact(path: &Path, file: &mut File, start: u64, out: &mut [u8]) -> Result<()> {
    let done = file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(out));
    done.map_err(|error| {
        Error::io(format!("read {} bytes", out.len()), error).with_path(path).with_offset(start)
    })
}
