//! The lists of chunks in a file, in all their kinds.

use super::library::translate;
use framefold_core::Result;
use hdf5_reader::btree_v1::{BTreeV1Key, collect_btree_v1_leaves_storage};
use hdf5_reader::chunk_index::{
    ChunkEntry, collect_implicit_chunk_entries, collect_v2_chunk_entries_storage,
    single_chunk_entry,
};
use hdf5_reader::extensible_array::collect_extensible_array_chunk_entries_storage;
use hdf5_reader::fixed_array::collect_fixed_array_chunk_entries_storage;
use hdf5_reader::messages::layout::ChunkIndexing;
use hdf5_reader::{Dataset, Hdf5File};

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
    /// `BadFile` if the list is damaged.
    pub(super) fn entries(&self, indexing: Option<&ChunkIndexing>) -> Result<Vec<ChunkEntry>> {
        let storage = self.file.storage();
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
            .map(|leaves| leaves.into_iter().filter_map(entry_of_leaf).collect()),
            Some(ChunkIndexing::SingleChunk { filtered_size, filters }) => {
                Ok(vec![single_chunk_entry(address, *filtered_size, *filters, shape.len())])
            }
            Some(ChunkIndexing::Implicit) => {
                let room = self.room();
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
        entries.map_err(|error| translate(&error))
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

fn entry_of_leaf((key, address): (BTreeV1Key, u64)) -> Option<ChunkEntry> {
    match key {
        BTreeV1Key::RawData { chunk_size, filter_mask, offsets } => {
            Some(ChunkEntry { address, size: u64::from(chunk_size), filter_mask, offsets })
        }
        BTreeV1Key::Group { .. } => None,
    }
}
