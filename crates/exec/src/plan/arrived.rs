//! How much of a partition can be processed, where frames arrive during a run.

use super::Plan;
use framefold_core::{Arrival, Result};
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
