//! What makes other frames of frames: sums of neighbours, parts of frames, filters.
//!
//! Every stage is a [`framefold_core::Stage`]: made for frames of one shape and dtype, it says what frames
//! it gives, which part of a frame it needs for a part of what it gives, and writes that part. It reads no
//! file and starts no thread; a stage of plain numbers can be used by many workers at once.
//!
//! [`Rebin`] makes one frame of those of several scan positions, and so is a source around a source itself.
//!
//! A stage is written as a line of text, the same on the command line, in pickles and in explanations:
//! its name, its value, and options. [`STAGES`] is the table of all.
//!
//! ```
//! use framefold_core::{DType, FrameKind};
//!
//! let frames = FrameKind { shape: vec![256, 256], dtype: DType::U16 };
//! let stage = framefold_stages::make("bin 2", frames)?;
//! assert_eq!(stage.output().shape, [128, 128]);
//! assert_eq!(stage.output().dtype, DType::U32);
//! # Ok::<(), framefold_core::Error>(())
//! ```
#![forbid(unsafe_code)]

mod arguments;
mod cells;
mod row;
mod stages;

pub use row::{StageOption, StageRow};
pub use stages::{Rebin, STAGES, Shifts, make};
