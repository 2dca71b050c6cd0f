//! Compiled functions that make frames of frames.

use super::{Compiled, CompiledCode, FAILURE, Task};
use framefold::core::DenseTile;
use framefold_abi::raw;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A compiled `process_frame(self, frame, out)` or `process_frames`, for one worker.
pub(crate) struct CompiledFrames {
    // Dropped first: it points into the program.
    task: Task,
    _code: Arc<Compiled>,
}

/// That it failed.
pub(crate) struct CompiledFailure {
    /// The frame of the tile, if the function gets single ones.
    pub(crate) frame: Option<usize>,
    /// Where Numba's description of the exception is.
    pub(crate) address: i64,
}

/// The frame that a function was at, where it has come to none.
const UNKNOWN: u64 = u64::MAX;

impl CompiledFrames {
    pub(crate) fn new(code: &CompiledCode) -> Self {
        let code = code.at(0);
        CompiledFrames { task: Task::of(&code.program), _code: code }
    }

    /// Has `out` written, which holds zeros for as many frames of `out_shape` as the tile has; pixels of
    /// `out` take `out_size` bytes. Frames of the tile have `shape`.
    pub(crate) fn process(
        &mut self,
        tile: &DenseTile<'_>,
        shape: &[usize],
        out: &mut [u8],
        out_shape: &[usize],
        out_size: usize,
    ) -> Result<(), CompiledFailure> {
        let frames = tile.frames();
        let size = frames.dtype().size();
        let origin = vec![0; shape.len()];
        let given = raw::Tile {
            size: size_of::<raw::Tile>(),
            data: frames.as_bytes().as_ptr().cast(),
            // Of which nothing but the size of a pixel is looked at.
            dtype: size as raw::RawDType,
            depth: frames.depth(),
            frame_stride: frames.stride() * size,
            n_sig: shape.len(),
            sig_origin: origin.as_ptr(),
            sig_shape: shape.as_ptr(),
            first_frame: 0,
            first_in_partition: 0,
            slice_index: 0,
        };
        let whole: Vec<usize> =
            std::iter::once(frames.depth()).chain(out_shape.iter().copied()).collect();
        let mut strides = vec![0; whole.len()];
        let mut step = out_size;
        for (stride, len) in strides.iter_mut().zip(&whole).rev() {
            *stride = isize::try_from(step).unwrap_or(isize::MAX);
            step = step.saturating_mul(*len);
        }
        if step > out.len() || frames.frame_len() != shape.iter().product::<usize>() {
            return Err(CompiledFailure { frame: None, address: 0 });
        }
        let view = raw::View {
            data: out.as_mut_ptr().cast(),
            dtype: 0,
            n_dims: whole.len(),
            shape: whole.as_ptr(),
            strides: strides.as_ptr(),
        };
        let frame = AtomicU64::new(UNKNOWN);
        // What makes frames asks for nothing else, and what it fails with is in the block.
        let host = raw::Host {
            size: size_of::<raw::Host>(),
            minor: raw::MINOR,
            ctx: null_mut(),
            fail: None,
            declare: None,
            cancelled: None,
            frame: frame.as_ptr(),
        };
        match self.task.process(given, &raw const view, 1, &raw const host) {
            raw::OK => Ok(()),
            _ => Err(CompiledFailure {
                frame: usize::try_from(frame.into_inner())
                    .ok()
                    .filter(|&frame| frame < frames.depth()),
                address: self.task.block.get(FAILURE).copied().unwrap_or_default(),
            }),
        }
    }
}
