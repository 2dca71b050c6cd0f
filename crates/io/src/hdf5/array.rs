//! One data set: where its pixels lie in the file.

use super::library::{Library, Opened, translate};
use super::virtual_set::VirtualSet;
use crate::Storage;
use crate::chunked::{ChunkStore, Stored};
use crate::codec::{Filter, Inner, Pipeline};
use framefold_core::{Error, Result, StoredDType, checked_product};
use hdf5_reader::btree_v1::{BTreeV1Key, collect_btree_v1_leaves_storage};
use hdf5_reader::chunk_index::{
    ChunkEntry, collect_implicit_chunk_entries, collect_v2_chunk_entries_storage,
    single_chunk_entry,
};
use hdf5_reader::extensible_array::collect_extensible_array_chunk_entries_storage;
use hdf5_reader::fixed_array::collect_fixed_array_chunk_entries_storage;
use hdf5_reader::io::Cursor;
use hdf5_reader::messages::HdfMessage;
use hdf5_reader::messages::filter_pipeline::FilterDescription;
use hdf5_reader::messages::layout::{ChunkIndexing, DataLayout};
use hdf5_reader::{Dataset, Hdf5File};
use std::collections::HashMap;

/// What a data set is made of.
pub(super) struct Array {
    pub(super) shape: Vec<usize>,
    pub(super) dtype: StoredDType,
    /// One element, as stored: what was never written.
    pub(super) fill: Vec<u8>,
    pub(super) pixels: Place,
    pub(super) owner: Opened,
    /// Of its header.
    pub(super) address: u64,
}

/// Where the pixels are.
pub(super) enum Place {
    /// In one run of bytes.
    Run { storage: Storage, first_byte: u64 },
    /// In chunks.
    Chunks { shape: Vec<usize>, pipeline: Pipeline, store: ChunkTable },
    /// In other data sets.
    Virtual(VirtualSet),
    /// Nowhere: nothing was written.
    Nowhere,
}

impl Array {
    /// # Errors
    /// `BadFile` if the file contradicts itself or ends too early, `Unsupported` for what cannot be
    /// read.
    pub(super) fn try_new(library: &Library, dataset: &Dataset, owner: Opened) -> Result<Self> {
        Self::read(library, dataset, owner.clone()).map_err(|error| owner.locate(error))
    }

    fn read(library: &Library, dataset: &Dataset, owner: Opened) -> Result<Self> {
        let dtype = super::dtype::stored_dtype(dataset)?;
        let header = owner.file.get_or_parse_header(dataset.address());
        let header = header.map_err(|error| translate(&error))?;
        let note = owner.note(dataset.address());
        let members = match &note.mapping {
            None => None,
            Some(layout) => {
                let entries = super::mapping::read(&owner, layout)?;
                Some(VirtualSet::try_new(library, &owner, dataset.shape(), &entries)?)
            }
        };
        let shape = match &members {
            Some(set) => lens(&set.shape)
                .ok_or_else(|| Error::bad_file(format!("{:?} is no shape", set.shape)))?,
            None => shape_of(dataset)?,
        };
        let size = dtype.dtype.size();
        let mut fill = vec![0; size];
        let (mut layout, mut filters) = (None, Vec::new());
        for message in &header.messages {
            match message {
                HdfMessage::FillValue(message) => {
                    if let Some(value) = message.value.as_ref().filter(|value| value.len() == size)
                    {
                        fill.clone_from(value);
                    }
                }
                HdfMessage::DataLayout(message) => layout = Some(message.layout.clone()),
                HdfMessage::FilterPipeline(message) => filters.clone_from(&message.filters),
                HdfMessage::ExternalFiles(_) => {
                    return Err(Error::unsupported(format!(
                        "the pixels of '{}' are in other files, without any structure",
                        dataset.name()
                    ))
                    .with_hint("load those files as 'raw'"));
                }
                _ => {}
            }
        }
        let Some(layout) = layout else {
            return Err(Error::bad_file(format!(
                "'{}' does not say where its pixels are",
                dataset.name()
            )));
        };
        let bytes = checked_product(&shape)
            .and_then(|cells| cells.checked_mul(u64::try_from(size).ok()?))
            .filter(|&bytes| i64::try_from(bytes).is_ok())
            .ok_or_else(|| Error::bad_file(format!("the shape {shape:?} has too many cells")))?;
        let address = dataset.address();
        if let Some(members) = members {
            let pixels = Place::Virtual(members);
            return Ok(Array { shape, dtype, fill, pixels, owner, address });
        }
        let pixels = match layout {
            DataLayout::Compact { data } => {
                let found = u64::try_from(data.len()).unwrap_or(u64::MAX);
                if found < bytes {
                    return Err(not_enough(found, bytes));
                }
                Place::Run { storage: Storage::shared(std::sync::Arc::new(data)), first_byte: 0 }
            }
            DataLayout::Contiguous { address, .. } if is_nowhere(&owner, address) => Place::Nowhere,
            DataLayout::Contiguous { address, .. } => {
                let first_byte = address.checked_add(owner.base());
                let end = first_byte.and_then(|first| first.checked_add(bytes));
                let (Some(first_byte), Some(end)) = (first_byte, end) else {
                    return Err(Error::bad_file(format!("pixels cannot begin at byte {address}")));
                };
                if end > owner.storage.len() {
                    let found = owner.storage.len().saturating_sub(first_byte);
                    return Err(not_enough(found, bytes).with_offset(owner.storage.len()));
                }
                Place::Run { storage: owner.storage.clone(), first_byte }
            }
            DataLayout::Chunked { address, .. } if is_nowhere(&owner, address) => Place::Nowhere,
            DataLayout::Chunked { address, mut dims, chunk_indexing, .. } => {
                // Some versions of the format count the bytes of an element as an axis.
                if dims.len() == shape.len() + 1 {
                    dims.pop();
                }
                let chunk = chunk_shape(&dims, &shape)?;
                let index = Index { file: &owner.file, dataset, address, dims: &dims, size };
                let entries = index.entries(chunk_indexing.as_ref())?;
                let mut store = ChunkTable::try_new(&entries, &shape, &chunk, size, &owner)?;
                let filters: Result<_> = filters.iter().map(|f| filter(f, size)).collect();
                let pipeline = Pipeline(filters?);
                if note.plain_edges {
                    store.leave_edges(&shape, &chunk);
                }
                Place::Chunks { shape: chunk, pipeline, store }
            }
        };
        Ok(Array { shape, dtype, fill, pixels, owner, address })
    }
}

/// The shape of a data set.
///
/// # Errors
/// `BadFile` if an axis is empty or too long.
pub(super) fn shape_of(dataset: &Dataset) -> Result<Vec<usize>> {
    lens(dataset.shape()).ok_or_else(|| {
        Error::bad_file(format!(
            "'{}' has the shape {:?}: there is nothing in it",
            dataset.name(),
            dataset.shape()
        ))
    })
}

/// The same lengths, if none of them is 0 or too long.
fn lens(shape: &[u64]) -> Option<Vec<usize>> {
    shape.iter().map(|&len| usize::try_from(len).ok().filter(|&len| len > 0)).collect()
}

fn is_nowhere(owner: &Opened, address: u64) -> bool {
    Cursor::is_undefined_offset(address, owner.file.superblock().offset_size)
}

fn not_enough(found: u64, expected: u64) -> Error {
    Error::bad_file(format!("{expected} bytes of pixels are promised, but {found} are there"))
        .with_hint("the file is cut short; copy it again")
}

fn chunk_shape(dims: &[u32], shape: &[usize]) -> Result<Vec<usize>> {
    let chunk: Option<Vec<usize>> =
        dims.iter().map(|&len| usize::try_from(len).ok().filter(|&len| len > 0)).collect();
    chunk.filter(|chunk| chunk.len() == shape.len()).ok_or_else(|| {
        Error::bad_file(format!("an array of shape {shape:?} cannot be in chunks of {dims:?}"))
    })
}

/// Where the list of chunks is.
struct Index<'a> {
    file: &'a Hdf5File,
    dataset: &'a Dataset,
    address: u64,
    dims: &'a [u32],
    size: usize,
}

impl Index<'_> {
    fn entries(&self, indexing: Option<&ChunkIndexing>) -> Result<Vec<ChunkEntry>> {
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
                collect_implicit_chunk_entries(address, shape, dims, self.size, None, storage.len())
            }
            Some(ChunkIndexing::FixedArray { .. }) => collect_fixed_array_chunk_entries_storage(
                storage,
                address,
                offset_size,
                length_size,
                shape,
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
}

fn entry_of_leaf((key, address): (BTreeV1Key, u64)) -> Option<ChunkEntry> {
    match key {
        BTreeV1Key::RawData { chunk_size, filter_mask, offsets } => {
            Some(ChunkEntry { address, size: u64::from(chunk_size), filter_mask, offsets })
        }
        BTreeV1Key::Group { .. } => None,
    }
}

/// Which filter that is.
fn filter(description: &FilterDescription, size: usize) -> Result<Filter> {
    let value = |i: usize| {
        description.client_data.get(i).map(|&value| usize::try_from(value).unwrap_or(usize::MAX))
    };
    Ok(match description.id {
        1 => Filter::Deflate,
        2 => Filter::Shuffle { size: value(0).filter(|&size| size > 0).unwrap_or(size) },
        3 => Filter::Fletcher32,
        4..=6 => Filter::Library(description.clone(), size),
        32000 => Filter::Lzf,
        32001 => Filter::Blosc,
        32004 => Filter::Lz4,
        32008 => Filter::Bitshuffle {
            size: value(2).filter(|&size| size > 0).unwrap_or(size),
            block: value(3).unwrap_or(0),
            inner: match value(4).unwrap_or(0) {
                0 => Inner::Nothing,
                2 => Inner::Lz4,
                3 => Inner::Zstd,
                other => {
                    return Err(Error::unsupported(format!(
                        "chunks are compressed by bitshuffle with method {other}, of which 0, 2 \
                         and 3 are known"
                    )));
                }
            },
        },
        32015 => Filter::Zstd,
        id => {
            let name = description.name.as_deref().unwrap_or("no name");
            return Err(Error::unsupported(format!(
                "chunks went through the filter {id} ({name}), which framefold does not know"
            ))
            .with_hint("rewrite the data with gzip: h5repack -f GZIP=4 IN OUT"));
        }
    })
}

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

impl ChunkTable {
    fn try_new(
        entries: &[ChunkEntry],
        shape: &[usize],
        chunk: &[usize],
        size: usize,
        owner: &Opened,
    ) -> Result<Self> {
        let whole = checked_product(chunk).and_then(|n| n.checked_mul(u64::try_from(size).ok()?));
        let mut places = HashMap::with_capacity(entries.len());
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
            if is_nowhere(owner, entry.address) {
                continue;
            }
            let len = if entry.size == 0 { whole.unwrap_or(u64::MAX) } else { entry.size };
            let offset = entry.address.checked_add(owner.base());
            let end = offset.and_then(|offset| offset.checked_add(len));
            match (offset, end) {
                (Some(offset), Some(end)) if end <= owner.storage.len() => {
                    places.insert(number, Chunk { offset, len, mask: entry.filter_mask });
                }
                _ => {
                    return Err(Error::bad_file(format!(
                        "the chunk at {:?} should have {len} bytes from byte {} on, but the file \
                         has {} bytes",
                        entry.offsets,
                        entry.address.saturating_add(owner.base()),
                        owner.storage.len()
                    ))
                    .with_hint("the file is cut short; copy it again"));
                }
            }
        }
        Ok(ChunkTable { storage: owner.storage.clone(), places })
    }

    /// Notes that chunks which reach beyond the array went through no filter.
    fn leave_edges(&mut self, shape: &[usize], chunk: &[usize]) {
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
            return Ok(Some(Stored { bytes, mask }));
        }
        // The length was checked against that of the file.
        let len =
            usize::try_from(len).map_err(|_| Error::limit("a chunk does not fit in memory"))?;
        if buffer.len() < len {
            buffer.resize(len, 0);
        }
        self.storage.read_at(offset, &mut buffer[..len])?;
        Ok(Some(Stored { bytes: &buffer[..len], mask }))
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
