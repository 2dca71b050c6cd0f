//! The lists of chunks in a file, in all their kinds.

use super::failures::translate;
use framefold_core::{Error, Result, interrupt, memory};
use hdf5_reader::btree_v1::{BTreeV1Key, collect_btree_v1_leaves_storage};
use hdf5_reader::chunk_index::{
    ChunkEntry, collect_implicit_chunk_entries, collect_v2_chunk_entries_storage,
    single_chunk_entry,
};
use hdf5_reader::extensible_array::collect_extensible_array_chunk_entries_storage;
use hdf5_reader::fixed_array::collect_fixed_array_chunk_entries_storage;
use hdf5_reader::messages::layout::ChunkIndexing;
use hdf5_reader::storage::{Storage as LibraryStorage, StorageBuffer};
use hdf5_reader::{Dataset, Hdf5File};
use std::sync::atomic::{AtomicU64, Ordering};

/// What lies in a list is in the file once; so much more than the file may be read for it.
const TIMES_READ: u64 = 2;
/// Bytes of an entry in the file, at least.
const ENTRY_BYTES: u64 = 8;
/// Bytes that an entry takes here on its way from the file to the table, besides its place.
const TABLE_BYTES: u64 = 192;

/// Where the list of chunks is.
pub(super) struct Index<'a> {
    pub(super) file: &'a Hdf5File,
    pub(super) dataset: &'a Dataset,
    pub(super) address: u64,
    pub(super) dims: &'a [u32],
    pub(super) size: usize,
}

impl Index<'_> {
    /// All chunks that were written.
    ///
    /// # Errors
    /// `BadFile` if the list is damaged; `Limit` if there is no memory for it; `Cancelled` if
    /// the run is cancelled.
    pub(super) fn entries(&self, indexing: Option<&ChunkIndexing>) -> Result<Vec<ChunkEntry>> {
        let storage = &Counted::of(self.file.storage(), self.dims.len());
        let superblock = self.file.superblock();
        let (offset_size, length_size) = (superblock.offset_size, superblock.length_size);
        let (address, dims) = (self.address, self.dims);
        let shape = self.dataset.shape();
        let n_axes = u32::try_from(shape.len()).unwrap_or(u32::MAX);
        let entries = match indexing {
            None => collect_btree_v1_leaves_storage(
                storage,
                address,
                offset_size,
                length_size,
                Some(n_axes),
                dims,
                None,
            )
            .and_then(|leaves| leaves.into_iter().map(entry_of_leaf).collect()),
            Some(ChunkIndexing::SingleChunk { filtered_size, filters }) => {
                Ok(vec![single_chunk_entry(address, *filtered_size, *filters, shape.len())])
            }
            Some(ChunkIndexing::Implicit) => {
                let room = self.room();
                self.check_implicit(room)?;
                collect_implicit_chunk_entries(address, room, dims, self.size, None, storage.len())
            }
            Some(ChunkIndexing::FixedArray { .. }) => collect_fixed_array_chunk_entries_storage(
                storage,
                address,
                offset_size,
                length_size,
                self.room(),
                dims,
                None,
            ),
            Some(ChunkIndexing::ExtensibleArray { .. }) => {
                let max = self.dataset.max_dims();
                collect_extensible_array_chunk_entries_storage(
                    storage,
                    address,
                    offset_size,
                    length_size,
                    shape,
                    max,
                    dims,
                    None,
                )
            }
            Some(ChunkIndexing::BTreeV2) => collect_v2_chunk_entries_storage(
                storage,
                address,
                offset_size,
                length_size,
                n_axes,
                dims,
                None,
            ),
        };
        entries.map_err(|error| match storage.problem() {
            Some(problem) => problem,
            None => translate(&error),
        })
    }

    /// Of chunks that follow each other there is no list, but one is made.
    fn check_implicit(&self, room: &[u64]) -> Result<()> {
        let n_chunks = room.iter().zip(self.dims).fold(1u64, |n, (&len, &chunk)| {
            n.saturating_mul(len.div_ceil(u64::from(chunk).max(1)))
        });
        memory::check(n_chunks.saturating_mul(table_bytes(self.dims.len())))
    }

    /// The shape by which lists of fixed length number chunks: the largest that the array may get.
    fn room(&self) -> &[u64] {
        let shape = self.dataset.shape();
        let holds_it = |max: &&[u64]| {
            max.len() == shape.len()
                && max.iter().zip(shape).all(|(&max, &len)| max >= len && max != u64::MAX)
        };
        self.dataset.max_dims().filter(holds_it).unwrap_or(shape)
    }
}

/// Bytes that an entry takes here.
fn table_bytes(n_axes: usize) -> u64 {
    u64::try_from(n_axes).unwrap_or(u64::MAX).saturating_mul(8).saturating_add(TABLE_BYTES)
}

/// The file as it is, as long as a list is not made of more bytes than it can have been, and than
/// there is memory for.
struct Counted<'f> {
    file: &'f dyn LibraryStorage,
    most: u64,
    read: AtomicU64,
}

impl<'f> Counted<'f> {
    fn of(file: &'f dyn LibraryStorage, n_axes: usize) -> Self {
        let of_the_file = file.len().saturating_mul(TIMES_READ).saturating_add(1 << 20);
        let of_memory = memory::left() / (table_bytes(n_axes) / ENTRY_BYTES);
        Counted { file, most: of_the_file.min(of_memory), read: AtomicU64::new(0) }
    }

    /// Why reading ended, if it was not for what was read.
    fn problem(&self) -> Option<Error> {
        let read = self.read.load(Ordering::Relaxed);
        let too_long = || {
            Error::limit(format!(
                "the list of chunks takes more than {} bytes of the file, and there is no memory \
                 for more",
                self.most
            ))
            .with_hint("the file is damaged, or rewrite it in larger chunks, of about 1 MB")
        };
        interrupt::check().err().or_else(|| (read > self.most).then(too_long))
    }
}

impl LibraryStorage for Counted<'_> {
    fn len(&self) -> u64 {
        self.file.len()
    }

    fn read_range(
        &self,
        offset: u64,
        len: usize,
    ) -> Result<StorageBuffer, hdf5_reader::error::Error> {
        let len_bytes = u64::try_from(len).unwrap_or(u64::MAX);
        self.read.fetch_add(len_bytes, Ordering::Relaxed);
        match self.problem() {
            Some(problem) => Err(hdf5_reader::error::Error::Other(problem.to_string())),
            None => self.file.read_range(offset, len),
        }
    }
}

fn entry_of_leaf(
    (key, address): (BTreeV1Key, u64),
) -> std::result::Result<ChunkEntry, hdf5_reader::error::Error> {
    match key {
        BTreeV1Key::RawData { chunk_size, filter_mask, offsets } => {
            Ok(ChunkEntry { address, size: u64::from(chunk_size), filter_mask, offsets })
        }
        BTreeV1Key::Group { .. } => Err(hdf5_reader::error::Error::InvalidData(
            "the list of chunks has a node of a list of groups".into(),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::ErrorKind;

    struct Zeros(u64);

    impl LibraryStorage for Zeros {
        fn len(&self) -> u64 {
            self.0
        }
        fn read_range(
            &self,
            _: u64,
            len: usize,
        ) -> Result<StorageBuffer, hdf5_reader::error::Error> {
            Ok(StorageBuffer::from_vec(vec![0; len]))
        }
    }

    #[test]
    fn nodes_that_overlap_are_not_read_for_ever() {
        let file = Zeros(1 << 20);
        let counted = Counted::of(&file, 4);
        let n_read = (0..).take_while(|&at| counted.read_range(at, 1 << 16).is_ok()).count();
        assert_eq!(n_read, 3 << 4);
        assert_eq!(counted.problem().unwrap().kind(), ErrorKind::Limit);
    }

    #[test]
    fn lists_are_no_longer_than_there_is_memory_for() {
        let file = Zeros(1 << 40);
        memory::within(28 << 20, || {
            let counted = Counted::of(&file, 4);
            assert!(counted.read_range(0, 1 << 20).is_ok());
            assert!(counted.read_range(0, 1).is_err());
        });
        let counted = Counted::of(&file, 4);
        interrupt::watched(
            || Err(Error::cancelled()),
            || {
                assert!(counted.read_range(0, 1).is_err());
                assert_eq!(counted.problem().unwrap().kind(), ErrorKind::Cancelled);
            },
        );
    }
}
