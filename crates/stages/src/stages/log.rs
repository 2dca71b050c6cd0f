//! The natural logarithm of each pixel.

use crate::cells::{cells_mut, len_bytes, refuse_dtype, same};
use crate::row::StageRow;
use bytemuck::Pod;
use framefold_core::{
    DType, DenseTile, Element, FrameIndices, FrameKind, FramesView, Result, Scratch, SigSlice,
    Stage, StagePart, TileFrames, cast_frames,
};
use std::fmt;
use std::sync::{Arc, OnceLock};

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
        Ok(Arc::new(Log { offset, input, output, table: OnceLock::new() }))
    },
};

#[derive(Debug)]
struct Log {
    offset: f64,
    input: FrameKind,
    output: FrameKind,
    /// What each pixel of one or two bytes becomes, by its bits as a number.
    table: OnceLock<Vec<f32>>,
}

impl Stage for Log {
    fn input(&self) -> &FrameKind {
        &self.input
    }

    fn output(&self) -> &FrameKind {
        &self.output
    }

    fn counts_of_one(&self) -> Option<f64> {
        None
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        let read = same(sig, &self.input.shape)?;
        Ok(Box::new(Part { read, stage: self, wide: Scratch::new() }))
    }
}

impl Log {
    /// Writes the logarithm of each pixel, which is computed in double precision.
    fn compute(&self, frames: TileFrames<'_>, wide: &mut Scratch, out: &mut [u8]) -> Result<()> {
        let n_cells = frames.depth().saturating_mul(frames.frame_len());
        let wide = wide.prepare(len_bytes(n_cells, DType::F64)?)?;
        cast_frames(frames, DType::F64, wide)?;
        for cell in cells_mut::<f64>(wide)? {
            *cell = (*cell + self.offset).ln();
        }
        let wide = TileFrames::from_bytes(DType::F64, wide, 1, n_cells, n_cells)?;
        cast_frames(wide, self.output.dtype, out)
    }

    /// The logarithms of all pixels that there can be, of which there are as many as `B` has values.
    fn table<B: Pod>(&self, every: impl Iterator<Item = B>) -> Result<&[f32]> {
        if let Some(table) = self.table.get() {
            return Ok(table);
        }
        let every: Vec<B> = every.collect();
        let bytes = bytemuck::cast_slice(&every);
        let frames = TileFrames::from_bytes(self.input.dtype, bytes, 1, every.len(), every.len())?;
        let mut table = vec![0_f32; every.len()];
        self.compute(frames, &mut Scratch::new(), bytemuck::cast_slice_mut(&mut table))?;
        Ok(self.table.get_or_init(|| table))
    }
}

struct Part<'s> {
    read: SigSlice,
    stage: &'s Log,
    /// The pixels in double precision.
    wide: Scratch,
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
        let bytes = || self.stage.table(0..=u8::MAX);
        let pairs = || self.stage.table(0..=u16::MAX);
        match tile.frames() {
            TileFrames::Bool(view) => look_up::<_, u8>(view, bytes()?, out),
            TileFrames::U8(view) => look_up::<_, u8>(view, bytes()?, out),
            TileFrames::I8(view) => look_up::<_, u8>(view, bytes()?, out),
            TileFrames::U16(view) => look_up::<_, u16>(view, pairs()?, out),
            TileFrames::I16(view) => look_up::<_, u16>(view, pairs()?, out),
            TileFrames::F16(view) => look_up::<_, u16>(view, pairs()?, out),
            frames => self.stage.compute(frames, &mut self.wide, out),
        }
    }
}

/// Writes what a table has for each pixel, whose bits are those of a `B`.
fn look_up<T: Element, B: Pod + Into<usize>>(
    view: FramesView<'_, T>,
    table: &[f32],
    out: &mut [u8],
) -> Result<()> {
    let out: &mut [f32] = cells_mut(out)?;
    for (frame, out) in view.frames().zip(out.chunks_exact_mut(view.frame_len())) {
        for (&cell, out) in bytemuck::cast_slice::<T, B>(frame).iter().zip(out) {
            *out = table[cell.into()];
        }
    }
    Ok(())
}

impl fmt::Display for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "log {}", self.offset)
    }
}
