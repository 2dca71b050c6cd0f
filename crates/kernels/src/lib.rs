//! The native reductions of framefold, one file each.
//!
//! Every reduction is a [`framefold_core::Udf`]: plain parameters that declare result buffers and
//! make the workers and the merger of a run. Nothing here opens a file or starts a thread; who
//! drives a reduction decides about both.
//!
//! The key choice: sums over integers are *exact*. They are kept in integers wide enough for any
//! data set, through tiles, partial results and merges, and are rounded once, when results are
//! asked for. So the result of an integer reduction has the same bits however the frames are cut
//! into tiles and partitions. Sums over floating-point data run in double precision.
//!
//! The loops over pixels are free functions on slices, written so that the compiler turns them
//! into vector instructions; they allocate nothing.
//!
//! [`REDUCTIONS`] lists what there is: a row for each reduction, from which the command line, the
//! Python package and the documentation derive its parameters.
//!
//! ```
//! use framefold_core::{DType, JobMeta, Shape, Udf};
//! use framefold_kernels::Sum;
//!
//! let job = JobMeta {
//!     shape: Shape::try_new(&[8, 8], &[16, 16])?,
//!     native_dtype: DType::U32,
//!     input_dtype: DType::U32,
//!     roi: None,
//! };
//! let buffers = Sum::default().buffers(&job)?;
//! assert_eq!(buffers[0].name, "intensity");
//! assert_eq!(buffers[0].dtype, DType::F64.into());
//! # Ok::<(), framefold_core::Error>(())
//! ```
#![deny(unsafe_code)]

mod cell;
mod dispatch;
mod doubts;
mod entries;
mod layout;
mod ln;
mod loops;
mod nav;
mod parameters;
mod reductions;
mod row;
mod shifts;
mod sums;
mod total;

pub use parameters::{GivenArray, Parameters, Value};
pub use reductions::{
    Com, FrameCells, LogSum, Masks, Max, Pick, REDUCTIONS, ShiftedMasks, StdDev, Sum, SumSig, disk,
    reduction, ring,
};
pub use row::{DefaultValue, Detector, Look, Parameter, ParameterKind, Reduction};
pub use shifts::Shifts;
