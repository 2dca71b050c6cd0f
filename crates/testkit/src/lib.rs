//! Contract suites, naive oracles and random data for authors of reductions and formats.
//!
//! - [`check_udf`] holds a [`framefold_core::Udf`] to the laws of its contract, and
//!   [`check_source`] a [`framefold_core::DataSource`].
//! - [`evaluate`] drives the contracts in the plainest way: no threads, no planner. It takes the
//!   tiling and the partitions as they come, so that tests can choose odd ones.
//! - [`oracle`] computes the same reductions as the kernels do, straight from their definition
//!   and from whole frames in memory. Speed does not matter there; being obviously right does.
//! - [`Case`] is a random data set with ROI, tiling and partitions, and [`cases`] the proptest
//!   strategy that makes them; [`MemorySource`] is the data source behind it.
//!
//! Nothing here is fast, and nothing here is part of a release: the crate is a dev-dependency of
//! the others. Suites return errors instead of panicking, so that they can be used from any test
//! harness.
//!
//! ```
//! use framefold_core::{DType, NativeArray};
//! use framefold_testkit::{MemoryOptions, MemorySource, check_source};
//!
//! let frames = NativeArray::zeros(DType::U16, &[10, 4, 6]);
//! check_source(&MemorySource::try_new(frames, MemoryOptions::default())?)?;
//! # Ok::<(), framefold_core::Error>(())
//! ```
#![forbid(unsafe_code)]

mod case;
mod check_source;
mod check_udf;
mod compare;
mod evaluate;
mod in_format;
mod memory;
pub mod oracle;
mod probe;
mod random;

pub use case::{Case, cases, cases_of};
pub use check_source::check_source;
pub use check_udf::{Agreement, check_udf};
pub use compare::{Expected, assert_same};
pub use evaluate::{Results, cut, evaluate, evaluate_in, runs_with_data};
pub use in_format::InFormat;
pub use memory::{MemoryOptions, MemorySource};
pub use probe::CellCount;
pub use random::{Random, Values, random_values};
