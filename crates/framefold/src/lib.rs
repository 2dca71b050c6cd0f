//! User-defined map-reduce functions over huge stacks of detector frames.
//!
//! An electron microscope records a detector frame at every point of a scan: more data than
//! fits in memory. framefold reads such files in cache-sized tiles, runs any number of
//! reductions over them in one pass and on all cores, merges the partial results in a fixed
//! order, and so gives the same bits on every machine and executor.
//!
//! This crate is the front door: [`open`] a file, [`plan`](Plan::try_new) and [`run`].
//!
//! ```no_run
//! use framefold::prelude::*;
//!
//! let dataset = framefold::open("scan.mib", &OpenOptions::default())?;
//! let results = framefold::reduce(&dataset, vec![Arc::new(Sum::default())])?;
//! println!("{:?}", results.udfs[0].get("intensity"));
//! # Ok::<(), framefold::Error>(())
//! ```
//!
//! It is not a place for code: formats live in [`io`], reductions in [`kernels`], functions that others
//! compiled in [`plugins`], what makes frames of frames in [`stages`], planning and running in [`exec`], and the vocabulary in [`core`].
#![forbid(unsafe_code)]

pub use framefold_core as core;
pub use framefold_exec as exec;
pub use framefold_io as io;
pub use framefold_kernels as kernels;
pub use framefold_plugins as plugins;
pub use framefold_stages as stages;

pub use framefold_core::{Dataset, Error, ErrorKind, Result, Roi, Shape};
pub use framefold_exec::{
    Cancel, Executor, Plan, PlanOptions, RunOptions, RunResults, Silent, run,
};
pub use framefold_io::{
    CsrWriteOptions, OpenOptions, WriteOptions, open, open_as, write_dataset, write_raw_csr,
};

mod pipe;
mod reduce;
pub use pipe::pipe;
pub use reduce::reduce;

/// What most programs need.
pub mod prelude {
    pub use crate::core::{Array, Dataset, NativeArray, Roi, Shape, Udf};
    pub use crate::exec::{Cancel, Executor, Plan, PlanOptions, RunOptions, Silent};
    pub use crate::io::OpenOptions;
    pub use crate::kernels::{Com, LogSum, Masks, Max, Pick, StdDev, Sum, SumSig};
    pub use std::sync::Arc;
}

/// The guide's Rust code, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/rust.md")]
struct Readme;
