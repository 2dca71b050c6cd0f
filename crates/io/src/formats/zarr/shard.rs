//! Files that hold several chunks each: where each of them is, by the index of the file.
//!
//! An index is read once and kept, so that chunks of a file that are asked for one after the other
//! cost no more than those in files of their own. Few are kept at a time.

use super::meta::Shards;
use framefold_core::{Error, Result};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The index of a file with more chunks than this is no index.
const MOST_CHUNKS: usize = 1 << 24;
/// What the index says of a chunk that was never written.
const ABSENT: u64 = u64::MAX;
/// So many indexes are kept, if they take no more than so many bytes together; one is in any case.
const MOST_KEPT: usize = 16;
const MOST_KEPT_BYTES: usize = 32 << 20;

/// How a chunk is found in a file of several.
#[derive(Clone, Debug)]
pub(super) struct Sharding {
    /// Chunks in a file along each axis.
    per_file: Vec<usize>,
    n_chunks: usize,
    at_end: bool,
    checked: bool,
    kept: Arc<Mutex<Vec<Kept>>>,
}

/// The index of a file.
#[derive(Debug)]
struct Kept {
    file: Vec<usize>,
    version: Version,
    index: Arc<Vec<u8>>,
}

/// Tells whether a file is still the one that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) len: u64,
    pub(super) changed: Option<SystemTime>,
}

impl Sharding {
    pub(super) fn new(shards: &Shards, chunk: &[usize]) -> Self {
        let per_file = shards.shape.iter().zip(chunk).map(|(outer, inner)| outer / inner.max(&1));
        let per_file: Vec<usize> = per_file.map(|n| n.max(1)).collect();
        Sharding {
            n_chunks: per_file.iter().fold(1, |product: usize, &n| product.saturating_mul(n)),
            per_file,
            at_end: shards.at_end,
            checked: shards.checked,
            kept: Arc::default(),
        }
    }

    /// The place of the file that holds a chunk in the grid of files.
    pub(super) fn file_of(&self, place: &[usize]) -> Vec<usize> {
        place.iter().zip(&self.per_file).map(|(at, n)| at / n).collect()
    }

    /// The number of chunks in a file.
    pub(super) fn n_chunks(&self) -> usize {
        self.n_chunks
    }

    /// Where in its file a chunk is; `None` if it was never written. `read` fills memory from a
    /// place in the file on.
    ///
    /// # Errors
    /// `BadFile` if the file cannot hold its index, or what that says; those of `read`.
    pub(super) fn find(
        &self,
        place: &[usize],
        version: Version,
        read: impl FnOnce(u64, &mut [u8]) -> Result<()>,
    ) -> Result<Option<Range<u64>>> {
        let index = self.index(&self.file_of(place), version, read)?;
        // Less than the number of chunks, which has a limit.
        let within = place.iter().zip(&self.per_file).fold(0, |flat, (at, n)| flat * n + at % n);
        let word = |i: usize| {
            let bytes = index.get(8 * i..).and_then(|bytes| bytes.first_chunk());
            bytes.map_or(ABSENT, |bytes| u64::from_le_bytes(*bytes))
        };
        let (offset, n) = (word(2 * within), word(2 * within + 1));
        if (offset, n) == (ABSENT, ABSENT) {
            return Ok(None);
        }
        let end = offset.checked_add(n).filter(|&end| end <= version.len);
        end.map(|end| Some(offset..end)).ok_or_else(|| {
            Error::bad_file(format!(
                "a chunk of {n} bytes should begin at byte {offset}, but the file has {}",
                version.len
            ))
        })
    }

    /// The index of a file, read unless it is at hand.
    fn index(
        &self,
        file: &[usize],
        version: Version,
        read: impl FnOnce(u64, &mut [u8]) -> Result<()>,
    ) -> Result<Arc<Vec<u8>>> {
        let is_it = |kept: &Kept| kept.file == file && kept.version == version;
        {
            let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(at) = kept.iter().position(is_it)
                && let Some(from) = kept.get_mut(at..)
            {
                // The one that was used last is at the end.
                from.rotate_left(1);
                return Ok(kept.last().map(|kept| kept.index.clone()).unwrap_or_default());
            }
        }
        if self.n_chunks > MOST_CHUNKS {
            return Err(Error::bad_file(format!("the file should hold {} chunks", self.n_chunks)));
        }
        let len = 16 * self.n_chunks + if self.checked { 4 } else { 0 };
        let before = u64::try_from(len).ok().and_then(|len| version.len.checked_sub(len));
        let before = before.ok_or_else(|| {
            Error::bad_file(format!("the file has {} bytes, its index alone {len}", version.len))
                .with_hint("the file is cut short or damaged; copy it again")
        })?;
        let mut index = vec![0; len];
        read(if self.at_end { before } else { 0 }, &mut index)?;
        if self.checked {
            crate::codec::check_crc32c(&index)?;
        }
        let index = Arc::new(index);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.file != file);
        kept.push(Kept { file: file.to_vec(), version, index: index.clone() });
        let most = MOST_KEPT.min(MOST_KEPT_BYTES / len.max(1)).max(1);
        let surplus = kept.len().saturating_sub(most);
        kept.drain(..surplus);
        Ok(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn sharding(at_end: bool) -> Sharding {
        let shards = Shards { shape: vec![4, 6], at_end, checked: false };
        Sharding::new(&shards, &[2, 2])
    }

    #[test]
    fn an_index_is_read_once_until_the_file_changes() {
        let sharding = sharding(true);
        let n_read = Cell::new(0);
        let find = |place: &[usize], len| {
            let read = |start: u64, out: &mut [u8]| {
                assert_eq!((start, out.len()), (len - 96, 96));
                n_read.set(n_read.get() + 1);
                // Chunk i is the i-th byte; the last one was never written.
                for (i, pair) in out.chunks_mut(16).enumerate() {
                    pair[0] = i as u8;
                    pair[8] = 1;
                }
                out[80..].fill(0xFF);
                Ok(())
            };
            sharding.find(place, Version { len, changed: None }, read).unwrap()
        };
        assert_eq!(find(&[0, 0], 200), Some(0..1));
        assert_eq!(find(&[1, 0], 200), Some(3..4));
        assert_eq!(find(&[1, 2], 200), None);
        assert_eq!(n_read.get(), 1);
        // Other files, and this one with another length.
        assert_eq!(find(&[3, 3], 200), Some(3..4));
        assert_eq!(find(&[1, 1], 300), Some(4..5));
        assert_eq!(find(&[2, 4], 200), Some(1..2));
        assert_eq!(n_read.get(), 3);
        // So many that the first ones are dropped.
        for n in 0..20 {
            find(&[2 * n, 0], 200);
        }
        assert_eq!(sharding.kept.lock().unwrap().len(), MOST_KEPT);
        let before = n_read.get();
        find(&[38, 1], 200);
        assert_eq!(n_read.get(), before);
    }

    #[test]
    fn files_that_cannot_hold_their_index_are_not_read() {
        for at_end in [false, true] {
            let read = |_: u64, _: &mut [u8]| -> Result<()> { panic!("nothing to read") };
            let version = Version { len: 95, changed: None };
            let error = sharding(at_end).find(&[0, 0], version, read).unwrap_err();
            assert!(error.to_string().contains("95 bytes"), "{error}");
        }
    }

    #[test]
    fn files_of_more_chunks_than_can_be_counted_are_refused() {
        let shards = Shards { shape: vec![usize::MAX; 2], at_end: true, checked: false };
        let read = |_: u64, _: &mut [u8]| -> Result<()> { panic!("nothing to read") };
        let version = Version { len: 100, changed: None };
        let error = Sharding::new(&shards, &[1, 1]).find(&[2, 3], version, read).unwrap_err();
        assert!(error.to_string().contains("should hold"), "{error}");
    }

    #[test]
    fn chunks_beyond_the_end_are_refused() {
        let read = |start: u64, out: &mut [u8]| {
            assert_eq!(start, 0);
            out[..16].copy_from_slice(&[[90, 0, 0, 0, 0, 0, 0, 0], [11; 8]].concat());
            Ok(())
        };
        let version = Version { len: 100, changed: None };
        let error = sharding(false).find(&[0, 0], version, read).unwrap_err();
        assert!(error.to_string().contains("begin at byte 90"), "{error}");
    }
}
