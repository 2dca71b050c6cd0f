//! The loops over the four verbs.

mod inline;
mod pace;
mod threads;

use crate::{Cancel, Event, Observer, Plan, Results};
use framefold_core::{Error, Result};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Where partitions are processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executor {
    /// On the calling thread, one after the other.
    Inline,
    /// On that many threads, or on as many as the process may use.
    Threads(Option<NonZeroUsize>),
}

/// How to run a plan.
pub struct RunOptions<'a> {
    /// Where partitions are processed; changes no bit of the results.
    pub executor: Executor,
    /// Stops the run when set, from any thread.
    pub cancel: Cancel,
    /// Watches the run.
    pub observer: &'a mut dyn Observer,
}

/// How long the observer is left alone at most.
const POLL: Duration = Duration::from_millis(40);

/// Runs a plan to its end.
///
/// # Errors
/// The first error in partition order, from the source, a UDF or the observer; `Cancelled`.
pub fn run(plan: &Arc<Plan>, options: RunOptions<'_>) -> Result<Results> {
    let RunOptions { executor, cancel, observer } = options;
    let mut results = Results::try_new(plan.clone())?;
    let mut watch = Watch { observer, cancel: &cancel, frames: 0, last_poll: Instant::now() };
    watch.start(&results)?;
    match executor {
        Executor::Inline => inline::run(plan, &mut results, &mut watch)?,
        Executor::Threads(count) => {
            let count = count
                .or_else(|| std::thread::available_parallelism().ok())
                .unwrap_or(NonZeroUsize::MIN);
            threads::run(plan, count, &mut results, &mut watch)?;
        }
    }
    watch.observer.event(&Event::Finished, &results)?;
    Ok(results)
}

/// The observer's side of a run.
struct Watch<'a> {
    observer: &'a mut dyn Observer,
    cancel: &'a Cancel,
    frames: usize,
    last_poll: Instant,
}

impl Watch<'_> {
    fn start(&mut self, results: &Results) -> Result<()> {
        self.poll_now()?;
        let plan = results.plan();
        let frames = plan.n_frames();
        let event =
            Event::Started { partitions: plan.n_partitions(), frames, bytes: bytes(plan, frames) };
        self.observer.event(&event, results)
    }

    fn merged(&mut self, partition: usize, results: &Results) -> Result<()> {
        let plan = results.plan();
        self.frames += plan.completed_by(partition).len();
        let event =
            Event::Merged { partition, frames: self.frames, bytes: bytes(plan, self.frames) };
        self.observer.event(&event, results)?;
        self.poll()
    }

    /// Polls if it is time to, and looks at the cancel flag in any case.
    fn poll(&mut self) -> Result<()> {
        self.cancel.check()?;
        if self.last_poll.elapsed() >= POLL { self.poll_now() } else { Ok(()) }
    }

    fn poll_now(&mut self) -> Result<()> {
        self.last_poll = Instant::now();
        self.observer.poll()?;
        self.cancel.check()
    }
}

fn bytes(plan: &Plan, frames: usize) -> u64 {
    u64::try_from(frames).unwrap_or(u64::MAX).saturating_mul(plan.frame_bytes())
}

/// Runs `work`, turning a panic into an error: no panic may reach the user. For drivers.
///
/// # Errors
/// Those of `work`; `Bug` if it panicked.
pub fn guarded<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(|text| (*text).to_owned())
            .or_else(|| panic.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "no message".to_owned());
        Err(Error::bug(format!("the engine panicked: {text}"))
            .with_hint("please report this, with the call that led to it"))
    })
}
