//! Which frames of a source a tile is made of.

use std::ops::Range;

/// Frame numbers in file order, as a reader is asked for them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FrameIndices<'a> {
    /// Frames that follow each other.
    Run(Range<u64>),
    /// Any frames, in ascending order.
    List(&'a [u64]),
}

impl FrameIndices<'_> {
    /// The number of frames.
    pub fn len(&self) -> usize {
        match self {
            FrameIndices::Run(range) => {
                usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX)
            }
            FrameIndices::List(list) => list.len(),
        }
    }

    /// Whether there are no frames.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The `i`-th frame number, or `None` past the end.
    pub fn get(&self, i: usize) -> Option<u64> {
        match self {
            FrameIndices::Run(range) => {
                let frame = range.start.checked_add(u64::try_from(i).ok()?)?;
                (frame < range.end).then_some(frame)
            }
            FrameIndices::List(list) => list.get(i).copied(),
        }
    }

    /// Those from the `start`-th one on, `len` of them or what is left.
    pub fn part(&self, start: usize, len: usize) -> FrameIndices<'_> {
        let start = start.min(self.len());
        let len = len.min(self.len() - start);
        match self {
            FrameIndices::Run(range) => {
                let offset =
                    |n: usize| range.start.saturating_add(u64::try_from(n).unwrap_or(u64::MAX));
                FrameIndices::Run(offset(start)..offset(start + len))
            }
            FrameIndices::List(list) => FrameIndices::List(&list[start..start + len]),
        }
    }

    /// All frame numbers in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.len()).filter_map(|i| self.get(i))
    }
}
