//! One partition after the other, on the calling thread.

use super::{Watch, guarded};
use crate::{Plan, Results, Worker};
use framefold_core::Result;

pub(super) fn run(plan: &Plan, results: &mut Results, watch: &mut Watch<'_>) -> Result<()> {
    let mut worker = Worker::try_new(plan)?;
    for index in 0..plan.n_partitions() {
        watch.poll()?;
        let partial = guarded(|| worker.run_partition(index, &mut || watch.poll()))?;
        guarded(|| results.merge(partial))?;
        watch.merged(index, results)?;
    }
    Ok(())
}
