//! Links and attributes that a group or data set keeps outside of its header, because they are many.
//!
//! | what | where |
//! |---|---|
//! | an index | a B-tree, version 2: for each object a hash of its name, and where it is in the heap |
//! | a heap | `FRHP`: sizes of its blocks, and the first of them |
//! | blocks with objects | `FHDB`, version, address of the heap, offset within the heap, a checksum if bit 1 of the heap's flags says so |
//! | blocks with addresses of blocks | `FHIB`, the same, addresses row by row, a checksum |
//! | large objects | by themselves, with an index of their own |
//!
//! A row of a block with addresses has `width` blocks of one size; the first two rows those of the
//! smallest, each further row those of twice the size. Blocks above the largest that may hold objects are
//! again blocks with addresses.
//!
//! The library counts offsets in the latter from their own beginning and from that of the heap at
//! once, so that it finds no object there; and it reads a whole block for each attribute. Objects are
//! therefore read here, each block once, and together from no more bytes than the file has, a few times
//! over.

use crate::access::Storage;
use crate::headers::fields::number;
use framefold_core::{interrupt, memory};
use hdf5_reader::btree_v2::{BTreeV2Header, BTreeV2Record, collect_btree_v2_records_storage};
use hdf5_reader::checksum::jenkins_lookup3;
use hdf5_reader::error::Error;
use hdf5_reader::fractal_heap::FractalHeap;
use hdf5_reader::io::Cursor;
use hdf5_reader::storage::{Storage as LibraryStorage, StorageBuffer};
use hdf5_reader::superblock::Superblock;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What lies in heaps is in the file once; so much more than it may be read.
const TIMES_READ: u64 = 8;
/// Blocks with addresses within each other.
const DEEPEST: usize = 64;

/// The file as it is, as long as there is not too much read of it.
#[derive(Debug)]
pub(super) struct Dense {
    storage: Storage,
    base: u64,
    /// Where the file says that it ends.
    end: u64,
    offset_size: u8,
    length_size: u8,
    left: AtomicU64,
}

/// What an index leads to.
pub(super) struct Objects {
    /// Each with its place in the order of creation.
    pub(super) objects: Vec<(u32, Vec<u8>)>,
    /// There are blocks with addresses of others in the heap, which the library cannot read.
    pub(super) deep: bool,
}

impl Dense {
    /// `None` if it is no HDF5 file.
    pub(super) fn try_new(storage: Storage) -> Option<Self> {
        let left = storage.len().saturating_mul(TIMES_READ).saturating_add(1 << 20);
        let (base, end, offset_size, length_size) = (0, 0, 0, 0);
        let left = AtomicU64::new(left);
        let mut dense = Dense { storage, base, end, offset_size, length_size, left };
        let superblock = Superblock::parse_from_storage(&dense).ok()?;
        dense.base = superblock.base_address;
        dense.end = superblock.eof_address;
        dense.offset_size = superblock.offset_size;
        dense.length_size = superblock.length_size;
        Some(dense)
    }

    /// How many bytes the file says that it has, if it has fewer.
    pub(super) fn cut_from(&self) -> Option<u64> {
        let defined = !Cursor::is_undefined_offset(self.end, self.offset_size);
        (defined && self.storage.len() < self.end).then_some(self.end)
    }

    /// Bytes before the superblock, from which addresses count.
    pub(super) fn base(&self) -> u64 {
        self.base
    }

    /// Bytes of an address.
    pub(super) fn offset_width(&self) -> usize {
        usize::from(self.offset_size)
    }

    /// Bytes of a length.
    pub(super) fn length_width(&self) -> usize {
        usize::from(self.length_size)
    }

    /// An address that the library can ask for, and where it will then look in the file: behind its
    /// end. `None` if addresses are too short.
    pub(super) fn behind(&self, serial: usize) -> Option<(u64, u64)> {
        let position = self.storage.len().checked_add(u64::try_from(serial).ok()?)?;
        let address = position.checked_sub(self.base)?;
        let most = u64::MAX >> (64 - 8 * u32::from(self.offset_size.clamp(1, 8)));
        (address < most).then_some((address, position))
    }

    /// What the index at `index` leads to in the heap at `heap`; `None` where that is better left to
    /// the library: heaps with filters, and objects that lie elsewhere.
    ///
    /// # Errors
    /// `ResourceLimit` if too much of the file had to be read; others if something is damaged.
    pub(super) fn objects(&self, heap: u64, index: u64) -> Result<Option<Objects>, Error> {
        let (offsets, lengths) = (self.offset_size, self.length_size);
        if Cursor::is_undefined_offset(heap, offsets) || Cursor::is_undefined_offset(index, offsets)
        {
            return Ok(None);
        }
        let header = FractalHeap::parse_at_storage(self, heap, offsets, lengths)?;
        if header.io_filters_len > 0 {
            return Ok(None);
        }
        let tree = BTreeV2Header::parse_at_storage(self, index, offsets, lengths)?;
        let records =
            collect_btree_v2_records_storage(self, &tree, offsets, lengths, None, &[], None)?;
        let mut heap = Heap::new(self, header)?;
        let mut objects = Vec::new();
        for record in records {
            let (order, id) = match record {
                BTreeV2Record::LinkNameHash { heap_id, .. } => (0, heap_id),
                // In the heap that a file has for what headers share.
                BTreeV2Record::AttributeNameHash { flags, .. } if flags & 2 != 0 => {
                    return Ok(None);
                }
                BTreeV2Record::AttributeNameHash { creation_order, heap_id, .. } => {
                    (creation_order, heap_id)
                }
                _ => return Ok(None),
            };
            let object = heap.object(&id)?;
            self.spend(object.len())?;
            objects.push((order, object));
        }
        Ok(Some(Objects { objects, deep: heap.is_deep() }))
    }

    fn spend(&self, len: usize) -> Result<(), Error> {
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        self.left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(len))
            .map(|_| ())
            .map_err(|_| {
                Error::ResourceLimit(
                    "links or attributes refer to the same bytes again and again".into(),
                )
            })
    }
}

impl LibraryStorage for Dense {
    fn len(&self) -> u64 {
        self.storage.len().saturating_sub(self.base)
    }

    fn read_range(&self, offset: u64, len: usize) -> Result<StorageBuffer, Error> {
        let needed = u64::try_from(len).unwrap_or(u64::MAX);
        let available = LibraryStorage::len(self).saturating_sub(offset);
        if needed > available {
            return Err(Error::UnexpectedEof { offset, needed, available });
        }
        self.spend(len)?;
        let taken = interrupt::check().and_then(|()| memory::zeros(len));
        let mut bytes = taken.map_err(|error| Error::Other(error.to_string()))?;
        self.storage
            .read_at(offset.saturating_add(self.base), &mut bytes)
            .map_err(|error| Error::Other(error.to_string()))?;
        Ok(StorageBuffer::from_vec(bytes))
    }
}

/// A heap, and what was read of it.
struct Heap<'a> {
    file: &'a Dense,
    header: FractalHeap,
    /// Blocks with objects, by their offset in the heap.
    direct: BTreeMap<u64, StorageBuffer>,
    /// Blocks with addresses, by their own.
    indirect: HashMap<u64, Arc<StorageBuffer>>,
    /// Large objects: address and length of each.
    huge: Option<HashMap<u64, (u64, u64)>>,
}

fn damaged(what: &str) -> Error {
    Error::InvalidData(format!("a heap of links or attributes is damaged: {what}"))
}

impl<'a> Heap<'a> {
    fn new(file: &'a Dense, header: FractalHeap) -> Result<Self, Error> {
        let sizes = [header.starting_block_size, header.max_direct_block_size];
        let in_order = sizes[0] <= sizes[1] && u64::from(header.table_width).is_power_of_two();
        if !in_order || !sizes.iter().all(|size| size.is_power_of_two()) {
            return Err(damaged("its blocks have impossible sizes"));
        }
        if sizes[1] > 1 << 40 || header.max_heap_size > 64 {
            return Err(damaged("its blocks are too large"));
        }
        let (direct, indirect, huge) = (BTreeMap::new(), HashMap::new(), None);
        Ok(Heap { file, header, direct, indirect, huge })
    }

    /// Rows of blocks with objects.
    fn direct_rows(&self) -> u64 {
        let sizes = self.header.max_direct_block_size / self.header.starting_block_size;
        u64::from(sizes.ilog2()) + 2
    }

    fn is_deep(&self) -> bool {
        u64::from(self.header.current_rows_in_root_indirect) > self.direct_rows()
    }

    /// The bytes of the object with that identifier.
    fn object(&mut self, id: &[u8]) -> Result<Vec<u8>, Error> {
        let first = *id.first().ok_or_else(|| damaged("an identifier is empty"))?;
        match (first >> 4) & 3 {
            0 if first >> 6 == 0 => self.managed(id),
            1 if first >> 6 == 0 => self.large(id),
            _ => {
                let (offsets, lengths) = (self.file.offset_size, self.file.length_size);
                self.header.get_object_storage(id, self.file, offsets, lengths)
            }
        }
    }

    /// One in a block, together with others.
    fn managed(&mut self, id: &[u8]) -> Result<Vec<u8>, Error> {
        let header = &self.header;
        let width = usize::from(header.max_heap_size).div_ceil(8);
        // As many as the longest object needs, but no more than the offsets within a block do.
        let longest = bytes_of(header.max_managed_object_size);
        let within = header.max_direct_block_size.ilog2().div_ceil(8);
        let len_width = usize::try_from(longest.min(within)).unwrap_or(8);
        let place = number(id, 1, width).zip(number(id, 1 + width, len_width));
        let (offset, len) = place.ok_or_else(|| damaged("an identifier is too short"))?;
        let (start, block) = self.block(offset)?;
        let object = usize::try_from(offset - start).ok().and_then(|from| {
            let to = from.checked_add(usize::try_from(len).ok()?)?;
            block.as_ref().get(from..to)
        });
        object.map(<[u8]>::to_vec).ok_or_else(|| damaged("an object ends outside of its block"))
    }

    /// One that has a place of its own.
    fn large(&mut self, id: &[u8]) -> Result<Vec<u8>, Error> {
        let (offsets, lengths) = (self.file.offset_width(), self.file.length_width());
        let room = id.len().saturating_sub(1);
        let place = if offsets + lengths <= room {
            number(id, 1, offsets).zip(number(id, 1 + offsets, lengths))
        } else {
            let key =
                number(id, 1, room.min(8)).ok_or_else(|| damaged("an identifier is short"))?;
            self.huge()?.get(&key).copied()
        };
        let (address, len) = place.ok_or_else(|| damaged("a large object is not there"))?;
        let len = usize::try_from(len).map_err(|_| damaged("an object is too large"))?;
        Ok(self.file.read_range(address, len)?.as_ref().to_vec())
    }

    /// The list of large objects.
    fn huge(&mut self) -> Result<&HashMap<u64, (u64, u64)>, Error> {
        let known = match self.huge.take() {
            Some(known) => known,
            None => {
                let (offsets, lengths) = (self.file.offset_size, self.file.length_size);
                let address = self.header.btree_huge_objects_address;
                let tree = BTreeV2Header::parse_at_storage(self.file, address, offsets, lengths)?;
                let records = collect_btree_v2_records_storage(
                    self.file,
                    &tree,
                    offsets,
                    lengths,
                    None,
                    &[],
                    None,
                )?;
                let places = records.into_iter().filter_map(|record| match record {
                    BTreeV2Record::HugeIndirectNonFiltered { address, length, object_id } => {
                        Some((object_id, (address, length)))
                    }
                    _ => None,
                });
                places.collect()
            }
        };
        Ok(self.huge.insert(known))
    }

    /// The block with the object at `offset`, and the offset at which it starts.
    fn block(&mut self, offset: u64) -> Result<(u64, &StorageBuffer), Error> {
        let known = self.direct.range(..=offset).next_back();
        let start = known.and_then(|(&start, block)| {
            let len = u64::try_from(block.len()).ok()?;
            (offset - start < len).then_some(start)
        });
        let start = match start {
            Some(start) => start,
            None => {
                let (address, start, size) = self.find(offset)?;
                let block = self.read_direct(address, size)?;
                self.direct.insert(start, block);
                start
            }
        };
        let block = self.direct.get(&start).ok_or_else(|| damaged("a block is not there"))?;
        Ok((start, block))
    }

    /// Address, offset and size of the block with the object at `offset`.
    fn find(&mut self, offset: u64) -> Result<(u64, u64, u64), Error> {
        let smallest = self.header.starting_block_size;
        let (mut address, mut start) = (self.header.root_block_address, 0u64);
        let mut n_rows = u64::from(self.header.current_rows_in_root_indirect);
        if n_rows == 0 {
            return Ok((address, 0, smallest));
        }
        let outside = || damaged("an object lies outside of all blocks");
        let first_row =
            smallest.checked_mul(u64::from(self.header.table_width)).ok_or_else(outside)?;
        let direct_rows = self.direct_rows();
        for _ in 0..DEEPEST {
            let within = offset.checked_sub(start).ok_or_else(outside)?;
            let doubled = (within / first_row).checked_ilog2().map_or(0, u64::from);
            let row = if within < first_row { 0 } else { doubled + 1 };
            // Both fit, as they are no larger than `within`, or than the smallest ones.
            let (row_start, size) = match row {
                0 => (0, smallest),
                _ => (first_row << doubled, smallest << doubled),
            };
            if row >= n_rows {
                return Err(outside());
            }
            let column = (within - row_start) / size;
            let entry = row * u64::from(self.header.table_width) + column;
            let block = self.indirect(address, n_rows)?;
            let width = self.file.offset_width();
            let at = usize::try_from(entry).ok().and_then(|entry| entry.checked_mul(width));
            let at = at.and_then(|at| at.checked_add(self.prefix_len()));
            let found = at.and_then(|at| number(block.as_ref().as_ref(), at, width));
            address = found.ok_or_else(outside)?;
            if Cursor::is_undefined_offset(address, self.file.offset_size) {
                return Err(outside());
            }
            start += row_start + column * size;
            if row < direct_rows {
                return Ok((address, start, size));
            }
            n_rows = u64::from((size / first_row).checked_ilog2().ok_or_else(outside)?) + 1;
        }
        Err(outside())
    }

    /// Bytes of a block before its content, without a checksum.
    fn prefix_len(&self) -> usize {
        5 + self.file.offset_width() + usize::from(self.header.max_heap_size).div_ceil(8)
    }

    /// A block with the addresses of others.
    fn indirect(&mut self, address: u64, n_rows: u64) -> Result<Arc<StorageBuffer>, Error> {
        if let Some(block) = self.indirect.get(&address) {
            return Ok(Arc::clone(block));
        }
        let n_entries = n_rows.checked_mul(u64::from(self.header.table_width));
        let end = n_entries
            .and_then(|n| usize::try_from(n).ok())
            .and_then(|n| n.checked_mul(self.file.offset_width())?.checked_add(self.prefix_len()));
        let end = end.ok_or_else(|| damaged("a block has too many rows"))?;
        let block = self.file.read_range(address, end.saturating_add(4))?;
        let bytes = block.as_ref();
        let stored = number(bytes, end, 4);
        let intact = bytes.starts_with(b"FHIB\0")
            && bytes.get(..end).map(|covered| u64::from(jenkins_lookup3(covered))) == stored;
        if !intact {
            return Err(damaged("a list of blocks has another checksum"));
        }
        let block = Arc::new(block);
        self.indirect.insert(address, Arc::clone(&block));
        Ok(block)
    }

    /// A block with objects.
    fn read_direct(&self, address: u64, size: u64) -> Result<StorageBuffer, Error> {
        let size = usize::try_from(size).map_err(|_| damaged("a block is too large"))?;
        let block = self.file.read_range(address, size)?;
        if !block.as_ref().starts_with(b"FHDB\0") {
            return Err(damaged("a block does not begin like one"));
        }
        if self.header.flags & 2 != 0 {
            let at = self.prefix_len();
            let mut bytes = block.as_ref().to_vec();
            let stored = number(&bytes, at, 4);
            if let Some(checksum) = bytes.get_mut(at..at + 4) {
                checksum.fill(0);
            }
            if stored != Some(u64::from(jenkins_lookup3(&bytes))) {
                return Err(damaged("a block has another checksum"));
            }
        }
        Ok(block)
    }
}

/// Bytes that a number needs.
fn bytes_of(number: u64) -> u32 {
    number.checked_ilog2().unwrap_or(0) / 8 + 1
}
