//! Which pixels lie around those of a slice: frames are reflected at their edges.

use framefold_core::{Error, Result, SigSlice};

/// A filter never reaches farther than this.
pub(super) const MOST_RADIUS: usize = 1 << 12;

/// What a filter of some radius needs of frames for one slice.
pub(super) struct Window {
    pub(super) read: SigSlice,
    pub(super) axes: Vec<AxisWindow>,
}

/// The same along one axis.
pub(super) struct AxisWindow {
    /// How many pixels of the slice there are.
    pub(super) len: usize,
    /// For each place from `radius` before the slice to `radius` behind it, the pixel of what is read that
    /// is there.
    pub(super) places: Vec<usize>,
}

impl Window {
    /// For the slice `sig` of frames of this shape, with a radius for each axis.
    pub(super) fn new(sig: &SigSlice, shape: &[usize], radii: &[usize]) -> Result<Self> {
        let (mut origin, mut extent, mut axes) = (Vec::new(), Vec::new(), Vec::new());
        let along = sig.origin().iter().zip(sig.shape()).zip(shape).zip(radii);
        for (((&start, &len), &of), &radius) in along {
            let end = start.checked_add(len).and_then(|end| end.checked_add(2 * radius));
            let end = end.ok_or_else(|| Error::bug(format!("a slice {sig:?} of {shape:?}")))?;
            // Counted from `radius` before the frame, so that no place is below 0.
            let mut places: Vec<usize> = (start..end).map(|at| reflected(at, radius, of)).collect();
            let first = places.iter().copied().min().unwrap_or(0);
            let last = places.iter().copied().max().unwrap_or(0);
            places.iter_mut().for_each(|place| *place -= first);
            origin.push(first);
            extent.push(last + 1 - first);
            axes.push(AxisWindow { len, places });
        }
        Ok(Window { read: SigSlice::try_within(origin, extent, shape)?, axes })
    }
}

/// The pixel, of `len`, that is seen at `at - before` where the axis goes on as its own reflection: the
/// first and the last pixel are seen twice.
fn reflected(at: usize, before: usize, len: usize) -> usize {
    let period = 2 * len;
    let at = (at + (period - before % period)) % period;
    if at < len { at } else { period - 1 - at }
}
