//! How many frames a SEQ file holds.
//!
//! The header's number (u32 at byte 572) counts where it is between 1 and what the size of the file
//! allows. Where it is not, the recording was not ended in order, and the size counts. Either may
//! include slots at the end that were allocated and never written: all zero, time stamp included.
//! They are not frames; to take them for some would add phantoms from which the dark frame is
//! subtracted. Where a file is cut in the middle of a frame, those that the header counts are lost, but
//! none after a slot that was never written. A file whose first frame has no time stamp has none at all, and its frames of zeros are
//! frames.
//!
//! Both are held against each other, and against the next time stamps: a header whose bytes from one frame
//! to the next are wrong would make each frame begin further from where it does.

use super::Header;
use crate::access::Storage;
use crate::headers::geometry::FrameCount;
use framefold_core::{Error, Result};

/// So many bytes are looked at at once.
const PIECE: usize = 1 << 16;

impl Header {
    /// The number of frames among the `count` that the size of the file allows, and of those that are
    /// lost after them, if that is known.
    ///
    /// # Errors
    /// `BadFile` if frames are not where the header says; `Io`.
    pub(super) fn n_frames(
        &self,
        storage: &Storage,
        count: FrameCount,
        warnings: &mut Vec<String>,
    ) -> Result<(u64, Option<u64>)> {
        let (there, counted) = (count.n_frames, u64::from(self.counted));
        let kept = if (1..=there).contains(&counted) { counted } else { there };
        if kept < there {
            warnings.push(format!(
                "the header counts {kept} frames, and the file has room for {there}: what follows \
                 those of the header was left out"
            ));
        } else if counted > there {
            warnings
                .push(format!("the header counts {counted} frames, but only {there} are there"));
        }
        if kept == there {
            let lacks = self.offset(kept).saturating_sub(storage.len());
            warnings.extend(count.warning(self.stride).or((lacks > 0).then(|| {
                format!(
                    "the file ends {lacks} bytes before its last frame does, of which it has all \
                     pixels: it was cut, or frames are not {} bytes apart as the header says",
                    self.stride
                )
            })));
        }
        let mut n_frames = kept;
        if self.time(storage, 0)?.is_some() {
            while n_frames > 1 && self.never_written(storage, n_frames - 1)? {
                n_frames -= 1;
            }
            self.check_stride(storage, n_frames)?;
        }
        if n_frames < kept {
            warnings.push(format!(
                "the last {} of {kept} frames were never written (all zero, without a time stamp) and \
                 were left out",
                kept - n_frames
            ));
            return Ok((n_frames, Some(0)));
        }
        Ok((n_frames, count.lost_by_a_cut(counted)))
    }

    /// Where frames have time stamps, the second and the third one have one, too, unless the file ends
    /// before, or they were never written. One byte off, something else can look like a time: not two.
    fn check_stride(&self, storage: &Storage, n_frames: u64) -> Result<()> {
        for frame in 1..n_frames.min(3) {
            let is_there = self.offset(frame + 1) <= storage.len();
            if !is_there
                || self.time(storage, frame)?.is_some()
                || self.never_written(storage, frame)?
            {
                continue;
            }
            let message = format!(
                "the first frame has a time stamp and frame {frame} after it none: frames are not {} \
                 bytes apart, as the header says",
                self.stride
            );
            let hint = "the header is damaged; copy the file again";
            return Err(Error::bad_file(message).with_offset(580).with_hint(hint));
        }
        Ok(())
    }

    /// Whether all bytes of a frame and of what follows its pixels are zero. The time stamp is
    /// looked at first: frames that were written differ in it.
    fn never_written(&self, storage: &Storage, frame: u64) -> Result<bool> {
        let start = self.offset(frame);
        let pixels_end = start.saturating_add(self.frame_bytes());
        let end = start.saturating_add(self.stride);
        if end > storage.len() {
            return Ok(false);
        }
        Ok(all_zero(storage, pixels_end, end)? && all_zero(storage, start, pixels_end)?)
    }
}

fn all_zero(storage: &Storage, mut at: u64, end: u64) -> Result<bool> {
    let mut piece = [0; PIECE];
    while at < end {
        let len = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
        let Some(part) = piece.get_mut(..len) else { return Ok(false) };
        storage.read_at(at, part)?;
        if part.iter().any(|&byte| byte != 0) {
            return Ok(false);
        }
        at = at.saturating_add(len as u64);
    }
    Ok(true)
}
