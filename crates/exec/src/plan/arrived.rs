//! How much of a partition can be processed, where frames arrive during a run.

use super::Plan;
use framefold_core::{Arrival, Error, Partition, Result};
use std::ops::Range;

/// Frames of a partition that go together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Which selected frames.
    pub(crate) frames: Range<usize>,
    /// Whether some of them never come, so that none is processed.
    pub(crate) absent: bool,
    /// Whether it is the end of its partition.
    pub(crate) is_last: bool,
}

impl Plan {
    /// Refuses what only some know how to wait for: a run whose frames arrive while it goes on, or
    /// some of which never came. For those who process whole partitions that they believe to be there.
    ///
    /// # Errors
    /// `Unsupported` with what to use instead.
    pub fn check_arrived(&self) -> Result<()> {
        self.cuts.iter().try_for_each(|cut| self.check_here(cut))
    }

    pub(crate) fn check_here(&self, cut: &Partition) -> Result<()> {
        let what = match self.arrival(cut.frames.clone())? {
            Arrival::Here => return Ok(()),
            Arrival::NotYet => "arrive while the run goes on, and this executor does not wait",
            Arrival::Never => "never came, and this executor does not leave frames out",
        };
        let Range { start, end } = cut.frames;
        let message = format!("some of the frames {start} to {} {what}", end.saturating_sub(1));
        Err(Error::unsupported(message).with_hint("use the executor 'threads' or 'inline'"))
    }

    /// What to do next of partition `index`, of which the frames before `from` are done; None if
    /// it has not arrived.
    ///
    /// All that is left, as a rule. If rows follow from frames alone, so that no bit depends on
    /// where partitions are cut: the frames that are here, or those that never come.
    pub(crate) fn next_piece(&self, index: usize, from: Option<usize>) -> Result<Option<Piece>> {
        let whole = &self.partition(index)?.0.frames;
        let left = from.unwrap_or(whole.start)..whole.end;
        let piece =
            |end, absent| Some(Piece { frames: left.start..end, absent, is_last: end == left.end });
        let all = self.arrival(left.clone())?;
        if all == Arrival::Here || !self.is_framewise() {
            let absent = all == Arrival::Never;
            return Ok(if all == Arrival::NotYet { None } else { piece(left.end, absent) });
        }
        let mut end = left.start + 1;
        match self.arrival(left.start..end)? {
            Arrival::NotYet => Ok(None),
            Arrival::Never => {
                while end < left.end && self.arrival(end..end + 1)? == Arrival::Never {
                    end += 1;
                }
                Ok(piece(end, true))
            }
            Arrival::Here => {
                // Of the first frames, `end` are here, and `beyond` are not.
                let mut beyond = left.end;
                while beyond - end > 1 {
                    let middle = end + (beyond - end) / 2;
                    match self.arrival(left.start..middle)? {
                        Arrival::Here => end = middle,
                        Arrival::NotYet | Arrival::Never => beyond = middle,
                    }
                }
                Ok(piece(end, false))
            }
        }
    }
}
