//! The list of chunks: a B-tree of version 1.

use super::NOWHERE;
use super::node::Image;

/// Twice the rank of trees, which the superblock leaves at its default.
const MOST_CHILDREN: usize = 64;

/// One chunk in the file.
#[derive(Clone, Debug)]
pub(super) struct StoredChunk {
    /// Its first element.
    pub(super) origin: Vec<u64>,
    pub(super) address: u64,
    pub(super) len: u32,
}

/// The first chunk of a node, and where the node or the chunk is.
#[derive(Clone)]
struct Child {
    len: u32,
    origin: Vec<u64>,
    address: u64,
}

/// Appends the tree of `chunks`, which are in order, and gives the address of its root.
pub(super) fn append(
    image: &mut Image,
    chunks: &[StoredChunk],
    shape: &[usize],
    size: usize,
) -> u64 {
    let child = |chunk: &StoredChunk| Child {
        len: chunk.len,
        origin: chunk.origin.clone(),
        address: chunk.address,
    };
    let mut children: Vec<Child> = chunks.iter().map(child).collect();
    let Some(last) = children.last() else { return NOWHERE };
    // Behind the last chunk, on every axis.
    let end: Vec<u64> = last.origin.iter().zip(shape).map(|(at, &n)| at + n as u64).collect();
    let end = Child { len: 0, origin: end, address: NOWHERE };
    let key_bytes = 8 + 8 * (shape.len() as u64 + 1);
    let node_bytes = 24 + key_bytes * (MOST_CHILDREN as u64 + 1) + 8 * MOST_CHILDREN as u64;
    let mut level = 0u8;
    loop {
        let n_nodes = children.len().div_ceil(MOST_CHILDREN);
        let first = image.end();
        let mut parents = Vec::with_capacity(n_nodes);
        for (i, group) in children.chunks(MOST_CHILDREN).enumerate() {
            let address = first + i as u64 * node_bytes;
            let next = children.get((i + 1) * MOST_CHILDREN).unwrap_or(&end);
            let left = if i == 0 { NOWHERE } else { address - node_bytes };
            let right = if i + 1 == n_nodes { NOWHERE } else { address + node_bytes };
            let out = &mut image.bytes;
            out.extend(b"TREE\x01");
            out.push(level);
            out.extend((group.len() as u16).to_le_bytes());
            out.extend(left.to_le_bytes());
            out.extend(right.to_le_bytes());
            for child in group {
                key(out, child, 0);
                out.extend(child.address.to_le_bytes());
            }
            let beyond = if next.address == NOWHERE { size as u64 } else { 0 };
            key(out, next, beyond);
            image.pad_to(address + node_bytes);
            parents.extend(group.first().map(|child| Child { address, ..child.clone() }));
        }
        if n_nodes == 1 {
            return first;
        }
        children = parents;
        level += 1;
    }
}

/// Size, no filter left out, and the first element; the last axis is that within elements.
fn key(out: &mut Vec<u8>, child: &Child, within: u64) {
    out.extend(child.len.to_le_bytes());
    out.extend([0; 4]);
    for at in &child.origin {
        out.extend(at.to_le_bytes());
    }
    out.extend(within.to_le_bytes());
}
