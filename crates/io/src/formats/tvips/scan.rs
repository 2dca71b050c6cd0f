//! The shape of the scan and its first frame, from the positions in the headers of frames.
//!
//! Before a scan the camera records frames at position (0, 0). The first frame at x = 1 in the
//! first row, after one at (0, 0), is the second one of the scan; where x falls back, the first row
//! ends. Rows that are not complete are left out.

use super::set::FileSet;
use framefold_core::Result;
use std::ops::Range;

/// Where a header has the position: x, then y, each four bytes.
const POSITION: Range<u64> = 68..76;
/// Frames that are looked at before the search is given up.
const MAX_FRAMES: u64 = 1 << 16;

/// A scan.
#[derive(Debug, PartialEq)]
pub(super) struct Scan {
    pub(super) shape: Vec<usize>,
    pub(super) sync_offset: i64,
    /// How it was found, in a few words.
    pub(super) origin: &'static str,
}

/// Finds the scan.
///
/// # Errors
/// `Io` if a header cannot be read.
pub(super) fn find(set: &FileSet) -> Result<Scan> {
    let n_frames = set.n_frames();
    let mut search = Search::default();
    if set.header.version == 2 {
        for frame in 0..n_frames.min(MAX_FRAMES) {
            let Some(bytes) = set.frame_header(frame, POSITION)? else {
                search.frames_are_missing |= search.origin;
                continue;
            };
            let number = |at: usize| {
                let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk());
                bytes.map_or(f32::NAN, |bytes| f32::from_le_bytes(*bytes))
            };
            if search.look_at(frame, number(0), number(4)) {
                break;
            }
        }
    }
    Ok(search.result(n_frames))
}

/// What was seen so far.
#[derive(Debug, Default)]
struct Search {
    /// Whether there was a frame at (0, 0).
    origin: bool,
    /// The first frame of the scan.
    start: Option<u64>,
    /// The largest x of the first row.
    largest: f32,
    /// Whether there are gaps since the origin, in which the first row may end.
    frames_are_missing: bool,
    complete: bool,
}

impl Search {
    /// Takes the position of the next frame; says whether all is known.
    fn look_at(&mut self, frame: u64, x: f32, y: f32) -> bool {
        if self.start.is_none() {
            if self.origin && x == 1.0 && y == 0.0 {
                // There is one before, at the origin.
                self.start = frame.checked_sub(1);
                self.largest = x;
            }
            self.origin |= x == 0.0 && y == 0.0;
        } else if let Some(width) = self.width_across_gaps(frame, x, y) {
            self.largest = width - 1.0;
            self.complete = true;
        } else if x < self.largest {
            self.complete = true;
        } else {
            self.largest = x;
        }
        self.complete
    }

    /// The width of rows, from a frame of a later row, if the first one may end in a gap.
    fn width_across_gaps(&self, frame: u64, x: f32, y: f32) -> Option<f32> {
        let passed = frame.checked_sub(self.start?)?;
        if !self.frames_are_missing || y < 1.0 {
            return None;
        }
        #[expect(clippy::cast_precision_loss, reason = "no more than MAX_FRAMES are looked at")]
        let width = (passed as f32 - x) / y;
        (width.fract() == 0.0 && width > self.largest && width > x).then_some(width)
    }

    fn result(&self, n_frames: u64) -> Scan {
        let start = self.start.unwrap_or(0);
        let left = usize::try_from(n_frames.saturating_sub(start)).unwrap_or(usize::MAX);
        let sync_offset = i64::try_from(start).unwrap_or(0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the largest x is at least 1; what is absurd is too large for the frames"
        )]
        let width = (self.largest as usize).saturating_add(1);
        let rows = left.checked_div(width).unwrap_or(0);
        match (self.start, self.complete && rows > 0) {
            (Some(_), true) => {
                Scan { shape: vec![rows, width], sync_offset, origin: "positions of the frames" }
            }
            (Some(_), false) => Scan {
                shape: vec![left],
                sync_offset,
                origin: "number of frames, from the start of the scan on",
            },
            (None, _) => {
                let side = left.isqrt();
                let square = side > 1 && side * side == left;
                Scan {
                    shape: if square { vec![side, side] } else { vec![left] },
                    sync_offset: 0,
                    origin: "number of frames",
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_may_end_where_frames_are_missing() {
        let positions = (0..4u16).flat_map(|y| (0..5u16).map(move |x| (y, x)));
        for gap in [2..4, 3..5, 4..6, 3..7, 2..9, 4..12, 2..11, 6..9, 3..20] {
            let mut search = Search::default();
            for (frame, (y, x)) in (0u64..).zip(positions.clone()) {
                if gap.contains(&frame) {
                    search.frames_are_missing = true;
                } else if search.look_at(frame, x.into(), y.into()) {
                    break;
                }
            }
            let expected = if gap.end == 20 { vec![20] } else { vec![4, 5] };
            assert_eq!(search.result(20).shape, expected, "{gap:?}");
        }
    }

    fn scan(positions: &[(u16, u16)]) -> (Vec<usize>, i64) {
        let mut search = Search::default();
        let done = positions
            .iter()
            .zip(0u64..)
            .any(|(&(y, x), frame)| search.look_at(frame, x.into(), y.into()));
        assert_eq!(done, search.complete);
        let scan = search.result(positions.len() as u64);
        (scan.shape, scan.sync_offset)
    }

    #[test]
    fn idle_frames_then_rows() {
        let rows = |n: usize, width: u16| {
            (0..n as u16).flat_map(move |y| (0..width).map(move |x| (y, x))).collect::<Vec<_>>()
        };
        let idle = |n: usize, rows: &[(u16, u16)]| [vec![(0, 0); n], rows.to_vec()].concat();
        assert_eq!(scan(&idle(3, &rows(2, 5))), (vec![2, 5], 3));
        assert_eq!(scan(&rows(4, 3)), (vec![4, 3], 0));
        // The last row is not complete.
        assert_eq!(scan(&idle(1, &rows(4, 3)[..11])), (vec![3, 3], 1));
        // The first row does not end.
        assert_eq!(scan(&idle(2, &rows(1, 6))), (vec![6], 2));
        // Nothing but idle frames: a square, or a row.
        assert_eq!(scan(&idle(9, &[])), (vec![3, 3], 0));
        assert_eq!(scan(&idle(8, &[])), (vec![8], 0));
        // The scan was on already when recording began.
        assert_eq!(scan(&rows(2, 4)[1..]), (vec![7], 0));
    }
}
