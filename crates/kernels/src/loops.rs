//! The inner loops over pixels: free functions on slices, without allocation or branches.
//!
//! A loop over the frames of a tile works on *strips*: a few neighbouring pixels whose results stay
//! in registers while [`GROUP`] frames are read side by side. So results are loaded and stored
//! once per group, and each frame is read from its start to its end, as memory likes it best.

mod extremes;
mod pixels;
mod rows;

use framefold_core::{Element, FramesView};
use framefold_simd::prefetch_beyond;
use std::ops::Range;

pub(crate) use extremes::{raise, raise_frames};
pub(crate) use pixels::add_frames;
pub(crate) use rows::{smallest, sum_cells, sum_few};

/// The number of frames that are read side by side: enough that results are not what moves most,
/// few enough for the processor to fetch all of them ahead.
pub(crate) const GROUP: usize = 8;

/// The number of pixels of a strip: at least four vectors of what they are summed in.
pub(crate) const STRIP: usize = 32;

/// Frames in groups of at most [`GROUP`].
#[inline(always)]
pub(crate) fn groups(frames: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    let end = frames.end;
    frames.step_by(GROUP).map(move |first| first..end.min(first + GROUP))
}

/// As [`strip`], for a loop that goes through memory, and asks for what comes soon. As many frames
/// as a group has are more streams than the processor fetches well by itself.
#[inline(always)]
pub(crate) fn stream<'a, T: Element, const W: usize>(
    frames: FramesView<'a, T>,
    i: usize,
    at: usize,
) -> &'a [T; W] {
    const AHEAD_BYTES: usize = 512;
    let cells = strip(frames, i, at);
    if W > 1 {
        prefetch_beyond(cells, AHEAD_BYTES);
    }
    cells
}

/// The pixels `at..at + W` of frame `i`.
#[inline(always)]
pub(crate) fn strip<'a, T: Element, const W: usize>(
    frames: FramesView<'a, T>,
    i: usize,
    at: usize,
) -> &'a [T; W] {
    &frames.frame(i)[at..].as_chunks::<W>().0[0]
}
