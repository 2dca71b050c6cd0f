//! A place for results that are final while a run goes on.

use crate::{BufferDecl, Result, Roi, Shape};
use std::ops::Range;
use std::sync::Arc;

/// Takes rows of `nav` buffers as they are merged: files, for one.
///
/// One for a run, used by the thread that merges, which may be another one for each call, but never
/// by two at a time: [`begin`](Sink::begin) once, [`merged`](Sink::merged) for each merge, in order,
/// [`finish`](Sink::finish) once. Workers go on meanwhile, until as many results wait as may.
pub trait Sink: Send {
    /// What is to come. Called once, when the run is set up and before any partition is processed.
    /// Returns how many partitions it has from an earlier run: these are not processed again, and the run is
    /// refused if it has results that do not go to the sink.
    ///
    /// # Errors
    /// The run does not start.
    fn begin(&mut self, job: &SinkJob<'_>) -> Result<usize>;

    /// Takes the rows of a partition that was merged just now, or of a piece of it. Frames are
    /// ascending from call to call; those that never came are left out. What is borrowed is gone
    /// afterwards, and rows that go to a sink are kept nowhere else.
    ///
    /// # Errors
    /// Ends the run; the sink is not called any more.
    fn merged(&mut self, rows: &NewRows<'_>) -> Result<()>;

    /// All is merged. Called once, last, in runs that come to their end; never in others.
    ///
    /// # Errors
    /// Ends the run.
    fn finish(&mut self) -> Result<()>;
}

/// What a sink is to take.
#[derive(Debug)]
pub struct SinkJob<'a> {
    /// The buffers, with the number of their UDF.
    pub buffers: &'a [(usize, &'a BufferDecl)],
    /// Of the data set.
    pub shape: &'a Shape,
    /// The region of interest, whose positions frames are counted among.
    pub roi: Option<&'a Arc<Roi>>,
}

/// Rows that are final now.
#[derive(Debug)]
pub struct NewRows<'a> {
    /// The selected frames, of which each has one row in each buffer.
    pub frames: Range<usize>,
    /// For each buffer of [`SinkJob::buffers`] the rows, in C order and native byte order.
    pub rows: &'a [&'a [u8]],
    /// How many whole partitions are merged.
    pub n_merged: usize,
}
