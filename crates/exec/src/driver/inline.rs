//! One partition after the other, on the calling thread.

use super::{Crew, Host, POLL, WorkerScope, guarded};
use crate::{Cancel, PartialResult, Plan, Worker};
use framefold_core::{Arrival, Result, interrupt};
use std::sync::Arc;

pub(super) struct InlineCrew {
    plan: Arc<Plan>,
    cancel: Cancel,
    scope: Arc<dyn WorkerScope>,
    next: usize,
}

impl InlineCrew {
    pub(super) fn new(plan: Arc<Plan>, cancel: Cancel, scope: Arc<dyn WorkerScope>) -> Self {
        InlineCrew { plan, cancel, scope, next: 0 }
    }
}

impl Crew for InlineCrew {
    fn work(&mut self, host: &mut dyn Host) -> Result<()> {
        let mut worker = Worker::try_new(&self.plan)?;
        while self.next < self.plan.n_partitions() {
            host.poll()?;
            if self.plan.arrival(self.next)? == Arrival::NotYet {
                self.plan.source().wait(POLL);
                continue;
            }
            let partial = process(&mut worker, self.next, &self.cancel, self.scope.as_ref(), host)?;
            self.next += 1;
            if !host.merge(partial, 0)? {
                break;
            }
        }
        Ok(())
    }

    fn close(&mut self, _: bool) -> Result<()> {
        Ok(())
    }
}

fn process(
    worker: &mut Worker<'_>,
    index: usize,
    cancel: &Cancel,
    scope: &dyn WorkerScope,
    host: &mut dyn Host,
) -> Result<PartialResult> {
    scope.partition(0, &mut || {
        let cancel = cancel.clone();
        let run = || worker.run_arrived(index, &mut || host.poll());
        guarded(|| interrupt::watched(move || cancel.check(), run))
    })
}
