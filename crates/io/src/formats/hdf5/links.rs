//! The links of a group that lead to other files.
//!
//! The library lists members that it can reach; where a file of a set is missing, or links must not
//! be followed yet, names are in the group all the same, as messages of its header. Those of groups
//! with many links, which lie in a heap, are shown as such messages (`headers.rs`).

use super::failures::translate;
use framefold_core::Result;
use hdf5_reader::group::Group;
use hdf5_reader::messages::HdfMessage;
use hdf5_reader::messages::link::{LinkMessage, LinkTarget};
use hdf5_reader::object_header::ObjectHeader;

/// The names of links to other files, in no order.
///
/// # Errors
/// `BadFile` if the group's links are damaged.
pub(super) fn external(group: &Group) -> Result<Vec<String>> {
    Ok(targets(group)?.into_iter().map(|(name, _)| name).collect())
}

/// Links to other files: the name of each, and the file and the path there that it leads to.
///
/// # Errors
/// `BadFile` if the group's links are damaged.
pub(super) fn targets(group: &Group) -> Result<Vec<(String, (String, String))>> {
    let header = ObjectHeader::parse_at_storage(
        group.storage(),
        group.address(),
        group.offset_size(),
        group.length_size(),
    )
    .map_err(|error| translate(&error))?;
    Ok(header.messages.into_iter().filter_map(outside).collect())
}

fn outside(message: HdfMessage) -> Option<(String, (String, String))> {
    match message {
        HdfMessage::Link(LinkMessage {
            name,
            target: LinkTarget::External { filename, path },
            ..
        }) => Some((name, (filename, path))),
        _ => None,
    }
}
