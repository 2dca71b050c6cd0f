//! Corrections as a stage, in front of others.

use super::{CorrectedSlice, CorrectionPlanes, Corrections, correct_tile};
use crate::{
    DenseTile, Error, FrameIndices, FrameKind, Result, Scratch, SigSlice, Stage, StagePart,
};
use std::fmt;
use std::sync::Arc;

/// Corrects frames of one kind, into the dtype that [`Corrections::output_dtype`] says.
pub struct CorrectionStage {
    corrections: Arc<Corrections>,
    planes: CorrectionPlanes,
    input: FrameKind,
    output: FrameKind,
}

impl CorrectionStage {
    /// The stage for frames of this kind.
    ///
    /// # Errors
    /// `InvalidArgument` if the corrections are for frames of another shape, or complex while the
    /// frames are not.
    pub fn try_new(corrections: Arc<Corrections>, input: FrameKind) -> Result<Self> {
        if corrections.sig_shape() != input.shape {
            return Err(Error::invalid(format!(
                "the corrections are for frames of shape {:?}, but the frames have shape {:?}",
                corrections.sig_shape(),
                input.shape
            )));
        }
        let dtype = corrections.output_dtype(input.dtype)?;
        let planes = CorrectionPlanes::try_new(&corrections, dtype)?;
        let output = FrameKind { shape: input.shape.clone(), dtype };
        Ok(CorrectionStage { corrections, planes, input, output })
    }
}

impl Stage for CorrectionStage {
    fn input(&self) -> &FrameKind {
        &self.input
    }

    fn output(&self) -> &FrameKind {
        &self.output
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        let slice = CorrectedSlice::try_new(&self.corrections, sig, &[])?;
        Ok(Box::new(Part { slice, planes: &self.planes, scratch: Scratch::new() }))
    }
}

struct Part<'s> {
    slice: CorrectedSlice,
    planes: &'s CorrectionPlanes,
    scratch: Scratch,
}

impl StagePart for Part<'_> {
    fn read(&self) -> &SigSlice {
        self.slice.read()
    }

    fn apply(
        &mut self,
        tile: &DenseTile<'_>,
        _frames: &FrameIndices<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        let corrected = correct_tile(tile, &self.slice, self.planes, &mut self.scratch)?;
        let cells = corrected.frames().as_bytes();
        if cells.len() != out.len() {
            return Err(Error::bug(format!(
                "{} corrected bytes for a tile of {}",
                cells.len(),
                out.len()
            )));
        }
        out.copy_from_slice(cells);
        Ok(())
    }
}

impl fmt::Display for CorrectionStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "correct ({})", self.corrections)
    }
}

impl fmt::Debug for CorrectionStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CorrectionStage[{:?} in {}]", self.corrections, self.output.dtype)
    }
}
