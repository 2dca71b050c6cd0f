//! How fast frames can be read here, as far as that has been seen.

use super::grid::{Grid, Stride};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What takes no more of the time for a preview needs none.
const AT_ONCE: f64 = 0.75;
/// Bytes in a second, of frames that lie apart, before anything was read: a slow disk.
const APART: f64 = 0.4e9;
/// The same of frames that follow each other.
const TOGETHER: f64 = 1.0e9;
/// Shorter measurements of fewer frames say little.
const SHORTEST: f64 = 1e-3;
const ENOUGH: usize = 64;
/// What a frame costs of which no pixel is looked at, compared with all of them.
const FIXED: f64 = 0.2;

/// How long a frame takes, in seconds, by how frames are read.
#[derive(Debug)]
pub(crate) struct Pace {
    apart: Mutex<f64>,
    together: Mutex<f64>,
    patience: Duration,
}

/// How frames are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// Some here and there.
    Apart,
    /// One after the other.
    Together,
}

impl Pace {
    /// For frames of so many bytes.
    pub(crate) fn new(frame_bytes: u64, patience: Duration) -> Self {
        let bytes = frame_bytes.max(1) as f64;
        let (apart, together) = (Mutex::new(bytes / APART), Mutex::new(bytes / TOGETHER));
        Pace { apart, together, patience }
    }

    fn of(&self, read: Read) -> &Mutex<f64> {
        match read {
            Read::Apart => &self.apart,
            Read::Together => &self.together,
        }
    }

    /// How long so many frames take, of which a share of the pixels is looked at.
    fn expected(&self, read: Read, n_frames: usize, share: f64) -> Duration {
        let seconds = *self.of(read).lock().unwrap_or_else(PoisonError::into_inner);
        let seconds = seconds * work(share) * n_frames as f64;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// So many frames have been read since `start`, and a share of their pixels was looked at.
    pub(crate) fn seen(&self, read: Read, n_frames: usize, share: f64, start: Instant) {
        let seconds = start.elapsed().as_secs_f64();
        if n_frames == 0 || (seconds < SHORTEST && n_frames < ENOUGH) {
            return;
        }
        let seconds = seconds / n_frames as f64 / work(share);
        let mut known = self.of(read).lock().unwrap_or_else(PoisonError::into_inner);
        // Files move from the disk to memory; of what makes a pass slow, most is soon over.
        let latest = if seconds < *known { 0.8 } else { 0.4 };
        *known = (1.0 - latest) * *known + latest * seconds;
    }

    /// Whether so many frames need no preview.
    pub(crate) fn at_once(&self, n_frames: usize, share: f64) -> bool {
        self.expected(Read::Together, n_frames, share) <= self.patience.mul_f64(AT_ONCE)
    }

    /// The finest stride whose frames can be read for a preview of a grid.
    pub(crate) fn stride(&self, grid: &Grid, share: f64) -> Stride {
        let n = |stride: Stride| {
            grid.rows.div_ceil(stride.rows) * grid.columns.div_ceil(stride.columns)
        };
        self.stride_where(grid, share, n)
    }

    /// The same for some positions of it, of whose frames all pixels count.
    pub(crate) fn stride_within(&self, grid: &Grid, n_positions: usize) -> Stride {
        self.stride_where(grid, 1.0, |stride| n_positions.div_ceil(stride.area()))
    }

    fn stride_where(&self, grid: &Grid, share: f64, n: impl Fn(Stride) -> usize) -> Stride {
        let mut stride = Stride::ONE;
        while n(stride) > 1 && self.expected(Read::Apart, n(stride), share) > self.patience {
            stride = match grid.rows {
                1 => Stride { rows: 1, columns: stride.columns * 2 },
                _ => Stride { rows: stride.rows * 2, columns: stride.columns * 2 },
            };
        }
        stride
    }
}

/// What a frame costs of which a share of the pixels is looked at.
fn work(share: f64) -> f64 {
    FIXED + (1.0 - FIXED) * share
}
