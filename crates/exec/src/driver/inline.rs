//! One partition after the other, on the calling thread.

use super::{Watch, guarded};
use crate::{Plan, Results, Worker};
use framefold_core::{Result, interrupt};

pub(super) fn run(plan: &Plan, results: &mut Results, watch: &mut Watch<'_>) -> Result<()> {
    let mut worker = Worker::try_new(plan)?;
    for index in 0..plan.n_partitions() {
        watch.poll()?;
        let cancel = watch.cancel.clone();
        let check = move || cancel.check();
        let run = || worker.run_partition(index, &mut || watch.poll());
        let partial = guarded(|| interrupt::watched(check, run))?;
        guarded(|| results.merge(partial))?;
        watch.merged(index, results)?;
    }
    Ok(())
}
