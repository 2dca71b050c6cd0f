//! The shortest way from a data set to results.

use framefold_core::{Dataset, Result, Udf};
use framefold_exec::{Cancel, Executor, Plan, PlanOptions, RunOptions, RunResults, Silent, run};
use std::sync::Arc;

/// Runs `udfs` over all of `dataset` in one pass, on all cores.
///
/// # Errors
/// As [`Plan::try_new`] and [`run`].
pub fn reduce(dataset: &Dataset, udfs: Vec<Arc<dyn Udf>>) -> Result<RunResults> {
    let plan = Arc::new(Plan::try_new(dataset, udfs, None, &PlanOptions::default())?);
    let options = RunOptions {
        executor: Executor::Threads(None),
        cancel: Cancel::new(),
        observer: &mut Silent,
    };
    run(&plan, options)?.take()
}
