//! Bands: frames that are processed in parts, each part in a separate run.
//!
//! The sum of a 4096 × 4096 detector is 128 MiB large while it is being made. One such accumulator
//! for every few frames costs more time than reading them does, and one for every thread more
//! memory than users expect. Where all UDFs treat each pixel by itself, frames are therefore
//! cut into bands of whole rows, and a partition is a band of many frames: its accumulators are
//! small, and every pixel is merged once or a few times in the whole run. A UDF does not notice:
//! to it, each band is a data set whose frames are that band.

use super::tiling::Tiles;
use framefold_core::{ArrayFormat, JobMeta, Partition, Result, RunMeta, Shape, TilingScheme};
use std::ops::Range;
use std::sync::Arc;

/// A band of the frame: some of the slices of the tiling, and what they are to the UDFs.
pub(crate) struct Band {
    /// Its slices among those of the whole frame.
    pub(crate) slices: Range<usize>,
    /// The same slices, counted within the band.
    pub(crate) tiling: Arc<TilingScheme>,
}

/// Cuts the frame into about `count` bands, none of which is less than a row of tiles.
pub(super) fn cut(tiles: &Tiles, count: usize) -> Result<Vec<Band>> {
    let scheme = &tiles.scheme;
    if count <= 1 {
        let slices = 0..scheme.slices().len();
        return Ok(vec![Band { slices, tiling: scheme.clone() }]);
    }
    let (sig, tile) = (scheme.sig_shape(), scheme.tile_shape());
    let rows_of_tiles = sig[0].div_ceil(tile[0]);
    let per_row = scheme.slices().len() / rows_of_tiles;
    let at_a_time = rows_of_tiles.div_ceil(count);
    let mut bands = Vec::with_capacity(rows_of_tiles.div_ceil(at_a_time));
    for first in (0..rows_of_tiles).step_by(at_a_time) {
        let last = rows_of_tiles.min(first + at_a_time);
        let mut shape = sig.to_vec();
        shape[0] = sig[0].min(last * tile[0]) - first * tile[0];
        let tiling = Arc::new(TilingScheme::try_new(&shape, tile, scheme.depth())?);
        bands.push(Band { slices: first * per_row..last * per_row, tiling });
    }
    Ok(bands)
}

/// The meta data of the run of each band, as a UDF sees it.
pub(super) fn metas(
    job: &JobMeta,
    bands: &[Band],
    cuts: &Arc<[Partition]>,
    format: ArrayFormat,
    may_wait: bool,
    to_sink: &Arc<[String]>,
) -> Result<Vec<RunMeta>> {
    let meta = |band: &Band| {
        let shape = Shape::try_new(job.shape.nav(), band.tiling.sig_shape())?;
        let job = JobMeta { shape, ..job.clone() };
        let (tiling, partitions) = (band.tiling.clone(), cuts.clone());
        let to_sink = to_sink.clone();
        Ok(RunMeta { job, tiling, partitions, format, may_wait, to_sink })
    };
    bands.iter().map(meta).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::checked_product;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bands_are_the_slices_of_the_frame(
            dims in prop::collection::vec((1usize..12, 1usize..6), 1..4),
            count in 1usize..9,
        ) {
            let sig: Vec<usize> = dims.iter().map(|d| d.0).collect();
            let tile: Vec<usize> = dims.iter().map(|d| d.1).collect();
            let scheme = Arc::new(TilingScheme::try_new(&sig, &tile, 3).unwrap());
            let bands = cut(&Tiles { scheme: scheme.clone(), why: String::new() }, count).unwrap();
            let mut next = (0, 0);
            for band in &bands {
                let row = scheme.slices()[band.slices.start].origin()[0];
                prop_assert_eq!((band.slices.start, row), next);
                let whole = &scheme.slices()[band.slices.clone()];
                prop_assert_eq!(whole.len(), band.tiling.slices().len());
                for (slice, own) in whole.iter().zip(band.tiling.slices()) {
                    prop_assert_eq!(slice.shape(), own.shape());
                    prop_assert_eq!(slice.origin()[0] - row, own.origin()[0]);
                    prop_assert_eq!(&slice.origin()[1..], &own.origin()[1..]);
                }
                next = (band.slices.end, row + band.tiling.sig_shape()[0]);
            }
            prop_assert_eq!(next, (scheme.slices().len(), sig[0]));
            let cells = bands.iter().map(|b| checked_product(b.tiling.sig_shape()).unwrap());
            prop_assert_eq!(cells.sum::<u64>(), checked_product(&sig).unwrap());
            prop_assert!(bands.len() <= count);
        }
    }
}
