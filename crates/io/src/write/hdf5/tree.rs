//! Files of several arrays in groups: results of a run.

use super::message::{self, Filters, Layout};
use super::node::{Image, Node, Value};
use super::{FIRST_PIXEL, NOWHERE};
use crate::write::bytes::write_at;
use crate::write::whole::WholeOutput;
use framefold_core::{DType, Error, Result};
use std::fs::File;
use std::path::Path;

/// A group with what is in it, in order.
#[derive(Clone, Debug, Default)]
pub struct Tree<'a> {
    /// What is said of it.
    pub attributes: Vec<(String, Value)>,
    /// Groups and arrays by name.
    pub members: Vec<(String, TreeNode<'a>)>,
}

/// What is in a group.
#[derive(Clone, Debug)]
pub enum TreeNode<'a> {
    /// Another group.
    Group(Tree<'a>),
    /// An array in C order.
    Array {
        /// What is said of it.
        attributes: Vec<(String, Value)>,
        /// Its shape; no axes mean a single value.
        shape: Vec<usize>,
        /// The dtype of its elements.
        dtype: DType,
        /// Its elements, in this machine's order of bytes.
        bytes: &'a [u8],
    },
}

/// Writes `tree` as HDF5 to `output`, which is to be published then.
///
/// # Errors
/// `Limit` if names are too long or too many; `InvalidArgument` if bytes and shape of an array do not fit each
/// other; `Io`.
pub fn write_tree(output: &WholeOutput, tree: &Tree<'_>) -> Result<()> {
    let (file, path) = (output.file()?, output.part());
    let mut end = FIRST_PIXEL;
    let root = group(tree, file, path, &mut end)?;
    let mut image = Image::at(end);
    let root = image.append_tree(&root)?;
    write_at(file, &image.bytes, image.start, path)?;
    write_at(file, &message::superblock(root, image.end()), 0, path)
}

/// Writes the arrays of a group from `end` on, and gives its headers.
fn group(tree: &Tree<'_>, file: &File, path: &Path, end: &mut u64) -> Result<Node> {
    let mut children = Vec::with_capacity(tree.members.len());
    for (name, member) in &tree.members {
        if name.is_empty() || name.contains(['/', '\0']) || name == "." {
            return Err(Error::invalid(format!("{name:?} is no name in HDF5"))
                .with_hint("use a name without '/'"));
        }
        let node = match member {
            TreeNode::Group(tree) => group(tree, file, path, end)?,
            TreeNode::Array { attributes, shape, dtype, bytes } => {
                let len = shape.iter().try_fold(dtype.size(), |len, n| len.checked_mul(*n));
                if len != Some(bytes.len()) {
                    return Err(Error::invalid(format!(
                        "'{name}' has {} bytes, which are no array of shape {shape:?} and dtype {dtype}",
                        bytes.len()
                    )));
                }
                let address = if bytes.is_empty() { NOWHERE } else { *end };
                write_at(file, bytes, *end, path)?;
                *end = (*end + bytes.len() as u64).next_multiple_of(8);
                Node::Data {
                    shape: shape.clone(),
                    dtype: *dtype,
                    layout: Layout::Contiguous { address, len: bytes.len() as u64 },
                    filters: Filters::default(),
                    attributes: attributes.clone(),
                }
            }
        };
        children.push((name.clone(), node));
    }
    Ok(Node::Group { attributes: tree.attributes.clone(), children })
}
