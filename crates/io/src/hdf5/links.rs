//! The links of a group that lead to other files.
//!
//! The library lists members that it can reach; where a file of a set is missing, or links must not
//! be followed yet, names are in the group all the same. A group keeps a few links as messages of
//! its header, and more than eight of them, as libhdf5 writes it, in a heap with an index.

use super::library::translate;
use framefold_core::Result;
use hdf5_reader::btree_v2::{BTreeV2Header, BTreeV2Record, collect_btree_v2_records_storage};
use hdf5_reader::error::Error as LibraryError;
use hdf5_reader::fractal_heap::FractalHeap;
use hdf5_reader::group::Group;
use hdf5_reader::io::Cursor;
use hdf5_reader::messages::HdfMessage;
use hdf5_reader::messages::link::{LinkMessage, LinkTarget, parse};
use hdf5_reader::messages::link_info::LinkInfoMessage;
use hdf5_reader::object_header::ObjectHeader;

/// The names of links to other files, in no order.
///
/// # Errors
/// `BadFile` if the group's links are damaged.
pub(super) fn external(group: &Group) -> Result<Vec<String>> {
    all(group)
        .map(|links| links.into_iter().filter_map(name_outside).collect())
        .map_err(|error| translate(&error))
}

fn name_outside(link: LinkMessage) -> Option<String> {
    matches!(link.target, LinkTarget::External { .. }).then_some(link.name)
}

fn all(group: &Group) -> Result<Vec<LinkMessage>, LibraryError> {
    let header = ObjectHeader::parse_at_storage(
        group.storage(),
        group.address(),
        group.offset_size(),
        group.length_size(),
    )?;
    let mut links = vec![];
    for message in header.messages {
        match message {
            HdfMessage::Link(link) => links.push(link),
            HdfMessage::LinkInfo(info) => links.extend(in_heap(group, &info)?),
            _ => {}
        }
    }
    Ok(links)
}

fn in_heap(group: &Group, info: &LinkInfoMessage) -> Result<Vec<LinkMessage>, LibraryError> {
    let (storage, offsets, lengths) = (group.storage(), group.offset_size(), group.length_size());
    if Cursor::is_undefined_offset(info.fractal_heap_address, offsets) {
        return Ok(vec![]);
    }
    let heap = FractalHeap::parse_at_storage(storage, info.fractal_heap_address, offsets, lengths)?;
    let index =
        BTreeV2Header::parse_at_storage(storage, info.btree_name_index_address, offsets, lengths)?;
    let records =
        collect_btree_v2_records_storage(storage, &index, offsets, lengths, None, &[], None)?;
    let mut links = vec![];
    for record in records {
        let BTreeV2Record::LinkNameHash { heap_id, .. } = record else { continue };
        let bytes = heap.get_object_storage(&heap_id, storage, offsets, lengths)?;
        links.push(parse(&mut Cursor::new(&bytes), offsets, lengths, bytes.len())?);
    }
    Ok(links)
}
