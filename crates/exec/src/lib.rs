//! Plans runs and carries them out: one engine, four verbs.
//!
//! ```text
//! Plan::try_new(dataset, udfs, roi, options)   pure, cheap, printable; no pixel is read
//!   → Worker::run_partition(i)                 one partial result per UDF
//!   → Results::merge(partial)                  always in partition order
//!   → Results::snapshot()                      repeatable; complete or so far
//! ```
//!
//! [`Driver`] is the loop over these four, as a whole or step by step. An executor is a [`Crew`],
//! which carries out the decisions of a [`Schedule`]: threads here, worker processes and clusters
//! elsewhere. Partitions and tiles follow from data, UDFs, region of interest and
//! options, never from the number of workers, and partial results are merged in partition order;
//! so every executor gives the same bits. Workers may only run a bounded number of partitions
//! ahead of the merge, which bounds memory.
//!
//! This crate knows no file format and no Python, and has no `unsafe` code.
#![forbid(unsafe_code)]

mod call;
mod driver;
mod options;
mod plan;
mod progress;
mod results;
mod schedule;
mod system;
mod turns;
mod worker;

pub use driver::{Crew, Driver, Executor, Host, RunOptions, WorkerScope, run};
pub use framefold_core::{Cancel, guarded};
pub use options::PlanOptions;
pub use plan::{BufferExplanation, Explanation, Plan, UdfExplanation};
pub use progress::{Event, Observer, Silent};
pub use results::{
    LastingResults, MergedRows, MergedState, ResultBuffer, Results, RunResults, UdfResults,
    expand_nav,
};
pub use schedule::{ATTEMPTS, Next, Schedule, WAITING, WAITING_BYTES};
pub use system::heed_system_memory;
pub use turns::{AsTurn, Asking, Turn, let_others_pass, should_pass};
pub use worker::{PartialResult, Worker};
