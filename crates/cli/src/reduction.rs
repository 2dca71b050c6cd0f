//! From a reduction's arguments to the UDF that does it.

use crate::args::{ComArgs, Detector, MasksArgs, ReductionArgs};
use crate::field::Look;
use crate::npy_input::read_npy;
use framefold::core::{
    DType, DenseTile, NativeArray, Scratch, TileFrames, TypedVec, Udf, convert_tile,
};
use framefold::kernels::{Com, LogSum, Masks, Max, Pick, StdDev, Sum, SumSig, disk, ring};
use framefold::{Dataset, Error, Result};
use std::sync::Arc;

/// A reduction that is ready to run.
pub(crate) struct Reduction {
    /// What does it.
    pub udf: Arc<dyn Udf>,
    /// The buffer that is written where only one can be.
    pub main_buffer: &'static str,
    /// What the extra axes of its buffers mean.
    pub look: Look,
}

impl Reduction {
    /// Makes the reduction for a data set: virtual detectors depend on its frames' shape.
    ///
    /// # Errors
    /// `InvalidArgument` if parameters do not fit; errors of mask files.
    pub(crate) fn try_new(args: &ReductionArgs, dataset: &Dataset) -> Result<Self> {
        let values =
            |udf: Arc<dyn Udf>, main_buffer| Reduction { udf, main_buffer, look: Look::Values };
        Ok(match args {
            ReductionArgs::Sum(args) => {
                let dtype = args.result_dtype.map_or(Sum::default().dtype, |given| given.dtype);
                values(Arc::new(Sum { dtype }), "intensity")
            }
            ReductionArgs::SumSig(_) => values(Arc::new(SumSig), "intensity"),
            ReductionArgs::Max(_) => values(Arc::new(Max), "intensity"),
            ReductionArgs::StdDev(args) => {
                let dtype = args.result_dtype.map(|given| given.dtype);
                values(Arc::new(StdDev { dtype }), "std")
            }
            ReductionArgs::Com(args) => {
                Reduction { udf: Arc::new(com(args)), main_buffer: "field", look: Look::Vectors }
            }
            ReductionArgs::Masks(args) => {
                let masks = stack(args, dataset.shape().sig())?;
                values(Arc::new(Masks::try_new(masks)?), "intensity")
            }
            ReductionArgs::LogSum(_) => values(Arc::new(LogSum), "logsum"),
            ReductionArgs::Pick(_) => Reduction {
                udf: Arc::new(Pick::default()),
                main_buffer: "intensity",
                look: Look::Frames,
            },
        })
    }
}

fn com(args: &ComArgs) -> Com {
    Com {
        cy: args.cy,
        cx: args.cx,
        r: args.r,
        ri: args.ri,
        scan_rotation: args.scan_rotation,
        flip_y: args.flip_y,
        shifts_only: false,
    }
}

/// All masks in one array of shape (masks, *frame): disks, then rings, then those from files.
fn stack(args: &MasksArgs, sig: &[usize]) -> Result<NativeArray> {
    let mut parts = Vec::new();
    for detector in args.disk.iter().chain(&args.ring) {
        parts.push(paint(detector, sig)?);
    }
    for path in &args.masks {
        let masks = read_npy(path)?;
        let shape = masks.shape();
        if shape != sig && shape.get(1..) != Some(sig) {
            return Err(Error::invalid(format!(
                "masks of shape {shape:?} do not fit frames of shape {sig:?}"
            ))
            .with_path(path)
            .with_hint("write an array of shape (masks, *frame), or of a frame's shape"));
        }
        parts.push(masks);
    }
    join(&parts, sig)
}

fn paint(detector: &Detector, sig: &[usize]) -> Result<NativeArray> {
    // The same default as the centre of mass has.
    let middle = |axis: usize| (sig.get(axis).copied().unwrap_or(0) / 2) as f64;
    let (cy, cx) = detector.centre.unwrap_or((middle(0), middle(1)));
    match detector.inner {
        None => disk(sig, cy, cx, detector.outer),
        Some(inner) => ring(sig, cy, cx, detector.outer, inner),
    }
}

/// Joins arrays of whole frames along a first axis, in their common dtype.
fn join(parts: &[NativeArray], sig: &[usize]) -> Result<NativeArray> {
    let frame_len: usize = sig.iter().product();
    let dtypes = parts.iter().map(NativeArray::dtype);
    let dtype = dtypes.reduce(DType::promote).unwrap_or(DType::F32);
    let total: usize = parts.iter().map(|part| part.values().len()).sum();
    let mut values = TypedVec::try_zeros(dtype, total)?;
    let mut rest = values.as_bytes_mut();
    let mut scratch = Scratch::new();
    for part in parts {
        let n_masks = part.values().len().checked_div(frame_len).unwrap_or(0);
        let bytes = part.values().as_bytes();
        let frames = TileFrames::from_bytes(part.dtype(), bytes, n_masks, frame_len, frame_len)?;
        let tile = DenseTile::borrowed(frames);
        let converted = convert_tile(&tile, dtype, &mut scratch)?.frames().as_bytes();
        let (target, after) = rest
            .split_at_mut_checked(converted.len())
            .ok_or_else(|| Error::bug("masks do not fill their stack"))?;
        target.copy_from_slice(converted);
        rest = after;
    }
    let n_masks = total.checked_div(frame_len).unwrap_or(0);
    NativeArray::try_new(&[&[n_masks], sig].concat(), values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_of_different_dtypes_are_joined_in_their_common_one() {
        let bytes = NativeArray::try_new(&[2, 2], vec![1u8, 2, 3, 4]).unwrap();
        let floats = NativeArray::try_new(&[2, 2, 2], vec![0.5f32; 8]).unwrap();
        let joined = join(&[bytes, floats], &[2, 2]).unwrap();
        assert_eq!(joined.shape(), [3, 2, 2]);
        let values = joined.as_slice::<f32>().unwrap();
        assert_eq!(values[..5], [1.0, 2.0, 3.0, 4.0, 0.5]);
    }

    #[test]
    fn a_disk_sits_in_the_middle_unless_told_otherwise() {
        let pixel = |centre| {
            let detector = Detector { centre, inner: None, outer: 0.0 };
            let mask = paint(&detector, &[4, 6]).unwrap();
            mask.as_slice::<f32>().unwrap().iter().position(|&value| value == 1.0).unwrap()
        };
        assert_eq!(pixel(None), 2 * 6 + 3);
        assert_eq!(pixel(Some((1.0, 5.0))), 6 + 5);
    }
}
