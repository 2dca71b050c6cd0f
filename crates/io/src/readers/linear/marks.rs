//! Bytes in front of each frame by which it is known to be one.
//!
//! Where they are missing, the pixels behind them are not those of a frame: zeros of a file that was
//! made long enough beforehand, or what lies elsewhere because something was lost before it.

use super::LinearFile;
use framefold_core::{Error, Result};

/// No mark is longer.
const LONGEST: usize = 8;

/// What stands in front of every frame of a source.
#[derive(Clone, Copy, Debug)]
pub struct FrameMark {
    /// From its first byte to the first pixel.
    pub before: u64,
    /// Whichever of these it is; they are equally long, and not longer than 8 bytes.
    pub any_of: &'static [&'static [u8]],
    /// How to tell a person what is expected.
    pub expected: &'static str,
}

impl FrameMark {
    /// Looks for the mark of the `frame`-th frame of a file.
    pub(super) fn check(&self, file: &LinearFile, frame: u64) -> Result<()> {
        let len = self.any_of.first().map_or(0, |mark| mark.len()).min(LONGEST);
        let pixels = file.pixel(frame, 0)?;
        let start = pixels.checked_sub(self.before);
        let start = start.ok_or_else(|| Error::bug("a mark in front of its file"))?;
        let mut read = [0; LONGEST];
        let Some(read) = read.get_mut(..len) else { return Ok(()) };
        let found: &[u8] = match file.storage.bytes(start..start.saturating_add(len as u64)) {
            Some(bytes) => bytes,
            None => {
                file.storage.read_at(start, read)?;
                read
            }
        };
        if self.any_of.contains(&found) {
            return Ok(());
        }
        // A file that shrinks meanwhile is another matter.
        file.storage.verify()?;
        let error = Error::bad_file(format!(
            "found the bytes {found:02x?} in front of a frame, expected {}",
            self.expected
        ))
        .with_offset(start)
        .with_frame(file.frames.start.saturating_add(frame))
        .with_hint(
            "the file is damaged here, or was not written to its end; a ROI can leave this frame out",
        );
        Err(file.storage.locate(error))
    }
}
