//! The loop over the four verbs: one driver for all executors, seen step by step.

mod inline;
mod pace;
mod threads;

use crate::progress::Guarded;
use crate::{Cancel, Event, Observer, PartialResult, Plan, Results, RunResults};
use framefold_core::{Error, FinalRows, NewRows, Result, Sink, SinkJob, guarded, guarded_call};
use std::any::Any;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What may panic, in errors.
const SINK: &str = "the sink";
const CREW: &str = "the crew";

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

/// Those who process partitions, wherever they are. Who gets which, and in which order, is up to
/// [`crate::Schedule`].
pub trait Crew: Send {
    /// Whether it waits for frames that arrive while the run goes on, and leaves out what never comes.
    /// Otherwise it is given no run that needs it.
    fn waits(&self) -> bool {
        false
    }

    /// Passes results to `host`, in partition order, until it wants no more for now or all are
    /// merged. Called again after a pause.
    ///
    /// # Errors
    /// The first error in partition order, from the source or a UDF; those of `host`.
    fn work(&mut self, host: &mut dyn Host) -> Result<()>;

    /// Stops all workers; returns when no partition is being processed any more, or when `going_on`, called
    /// several times a second, has an error: workers end by themselves then. Called once, at the end of the run,
    /// which may be `complete` or not.
    ///
    /// # Errors
    /// What goes wrong with that; that of `going_on`.
    fn close(&mut self, complete: bool, going_on: &mut dyn FnMut() -> Result<()>) -> Result<()>;
}

/// What a crew works for. Used on the thread that called [`Crew::work`].
pub trait Host {
    /// Called several times a second, whatever the crew waits for.
    ///
    /// # Errors
    /// What ends the run.
    fn poll(&mut self) -> Result<()>;

    /// Merges the result of the next partition, or of its next frames, when `in_progress` others are
    /// under way. Whether to go on now.
    ///
    /// # Errors
    /// What ends the run.
    fn merge(&mut self, partial: PartialResult, in_progress: usize) -> Result<bool>;

    /// Whether it pauses after each partition, so that what its caller changes then should hold soon.
    fn pauses(&self) -> bool;

    /// As [`Observer::hold`].
    fn hold(&self) -> Option<Box<dyn Any>>;
}

/// Prepares the thread of a worker for user code, and undoes that afterwards.
pub trait WorkerScope: Send + Sync {
    /// Calls `work`, which is all that a thread does for the run.
    fn thread(&self, work: &mut dyn FnMut()) {
        work();
    }

    /// Whether the end of a thread can be waited for.
    fn may_join(&self) -> bool {
        true
    }

    /// Whether worker number `worker` has a device. Others leave to it what it does sooner.
    fn has_device(&self, worker: usize) -> bool {
        let _ = worker;
        false
    }

    /// Calls `work`, with which worker number `worker` processes a partition.
    ///
    /// # Errors
    /// Those of `work`; if what is needed cannot be had.
    fn partition(
        &self,
        worker: usize,
        work: &mut dyn FnMut() -> Result<PartialResult>,
    ) -> Result<PartialResult> {
        let _ = worker;
        work()
    }
}

/// For plans without user code: nothing is prepared.
struct NoScope;

impl WorkerScope for NoScope {}

/// How long the observer is left alone at most.
pub(crate) const POLL: Duration = Duration::from_millis(40);

/// Runs a plan to its end.
///
/// # Errors
/// The first error in partition order, from the source, a UDF or the observer; `Cancelled`.
pub fn run(plan: &Arc<Plan>, options: RunOptions<'_>) -> Result<Results> {
    let RunOptions { executor, cancel, observer } = options;
    let mut driver = Driver::try_new(plan, executor, cancel, None, None)?;
    driver.run(observer)?;
    Ok(driver.into_results())
}

/// A run, as a whole or one merge at a time.
pub struct Driver {
    crew: Option<Box<dyn Crew>>,
    merging: Merging,
    has_failed: bool,
    /// What the run had ended with when waiting for its end was stopped, too.
    ended_with: Option<Error>,
}

/// What is merged.
struct Merging {
    results: Results,
    /// The first bands of frames whose last one is not there: merged with it, so that the results are those of
    /// whole frames at any time.
    bands: Vec<PartialResult>,
    sink: Option<ToSink>,
    cancel: Cancel,
    started: bool,
    in_progress: usize,
    last_poll: Instant,
}

/// A sink that is given the rows of [`Plan::to_sink`], and goes on where it ended before.
struct ToSink {
    sink: Box<dyn Sink>,
    rows: Vec<FinalRows>,
}

impl Driver {
    /// A run that has not started. Threads start with the first step.
    ///
    /// `sink` takes the rows of [`Plan::to_sink`]; it has begun when this returns.
    ///
    /// # Errors
    /// Whatever the UDFs report when they set up their results; that of the sink.
    pub fn try_new(
        plan: &Arc<Plan>,
        executor: Executor,
        cancel: Cancel,
        scope: Option<Arc<dyn WorkerScope>>,
        sink: Option<Box<dyn Sink>>,
    ) -> Result<Self> {
        let scope = scope.unwrap_or_else(|| Arc::new(NoScope));
        // Before there are results, which it counts.
        let n_threads = match executor {
            Executor::Inline => None,
            Executor::Threads(count) => Some(threads::ThreadCrew::n_threads(plan, count)),
        };
        let merging = Merging::try_new(plan, cancel.clone(), sink)?;
        let first = merging.results.n_merged();
        let crew: Box<dyn Crew> = match n_threads {
            None => Box::new(inline::InlineCrew::new(plan.clone(), first, cancel, scope)),
            Some(n) => Box::new(threads::ThreadCrew::new(plan.clone(), first, n, scope)),
        };
        Ok(Driver { crew: Some(crew), merging, has_failed: false, ended_with: None })
    }

    /// The same with others who process partitions, all but those that the sink has already.
    ///
    /// # Errors
    /// As [`Driver::try_new`]; `Unsupported` if frames have not arrived, and the crew does not wait.
    pub fn with_crew(
        plan: &Arc<Plan>,
        crew: Box<dyn Crew>,
        cancel: Cancel,
        sink: Option<Box<dyn Sink>>,
    ) -> Result<Self> {
        if !crew.waits() {
            plan.check_arrived()?;
        }
        let merging = Merging::try_new(plan, cancel, sink)?;
        Ok(Driver { crew: Some(crew), merging, has_failed: false, ended_with: None })
    }

    /// Runs to the end.
    ///
    /// # Errors
    /// The first error in partition order, from the source, a UDF or the observer; `Cancelled`.
    /// The run has ended then.
    pub fn run(&mut self, observer: &mut dyn Observer) -> Result<()> {
        self.advance(observer, false)?;
        if self.merging.is_complete() { Ok(()) } else { Err(self.ended_early(observer)) }
    }

    /// Waits for the next partition and merges it, or for all those that are parts of the same frames; false if
    /// all were merged before.
    ///
    /// # Errors
    /// As [`Driver::run`].
    pub fn step(&mut self, observer: &mut dyn Observer) -> Result<bool> {
        let before = self.results().n_merged();
        self.advance(observer, true)?;
        let has_merged = self.results().n_merged() > before;
        if has_merged || self.merging.is_complete() {
            Ok(has_merged)
        } else {
            Err(self.ended_early(observer))
        }
    }

    /// What is wrong with a crew that has merged nothing, and is not done.
    fn ended_early(&mut self, observer: &mut dyn Observer) -> Error {
        let _ = self.close(observer);
        let (n_merged, n) = (self.results().n_merged(), self.results().plan().n_partitions());
        Error::bug(format!("the crew ended after {n_merged} of {n} partitions"))
    }

    fn advance(&mut self, observer: &mut dyn Observer, pause: bool) -> Result<()> {
        if self.has_failed {
            return Err(Error::cancelled());
        }
        let observer = &mut Guarded(observer);
        let Err(error) = self.try_advance(observer, pause) else { return Ok(()) };
        self.has_failed = true;
        let mut stopped = None;
        // The error of the run is the one to report, or what came while its end was waited for.
        let _ = self.close_while(&mut || {
            observer.poll().map_err(|error| {
                stopped = Some(error);
                Error::cancelled()
            })
        });
        let Some(stopped) = stopped else { return Err(error) };
        self.ended_with = Some(error);
        Err(stopped)
    }

    /// The error of the run, once, where another one was returned, as the observer did not wait for its end.
    pub fn take_ended_with(&mut self) -> Option<Error> {
        self.ended_with.take()
    }

    fn try_advance(&mut self, observer: &mut dyn Observer, pause: bool) -> Result<()> {
        self.merging.start(observer)?;
        if !self.merging.is_complete() {
            self.merging.cancel.check()?;
            let Some(crew) = self.crew.as_mut() else { return Err(Error::cancelled()) };
            let mut step = Step { merging: &mut self.merging, observer, pause };
            guarded_call(CREW, || crew.work(&mut step))?;
        }
        if self.merging.is_complete() && self.crew.is_some() {
            self.close(observer)?;
            if let Some(to) = &mut self.merging.sink {
                guarded_call(SINK, || to.sink.finish())?;
            }
            observer.event(&Event::Finished, &self.merging.results)?;
        }
        Ok(())
    }

    /// The results so far.
    pub fn results(&self) -> &Results {
        &self.merging.results
    }

    /// All results, last of all: see [`Results::take`].
    ///
    /// # Errors
    /// As [`Results::take`].
    pub fn take_results(&mut self) -> Result<RunResults> {
        self.merging.results.take()
    }

    /// The results, complete or not.
    pub fn into_results(self) -> Results {
        self.merging.results
    }

    /// Ends the run; returns when no worker processes a partition of it any more, or when the poll of `observer`
    /// has an error: workers end by themselves then.
    ///
    /// # Errors
    /// Whatever the crew reports; that of `observer`.
    pub fn close(&mut self, observer: &mut dyn Observer) -> Result<()> {
        self.close_while(&mut || observer.poll())
    }

    fn close_while(&mut self, going_on: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let complete = self.merging.is_complete();
        let crew = self.crew.take();
        let close = |mut crew: Box<dyn Crew>| crew.close(complete, going_on);
        let closed = guarded_call(CREW, || crew.map_or(Ok(()), close));
        if !complete {
            // There is no more for them.
            let ended = guarded_call(SINK, || {
                self.merging.sink = None;
                Ok(())
            });
            self.merging.bands.clear();
            return closed.and(ended);
        }
        closed
    }
}

impl Merging {
    fn try_new(plan: &Arc<Plan>, cancel: Cancel, sink: Option<Box<dyn Sink>>) -> Result<Self> {
        let (results, sink) = match sink {
            None if !plan.to_sink().is_empty() => {
                return Err(Error::bug("results are to go to a sink, and there is none"));
            }
            None => (Results::try_new(plan.clone())?, None),
            Some(mut sink) => {
                let buffers = plan.to_sink();
                let (shape, roi) = (plan.dataset().shape(), plan.roi());
                let job = SinkJob { buffers: &buffers, shape, roi };
                let merged = guarded_call(SINK, || sink.begin(&job))?;
                if let (1.., Some(name)) = (merged, plan.first_kept()) {
                    return Err(Error::unsupported(format!(
                        "the sink goes on with an earlier run, but the result '{name}' does not go \
                         to it: it would lack the first {merged} partitions"
                    ))
                    .with_hint("run functions whose results all go to the sink, or begin anew"));
                }
                let results = Results::from_partition(plan.clone(), merged)?;
                let rows = results.rows_to_sink()?;
                (results, Some(ToSink { sink, rows }))
            }
        };
        let last_poll = Instant::now();
        let bands = Vec::new();
        Ok(Merging { results, bands, sink, cancel, started: false, in_progress: 0, last_poll })
    }

    fn start(&mut self, observer: &mut dyn Observer) -> Result<()> {
        if !self.started {
            self.started = true;
            self.poll_now(observer)?;
            let plan = self.results.plan();
            let (partitions, frames) = (plan.n_partitions(), plan.n_frames());
            let event = Event::Started { partitions, frames, bytes: bytes(plan, frames) };
            observer.event(&event, &self.results)?;
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.results.n_merged() == self.results.plan().n_partitions()
    }

    /// Polls if it is time to, and looks at the cancel flag in any case.
    fn poll(&mut self, observer: &mut dyn Observer) -> Result<()> {
        self.cancel.check()?;
        if self.last_poll.elapsed() >= POLL { self.poll_now(observer) } else { Ok(()) }
    }

    fn poll_now(&mut self, observer: &mut dyn Observer) -> Result<()> {
        self.last_poll = Instant::now();
        observer.poll()?;
        self.cancel.check()
    }

    fn merge(&mut self, partial: PartialResult, observer: &mut dyn Observer) -> Result<()> {
        let partition = partial.partition;
        self.bands.push(partial);
        if !self.results.plan().completes(partition) {
            return Ok(());
        }
        let (results, bands) = (&mut self.results, &mut self.bands);
        let mut merge = || bands.drain(..).try_for_each(|band| guarded(|| results.merge(band)));
        observer.whole(&mut merge)?;
        if !self.bands.is_empty() {
            return Err(Error::bug(format!("the observer did not merge partition {partition}")));
        }
        if let Some(to) = &mut self.sink {
            let (frames, n_merged) = (self.results.latest().clone(), self.results.n_merged());
            FinalRows::look_at_each(&to.rows, &frames, |rows| {
                let rows = NewRows { frames: frames.clone(), rows, n_merged };
                guarded_call(SINK, || to.sink.merged(&rows))
            })?;
        }
        let (frames, in_progress) = (self.results.n_frames(), self.in_progress);
        let bytes = bytes(self.results.plan(), frames);
        let event = Event::Merged { partition, frames, bytes, in_progress };
        observer.event(&event, &self.results)
    }
}

/// One call of the crew.
struct Step<'a> {
    merging: &'a mut Merging,
    observer: &'a mut dyn Observer,
    /// Whether to return after each merge.
    pause: bool,
}

impl Host for Step<'_> {
    fn poll(&mut self) -> Result<()> {
        self.merging.poll(self.observer)
    }

    fn merge(&mut self, partial: PartialResult, in_progress: usize) -> Result<bool> {
        self.merging.in_progress = in_progress;
        let before = self.merging.results.n_merged();
        self.merging.merge(partial, self.observer)?;
        let pauses = self.pause && self.merging.results.n_merged() > before;
        if pauses || self.merging.is_complete() {
            return Ok(false);
        }
        self.merging.poll(self.observer)?;
        Ok(true)
    }

    fn pauses(&self) -> bool {
        self.pause
    }

    fn hold(&self) -> Option<Box<dyn Any>> {
        self.observer.hold()
    }
}

fn bytes(plan: &Plan, frames: usize) -> u64 {
    u64::try_from(frames).unwrap_or(u64::MAX).saturating_mul(plan.frame_bytes())
}
