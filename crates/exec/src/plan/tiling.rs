//! How large tiles are.
//!
//! A tile fits the cache in the widest dtype that any UDF gets it in; where nothing has to be read or
//! converted, UDFs that ask for large tiles get larger ones. Whole frames are kept
//! together as long as they fit; larger frames are cut into slices of whole rows (or of
//! whatever unit the format prefers), several frames deep. Smaller ones are cut, too, where a UDF
//! asks for more frames at a time than fit as a whole.

use super::explain;
use super::formats::FrameSize;
use super::partitions::Cuts;
use crate::PlanOptions;
use framefold_core::{
    BufferDecl, Error, JobMeta, Method, Partition, Requirements, Result, SourceInfo, TilingScheme,
};
use std::sync::Arc;

/// What fits a core's share of the cache together with a slice of a result buffer.
const TILE_BYTES: usize = 1 << 20;
/// The same for UDFs that ask for more, of pixels that lie in memory as the UDFs get them: nothing
/// is to stay in the cache between one pass over a tile and the next, and each call has its price.
const LENT_TILE_BYTES: usize = 4 << 20;
/// How many frames deep a tile of part of a frame should be.
const SLICED_DEPTH: usize = 32;
/// About so many parts a frame has at most, whatever its size: a plan holds them in memory.
const MANY_SLICES: usize = 1 << 19;
/// Parts of a frame that are shorter than this make reading inefficient.
const SMALLEST_SLICE_BYTES: usize = 16 << 10;

/// What was decided.
pub(super) struct Tiles {
    pub(super) scheme: Arc<TilingScheme>,
    pub(super) why: String,
}

pub(super) fn choose(
    info: &SourceInfo,
    jobs: &[(JobMeta, Vec<BufferDecl>)],
    requirements: &[Requirements],
    frame: FrameSize,
    cuts: &Cuts,
    lent: bool,
    options: &PlanOptions,
) -> Result<Tiles> {
    let sig = &info.sig_shape;
    let tiles = |shape: &[usize], depth, why| {
        let scheme = Arc::new(TilingScheme::try_new(sig, shape, depth)?);
        Ok(Tiles { scheme, why })
    };
    let longest = cuts.frames.iter().map(Partition::n_frames).max().unwrap_or(1).max(1);
    let method = requirements.iter().map(|r| r.method).max().unwrap_or(Method::Tile);
    if method == Method::Partition {
        return tiles(sig, longest, "a UDF takes whole partitions".into());
    }
    let longest = requirements.iter().filter_map(|r| r.max_depth).fold(longest, usize::min).max(1);

    let pixel_bytes = jobs
        .iter()
        .map(|(job, _)| job.input_dtype.size())
        .chain([info.dtype.dtype.size()])
        .max()
        .unwrap_or(1);
    let as_it_lies = lent && jobs.iter().all(|(job, _)| job.input_dtype == info.dtype.dtype);
    let large = if as_it_lies && method == Method::Tile { LENT_TILE_BYTES } else { TILE_BYTES };
    let most = |r: &Requirements| r.tile_bytes.map_or(TILE_BYTES, |bytes| bytes.min(large));
    let budget = requirements.iter().map(most).min().unwrap_or(TILE_BYTES).max(1);
    let frame_bytes = sig.iter().product::<usize>().saturating_mul(pixel_bytes).max(1);
    // Deep tiles are for those who can take parts of frames; whole frames come as deep as fits.
    let wanted_depth = requirements.iter().filter_map(|r| r.tile_depth).max().unwrap_or(1);
    let deep_source = info.preferred_depth > wanted_depth;
    let wanted_depth = wanted_depth.max(info.preferred_depth).clamp(1, longest);
    let fits = frame_bytes <= budget;
    let deep_enough = frame_bytes.saturating_mul(wanted_depth) <= budget;
    if options.tile_depth == Some(0) {
        return Err(Error::invalid("tile_depth is 0").with_hint("use 1 or more"));
    }
    if let Some(shape) = options.tile_shape.as_ref().filter(|_| method == Method::Tile) {
        let depth = options.tile_depth.unwrap_or(SLICED_DEPTH).min(longest);
        return tiles(shape, depth, "as asked for".into());
    }
    let stack = requirements.iter().filter_map(|r| stack_of(r, frame_bytes)).min();
    if let FrameSize::Sparse(bytes) = frame {
        let fits = budget / usize::try_from(bytes).unwrap_or(usize::MAX).max(1);
        let depth = options.tile_depth.or(stack).unwrap_or(fits).clamp(1, longest);
        let budget = explain::bytes_usize(budget);
        return tiles(sig, depth, format!("whole frames, whose entries fit {budget} together"));
    }
    let may_stay = cuts.n_bands == 1 && (deep_enough || options.tile_depth.is_some());
    let whole = method == Method::Frame || (fits && may_stay);
    if whole {
        let depth = (budget / frame_bytes).max(1);
        let depth = options.tile_depth.or(stack).unwrap_or(depth).min(longest);
        let why = if stack.is_some() {
            "stacks of whole frames, as deep as a UDF asks for".into()
        } else if fits {
            format!("whole frames that fit {} together", explain::bytes_usize(budget))
        } else {
            "a UDF takes whole frames, one at a time".into()
        };
        return tiles(sig, depth, why);
    }

    let depth = if wanted_depth > 1 { wanted_depth } else { SLICED_DEPTH.min(longest) };
    let depth = options.tile_depth.unwrap_or(depth).clamp(1, longest);
    let smallest = if deep_source { 1 } else { SMALLEST_SLICE_BYTES.min(budget) };
    let slice_bytes = (budget / depth).max(smallest);
    let cells = (frame_bytes / pixel_bytes / MANY_SLICES).max(slice_bytes / pixel_bytes);
    let mut shape = grow(&info.base_shape, sig, cells);
    // No more rows than a band has.
    let rows = sig[0].div_ceil(cuts.n_bands).next_multiple_of(info.base_shape[0].max(1));
    shape[0] = shape[0].min(rows);
    let shape = balance(shape, info);
    let slice_bytes = shape.iter().product::<usize>().saturating_mul(pixel_bytes).max(1);
    let depth = options.tile_depth.unwrap_or((budget / slice_bytes).max(1)).min(longest);
    let why = if cuts.n_bands > 1 {
        format!("parts of a band that fit {}", explain::bytes_usize(budget))
    } else if deep_source {
        format!("parts of frames, because these data are best read {wanted_depth} frames at a time")
    } else if fits {
        format!(
            "parts of frames, because a UDF works best on {wanted_depth} frames at a time, and \
             whole ones would not fit {}",
            explain::bytes_usize(budget)
        )
    } else {
        format!(
            "a frame of {} is cut into parts, so that a tile fits {}",
            explain::bytes_usize(frame_bytes),
            explain::bytes_usize(budget)
        )
    };
    tiles(&shape, depth, why)
}

/// The most whole frames that a UDF wants at a time, if it says so.
fn stack_of(requirements: &Requirements, frame_bytes: usize) -> Option<usize> {
    let depth = requirements.tile_depth.filter(|_| requirements.method == Method::Frame)?;
    let most = requirements.tile_bytes.map_or(usize::MAX, |bytes| bytes / frame_bytes);
    Some(depth.min(most).max(1))
}

/// The shape with as many slices on each axis, but the last one not much smaller than the others.
fn balance(mut shape: Vec<usize>, info: &SourceInfo) -> Vec<usize> {
    for ((len, &sig), &base) in shape.iter_mut().zip(&info.sig_shape).zip(&info.base_shape) {
        let n_slices = sig.div_ceil((*len).max(1)).max(1);
        *len = sig.div_ceil(n_slices).next_multiple_of(base.max(1)).min(*len);
    }
    shape
}

/// The base shape, grown by whole multiples, fastest axis first, to at most `cells` cells.
fn grow(base: &[usize], sig: &[usize], cells: usize) -> Vec<usize> {
    let mut shape: Vec<usize> = base.iter().zip(sig).map(|(&b, &s)| b.clamp(1, s)).collect();
    shape.resize(sig.len(), 1);
    for axis in (0..sig.len()).rev() {
        let unit = shape[axis];
        let others = shape.iter().product::<usize>() / unit;
        let units = (cells / (others * unit).max(1)).max(1);
        shape[axis] = unit.saturating_mul(units).min(sig[axis]);
        if shape[axis] < sig[axis] {
            break;
        }
    }
    shape
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_grow_by_whole_rows() {
        assert_eq!(grow(&[1, 4096], &[4096, 4096], 16384), [4, 4096]);
        assert_eq!(grow(&[1, 4096], &[4096, 4096], 100), [1, 4096]);
        assert_eq!(grow(&[1, 100], &[50, 100], 1 << 20), [50, 100]);
        assert_eq!(grow(&[930, 16], &[1860, 2048], 930 * 16 * 3), [930, 48]);
        assert_eq!(grow(&[1], &[1000], 64), [64]);
    }
}
