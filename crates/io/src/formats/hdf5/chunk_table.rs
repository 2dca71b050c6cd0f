//! Where the chunks of a data set are in the file.

use super::failures::DAMAGED;
use super::library::Opened;
use crate::access::Storage;
use crate::readers::chunked::{ChunkStore, Stored};
use framefold_core::{Error, Result, checked_product, memory};
use hdf5_reader::chunk_index::ChunkEntry;
use std::collections::HashMap;

/// The chunks of one data set.
#[derive(Debug)]
pub(super) struct ChunkTable {
    storage: Storage,
    places: HashMap<u64, Chunk>,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    offset: u64,
    len: u64,
    mask: u32,
}

/// What a data set says of its chunks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid<'a> {
    pub(super) shape: &'a [usize],
    /// The largest shape that the array may get, if it is said.
    pub(super) room: Option<&'a [u64]>,
    pub(super) chunk: &'a [usize],
    /// Bytes of an element.
    pub(super) size: usize,
    /// Whether chunks went through filters.
    pub(super) is_filtered: bool,
}

impl ChunkTable {
    /// # Errors
    /// `BadFile` if a chunk is not on the grid, or not in the file; if two are at the same place; and if
    /// one has another length than its pixels, where those went through no filter.
    pub(super) fn try_new(entries: &[ChunkEntry], grid: &Grid<'_>, owner: &Opened) -> Result<Self> {
        let Grid { shape, room, chunk, size, is_filtered } = *grid;
        let whole = checked_product(chunk).and_then(|n| n.checked_mul(u64::try_from(size).ok()?));
        let damaged = |entry: &ChunkEntry, what: &str| {
            // Some lists count the bytes of an element as an axis.
            let at = entry.offsets.get(..shape.len()).unwrap_or(&entry.offsets);
            let message = format!("the list of chunks has one at {at:?} {what}");
            Error::bad_file(message).with_hint(DAMAGED)
        };
        let mut places = HashMap::new();
        places.try_reserve(entries.len()).map_err(|_| {
            Error::limit(format!("there is no memory for a table of {} chunks", entries.len()))
        })?;
        'entries: for entry in entries {
            let mut number = 0u64;
            for (axis, (&len, &chunk)) in shape.iter().zip(chunk).enumerate() {
                let offset = entry.offsets.get(axis).and_then(|&o| usize::try_from(o).ok());
                let offset =
                    offset.filter(|offset| offset.is_multiple_of(chunk)).ok_or_else(|| {
                        let at = &entry.offsets;
                        Error::bad_file(format!(
                            "a chunk at {at:?} is not on the grid of {chunk:?}"
                        ))
                    })?;
                if room
                    .is_some_and(|room| room.get(axis).is_some_and(|&most| offset as u64 >= most))
                {
                    return Err(damaged(entry, "behind the largest shape of the array"));
                }
                if offset >= len {
                    // Left over from when the array was larger.
                    continue 'entries;
                }
                let n_chunks = u64::try_from(len.div_ceil(chunk)).unwrap_or(u64::MAX);
                let at = u64::try_from(offset / chunk).unwrap_or(u64::MAX);
                number = number
                    .checked_mul(n_chunks)
                    .and_then(|number| number.checked_add(at))
                    .ok_or_else(|| Error::bad_file("there are too many chunks"))?;
            }
            if owner.is_nowhere(entry.address) {
                continue;
            }
            let len = if entry.size == 0 { whole.unwrap_or(u64::MAX) } else { entry.size };
            let offset = entry.address.checked_add(owner.base());
            let end = offset.and_then(|offset| offset.checked_add(len));
            match (offset, end) {
                (Some(offset), Some(end)) if end <= owner.storage.len() => {
                    if !is_filtered && Some(len) != whole {
                        let needed = whole.unwrap_or(u64::MAX);
                        return Err(damaged(
                            entry,
                            &format!("of {len} bytes, where its pixels take {needed}"),
                        ));
                    }
                    let chunk = Chunk { offset, len, mask: entry.filter_mask };
                    if places.insert(number, chunk).is_some() {
                        return Err(damaged(entry, "that is there a second time"));
                    }
                }
                _ => {
                    return Err(Error::bad_file(format!(
                        "the chunk at {:?} should have {len} bytes from byte {} on, but the file \
                         has {} bytes",
                        entry.offsets,
                        entry.address.saturating_add(owner.base()),
                        owner.storage.len()
                    ))
                    .with_hint(DAMAGED));
                }
            }
        }
        Ok(ChunkTable { storage: owner.storage.clone(), places })
    }

    /// Notes that chunks which reach beyond the array went through no filter.
    pub(super) fn leave_edges(&mut self, shape: &[usize], chunk: &[usize]) {
        for (&number, place) in &mut self.places {
            let mut rest = number;
            let at_edge = shape.iter().zip(chunk).rev().fold(false, |edge, (&len, &chunk)| {
                let n_chunks = u64::try_from(len.div_ceil(chunk)).unwrap_or(u64::MAX).max(1);
                let last = rest % n_chunks == n_chunks - 1;
                rest /= n_chunks;
                edge || last && !len.is_multiple_of(chunk)
            });
            if at_edge {
                place.mask = u32::MAX;
            }
        }
    }

    /// How many chunks were written.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The bytes of all of them.
    pub(super) fn stored_bytes(&self) -> u64 {
        self.places.values().fold(0, |sum, chunk| sum.saturating_add(chunk.len))
    }
}

impl ChunkStore for ChunkTable {
    fn fetch<'b>(&'b self, index: u64, buffer: &'b mut Vec<u8>) -> Result<Option<Stored<'b>>> {
        let Some(Chunk { offset, len, mask }) = self.places.get(&index).copied() else {
            return Ok(None);
        };
        if let Some(bytes) = self.storage.bytes(offset..offset.saturating_add(len)) {
            return Ok(Some(Stored { bytes, mask, lent: true }));
        }
        // The length was checked against that of the file.
        let len =
            usize::try_from(len).map_err(|_| Error::limit("a chunk does not fit in memory"))?;
        if buffer.len() < len {
            memory::resize(buffer, len, 0)?;
        }
        let bytes = buffer.get_mut(..len).unwrap_or_default();
        self.storage.read_at(offset, bytes)?;
        Ok(Some(Stored { bytes, mask, lent: false }))
    }

    fn locate(&self, index: u64, error: Error) -> Error {
        let error = self.storage.locate(error);
        match self.places.get(&index) {
            Some(chunk) => error.with_offset(chunk.offset),
            None => error,
        }
    }

    fn prepare(&self) -> Result<()> {
        self.storage.prepare()
    }

    fn verify(&self) -> Result<()> {
        self.storage.verify()
    }
}

/// Of a data set nothing of which was written.
#[derive(Debug)]
pub(super) struct NoChunks;

impl ChunkStore for NoChunks {
    fn fetch<'b>(&'b self, _: u64, _: &'b mut Vec<u8>) -> Result<Option<Stored<'b>>> {
        Ok(None)
    }

    fn locate(&self, _: u64, error: Error) -> Error {
        error
    }

    fn prepare(&self) -> Result<()> {
        Ok(())
    }

    fn verify(&self) -> Result<()> {
        Ok(())
    }
}
