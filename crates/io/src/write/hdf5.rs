//! HDF5: pixels first, then all that says where they are.
//!
//! | where | what |
//! |---|---|
//! | byte 0 | superblock, version 2, with the place of the root group |
//! | byte 4096 | pixels in one run, or chunk after chunk in the order of the pieces |
//! | behind | B-trees of version 1 that lead to chunks; strings; headers of objects, version 2 |
//!
//! Endianness: little. Readers: all since version 1.8 of the HDF5 library (2008). What is written is
//! what a file of one array needs, and no more: decision 22 says why no library does it.

mod chunk_tree;
pub(super) mod hyperspy;
mod message;
mod node;
mod tree;

use super::bytes::write_at;
use super::chunks::{ChunkSpec, Encoded};
use super::pool::Link;
use super::units::{Unit, unravel};
use super::{Job, WriteFormat};
use crate::headers::written::{AXES, METADATA, NAME, OFFSET, SCALE, UNIT, UNITS};
use crate::write::whole::WholeOutput;
use chunk_tree::StoredChunk;
use framefold_core::{AxisKind, Error, MetadataValue, Result, usual_axis_name};
use message::{Filters, Layout};
use node::Image;
pub(super) use node::Node;
pub use node::Value;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;
pub use tree::{Tree, TreeNode, tree_bytes, write_tree};

/// Where pixels begin.
pub(super) const FIRST_PIXEL: u64 = 4096;
/// What stands for an address of nothing.
const NOWHERE: u64 = u64::MAX;
/// The array of plain files.
const DATA: &str = "data";

/// The name of the array within the file.
pub(super) fn data_path(job: &Job<'_>) -> String {
    match job.format {
        WriteFormat::Hspy => format!("Experiments/{}/{DATA}", hyperspy::title(job)),
        _ => DATA.to_owned(),
    }
}

/// A file of compressed chunks.
pub(super) struct ChunkedFile<'j> {
    job: &'j Job<'j>,
    spec: &'j ChunkSpec,
    target: &'j WholeOutput,
    state: Mutex<State>,
    turned: Condvar,
}

/// What is stored so far.
struct State {
    /// The piece whose turn it is.
    next: usize,
    end: u64,
    chunks: Vec<StoredChunk>,
}

impl<'j> ChunkedFile<'j> {
    pub(super) fn new(job: &'j Job<'j>, spec: &'j ChunkSpec, target: &'j WholeOutput) -> Self {
        let state = Mutex::new(State { next: 0, end: FIRST_PIXEL, chunks: Vec::new() });
        ChunkedFile { job, spec, target, state, turned: Condvar::new() }
    }

    /// Writes the chunks of a piece behind those of the piece before it.
    ///
    /// # Errors
    /// `Io`; `Limit` if a chunk is too large; `Cancelled` if another piece failed.
    pub(super) fn store(&self, link: &Link<'_>, unit: &Unit<'_>, encoded: &Encoded) -> Result<()> {
        let start = self.reserve(link, unit, encoded)?;
        write_at(self.target.file()?, &encoded.bytes, start, self.job.path)
    }

    /// Waits for its turn, so that files do not depend on which worker is faster.
    fn reserve(&self, link: &Link<'_>, unit: &Unit<'_>, encoded: &Encoded) -> Result<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.next != unit.index {
            link.check()?;
            let wait = self.turned.wait_timeout(state, Duration::from_millis(50));
            state = wait.unwrap_or_else(PoisonError::into_inner).0;
        }
        let start = state.end;
        let origin: Vec<usize> = unit.origin.iter().chain(unit.slice.origin()).copied().collect();
        for (i, range) in encoded.chunks.iter().enumerate() {
            let Some(range) = range else { continue };
            let place = unravel(i, &encoded.grid);
            let origin = place.iter().zip(&origin).zip(&self.spec.shape);
            state.chunks.push(StoredChunk {
                origin: origin.map(|((at, origin), chunk)| (at * chunk + origin) as u64).collect(),
                address: start + range.start as u64,
                len: u32::try_from(range.len())
                    .map_err(|_| Error::limit("a chunk is too large for HDF5"))?,
            });
        }
        state.end += encoded.bytes.len() as u64;
        state.next += 1;
        self.turned.notify_all();
        Ok(start)
    }

    /// Writes the lists of chunks and the headers; gives the size of the file.
    pub(super) fn complete(self) -> Result<u64> {
        let State { end, mut chunks, .. } =
            self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        chunks.sort_unstable_by(|a, b| a.origin.cmp(&b.origin));
        let mut image = Image::at(end.next_multiple_of(8));
        let tree = chunk_tree::append(&mut image, &chunks, &self.spec.shape, self.spec.size);
        let layout = Layout::Chunked { tree, chunk: self.spec.shape.clone(), size: self.spec.size };
        let filters = Filters::of(&self.spec.steps, &self.spec.shape, self.spec.size)?;
        finish(self.job, self.target, image, layout, filters)
    }
}

/// Writes the headers of a file with pixels in one run up to `end`; gives its size.
pub(super) fn complete_flat(job: &Job<'_>, target: &WholeOutput, end: u64) -> Result<u64> {
    let layout = Layout::Contiguous { address: FIRST_PIXEL, len: end - FIRST_PIXEL };
    finish(job, target, Image::at(end.next_multiple_of(8)), layout, Filters::default())
}

fn finish(
    job: &Job<'_>,
    target: &WholeOutput,
    mut image: Image,
    layout: Layout,
    filters: Filters,
) -> Result<u64> {
    let (shape, dtype, attributes) = (job.shape(), job.cast.to, vec![]);
    let data = Node::Data { shape, dtype, layout, filters, attributes };
    let root = match job.format {
        WriteFormat::Hspy => hyperspy::root(job, hyperspy::title(job), Some(data)),
        _ => plain_root(job, data),
    };
    let root = image.append_tree(&root)?;
    let end = image.end();
    write_at(target.file()?, &image.bytes, image.start, job.path)?;
    write_at(target.file()?, &message::superblock(root, end), 0, job.path)?;
    Ok(end)
}

fn plain_root(job: &Job<'_>, data: Node) -> Node {
    let sig_dims = job.dataset.shape().sig().len();
    let n_nav = job.selection.nav.len();
    let axes = job.axes().into_iter().enumerate().map(|(i, axis)| {
        // Groups have the names by which they are looked for.
        let group = match axis.kind {
            AxisKind::Nav => usual_axis_name(axis.kind, i, n_nav),
            AxisKind::Sig => usual_axis_name(axis.kind, i - n_nav, sig_dims),
        };
        let attributes = vec![
            (NAME.to_owned(), Value::Text(axis.name)),
            (SCALE.to_owned(), Value::Number(axis.scale)),
            (OFFSET.to_owned(), Value::Number(axis.offset)),
            (UNITS.to_owned(), Value::Text(axis.unit)),
        ];
        (group, Node::Group { attributes, children: vec![] })
    });
    Node::Group {
        attributes: vec![("sig_dims".to_owned(), Value::Integer(sig_dims as i64))],
        children: vec![
            (DATA.to_owned(), data),
            (METADATA.to_owned(), metadata(job)),
            (AXES.to_owned(), Node::Group { attributes: vec![], children: axes.collect() }),
        ],
    }
}

/// What is known of the experiment: an attribute for each quantity, and one for its unit.
fn metadata(job: &Job<'_>) -> Node {
    let mut attributes = Vec::new();
    for fact in job.metadata.iter() {
        let name = fact.quantity.name();
        let value = match &fact.value {
            MetadataValue::Number(number) => Value::Number(*number),
            MetadataValue::Text(text) => Value::Text(text.clone()),
        };
        attributes.push((name.to_owned(), value));
        if !fact.quantity.unit().is_empty() {
            let unit = Value::Text(fact.quantity.unit().to_owned());
            attributes.push((format!("{name}{UNIT}"), unit));
        }
    }
    Node::Group { attributes, children: vec![] }
}
