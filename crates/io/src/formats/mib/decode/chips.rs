//! Where the chips of a detector lie, in a stored frame and in the assembled one.

use super::super::layout::{Chips, RawLayout};
use std::ops::Range;

/// Which way round a chip is built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// As its rows are stored.
    Forward,
    /// Turned by 180 degrees.
    Backward,
}

/// One chip of a detector: where it begins in the assembled frame, and which way round it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chip {
    pub(super) first_row: usize,
    pub(super) first_column: usize,
    pub(super) direction: Direction,
}

impl Chip {
    /// The row of the assembled frame in which row `row` of this chip is, of `n_rows`.
    pub(super) fn row_in_frame(&self, row: usize, n_rows: usize) -> usize {
        match self.direction {
            Direction::Forward => self.first_row + row,
            Direction::Backward => self.first_row + (n_rows - 1 - row),
        }
    }
}

impl RawLayout {
    /// The chips in the order in which a stored row holds a row of each.
    ///
    /// For a quad detector that is bottom right, bottom left, top right, top left; the bottom
    /// chips are turned.
    pub(super) fn chips(&self) -> ([Chip; 4], usize) {
        let chip = |first_row, first_column, direction| Chip { first_row, first_column, direction };
        let single = chip(0, 0, Direction::Forward);
        match self.chips {
            Chips::One => ([single; 4], 1),
            Chips::Quad { gap } => {
                let (below, right) = (self.chip_rows + gap, self.chip_width + gap);
                let chips = [
                    chip(below, right, Direction::Backward),
                    chip(below, 0, Direction::Backward),
                    chip(0, right, Direction::Forward),
                    single,
                ];
                (chips, 4)
            }
        }
    }

    /// Rows and columns of the gap between the chips, which is empty if there is none.
    pub(super) fn gap(&self) -> (Range<usize>, Range<usize>) {
        match self.chips {
            Chips::One => (0..0, 0..0),
            Chips::Quad { gap } => {
                (self.chip_rows..self.chip_rows + gap, self.chip_width..self.chip_width + gap)
            }
        }
    }

    /// Bytes of one stored row: a row of each chip.
    pub(super) fn row_bytes(&self) -> usize {
        self.chips().1 * self.chip_row_bytes()
    }

    /// The stored rows that hold the rows `rows` of the assembled frame, without gap rows.
    pub(super) fn stored_rows(&self, rows: &Range<usize>) -> Range<usize> {
        let Chips::Quad { gap } = self.chips else {
            return rows.clone();
        };
        let top = rows.start..rows.end.min(self.chip_rows);
        let bottom_start = rows.start.max(self.chip_rows + gap);
        let last = 2 * self.chip_rows + gap;
        // The bottom chips are upside down.
        let bottom = last.saturating_sub(rows.end)..last.saturating_sub(bottom_start);
        let has_bottom = rows.end > bottom_start;
        match (top.is_empty(), has_bottom) {
            (false, true) => top.start.min(bottom.start)..top.end.max(bottom.end),
            (false, false) => top,
            (true, true) => bottom,
            // Nothing but gap.
            (true, false) => 0..0,
        }
    }
}
