//! One data set: where its pixels lie in the file.

use super::chunk_table::{ChunkTable, Grid};
use super::failures::{DAMAGED, translate};
use super::filters::pipeline;
use super::index::Index;
use super::library::{Library, Opened};
use super::virtual_set::VirtualSet;
use crate::access::Storage;
use crate::codec::Pipeline;
use framefold_core::{Error, Result, StoredDType, checked_product};
use hdf5_reader::Dataset;
use hdf5_reader::messages::HdfMessage;
use hdf5_reader::messages::layout::DataLayout;

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
        if members.is_none() {
            check_room(dataset)?;
        }
        let bytes = checked_product(&shape)
            .and_then(|cells| cells.checked_mul(u64::try_from(size).ok()?))
            .filter(|&bytes| i64::try_from(bytes).is_ok())
            .ok_or_else(|| Error::bad_file(format!("the shape {shape:?} has too many cells")))?;
        let address = dataset.address();
        if let Some(members) = members {
            // As in HDF5, what shows nothing is made of fill values.
            let shows = !members.members.is_empty();
            let pixels = if shows { Place::Virtual(members) } else { Place::Nowhere };
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
            DataLayout::Contiguous { address, .. } if owner.is_nowhere(address) => Place::Nowhere,
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
            DataLayout::Chunked { address, .. } if owner.is_nowhere(address) => Place::Nowhere,
            DataLayout::Chunked { address, mut dims, chunk_indexing, .. } => {
                // Some versions of the format count the bytes of an element as an axis.
                if dims.len() == shape.len() + 1 {
                    dims.pop();
                }
                let chunk = chunk_shape(&dims, &shape)?;
                let index = Index { file: &owner.file, dataset, address, dims: &dims, size };
                let entries = index.entries(chunk_indexing.as_ref())?;
                let grid = Grid {
                    shape: &shape,
                    room: dataset.max_dims(),
                    chunk: &chunk,
                    size,
                    is_filtered: !filters.is_empty(),
                };
                let mut store = ChunkTable::try_new(&entries, &grid, &owner)?;
                let pipeline = pipeline(&filters, size)?;
                if note.plain_edges {
                    store.leave_edges(&shape, &chunk);
                }
                Place::Chunks { shape: chunk, pipeline, store }
            }
        };
        Ok(Array { shape, dtype, fill, pixels, owner, address })
    }
}

/// An array is no larger than it may get, and one that is not in chunks can never change.
///
/// # Errors
/// `BadFile` if it is not so.
fn check_room(dataset: &Dataset) -> Result<()> {
    let Some(room) = dataset.max_dims() else { return Ok(()) };
    let (shape, can_grow) = (dataset.shape(), dataset.chunks().is_some());
    let fits = |(len, most): (&u64, &u64)| len == most || can_grow && len < most;
    if shape.len() == room.len() && shape.iter().zip(room).all(fits) {
        return Ok(());
    }
    Err(Error::bad_file(format!(
        "'{}' has the shape {shape:?}, and the largest that it may get is {room:?}",
        dataset.name()
    ))
    .with_hint(DAMAGED))
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

fn not_enough(found: u64, expected: u64) -> Error {
    Error::bad_file(format!("{expected} bytes of pixels are promised, but {found} are there"))
        .with_hint(DAMAGED)
}

fn chunk_shape(dims: &[u32], shape: &[usize]) -> Result<Vec<usize>> {
    let chunk: Option<Vec<usize>> =
        dims.iter().map(|&len| usize::try_from(len).ok().filter(|&len| len > 0)).collect();
    chunk.filter(|chunk| chunk.len() == shape.len()).ok_or_else(|| {
        Error::bad_file(format!("an array of shape {shape:?} cannot be in chunks of {dims:?}"))
    })
}
