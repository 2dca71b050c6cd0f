//! What a run tells about itself while it goes on.

use crate::Results;
use framefold_core::{Result, guarded_call};
use std::any::Any;

/// Something that happened in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The first partition is about to be handed out.
    Started {
        /// The number of partitions of the run.
        partitions: usize,
        /// The number of frames that will be read.
        frames: usize,
        /// The number of bytes of pixels that will be read, as stored in memory.
        bytes: u64,
    },
    /// Partial results were merged: a partition, the next frames of one, or all that are parts of the same frames.
    Merged {
        /// The partition, or the last one of them.
        partition: usize,
        /// The number of frames merged since the start.
        frames: usize,
        /// The number of bytes of pixels merged since the start.
        bytes: u64,
        /// The number of partitions that are under way, or wait to be merged.
        in_progress: usize,
    },
    /// The last partial result was merged.
    Finished,
}

/// Watches a run. All methods are called on the thread that called [`crate::run`].
pub trait Observer {
    /// Called for every [`Event`], in order, after it happened; `results` may be looked at.
    ///
    /// # Errors
    /// Any error ends the run and is returned from it.
    fn event(&mut self, event: &Event, results: &Results) -> Result<()>;

    /// Called several times a second, whatever else happens: the place to look for signals.
    ///
    /// # Errors
    /// Any error ends the run and is returned from it. While the end of a run is waited for, another one leaves
    /// its threads behind: they begin nothing more.
    fn poll(&mut self) -> Result<()>;

    /// Calls `merge`, which takes one partition, or all that are parts of the same frames, into the results of
    /// all UDFs, once: where what stops a run could stop it in the middle, no result could be had.
    ///
    /// # Errors
    /// Those of `merge`; any other ends the run, too.
    fn whole(&mut self, merge: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        merge()
    }

    /// What functions that hinder each other take anew for each merge, as a lock: kept for several that follow
    /// each other, until what this returns is dropped. Nothing else is waited for meanwhile.
    fn hold(&self) -> Option<Box<dyn Any>> {
        None
    }
}

/// An observer that does nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn event(&mut self, _: &Event, _: &Results) -> Result<()> {
        Ok(())
    }

    fn poll(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Another observer, whose panics end the run with an error.
pub(crate) struct Guarded<'o>(pub(crate) &'o mut dyn Observer);

/// What may panic, in errors.
const OBSERVER: &str = "the observer";

impl Observer for Guarded<'_> {
    fn event(&mut self, event: &Event, results: &Results) -> Result<()> {
        guarded_call(OBSERVER, || self.0.event(event, results))
    }

    fn poll(&mut self) -> Result<()> {
        guarded_call(OBSERVER, || self.0.poll())
    }

    fn whole(&mut self, merge: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        guarded_call(OBSERVER, || self.0.whole(merge))
    }

    fn hold(&self) -> Option<Box<dyn Any>> {
        self.0.hold()
    }
}
