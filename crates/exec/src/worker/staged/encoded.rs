//! What the device could not decode.

use super::Stage;
use framefold_core::{Error, ErrorKind, Result};

impl Stage {
    /// What a partition ended with; or, if the device could not decode one of its chunks, the error of that:
    /// whatever else went wrong may have come of it, but for a run that was ended.
    pub(super) fn or_damaged(&self, read: Result<()>) -> Result<()> {
        let is_ended = read.as_ref().is_err_and(|error| {
            error.kind() == ErrorKind::Cancelled || self.staging.ends_program(error)
        });
        if self.encoding.is_none() || is_ended {
            return read;
        }
        match self.staging.damaged() {
            Ok(None) => read,
            Ok(Some(frame)) => Err(self.why(frame)),
            Err(error) => read.and(Err(self.of_all(error))),
        }
    }

    /// Why a frame cannot be decoded: the host says it better.
    fn why(&self, frame: usize) -> Error {
        let decoded = || {
            let mut reader = self.plan.source().reader()?;
            let frames = self.plan.source_frames(frame..frame + 1, &mut Vec::new())?.get(0);
            let number = frames.unwrap_or_default();
            let numbers = framefold_core::FrameIndices::Run(number..number + 1);
            let read = reader.read(numbers, &self.plan.tiling.slices()[0]).map(drop);
            reader.verify().and(read).map(|()| number)
        };
        match decoded() {
            Err(error) => error,
            Ok(number) => {
                let info = self.plan.source().info();
                let error = Error::bad_file("the device cannot decode a chunk, but the host can")
                    .with_frame(number)
                    .with_format(info.format)
                    .with_hint("the file is damaged; copy it again, or run without a device");
                match info.paths.as_slice() {
                    [path] => error.with_path(path),
                    _ => error,
                }
            }
        }
    }
}
