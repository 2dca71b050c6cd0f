//! Random data sets with everything that a run needs.

use crate::evaluate::{cut, runs_with_data};
use crate::memory::{MemoryOptions, MemorySource};
use crate::random::{Values, random_values};
use framefold_core::{
    ArrayFormat, DType, Dataset, NativeArray, Partition, Presence, Result, Roi, TilingScheme,
    checked_product,
};
use proptest::prelude::*;
use std::ops::Range;
use std::sync::Arc;

/// A random data set, and one way to run over it. `Debug` prints all that is needed to build it
/// again.
#[derive(Clone, Debug)]
pub struct Case {
    /// The scan.
    pub nav: Vec<usize>,
    /// The frame.
    pub sig: Vec<usize>,
    /// The dtype of the pixels.
    pub dtype: DType,
    /// What the pixels look like.
    pub values: Values,
    /// From which they are made.
    pub seed: u64,
    /// Which frames of the source are missing, taken in turn.
    pub missing: Vec<bool>,
    /// The offset between positions and frames.
    pub sync_offset: i64,
    /// Which positions are selected, taken in turn; at least the first one always is.
    pub roi: Option<Vec<bool>>,
    /// Whether the source lends tiles.
    pub lends: bool,
    /// Elements between frames.
    pub gap: usize,
    /// Whether the source has its data sparse.
    pub sparse: bool,
    /// The shape of a tile.
    pub tile: Vec<usize>,
    /// The frames of a tile.
    pub depth: usize,
    /// The frames of a partition, taken in turn.
    pub partition_lens: Vec<usize>,
}

impl Case {
    /// The data set.
    ///
    /// # Errors
    /// Only if the fields do not fit each other.
    pub fn dataset(&self) -> Result<Dataset> {
        let n_frames: usize = self.nav.iter().product();
        let shape = [&[n_frames], &self.sig[..]].concat();
        let len = checked_product(&shape).map_or(usize::MAX, |n| n as usize);
        let values = random_values(self.dtype, len, self.values, self.seed);
        let source = MemorySource::try_new(
            NativeArray::try_new(&shape, values)?,
            MemoryOptions {
                lends: self.lends,
                gap: self.gap,
                presence: self.presence(n_frames),
                format: if self.sparse { ArrayFormat::Csr } else { ArrayFormat::Dense },
            },
        )?;
        let offset = self.sync_offset % n_frames as i64;
        Dataset::try_new(Arc::new(source), Some(&self.nav), offset)
    }

    fn presence(&self, n_frames: usize) -> Presence {
        if !self.missing.contains(&true) {
            return Presence::All;
        }
        let mut ranges: Vec<Range<u64>> = vec![];
        let missing = self.missing.iter().cycle().take(n_frames);
        for (frame, _) in missing.enumerate().filter(|(_, missing)| !**missing) {
            let frame = frame as u64;
            match ranges.last_mut() {
                Some(range) if range.end == frame => range.end += 1,
                _ => ranges.push(frame..frame + 1),
            }
        }
        Presence::Ranges(ranges)
    }

    /// The region of interest.
    ///
    /// # Errors
    /// None: the first position is always selected.
    pub fn roi(&self) -> Result<Option<Arc<Roi>>> {
        let n_frames: usize = self.nav.iter().product();
        let Some(pattern) = &self.roi else { return Ok(None) };
        let mut mask: Vec<bool> = pattern.iter().copied().cycle().take(n_frames).collect();
        mask.resize(n_frames, false);
        mask[0] = true;
        Ok(Some(Arc::new(Roi::try_new(mask)?)))
    }

    /// The tiling.
    ///
    /// # Errors
    /// Only if the fields do not fit each other.
    pub fn tiling(&self) -> Result<Arc<TilingScheme>> {
        Ok(Arc::new(TilingScheme::try_new(&self.sig, &self.tile, self.depth)?))
    }

    /// The tiling for reductions that need whole frames.
    ///
    /// # Errors
    /// Only if the fields do not fit each other.
    pub fn frame_tiling(&self) -> Result<Arc<TilingScheme>> {
        Ok(Arc::new(TilingScheme::try_new(&self.sig, &self.sig, self.depth)?))
    }

    /// The partitions.
    ///
    /// # Errors
    /// Those of [`Case::dataset`].
    pub fn partitions(&self) -> Result<Vec<Partition>> {
        let runs = runs_with_data(&self.dataset()?, self.roi()?.as_deref());
        Ok(cut(&runs, &self.partition_lens))
    }
}

/// Random cases of any dtype, with frames of one to three axes.
pub fn cases() -> impl Strategy<Value = Case> {
    cases_of(DType::all().collect(), 1..4)
}

/// Random cases of these dtypes, with frames of that many axes.
pub fn cases_of(dtypes: Vec<DType>, sig_axes: Range<usize>) -> impl Strategy<Value = Case> {
    let axes = |count: Range<usize>, longest: usize| prop::collection::vec(1..=longest, count);
    // A frame of one axis may be long enough for the blocks of inner loops.
    let sig = prop_oneof![
        4 => axes(sig_axes.clone(), 9),
        1 => sig_axes.prop_map(|n| [vec![1; n - 1], vec![1300]].concat()),
    ];
    let values = prop_oneof![
        Just(Values::Counts),
        Just(Values::Full),
        Just(Values::NonFinite),
        Just(Values::Rare)
    ];
    let flags = |share: f64| prop::collection::vec(prop::bool::weighted(share), 1..9);
    let missing = prop_oneof![2 => Just(vec![false]), 1 => flags(0.3)];
    let data = (axes(1..3, 7), sig, prop::sample::select(dtypes), values, any::<u64>());
    let sync_offset = prop_oneof![2 => Just(0), 1 => -5i64..6];
    let layout = (missing, sync_offset, any::<bool>(), 0usize..4, prop::bool::weighted(0.3));
    let run = (
        prop::option::of(flags(0.5)),
        prop::collection::vec(1usize..12, 3),
        1usize..12,
        prop::collection::vec(1usize..20, 1..4),
    );
    (data, layout, run).prop_map(|(data, layout, run)| {
        let (nav, sig, dtype, values, seed) = data;
        let (missing, sync_offset, lends, gap, sparse) = layout;
        let (roi, tile, depth, partition_lens) = run;
        // All frames missing is not a source.
        let missing = if missing.contains(&false) { missing } else { vec![false] };
        let tile: Vec<usize> = sig
            .iter()
            .zip(&tile)
            .map(|(&axis, &part)| if axis > 100 { part * 100 } else { part })
            .collect();
        Case {
            nav,
            sig,
            dtype,
            values,
            seed,
            missing,
            sync_offset,
            roi,
            lends,
            gap,
            sparse,
            tile,
            depth,
            partition_lens,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CellCount, evaluate};

    proptest! {
        #[test]
        fn every_cell_is_seen_once(case in cases()) {
            let (dataset, roi) = (case.dataset().unwrap(), case.roi().unwrap());
            let results = evaluate(
                &CellCount,
                &dataset,
                roi.as_ref(),
                &case.tiling().unwrap(),
                &case.partitions().unwrap(),
            );
            let results = results.unwrap();
            let counts = results.get("count").unwrap();
            let frame_len = dataset.shape().frame_len();
            for (i, frame) in counts.as_slice::<i64>().unwrap().chunks(frame_len).enumerate() {
                let position = roi.as_ref().map_or(i, |roi| roi.positions()[i]);
                let expected = i64::from(dataset.frame_at(position).is_some());
                prop_assert!(frame.iter().all(|&count| count == expected));
            }
        }
    }
}
