//! Chunks in files of their own, or in files of several; the files in folders, or in an archive.

use super::meta::Meta;
use super::place::Place;
use crate::archive::Archive;
use crate::chunked::{ChunkStore, Stored};
use framefold_core::{Error, Result};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The index of a file with more chunks than this is no index.
const MOST_CHUNKS: usize = 1 << 24;
/// Files that were deflated in an archive and decode to more are refused.
const LARGEST_DECODED: u64 = 1 << 31;
/// What the index says of a chunk that was never written.
const ABSENT: u64 = u64::MAX;

/// The chunks of one array.
#[derive(Debug)]
pub(super) struct Folder {
    place: Place,
    meta: Meta,
    /// Chunks along each axis.
    grid: Vec<usize>,
    /// The longest that a stored chunk may be.
    longest: u64,
}

impl Folder {
    pub(super) fn new(place: &Place, meta: Meta) -> Self {
        let grid =
            meta.shape.iter().zip(&meta.chunk).map(|(&n, &chunk)| n.div_ceil(chunk)).collect();
        let cells = framefold_core::checked_product(&meta.chunk).unwrap_or(u64::MAX);
        let size = u64::try_from(meta.dtype.dtype.size()).unwrap_or(u64::MAX);
        // What cannot be compressed grows a little.
        let longest = cells.saturating_mul(size).saturating_mul(2).saturating_add(1 << 16);
        Folder { place: place.clone(), meta, grid, longest }
    }

    /// The place of a chunk in the grid. Chunks are counted in the order of the geometry, which has
    /// axes back to front where chunks are in Fortran order.
    fn place(&self, index: u64) -> Vec<usize> {
        let mut rest = usize::try_from(index).unwrap_or(usize::MAX);
        let mut place = vec![0; self.grid.len()];
        let mut axes: Vec<usize> = (0..self.grid.len()).collect();
        if !self.meta.fortran {
            axes.reverse();
        }
        for axis in axes {
            if let (Some(at), Some(&n)) = (place.get_mut(axis), self.grid.get(axis)) {
                *at = rest % n.max(1);
                rest /= n.max(1);
            }
        }
        place
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
        let Some(shards) = &self.meta.shards else {
            let Some(file) = self.open(&self.name(&place))? else { return Ok(None) };
            let len = file.len();
            return Ok(Some((file, 0..len)));
        };
        let per_file =
            shards.shape.iter().zip(&self.meta.chunk).map(|(outer, inner)| outer / inner);
        let per_file: Vec<usize> = per_file.collect();
        let outer: Vec<usize> = place.iter().zip(&per_file).map(|(at, n)| at / n).collect();
        let within = place.iter().zip(&per_file).fold(0, |flat, (at, n)| flat * n + at % n);
        let n_chunks = per_file.iter().fold(1usize, |product, &n| product.saturating_mul(n));
        let Some(mut file) = self.open(&self.name(&outer))? else { return Ok(None) };
        let (len, path) = (file.len(), self.place.file(&self.name(&outer)));
        if n_chunks > MOST_CHUNKS {
            return Err(
                Error::bad_file(format!("the file should hold {n_chunks} chunks")).with_path(path)
            );
        }
        let index_len = 16 * n_chunks + if shards.checked { 4 } else { 0 };
        let index_bytes = u64::try_from(index_len).unwrap_or(u64::MAX);
        let at_end = shards.at_end;
        let short = || {
            Error::bad_file(format!("the file has {len} bytes, its index alone {index_len}"))
                .with_path(&path)
                .with_hint("the file is cut short; copy it again")
        };
        let start = if at_end { len.checked_sub(index_bytes).ok_or_else(short)? } else { 0 };
        let mut index = vec![0; index_len];
        file.read(start, &mut index)?;
        if shards.checked {
            crate::codec::check_crc32c(&index).map_err(|error| error.with_path(&path))?;
        }
        let word = |i: usize| {
            let bytes = index.get(8 * i..).and_then(|bytes| bytes.first_chunk());
            bytes.map_or(ABSENT, |bytes| u64::from_le_bytes(*bytes))
        };
        let (offset, n) = (word(2 * within), word(2 * within + 1));
        if (offset, n) == (ABSENT, ABSENT) {
            return Ok(None);
        }
        match offset.checked_add(n).filter(|&end| end <= len) {
            Some(end) => Ok(Some((file, offset..end))),
            None => Err(Error::bad_file(format!(
                "a chunk of {n} bytes should begin at byte {offset}, but the file has {len}"
            ))
            .with_path(path)),
        }
    }
}

impl Folder {
    fn archive(&self) -> Option<&Arc<Archive>> {
        match &self.place {
            Place::Folder(_) => None,
            Place::Archive(archive, _) => Some(archive),
        }
    }

    /// The place of the file that holds a chunk in the grid of files.
    fn place_of_file(&self, index: u64) -> Vec<usize> {
        let place = self.place(index);
        let per_file = self.meta.shards.as_ref().map(|shards| &shards.shape);
        per_file.map_or(place.clone(), |shape| {
            let lens = shape.iter().zip(&self.meta.chunk).map(|(outer, inner)| outer / inner);
            place.iter().zip(lens).map(|(at, n)| at / n.max(1)).collect()
        })
    }

    /// Opens a file; `None` if it was never written.
    fn open(&self, name: &str) -> Result<Option<Opened<'_>>> {
        let (archive, prefix) = match &self.place {
            Place::Archive(archive, prefix) => (archive, prefix),
            Place::Folder(folder) => {
                let path = folder.join(name);
                let found = open(&path)?;
                return Ok(found.map(|(file, len)| Opened::File(path, file, len)));
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
        let shards = self.meta.shards.as_ref().map_or(1, |shards| {
            let lens =
                shards.shape.iter().zip(&self.meta.chunk).map(|(outer, inner)| outer / inner);
            lens.fold(1u64, |n, len| n.saturating_mul(u64::try_from(len).unwrap_or(u64::MAX)))
        });
        self.longest.saturating_mul(shards).min(LARGEST_DECODED)
    }
}

/// A file that holds chunks.
enum Opened<'a> {
    File(PathBuf, File, u64),
    /// Bytes of an archive.
    Member(&'a Archive, Range<u64>),
    /// Bytes that were decoded from an archive.
    Decoded(&'a Archive, Vec<u8>),
}

impl Opened<'_> {
    fn len(&self) -> u64 {
        match self {
            Opened::File(_, _, len) => *len,
            Opened::Member(_, place) => place.end - place.start,
            Opened::Decoded(_, bytes) => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
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
                return Ok(Some(Stored { bytes, mask: 0 }));
            }
        }
        if buffer.len() < n {
            buffer.resize(n, 0);
        }
        file.read(range.start, &mut buffer[..n])?;
        Ok(Some(Stored { bytes: &buffer[..n], mask: 0 }))
    }

    fn locate(&self, index: u64, error: Error) -> Error {
        error.with_path(self.place.file(&self.name(&self.place_of_file(index))))
    }

    fn prepare(&self) -> Result<()> {
        self.archive().map_or(Ok(()), |archive| archive.storage().prepare())
    }

    fn verify(&self) -> Result<()> {
        self.archive().map_or(Ok(()), |archive| archive.storage().verify())
    }
}

/// Opens the file of a chunk; `None` if the chunk was never written.
fn open(path: &Path) -> Result<Option<(File, u64)>> {
    let failed = |error| Error::io("open the file of a chunk", error).with_path(path);
    // Asked first: opening a named pipe would wait for a writer for ever.
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() => {
            File::open(path).map(|f| Some((f, meta.len()))).map_err(failed)
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
