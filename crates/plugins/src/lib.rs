//! Runs functions that others compiled: tables of C functions, as `framefold-abi` has them.
//!
//! A [`Table`] is checked when it is made. [`PluginUdf`] makes an engine's [`framefold_core::Udf`] of it;
//! [`PluginAccumulator`] is its worker, which can also be used without the rest where something else plans
//! and merges. The table decides nothing about memory: buffers are the engine's, and what a function sees of
//! them are views.
//!
//! Every call comes back with a status, and what is not 0 becomes an error that names the function and says
//! what it said. A table that lies about its pointers cannot be held back by anything but a process of its
//! own.

mod accumulator;
mod buffers;
mod call;
mod dtype;
mod job;
mod merger;
mod table;
mod udf;

pub use accumulator::{Explain, FailedFrame, FailedTile, PluginAccumulator};
pub use merger::PluginMerger;
pub use table::Table;
pub use udf::PluginUdf;
