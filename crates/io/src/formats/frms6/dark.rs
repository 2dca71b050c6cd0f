//! The dark frame: the mean of the frames in the first file.

use super::decode::UnfoldDecoder;
use crate::readers::linear::{FrameDecoder, LinearFile};
use framefold_core::{Error, NativeArray, Result, SigSlice, TilingScheme, TypedVec};

/// The mean of all frames of a file, in float32.
///
/// # Errors
/// `BadFile` or `Io` if they cannot be read.
pub(super) fn mean(
    file: &LinearFile,
    decoder: &UnfoldDecoder,
    sig_shape: &[usize],
) -> Result<NativeArray> {
    let native = decoder.native_shape();
    let whole = TilingScheme::try_new(&native, &native, 1)?;
    let Some(whole): Option<&SigSlice> = whole.slices().first() else {
        return Err(Error::bug("a tiling without slices"));
    };
    let mut stored = vec![0; decoder.stored_len()];
    let mut frame = vec![0; whole.len() * 2];
    // More frames than 2^48 do not fit into a file: sums are exact.
    let mut sums = vec![0u64; whole.len()];
    let n_frames = file.frames.end - file.frames.start;
    for i in 0..n_frames {
        let offset = i.checked_mul(file.stride).and_then(|o| o.checked_add(file.first_pixel));
        let offset = offset.ok_or_else(|| Error::bug("an offset does not fit in 64 bits"))?;
        file.storage.read_at(offset, &mut stored)?;
        decoder.decode(&stored, whole, &mut frame)?;
        for (sum, pixel) in sums.iter_mut().zip(frame.as_chunks().0) {
            *sum += u64::from(u16::from_ne_bytes(*pixel));
        }
    }
    file.storage.verify()?;
    let n = n_frames.max(1) as f64;
    let means: Vec<f32> = sums.into_iter().map(|sum| (sum as f64 / n) as f32).collect();
    NativeArray::try_new(sig_shape, TypedVec::from(means))
}
