//! Frames smoothed by a Gaussian.

use super::window::{AxisWindow, MOST_RADIUS, Window};
use crate::cells::{cells_mut, len_bytes, refuse_dtype};
use crate::row::{StageOption, StageRow};
use framefold_core::{
    DType, DenseTile, FrameIndices, FrameKind, Result, Scratch, SigSlice, Stage, StagePart,
    TileFrames, cast_frames, memory,
};
use framefold_simd::{Simd, run};
use std::fmt;
use std::sync::Arc;

pub(super) const ROW: StageRow = StageRow {
    name: "gaussian",
    summary: "frames smoothed by a Gaussian, reflected at their edges",
    value: "SIGMA",
    options: &[StageOption {
        name: "truncate",
        help: "how many sigma the filter reaches to each side [default: 4]",
    }],
    example: "1.5",
    make: |arguments, input| {
        let sigma = arguments.number()?;
        let truncate = arguments.number_of("truncate")?.unwrap_or(4.0);
        if sigma < 0.0 || truncate < 0.0 {
            return Err(arguments.refuse("sigma and truncate are 0 or more"));
        }
        let radius = (truncate * sigma + 0.5).floor();
        if radius > MOST_RADIUS as f64 {
            return Err(arguments.refuse(format_args!(
                "the filter would reach {radius} pixels to each side, and {MOST_RADIUS} is the most"
            )));
        }
        if input.dtype.is_complex() {
            return Err(refuse_dtype("gaussian", input.dtype, "only real frames are smoothed"));
        }
        let dtype = DType::promote(input.dtype, DType::F32);
        let output = FrameKind { shape: input.shape.clone(), dtype };
        let weights = weights(sigma, radius as usize);
        Ok(Arc::new(Gaussian { sigma, truncate, weights, input, output }))
    },
};

/// The weights from `-radius` to `radius`; their sum is 1.
fn weights(sigma: f64, radius: usize) -> Vec<f64> {
    if radius == 0 {
        return vec![1.0];
    }
    let at = |i: usize| {
        let x = i as f64 - radius as f64;
        (-0.5 * x * x / (sigma * sigma)).exp()
    };
    let all: Vec<f64> = (0..2 * radius + 1).map(at).collect();
    let sum: f64 = all.iter().sum();
    all.into_iter().map(|weight| weight / sum).collect()
}

#[derive(Debug)]
struct Gaussian {
    sigma: f64,
    truncate: f64,
    weights: Vec<f64>,
    input: FrameKind,
    output: FrameKind,
}

impl Stage for Gaussian {
    fn input(&self) -> &FrameKind {
        &self.input
    }

    fn output(&self) -> &FrameKind {
        &self.output
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        let radii = vec![self.weights.len() / 2; self.input.shape.len()];
        let window = Window::new(sig, &self.input.shape, &radii)?;
        Ok(Box::new(Part { window, stage: self, wide: Scratch::new(), planes: Default::default() }))
    }
}

struct Part<'s> {
    window: Window,
    stage: &'s Gaussian,
    /// The pixels of a tile in double precision.
    wide: Scratch,
    /// A frame before and after the filter along an axis, and a line of it.
    planes: [Vec<f64>; 3],
}

impl StagePart for Part<'_> {
    fn read(&self) -> &SigSlice {
        &self.window.read
    }

    fn apply(
        &mut self,
        tile: &DenseTile<'_>,
        _frames: &FrameIndices<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        let frames = tile.frames();
        let (depth, len) = (frames.depth(), frames.frame_len());
        let wide = self.wide.prepare(len_bytes(depth.saturating_mul(len), DType::F64)?)?;
        cast_frames(frames, DType::F64, wide)?;
        let dtype = self.stage.output.dtype;
        let n_out: usize = self.window.axes.iter().map(|axis| axis.len).product();
        for (frame, out) in
            cells_mut::<f64>(wide)?.chunks_exact(len).zip(out.chunks_mut(n_out * dtype.size()))
        {
            let [before, after, line] = &mut self.planes;
            before.clear();
            memory::append(before, frame)?;
            let mut shape = self.window.read.shape().to_vec();
            for (axis, along) in self.window.axes.iter().enumerate() {
                let inner: usize = shape[axis + 1..].iter().product();
                memory::resize(after, before.len() / shape[axis] * along.len, 0.0)?;
                let weights = &self.stage.weights;
                run!(Simd::best(), smooth(before, after, line, shape[axis], inner, along, weights));
                shape[axis] = along.len;
                std::mem::swap(before, after);
                after.clear();
            }
            let smoothed: &[u8] = bytemuck::cast_slice(before);
            cast_frames(
                TileFrames::from_bytes(DType::F64, smoothed, 1, n_out, n_out)?,
                dtype,
                out,
            )?;
        }
        Ok(())
    }
}

/// Filters along an axis of `len` pixels, `inner` cells apart. Each cell is the sum of the same products in
/// the same order, wherever its slice begins.
#[inline(always)]
fn smooth(
    from: &[f64],
    to: &mut [f64],
    line: &mut Vec<f64>,
    len: usize,
    inner: usize,
    along: &AxisWindow,
    weights: &[f64],
) {
    let blocks = from.chunks_exact(len * inner).zip(to.chunks_exact_mut(along.len * inner));
    for (from, to) in blocks {
        to.fill(0.0);
        if inner == 1 {
            line.clear();
            line.extend(along.places.iter().map(|&place| from[place]));
            for (k, &weight) in weights.iter().enumerate() {
                add(weight, &line[k..k + along.len], to);
            }
        } else {
            for (j, to) in to.chunks_exact_mut(inner).enumerate() {
                for (&weight, &place) in weights.iter().zip(&along.places[j..]) {
                    add(weight, &from[place * inner..(place + 1) * inner], to);
                }
            }
        }
    }
}

#[inline(always)]
fn add(weight: f64, cells: &[f64], sums: &mut [f64]) {
    for (sum, cell) in sums.iter_mut().zip(cells) {
        *sum += weight * cell;
    }
}

impl fmt::Display for Gaussian {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "gaussian {}", self.sigma)?;
        if self.truncate == 4.0 { Ok(()) } else { write!(f, " truncate={}", self.truncate) }
    }
}
