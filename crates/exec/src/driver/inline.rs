//! One partition after the other, on the calling thread.

use super::{Crew, Host, POLL, WorkerScope};
use crate::plan::Piece;
use crate::{Cancel, PartialResult, Plan, Worker};
use framefold_core::{Result, guarded, interrupt};
use std::sync::Arc;

pub(super) struct InlineCrew {
    plan: Arc<Plan>,
    cancel: Cancel,
    scope: Arc<dyn WorkerScope>,
    next: usize,
    /// Where to go on in that one.
    from: Option<usize>,
}

impl InlineCrew {
    /// For all partitions from `first` on.
    pub(super) fn new(
        plan: Arc<Plan>,
        first: usize,
        cancel: Cancel,
        scope: Arc<dyn WorkerScope>,
    ) -> Self {
        InlineCrew { plan, cancel, scope, next: first, from: None }
    }
}

impl Crew for InlineCrew {
    fn waits(&self) -> bool {
        true
    }

    fn work(&mut self, host: &mut dyn Host) -> Result<()> {
        let mut worker = Worker::try_new(&self.plan)?;
        while self.next < self.plan.n_partitions() {
            host.poll()?;
            let index = self.next;
            let piece = self.plan.next_piece(index, self.from);
            let Some(piece) = piece.map_err(|error| error.with_partition(index))? else {
                self.plan.wait(POLL).map_err(|error| error.with_partition(index))?;
                continue;
            };
            // A worker lives until the next pause.
            let goes_on = !host.pauses() && index + 1 < self.plan.n_partitions();
            let next = goes_on.then_some(index + 1);
            let of = (index, &piece, next);
            let partial = process(&mut worker, of, &self.cancel, self.scope.as_ref(), host)?;
            (self.next, self.from) = match piece.is_last {
                true => (index + 1, None),
                false => (index, Some(piece.frames.end)),
            };
            if !host.merge(partial, 0)? {
                break;
            }
        }
        Ok(())
    }

    fn close(&mut self, _: bool, _: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        Ok(())
    }
}

fn process(
    worker: &mut Worker<'_>,
    (index, piece, next): (usize, &Piece, Option<usize>),
    cancel: &Cancel,
    scope: &dyn WorkerScope,
    host: &mut dyn Host,
) -> Result<PartialResult> {
    scope.partition(0, &mut || {
        let cancel = cancel.clone();
        let run = || worker.run_piece(index, piece, &|| Ok(next), &mut || host.poll());
        guarded(|| interrupt::watched(move || cancel.check(), run))
    })
}
