//! From the parameters of a row to a stack of masks.

use super::{Masks, disk, ring};
use crate::parameters::{GivenArray, Parameters};
use crate::row::Detector;
use framefold_core::{
    DType, DenseTile, Error, NativeArray, Result, Scratch, TileFrames, TypedVec, convert_tile,
};

impl Masks {
    /// The masks that `parameters` of the reduction `masks` describe, for frames of shape
    /// `sig_shape`.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none, or one does not fit frames of that shape.
    pub fn from_parameters(parameters: &mut Parameters, sig_shape: &[usize]) -> Result<Self> {
        let shifts = parameters.shifts()?;
        let masks = Self::unshifted(parameters, sig_shape)?;
        Ok(match shifts {
            Some(shifts) => masks.with_shifts(shifts),
            None => masks,
        })
    }

    fn unshifted(parameters: &mut Parameters, sig_shape: &[usize]) -> Result<Self> {
        let mut arrays = parameters.arrays("masks")?;
        let rows = (parameters.counts("starts")?, parameters.counts("pixels")?);
        let shape = parameters.counts("sig_shape")?;
        let detectors = [parameters.detectors("disk")?, parameters.detectors("ring")?].concat();
        if let Some(shape) = shape {
            // One array for all masks, which planning compares with the frames.
            let Some(GivenArray { array, .. }) =
                arrays.pop().filter(|_| arrays.is_empty() && detectors.is_empty())
            else {
                return Err(Error::invalid("masks of a given shape need one array, and no more"));
            };
            return match rows {
                (Some(starts), Some(pixels)) => {
                    Masks::try_new_sparse(&shape, &starts, &pixels, array)
                }
                (None, None) if array.shape().get(1..) == Some(&shape) => Masks::try_new(array),
                (None, None) => Err(Error::invalid(format!(
                    "an array of shape {:?} holds no masks of shape {shape:?}",
                    array.shape()
                ))),
                _ => Err(Error::invalid("sparse masks are given in parts")
                    .with_hint("give both 'starts' and 'pixels'")),
            };
        }
        if rows != (None, None) {
            return Err(Error::invalid("sparse masks without their shape")
                .with_hint("give 'sig_shape' with 'starts' and 'pixels'"));
        }
        let mut parts = Vec::with_capacity(detectors.len() + arrays.len());
        for detector in &detectors {
            parts.push(paint(detector, sig_shape)?);
        }
        for GivenArray { array, path } in arrays {
            let shape = array.shape();
            if shape != sig_shape && shape.get(1..) != Some(sig_shape) {
                let error = Error::invalid(format!(
                    "masks of shape {shape:?} do not fit frames of shape {sig_shape:?}"
                ))
                .with_hint("write an array of shape (masks, *frame), or of a frame's shape");
                return Err(match path {
                    Some(path) => error.with_path(path),
                    None => error,
                });
            }
            parts.push(array);
        }
        // A stack that is all there is need not be copied.
        if let [only] = &*parts
            && only.shape() != sig_shape
            && let Some(stack) = parts.pop()
        {
            return Masks::try_new(stack);
        }
        Masks::try_new(join(&parts, sig_shape)?)
    }
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
    fn a_disk_without_a_centre_is_in_the_middle() {
        let pixel = |centre| {
            let detector = Detector { centre, inner: None, outer: 0.0 };
            let mask = paint(&detector, &[4, 6]).unwrap();
            mask.as_slice::<f32>().unwrap().iter().position(|&value| value == 1.0).unwrap()
        };
        assert_eq!(pixel(None), 2 * 6 + 3);
        assert_eq!(pixel(Some((1.0, 5.0))), 6 + 5);
    }
}
