//! What lies between the source and the UDFs: corrections, and the dtype that a UDF wants.
//!
//! The one place for that: readers know nothing of what becomes of their tiles, and UDFs nothing
//! of what was read. A stage says what has to be read for a slice, and makes of it the tile that is
//! passed on, of the same frames and cells. One that changes the shape or the dtype of frames is a
//! source around another.

use crate::Plan;
use framefold_core::{
    CorrectedSlice, CorrectionPlanes, Corrections, DType, DenseTile, Result, Scratch, SigSlice,
    convert_tile, correct_tile,
};

/// The stages of a plan, for one worker.
pub(super) struct Stages<'p> {
    slices: &'p [SigSlice],
    corrections: Option<&'p Corrections>,
    /// One per slice, if there are corrections.
    corrected: &'p [CorrectedSlice],
}

impl<'p> Stages<'p> {
    pub(super) fn of(plan: &'p Plan) -> Self {
        Stages {
            slices: plan.tiling.slices(),
            corrections: plan.dataset.corrections().map(AsRef::as_ref),
            corrected: &plan.corrected,
        }
    }

    /// Those of a worker whose tiles are corrected elsewhere.
    pub(super) fn without_corrections(plan: &'p Plan) -> Self {
        Stages { slices: plan.tiling.slices(), corrections: None, corrected: &[] }
    }

    /// Whether tiles are passed on as they are read, but for their dtype. Other stages work on
    /// dense tiles alone.
    pub(super) fn are_none(&self) -> bool {
        self.corrections.is_none()
    }

    /// What has to be read for slice number `slice`.
    pub(super) fn read(&self, slice: usize) -> &'p SigSlice {
        self.corrected.get(slice).map_or(&self.slices[slice], CorrectedSlice::read)
    }

    /// What makes tiles of `dtype`.
    pub(super) fn to(&self, dtype: DType) -> Result<Staged<'p>> {
        let planes = self.corrections.map(|c| CorrectionPlanes::try_new(c, dtype)).transpose()?;
        Ok(Staged { dtype, corrected: self.corrected, planes, scratch: Scratch::new() })
    }
}

/// Where dense tiles of one dtype are made, with all stages behind them.
pub(super) struct Staged<'p> {
    pub(super) dtype: DType,
    corrected: &'p [CorrectedSlice],
    /// Dark frame and gain map in that dtype, if there are corrections.
    planes: Option<CorrectionPlanes>,
    scratch: Scratch,
}

impl Staged<'_> {
    /// The tile of slice number `slice`, made of what [`Stages::read`] says for it.
    pub(super) fn make<'t>(
        &'t mut self,
        read: &DenseTile<'t>,
        slice: usize,
    ) -> Result<DenseTile<'t>> {
        match (self.corrected.get(slice), &self.planes) {
            (Some(slice), Some(planes)) => correct_tile(read, slice, planes, &mut self.scratch),
            _ => convert_tile(read, self.dtype, &mut self.scratch),
        }
    }
}
