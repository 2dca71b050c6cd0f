//! Readers of detector file formats.
//!
//! A file becomes a [`Dataset`](framefold_core::Dataset) by [`open`], which finds out the format
//! from the content, or by [`open_as`]; an array in memory becomes a [`MemorySource`]. Opening
//! reads headers only, and [`FORMATS`] is the list of all that can be read. This crate knows
//! nothing of UDFs and executors: it delivers frames in file order, and no more.
//!
//! The key choice: file bytes are never trusted. All access goes through [`Storage`], which
//! checks every range against the file and turns a file that shrinks while it is mapped into an
//! error instead of a crash; no length found in a file is allocated before it was checked. Formats
//! whose frames lie at a regular stride, which is nearly all of them, share one reader,
//! [`LinearSource`]: it lends pixels as they lie in the map where that is possible, and decodes
//! the rest through a [`FrameDecoder`], one tile at a time.
//!
//! To add a format, write a module that begins with its byte table, let it end in a
//! [`LinearSource`] if it can, and add its line to [`FORMATS`]; formats of other crates are added by
//! [`register`] when a program runs.
//!
//! ```
//! use framefold_core::{FrameIndices, TilingScheme};
//! use framefold_io::{OpenOptions, detect, open};
//!
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("scan.npy");
//! # let text = "{'descr': '<u2', 'fortran_order': False, 'shape': (3, 4, 5, 6), }\n";
//! # let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
//! # bytes.extend(u16::try_from(text.len())?.to_le_bytes());
//! # bytes.extend(text.as_bytes());
//! # bytes.resize(bytes.len() + 3 * 4 * 5 * 6 * 2, 1);
//! # std::fs::write(&path, bytes)?;
//! let detection = detect(&path)?;
//! println!("{}: {}", detection.format.name, detection.reason);
//!
//! let dataset = open(&path, &OpenOptions::default())?;
//! assert_eq!(dataset.shape().to_string(), "(3, 4) + (5, 6)");
//!
//! let whole_frames = TilingScheme::try_new(&[5, 6], &[5, 6], 12)?;
//! let mut reader = dataset.source().reader()?;
//! let tile = reader.read(FrameIndices::Run(0..12), &whole_frames.slices()[0])?;
//! assert_eq!(tile.frames().depth(), 12);
//! reader.verify()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(clippy::indexing_slicing)]

mod access;
mod calibrate;
mod codec;
mod detect;
mod format;
mod formats;
mod headers;
mod options;
mod orient;
mod pipe;
mod readers;
mod registry;
mod reopen;
mod write;

pub use access::{SharedBytes, Storage};
pub use calibrate::{Calibrate, parse_steps};
pub use detect::{Detection, detect, open, open_as};
pub use format::{DetectFn, Format, OpenFn, PREFIX_LEN, Prefix, Verdict};
pub use formats::{FORMATS, row_order};
pub use options::{Backend, OpenOptions, OptionKind, OptionSpec, OptionValue};
pub use orient::{orient, row_order_of};
pub use pipe::{pipe, rescan};
pub use readers::csr::{CsrArray, CsrSource, CsrSpec};
pub use readers::linear::{
    FrameDecoder, FrameMark, LinearFile, LinearSource, LinearSpec, PieceDecoder, Pixels,
    PlainDecoder, Unit,
};
pub use readers::memory::{MemoryArray, MemorySource};
pub use registry::{all_options, formats, register, replace};
pub use reopen::{check_same, check_same_since, check_unchanged, open_again, pack};
pub use write::raw_csr::{CsrWriteOptions, CsrWritten, write_raw_csr};
pub use write::rows::{RowsDone, RowsEntry, RowsLayout, RowsSink};
pub use write::whole::{OutputKind, WholeOutput, keeps_inputs, output_exists, part_of, refused};
pub use write::{
    Compression, TiffLabels, TiffStep, Tree, TreeNode, TreeValue, WriteFormat, WriteOptions,
    WriteOrientation, Written, ZarrVersion, tree_bytes, write_dataset, write_npy, write_tiff,
    write_tree,
};
