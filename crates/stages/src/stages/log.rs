//! The natural logarithm of each pixel.

use crate::cells::{cells_mut, len_bytes, refuse_dtype, same};
use crate::row::StageRow;
use framefold_core::{
    DType, DenseTile, FrameIndices, FrameKind, Result, Scratch, SigSlice, Stage, StagePart,
    TileFrames, cast_frames,
};
use std::fmt;
use std::sync::Arc;

pub(super) const ROW: StageRow = StageRow {
    name: "log",
    summary: "the natural logarithm of each pixel plus an offset",
    value: "OFFSET",
    options: &[],
    example: "1",
    make: |arguments, input| {
        let offset = arguments.number()?;
        if input.dtype.is_complex() {
            return Err(refuse_dtype("log", input.dtype, "take their magnitude first"));
        }
        let dtype = DType::promote(input.dtype, DType::F32);
        let output = FrameKind { shape: input.shape.clone(), dtype };
        Ok(Arc::new(Log { offset, input, output }))
    },
};

#[derive(Debug)]
struct Log {
    offset: f64,
    input: FrameKind,
    output: FrameKind,
}

impl Stage for Log {
    fn input(&self) -> &FrameKind {
        &self.input
    }

    fn output(&self) -> &FrameKind {
        &self.output
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        let read = same(sig, &self.input.shape)?;
        let (offset, dtype) = (self.offset, self.output.dtype);
        Ok(Box::new(Part { read, offset, dtype, wide: Scratch::new() }))
    }
}

struct Part {
    read: SigSlice,
    offset: f64,
    dtype: DType,
    /// The pixels in double precision.
    wide: Scratch,
}

impl StagePart for Part {
    fn read(&self) -> &SigSlice {
        &self.read
    }

    fn apply(
        &mut self,
        tile: &DenseTile<'_>,
        _frames: &FrameIndices<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        let frames = tile.frames();
        let n_cells = frames.depth().saturating_mul(frames.frame_len());
        let wide = self.wide.prepare(len_bytes(n_cells, DType::F64)?)?;
        cast_frames(frames, DType::F64, wide)?;
        for cell in cells_mut::<f64>(wide)? {
            *cell = (*cell + self.offset).ln();
        }
        let wide = TileFrames::from_bytes(DType::F64, wide, 1, n_cells, n_cells)?;
        cast_frames(wide, self.dtype, out)
    }
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log {}", self.offset)
    }
}
