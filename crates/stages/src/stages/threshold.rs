//! Small pixels become 0.

use super::ordered::{Bounds, Ordered};
use crate::cells::{cells_mut, refuse_dtype, same};
use crate::row::{StageOption, StageRow};
use framefold_core::{
    DenseTile, Error, FrameIndices, FrameKind, FramesView, Result, SigSlice, Stage, StagePart,
    TileFrames,
};
use framefold_simd::{Simd, run};
use std::fmt;
use std::sync::Arc;

pub(super) const ROW: StageRow = StageRow {
    name: "threshold",
    summary: "pixels below a value, above a maximum, and NaN become 0",
    value: "MINIMUM",
    options: &[StageOption {
        name: "maximum",
        help: "pixels above this become 0, too [default: none do]",
    }],
    example: "5",
    make: |arguments, input| {
        let (minimum, maximum) = (arguments.number()?, arguments.number_of("maximum")?);
        if maximum.is_some_and(|maximum| maximum < minimum) {
            return Err(arguments.refuse("the maximum is below the minimum"));
        }
        if input.dtype.is_complex() {
            return Err(refuse_dtype("threshold", input.dtype, "complex numbers have no order"));
        }
        Ok(Arc::new(Threshold { minimum, maximum, kind: input }))
    },
};

#[derive(Debug)]
struct Threshold {
    minimum: f64,
    maximum: Option<f64>,
    kind: FrameKind,
}

impl Stage for Threshold {
    fn input(&self) -> &FrameKind {
        &self.kind
    }

    fn output(&self) -> &FrameKind {
        &self.kind
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        Ok(Box::new(Part { read: same(sig, &self.kind.shape)?, stage: self }))
    }
}

struct Part<'s> {
    read: SigSlice,
    stage: &'s Threshold,
}

impl StagePart for Part<'_> {
    fn read(&self) -> &SigSlice {
        &self.read
    }

    fn apply(
        &mut self,
        tile: &DenseTile<'_>,
        _frames: &FrameIndices<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        let (min, max) = (self.stage.minimum, self.stage.maximum);
        match tile.frames() {
            TileFrames::Bool(view) => keep(view, min, max, out),
            TileFrames::U8(view) => keep(view, min, max, out),
            TileFrames::U16(view) => keep(view, min, max, out),
            TileFrames::U32(view) => keep(view, min, max, out),
            TileFrames::U64(view) => keep(view, min, max, out),
            TileFrames::I8(view) => keep(view, min, max, out),
            TileFrames::I16(view) => keep(view, min, max, out),
            TileFrames::I32(view) => keep(view, min, max, out),
            TileFrames::I64(view) => keep(view, min, max, out),
            TileFrames::F16(view) => keep(view, min, max, out),
            TileFrames::F32(view) => keep(view, min, max, out),
            TileFrames::F64(view) => keep(view, min, max, out),
            TileFrames::C64(_) | TileFrames::C128(_) => {
                Err(Error::bug("complex pixels were compared"))
            }
        }
    }
}

/// Writes the cells that are within the bounds, and 0 for the others.
fn keep<T: Ordered>(
    view: FramesView<'_, T>,
    minimum: f64,
    maximum: Option<f64>,
    out: &mut [u8],
) -> Result<()> {
    let out: &mut [T] = cells_mut(out)?;
    let Some(bounds) = Bounds::from(minimum, maximum) else {
        out.fill(T::default());
        return Ok(());
    };
    for (frame, out) in view.frames().zip(out.chunks_exact_mut(view.frame_len())) {
        run!(Simd::best(), keep_each(frame, &bounds, out));
    }
    Ok(())
}

#[inline(always)]
fn keep_each<T: Ordered>(cells: &[T], bounds: &Bounds<T>, out: &mut [T]) {
    for (&cell, out) in cells.iter().zip(out) {
        *out = if bounds.hold(cell) { cell } else { T::default() };
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "threshold {}", self.minimum)?;
        self.maximum.map_or(Ok(()), |maximum| write!(f, " maximum={maximum}"))
    }
}
