//! The frames of another source, turned: rows or columns in reverse, axes swapped.
//!
//! Nothing stands between a source and its reader but for frames that are turned. Each part that is
//! asked for is the same part of the other source's frames, read there and copied once.

mod turn;

use super::csr::duplicates::Sorter;
use framefold_core::{
    ArrayFormat, Arrival, CsrScratch, CsrTile, DataSource, DenseTile, Error, FrameIndices,
    FrameReader, MetadataList, Orientation, Result, Scratch, SigSlice, SourceInfo, TileFrames,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use turn::Planes;

#[derive(Debug)]
pub(crate) struct OrientedSource {
    source: Arc<dyn DataSource>,
    orientation: Orientation,
    info: SourceInfo,
}

impl OrientedSource {
    /// The frames of `source`, turned, with this known of them.
    ///
    /// # Errors
    /// `InvalidArgument` if its frames have too few axes to be turned so.
    pub(crate) fn try_new(
        source: Arc<dyn DataSource>,
        orientation: Orientation,
        metadata: MetadataList,
    ) -> Result<Self> {
        let mut info = source.info().clone();
        info.sig_shape = orientation.shape(&info.sig_shape)?;
        orientation.swap(&mut info.base_shape);
        info.lends = false;
        info.metadata = metadata;
        Ok(OrientedSource { source, orientation, info })
    }
}

impl DataSource for OrientedSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Ok(Box::new(OrientedReader {
            source: self,
            reader: self.source.reader()?,
            dense: Scratch::new(),
            sparse: CsrScratch::new(),
            sorter: Sorter::default(),
        }))
    }

    fn format(&self) -> ArrayFormat {
        self.source.format()
    }

    fn stored_bytes(&self) -> Option<u64> {
        self.source.stored_bytes()
    }

    fn frames_together(&self) -> usize {
        self.source.frames_together()
    }

    fn pieces(&self) -> Option<&[u64]> {
        self.source.pieces()
    }

    fn arrival(&self, frames: Range<u64>) -> Arrival {
        self.source.arrival(frames)
    }

    fn wait(&self, most: Duration) {
        self.source.wait(most);
    }

    fn turned(&self) -> Option<(&Arc<dyn DataSource>, Orientation)> {
        Some((&self.source, self.orientation))
    }

    fn orientation(&self) -> Orientation {
        self.source.orientation().then(self.orientation)
    }

    fn stages(&self) -> Vec<String> {
        self.source.stages()
    }

    fn contends(&self) -> bool {
        self.source.contends()
    }

    fn may_wait(&self) -> bool {
        self.source.may_wait()
    }
}

struct OrientedReader<'s> {
    source: &'s OrientedSource,
    reader: Box<dyn FrameReader + 's>,
    dense: Scratch,
    sparse: CsrScratch,
    sorter: Sorter,
}

impl FrameReader for OrientedReader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        let orientation = self.source.orientation;
        let part = orientation.slice(sig, &self.source.source.info().sig_shape)?;
        let (dtype, depth, len) = (self.source.info.dtype.dtype, frames.len(), sig.len());
        let tile = self.reader.read(frames, &part)?;
        tile.check(depth, &part, dtype)?;
        let frames = tile.frames();
        let len_bytes = depth.checked_mul(len).and_then(|cells| cells.checked_mul(dtype.size()));
        let len_bytes =
            len_bytes.ok_or_else(|| Error::limit(format!("a tile of {depth} × {len} cells")))?;
        let out = self.dense.prepare(len_bytes)?;
        let planes = Planes::new(orientation, sig.shape());
        let (size, stride) = (dtype.size(), frames.stride());
        planes.turn(size, frames.as_bytes(), stride, out).ok_or_else(|| {
            Error::bug(format!("a tile of {depth} × {len} cells does not fit its part"))
        })?;
        let bytes = self.dense.bytes().get(..len_bytes).unwrap_or_default();
        let frames = TileFrames::from_bytes(dtype, bytes, depth, len, len)?;
        DenseTile::lent(frames, self.dense.owner())
    }

    fn read_csr(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<CsrTile<'_>> {
        let orientation = self.source.orientation;
        let part = orientation.slice(sig, &self.source.source.info().sig_shape)?;
        let n_frames = frames.len();
        let tile = self.reader.read_csr(frames, &part)?;
        tile.check(n_frames, &part, self.source.info.dtype.dtype)?;
        let (depth, n, dtype) = (tile.depth(), tile.n_entries(), tile.dtype());
        let planes = Planes::new(orientation, sig.shape());
        let (starts, columns, values) = self.sparse.prepare(depth, n, dtype)?;
        starts.copy_from_slice(tile.starts());
        values.copy_from_slice(tile.values().as_bytes());
        for (to, &from) in columns.iter_mut().zip(tile.columns()) {
            *to = planes.column(from)?;
        }
        let bug = || Error::bug("a sparse tile has fewer entries than its rows");
        for row in 0..depth {
            let row = tile.row(row);
            let bytes = row.start * dtype.size()..row.end * dtype.size();
            let columns = columns.get_mut(row).ok_or_else(bug)?;
            if !columns.is_sorted() {
                let values = values.get_mut(bytes).ok_or_else(bug)?;
                self.sorter.sort(columns, values, dtype)?;
            }
        }
        self.sparse.tile(depth, n, dtype, sig.len())
    }

    fn verify(&mut self) -> Result<()> {
        self.reader.verify()
    }
}
