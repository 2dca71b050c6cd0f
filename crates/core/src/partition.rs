//! The unit of scheduling and of merging.

use std::ops::Range;

/// A run of selected frames that all have data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Its number; merges happen in this order.
    pub index: usize,
    /// The compressed indices of its frames: consecutive among the selected positions.
    pub frames: Range<usize>,
}

impl Partition {
    /// The number of frames.
    pub fn n_frames(&self) -> usize {
        self.frames.len()
    }
}
