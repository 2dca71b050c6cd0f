//! What a frame, a tile, a partition and a result *are*.
//!
//! `framefold-core` holds the vocabulary that every other crate speaks: shapes, regions of
//! interest, dtypes, the sealed tiling scheme, result buffers, and the three contracts
//! [`Udf`], [`Accumulator`] and [`DataSource`]. It reads no file, starts no thread and knows no
//! Python; it has no `unsafe` code.
//!
//! The key choice: *declaring* and *running* are two things. A [`Udf`] says what it needs before
//! the first pixel is read and can be shared between threads; an [`Accumulator`] lives for one
//! partition on one worker; a [`Merger`] folds partial results on the main side. The driver
//! cannot tell a native kernel from a Python class.
//!
//! ```
//! use framefold_core::{DType, Shape};
//!
//! let scan = Shape::try_new(&[128, 128], &[256, 256])?;
//! assert_eq!(scan.n_frames(), 128 * 128);
//! assert_eq!(DType::promote(DType::U16, DType::F32), DType::F32);
//! # Ok::<(), framefold_core::Error>(())
//! ```
#![forbid(unsafe_code)]

mod axes;
mod buffer;
mod cancel;
mod cast;
mod corrections;
mod csr;
mod dataset;
mod dtype;
mod element;
mod encoding;
mod error;
mod frames;
mod guarded;
pub mod interrupt;
mod job;
mod lending;
pub mod memory;
mod metadata;
mod orientation;
mod partition;
mod promote;
mod roi;
mod rows;
mod scans;
mod scratch;
mod shape;
mod sink;
mod source;
mod stage;
mod staging;
mod stamp;
mod tile;
mod tiling;
mod typed;
mod udf;

pub use axes::{
    Axis, AxisKind, COLOUR, Calibration, NAMES_SEPARATOR, axes, split_names, steps_of,
    usual_axis_name,
};
pub use buffer::{Array, BufferDecl, BufferDtype, BufferKind, BufferUse, Foreign, NativeArray};
pub use cancel::Cancel;
pub use cast::{cast_frames, convert_tile};
pub use corrections::{
    CorrectedSlice, CorrectionPlanes, CorrectionStage, Corrections, correct_tile,
};
pub use csr::{
    CsrParts, CsrRows, CsrScratch, CsrTile, CsrView, TypedSlice, convert_csr, densify, sparsify,
    stray_column,
};
pub use dataset::{Dataset, SyncInfo};
pub use dtype::{ByteOrder, DType, StoredDType};
pub use element::{Bool8, Complex64, Complex128, Element, F16, narrow_f16, widen_f16};
pub use encoding::{EncodedTile, Encoding};
pub use error::{Error, ErrorKind, Result};
pub use frames::FrameIndices;
pub use guarded::{guarded, guarded_call};
pub use job::{JobMeta, RunMeta};
pub use lending::{LentBytes, Owner, SharedBytes};
pub use metadata::{Metadata, MetadataList, MetadataValue, Quantity};
pub use orientation::Orientation;
pub use partition::Partition;
pub use roi::Roi;
pub use rows::FinalRows;
pub use scans::suggested_scans;
pub use scratch::Scratch;
pub use shape::{Shape, checked_product};
pub use sink::{NewRows, Sink, SinkJob};
pub use source::{Arrival, DataSource, FrameReader, Presence, SourceInfo};
pub use stage::{AxisMap, FrameKind, Stage, StagePart};
pub use staging::{StagedTile, Staging, StagingBuffer};
pub use stamp::{FilePlace, FileStamp};
pub use tile::{DenseTile, FramesView, Tile, TileFrames, TilePosition};
pub use tiling::{SigSlice, TilingScheme};
pub use typed::TypedVec;
pub use udf::{Accumulator, ArrayFormat, InputDType, Merger, Method, Partial, Requirements, Udf};
