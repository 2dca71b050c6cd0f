//! The frames of a set as a source of tiles.

use super::reader::K2Reader;
use super::set::FileSet;
use super::sync::Sectors;
use super::{FORMAT, block};
use framefold_core::{
    ByteOrder, DType, DataSource, FrameReader, MetadataList, Presence, Quantity, Result,
    SourceInfo, StoredDType,
};
use framefold_simd::Simd;

/// Frames of eight sectors.
#[derive(Debug)]
pub(super) struct K2Source {
    info: SourceInfo,
    sectors: Sectors,
    simd: Simd,
}

impl K2Source {
    /// `sig_shape` has as many cells as a frame.
    pub(super) fn new(
        set: &FileSet,
        sectors: Sectors,
        sig_shape: Vec<usize>,
        nav_shape: Vec<usize>,
        details: Vec<(String, String)>,
        warnings: Vec<String>,
    ) -> Self {
        let files = set.sectors.iter().filter_map(|storage| Some(storage.path()?.into()));
        // Parts of blocks would mean that a block is read several times.
        let base_shape = if sig_shape == super::FRAME {
            vec![block::ROWS, block::COLUMNS]
        } else {
            crate::readers::linear::full_row(&sig_shape)
        };
        let mut metadata = MetadataList::new();
        metadata.text(Quantity::Detector, "K2 IS");
        metadata.number(Quantity::BitDepth, 12.0);
        // Unless it is laid out as a scan.
        metadata.text(Quantity::ScanAxes, "time");
        let info = SourceInfo {
            format: FORMAT.name,
            paths: std::iter::once(set.gtg.clone()).chain(files).collect(),
            n_frames: sectors.n_frames,
            presence: match sectors.present.as_slice() {
                [all] if all.start == 0 => Presence::All,
                present => Presence::Ranges(present.to_vec()),
            },
            base_shape,
            sig_shape,
            nav_shape,
            dtype: StoredDType { dtype: DType::U16, order: ByteOrder::NATIVE },
            preferred_depth: 1,
            lends: false,
            metadata,
            details,
            warnings,
        };
        K2Source { info, sectors, simd: Simd::best() }
    }
}

impl DataSource for K2Source {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Ok(Box::new(K2Reader::try_new(&self.info, &self.sectors, self.simd)?))
    }
}
