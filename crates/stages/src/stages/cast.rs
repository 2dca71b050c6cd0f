//! Pixels of another dtype.

use crate::cells::{cells_mut, refuse_dtype, same};
use crate::row::StageRow;
use framefold_core::{
    DType, DenseTile, Element, FrameIndices, FrameKind, FramesView, Result, SigSlice, Stage,
    StagePart, TileFrames, cast_frames,
};
use std::fmt;
use std::sync::Arc;

pub(super) const ROW: StageRow = StageRow {
    name: "cast",
    summary: "pixels of another dtype, clipped to the range of an integer",
    value: "DTYPE",
    options: &[],
    example: "float32",
    make: |arguments, input| {
        let dtype = arguments.dtype()?;
        if input.dtype.is_complex() && !dtype.is_complex() {
            return Err(refuse_dtype("cast", input.dtype, "they would lose their imaginary parts"));
        }
        let output = FrameKind { shape: input.shape.clone(), dtype };
        Ok(Arc::new(Cast { input, output }))
    },
};

#[derive(Debug)]
struct Cast {
    input: FrameKind,
    output: FrameKind,
}

impl Stage for Cast {
    fn input(&self) -> &FrameKind {
        &self.input
    }

    fn output(&self) -> &FrameKind {
        &self.output
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        let read = same(sig, &self.input.shape)?;
        Ok(Box::new(Part { read, dtype: self.output.dtype }))
    }
}

struct Part {
    read: SigSlice,
    dtype: DType,
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
        match tile.frames() {
            TileFrames::U8(view) => clip(view, self.dtype, out),
            TileFrames::U16(view) => clip(view, self.dtype, out),
            TileFrames::U32(view) => clip(view, self.dtype, out),
            TileFrames::U64(view) => clip(view, self.dtype, out),
            TileFrames::I8(view) => clip(view, self.dtype, out),
            TileFrames::I16(view) => clip(view, self.dtype, out),
            TileFrames::I32(view) => clip(view, self.dtype, out),
            TileFrames::I64(view) => clip(view, self.dtype, out),
            others => cast_frames(others, self.dtype, out),
        }
    }
}

/// Integers as integers, clipped; as anything else, the nearest value.
fn clip<T: Element + Into<i128>>(
    view: FramesView<'_, T>,
    dtype: DType,
    out: &mut [u8],
) -> Result<()> {
    match dtype {
        DType::U8 => clip_to::<T, u8>(view, out),
        DType::U16 => clip_to::<T, u16>(view, out),
        DType::U32 => clip_to::<T, u32>(view, out),
        DType::U64 => clip_to::<T, u64>(view, out),
        DType::I8 => clip_to::<T, i8>(view, out),
        DType::I16 => clip_to::<T, i16>(view, out),
        DType::I32 => clip_to::<T, i32>(view, out),
        DType::I64 => clip_to::<T, i64>(view, out),
        _ => cast_frames(T::wrap_frames(view), dtype, out),
    }
}

fn clip_to<S: Element + Into<i128>, T: Element + Bounded>(
    view: FramesView<'_, S>,
    out: &mut [u8],
) -> Result<()> {
    let out: &mut [T] = cells_mut(out)?;
    for (frame, out) in view.frames().zip(out.chunks_exact_mut(view.frame_len())) {
        for (&cell, out) in frame.iter().zip(out) {
            *out = T::nearest(cell.into());
        }
    }
    Ok(())
}

trait Bounded {
    fn nearest(value: i128) -> Self;
}

macro_rules! bounded {
    ($($type:ty),*) => {$(
        impl Bounded for $type {
            #[inline(always)]
            fn nearest(value: i128) -> $type {
                value.clamp(<$type>::MIN as i128, <$type>::MAX as i128) as $type
            }
        }
    )*};
}
bounded!(u8, u16, u32, u64, i8, i16, i32, i64);

impl fmt::Display for Cast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cast {}", self.output.dtype)
    }
}
