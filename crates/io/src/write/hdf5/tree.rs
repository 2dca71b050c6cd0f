//! Files of several arrays in groups: results of a run.

use super::message::{self, Filters, Layout};
use super::node::{Image, Node, Value};
use super::{FIRST_PIXEL, NOWHERE};
use crate::write::bytes::write_at;
use crate::write::whole::WholeOutput;
use framefold_core::{DType, Error, Result, interrupt, memory};

/// So much of an array is written between two looks at whether to go on.
const BLOCK: usize = 16 << 20;

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
/// other; `Io`; what [`interrupt::check`] says before each block of an array.
pub fn write_tree(output: &WholeOutput, tree: &Tree<'_>) -> Result<()> {
    let (file, path) = (output.file()?, output.path());
    write_to(tree, &mut |bytes, offset| write_at(file, bytes, offset, path))
}

/// The same as the bytes of a file.
///
/// # Errors
/// As [`write_tree`], but for `Io`; `Limit` if there is no memory for it.
pub fn tree_bytes(tree: &Tree<'_>) -> Result<Vec<u8>> {
    let mut file: Vec<u8> = Vec::new();
    write_to(tree, &mut |bytes, offset| {
        let start = usize::try_from(offset).map_err(|_| Error::limit("the file is too large"))?;
        let end = start.saturating_add(bytes.len());
        if file.len() < end {
            memory::check((end - file.len()) as u64)?;
            file.resize(end, 0);
        }
        let place = file.get_mut(start..end).ok_or_else(|| Error::bug("a file has no end"))?;
        place.copy_from_slice(bytes);
        Ok(())
    })?;
    Ok(file)
}

/// Takes bytes for their place in a file.
type Put<'a> = dyn FnMut(&[u8], u64) -> Result<()> + 'a;

fn write_to(tree: &Tree<'_>, put: &mut Put<'_>) -> Result<()> {
    let mut end = FIRST_PIXEL;
    let root = group(tree, put, &mut end)?;
    let mut image = Image::at(end);
    let root = image.append_tree(&root)?;
    put(&image.bytes, image.start)?;
    put(&message::superblock(root, image.end()), 0)
}

/// Writes the arrays of a group from `end` on, and gives its headers.
fn group(tree: &Tree<'_>, put: &mut Put<'_>, end: &mut u64) -> Result<Node> {
    let mut children = Vec::with_capacity(tree.members.len());
    for (name, member) in &tree.members {
        if name.is_empty() || name.contains(['/', '\0']) || name == "." {
            return Err(Error::invalid(format!("{name:?} is no name in HDF5"))
                .with_hint("use a name without '/'"));
        }
        let node = match member {
            TreeNode::Group(tree) => group(tree, put, end)?,
            TreeNode::Array { attributes, shape, dtype, bytes } => {
                let len = shape.iter().try_fold(dtype.size(), |len, n| len.checked_mul(*n));
                if len != Some(bytes.len()) {
                    return Err(Error::invalid(format!(
                        "'{name}' has {} bytes, which are no array of shape {shape:?} and dtype {dtype}",
                        bytes.len()
                    )));
                }
                let address = if bytes.is_empty() { NOWHERE } else { *end };
                for block in bytes.chunks(BLOCK) {
                    interrupt::check()?;
                    put(block, *end)?;
                    *end += block.len() as u64;
                }
                *end = end.next_multiple_of(8);
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
