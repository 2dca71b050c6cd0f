//! What a UDF gets to know about the run it takes part in.

use crate::{ArrayFormat, DType, Partition, Roi, Shape, TilingScheme};
use std::sync::Arc;

/// What is known before tiles and partitions are chosen: enough to declare buffers.
#[derive(Clone, Debug)]
pub struct JobMeta {
    /// Scan and frame shape of the data set.
    pub shape: Shape,
    /// The data set's own dtype.
    pub native_dtype: DType,
    /// The dtype of the tiles that this UDF will get.
    pub input_dtype: DType,
    /// The region of interest, if there is one.
    pub roi: Option<Arc<Roi>>,
}

impl JobMeta {
    /// The number of selected positions: the length of `nav` result buffers.
    pub fn n_selected(&self) -> usize {
        self.roi.as_ref().map_or(self.shape.n_frames(), |roi| roi.n_selected())
    }

    /// The flat navigation position of the selected frame `index`.
    pub fn position(&self, index: usize) -> usize {
        match &self.roi {
            Some(roi) => roi.positions().get(index).copied().unwrap_or(usize::MAX),
            None => index,
        }
    }
}

/// Everything decided before the first pixel is read.
#[derive(Clone, Debug)]
pub struct RunMeta {
    /// What was known before.
    pub job: JobMeta,
    /// How frames are cut into tiles.
    pub tiling: Arc<TilingScheme>,
    /// The partitions, in merge order.
    pub partitions: Arc<[Partition]>,
    /// The format that the tiles of this UDF come in: one that it asked for.
    pub format: ArrayFormat,
    /// Whether reading may wait for another thread: see [`crate::DataSource::may_wait`].
    pub may_wait: bool,
    /// The `nav` buffers of this UDF whose rows go to a [`Sink`](crate::Sink) when they are merged,
    /// and are not kept: see [`crate::FinalRows::of_run`]. None, but for UDFs that merge
    /// [by rows](crate::Requirements::by_rows).
    pub to_sink: Arc<[String]>,
}
