//! A margin around each frame.

use crate::cells::{cells_mut, pixel};
use crate::row::{StageOption, StageRow};
use framefold_core::{
    AxisMap, DenseTile, Element, Error, FrameIndices, FrameKind, FramesView, Result, SigSlice,
    Stage, StagePart, TypedVec, checked_product, dispatch_frames,
};
use std::fmt;
use std::sync::Arc;

pub(super) const ROW: StageRow = StageRow {
    name: "pad",
    summary: "rows and columns of one value around each frame",
    value: "N|Y0:Y1,X0:X1",
    options: &[StageOption { name: "value", help: "the value of the new pixels [default: 0]" }],
    example: "2",
    make: |arguments, input| {
        let widths = arguments.pairs(input.shape.len())?;
        let fits = |(&len, &(before, after)): (&usize, &(usize, usize))| {
            len.checked_add(before)?.checked_add(after)
        };
        let shape: Option<Vec<usize>> = input.shape.iter().zip(&widths).map(fits).collect();
        let shape = shape.filter(|shape| checked_product(shape).is_some());
        let shape = shape.ok_or_else(|| arguments.refuse("frames would be too large"))?;
        let value = arguments.number_of("value")?.unwrap_or(0.0);
        let fill = pixel(value, input.dtype)?.ok_or_else(|| {
            arguments.refuse(format_args!("{value} is no value of {}", input.dtype))
        })?;
        let output = FrameKind { shape, dtype: input.dtype };
        Ok(Arc::new(Pad { widths, value, fill, input, output }))
    },
};

#[derive(Debug)]
struct Pad {
    widths: Vec<(usize, usize)>,
    value: f64,
    fill: TypedVec,
    input: FrameKind,
    output: FrameKind,
}

impl Stage for Pad {
    fn input(&self) -> &FrameKind {
        &self.input
    }

    fn output(&self) -> &FrameKind {
        &self.output
    }

    fn axes(&self) -> Option<Vec<AxisMap>> {
        let maps = self.widths.iter();
        Some(maps.map(|&(before, _)| AxisMap { first: -(before as f64), step: 1.0 }).collect())
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        let (mut origin, mut shape, mut at) = (Vec::new(), Vec::new(), Some(Vec::new()));
        let axes = sig.origin().iter().zip(sig.shape()).zip(&self.widths).zip(&self.input.shape);
        for (((&start, &len), &(before, _)), &of) in axes {
            // What of the slice is in the frame, in pixels of the frame.
            let from = start.saturating_sub(before).min(of);
            let to = (start + len).saturating_sub(before).min(of);
            if from < to {
                origin.push(from);
                shape.push(to - from);
                if let Some(at) = &mut at {
                    at.push(from + before - start);
                }
            } else {
                // One pixel is read, and not used: a slice is never empty.
                origin.push(from.min(of - 1));
                shape.push(1);
                at = None;
            }
        }
        let read = SigSlice::try_within(origin, shape, &self.input.shape)?;
        Ok(Box::new(Part { read, at, shape: sig.shape().to_vec(), fill: &self.fill }))
    }
}

struct Part<'s> {
    read: SigSlice,
    /// Where in the slice what is read begins; `None` if the slice is all margin.
    at: Option<Vec<usize>>,
    shape: Vec<usize>,
    fill: &'s TypedVec,
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
        dispatch_frames!(tile.frames(), view => self.write(view, cells_mut(out)?))
    }
}

impl Part<'_> {
    fn write<T: Element>(&self, view: FramesView<'_, T>, out: &mut [T]) -> Result<()> {
        let fill = self.fill.as_slice::<T>().and_then(|fill| fill.first());
        let fill = *fill.ok_or_else(|| Error::bug("a margin of another dtype"))?;
        out.fill(fill);
        let Some(at) = &self.at else { return Ok(()) };
        // The cells that are read, seen as a part of the slice.
        let inside = SigSlice::try_within(at.clone(), self.read.shape().to_vec(), &self.shape)?;
        let runs: Vec<_> = inside.runs(&self.shape).collect();
        let len = self.shape.iter().product::<usize>();
        for (frame, out) in view.frames().zip(out.chunks_exact_mut(len)) {
            let mut from = 0;
            for run in &runs {
                let n = run.len();
                out[run.clone()].copy_from_slice(&frame[from..from + n]);
                from += n;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Pad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths = self.widths.iter().map(|(before, after)| format!("{before}:{after}"));
        write!(f, "pad {}", widths.collect::<Vec<_>>().join(","))?;
        if self.value == 0.0 { Ok(()) } else { write!(f, " value={}", self.value) }
    }
}
