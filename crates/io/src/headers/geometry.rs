//! What formats of frames at a regular stride have in common when they are opened.

use crate::options::OpenOptions;
use framefold_core::{Error, Result, checked_product};

/// The shape of a frame: as the file has it, or as the caller wants the same cells.
///
/// # Errors
/// `InvalidArgument` if the caller's shape has another number of pixels.
pub(crate) fn sig_shape(native: &[usize], options: &OpenOptions) -> Result<Vec<usize>> {
    let Some(wanted) = &options.sig_shape else {
        return Ok(native.to_vec());
    };
    if checked_product(wanted) == checked_product(native) {
        return Ok(wanted.clone());
    }
    Err(Error::invalid(format!(
        "sig_shape {wanted:?} does not have as many pixels as the frames in the file, which have \
         the shape {native:?}"
    ))
    .with_hint("leave sig_shape out: the file knows it"))
}

/// The scan shape where nothing but the number of frames is known: a square if it is one, else
/// one axis.
pub(crate) fn square_or_line(n_frames: u64) -> Vec<usize> {
    let side = n_frames.isqrt();
    let length = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    if side > 1 && side * side == n_frames {
        vec![length(side), length(side)]
    } else {
        vec![length(n_frames)]
    }
}

/// How many frames a file really holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameCount {
    /// Whole frames, at least 1.
    pub(crate) n_frames: u64,
    /// Bytes after the last of them.
    pub(crate) surplus: u64,
    /// Whether the file ends in the middle of a frame, or of what follows its pixels.
    is_cut: bool,
}

impl FrameCount {
    /// The frames of `stride` bytes from `start` to the end of a file of `len` bytes. The last
    /// one may lack what follows its pixels, which end `needed` bytes after its start.
    ///
    /// # Errors
    /// `BadFile` if there is not even one; `Bug` if frames take no bytes.
    pub(crate) fn try_new(len: u64, start: u64, stride: u64, needed: u64) -> Result<Self> {
        if stride == 0 || needed > stride {
            return Err(Error::bug(format!("frames of {needed} bytes, {stride} apart")));
        }
        let body = len.saturating_sub(start);
        let (mut n_frames, mut surplus) = (body / stride, body % stride);
        let is_cut = surplus > 0;
        if surplus >= needed {
            n_frames += 1;
            surplus = 0;
        }
        if n_frames == 0 {
            return Err(Error::bad_file(format!(
                "there is not one whole frame: the file has {len} bytes, expected at least {}",
                u128::from(start) + u128::from(needed)
            ))
            .with_offset(start.min(len))
            .with_hint("the file is truncated or still being written; copy it again"));
        }
        Ok(FrameCount { n_frames, surplus, is_cut })
    }

    /// The frames of `stride` bytes, not 0, that an array of `len` bytes is cut into, which are no more
    /// than that.
    pub(crate) fn within(len: u64, stride: u64) -> Self {
        let surplus = len % stride;
        FrameCount { n_frames: len / stride, surplus, is_cut: surplus > 0 }
    }

    /// The same, but no more than `promised` frames, and what is odd about that.
    pub(crate) fn promised(self, promised: u64, stride: u64) -> (u64, Option<String>) {
        let FrameCount { n_frames, surplus, .. } = self;
        if n_frames < promised {
            let warning =
                format!("the header promises {promised} frames, but only {n_frames} are there");
            return (n_frames, Some(warning));
        }
        let more = u128::from(n_frames - promised) * u128::from(stride) + u128::from(surplus);
        let warning = (more > 0).then(|| {
            format!("{more} bytes after the {promised} frames of the header were left out")
        });
        (promised, warning)
    }

    /// How many of the `promised` frames lack, none where the header lies: a number that is far too large
    /// must not make a scan without end.
    pub(crate) fn lost(self, promised: u64) -> u64 {
        if promised / 1000 > self.n_frames { 0 } else { promised.saturating_sub(self.n_frames) }
    }

    /// The same, for formats whose headers often count frames that were never written: a file that ends in
    /// the middle of a frame was cut. `None` if it was, and the header says nothing, or lies.
    pub(crate) fn lost_by_a_cut(self, promised: u64) -> Option<u64> {
        let is_plausible = promised > 0 && promised / 1000 <= self.n_frames;
        match (self.is_cut, is_plausible) {
            (false, _) => Some(0),
            (true, true) => Some(self.lost(promised)),
            (true, false) => None,
        }
    }

    /// A word about a last frame that is not whole.
    pub(crate) fn warning(self, stride: u64) -> Option<String> {
        (self.surplus > 0).then(|| {
            format!(
                "{} bytes after the last of {} whole frames were left out (a frame takes {stride} \
                 bytes)",
                self.surplus, self.n_frames
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_counted_by_what_is_there() {
        let count = |len, needed| {
            FrameCount::try_new(len, 100, 30, needed).map(|count| (count.n_frames, count.surplus))
        };
        assert_eq!(count(190, 30).unwrap(), (3, 0));
        assert_eq!(count(189, 30).unwrap(), (2, 29));
        assert_eq!(count(189, 20).unwrap(), (3, 0));
        for len in [0, 99, 100, 119] {
            let error = count(len, 20).unwrap_err();
            assert!(error.message().contains("expected at least 120"), "{error}");
        }
        assert!(FrameCount::try_new(u64::MAX, 0, u64::MAX, u64::MAX).is_ok());
        assert!(FrameCount::try_new(9, u64::MAX, u64::MAX, u64::MAX).is_err());
        assert!(FrameCount::try_new(9, 0, 0, 0).is_err());
    }

    #[test]
    fn promises_are_held_against_the_file() {
        let count = FrameCount { n_frames: 5, surplus: 3, is_cut: true };
        let (n, warning) = count.promised(7, 10);
        assert_eq!((n, warning.is_some_and(|w| w.contains("promises 7"))), (5, true));
        let (n, warning) = count.promised(4, 10);
        assert_eq!((n, warning.is_some_and(|w| w.starts_with("13 bytes"))), (4, true));
        let exact = FrameCount { n_frames: 5, surplus: 0, is_cut: false };
        assert_eq!(exact.promised(5, 10), (5, None));
        assert_eq!([0, 5, 7, 5999, 6000].map(|promised| exact.lost(promised)), [0, 0, 2, 5994, 0]);
        assert_eq!(exact.lost_by_a_cut(7), Some(0));
        let by_a_cut = [0, 5, 7, 6000].map(|promised| count.lost_by_a_cut(promised));
        assert_eq!(by_a_cut, [None, Some(0), Some(2), None]);
    }

    #[test]
    fn squares_are_recognized() {
        assert_eq!(square_or_line(9), [3, 3]);
        assert_eq!(square_or_line(8), [8]);
        assert_eq!(square_or_line(1), [1]);
    }
}
