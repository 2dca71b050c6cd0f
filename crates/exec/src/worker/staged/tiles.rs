//! The tiles of one partition, and the parts that each is read in.

use super::Stage;
use crate::Plan;
use crate::worker::chunks;
use framefold_core::{DType, Encoding, Error, Partition, Result, TilePosition};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;

/// What a reader decodes at a time.
const PIECE_BYTES: usize = 1 << 20;
/// What a reader copies at a time that the device decodes, when it is decoded.
const ENCODED_PIECE_BYTES: usize = 4 << 20;

/// The tiles of one partition, and the parts that each is read in.
pub(super) struct Tiles {
    plan: Arc<Plan>,
    pub(super) band: usize,
    /// Of the partition.
    pub(super) frames: Range<usize>,
    dtype: DType,
    /// How many frames a tile has, but for the last one of a slice, and a piece, but for the last one of
    /// a tile.
    depth: NonZeroUsize,
    pub(super) piece_depth: NonZeroUsize,
    /// How pieces are stored, if they are whole chunks.
    pub(super) encoding: Option<Encoding>,
}

impl Tiles {
    pub(super) fn of(stage: &Stage, partition: &Partition, band: usize) -> Self {
        let (plan, dtype) = (stage.plan.clone(), stage.dtype);
        let frames = partition.frames.clone();
        let one = NonZeroUsize::MIN;
        let together = together(&plan);
        let depth = NonZeroUsize::new(depth_of(stage, frames.len())).unwrap_or(one);
        let frame_bytes = frame_cells(&plan).saturating_mul(dtype.size()).max(1);
        let piece_of = |bytes: usize| {
            let fit = (bytes / frame_bytes).max(1).checked_next_multiple_of(together.max(1));
            NonZeroUsize::new(fit.unwrap_or(usize::MAX)).unwrap_or(one).min(depth)
        };
        let encoded_depth = piece_of(ENCODED_PIECE_BYTES);
        // The device finds chunks by their number.
        let encoding = stage
            .encoding
            .filter(|encoding| encoded_depth.get().is_multiple_of(encoding.chunk_frames));
        let piece_depth = encoding.map_or_else(|| piece_of(PIECE_BYTES), |_| encoded_depth);
        Tiles { plan, band, frames, dtype, depth, piece_depth, encoding }
    }

    /// The bytes of the largest tile of all partitions of a run.
    pub(super) fn most_bytes(stage: &Stage) -> Result<usize> {
        let depths = stage.plan.cuts.iter().map(|cut| depth_of(stage, cut.n_frames()));
        bytes(frame_cells(&stage.plan), stage.dtype, depths.max().unwrap_or(0))
    }

    /// Whether others are of the same frames.
    pub(super) fn same_as(&self, other: &Tiles) -> bool {
        (self.band, &self.frames) == (other.band, &other.frames)
    }

    fn tiles_of_slice(&self) -> usize {
        self.frames.len().div_ceil(self.depth.get())
    }

    /// The parts of a tile that is as deep as most.
    pub(super) fn parts_of_tile(&self) -> usize {
        self.depth.get().div_ceil(self.piece_depth.get())
    }

    fn pieces_of_slice(&self) -> usize {
        let full = self.frames.len() / self.depth;
        let rest = self.frames.len() % self.depth;
        full * self.parts_of_tile() + rest.div_ceil(self.piece_depth.get())
    }

    fn slices(&self) -> Range<usize> {
        self.plan.bands[self.band].slices.clone()
    }

    pub(super) fn len(&self) -> usize {
        self.slices().len() * self.tiles_of_slice()
    }

    pub(super) fn n_pieces(&self) -> usize {
        self.slices().len() * self.pieces_of_slice()
    }

    /// The number of its slice in the tiling of the whole frame.
    pub(super) fn slice_of(&self, tile: usize) -> usize {
        self.slices().start + tile / self.tiles_of_slice()
    }

    fn frames_of_tile(&self, tile: usize) -> Range<usize> {
        let start = self.frames.start + tile % self.tiles_of_slice() * self.depth.get();
        start..self.frames.end.min(start + self.depth.get())
    }

    /// The frames of a part of a tile.
    pub(super) fn frames_of(&self, tile: usize, part: usize) -> Range<usize> {
        let tile = self.frames_of_tile(tile);
        let start = tile.start + part * self.piece_depth.get();
        start..tile.end.min(start + self.piece_depth.get())
    }

    /// The bytes of each part of a tile.
    pub(super) fn lens(&self, tile: usize) -> Result<Vec<usize>> {
        let cells = self.plan.tiling.slices()[self.slice_of(tile)].len();
        let parts = chunks(self.frames_of_tile(tile), self.piece_depth.get());
        parts.map(|frames| bytes(cells, self.dtype, frames.len())).collect()
    }

    pub(super) fn position(&self, tile: usize) -> TilePosition<'_> {
        let frames = self.frames_of_tile(tile);
        let band = &self.plan.bands[self.band];
        let sig = &band.tiling.slices()[tile / self.tiles_of_slice()];
        let in_partition = frames.start - self.frames.start..frames.end - self.frames.start;
        TilePosition { in_partition, frames, sig }
    }
}

/// The cells of the largest slice of a frame.
fn frame_cells(plan: &Plan) -> usize {
    plan.tiling.slices().iter().map(|slice| slice.len()).max().unwrap_or(1)
}

/// How many frames are decoded together: these are not shared by two readers, or by two tiles.
fn together(plan: &Plan) -> usize {
    plan.source().frames_together().max(plan.source().info().preferred_depth)
}

/// How many frames a tile of a partition of `n_frames` has.
fn depth_of(stage: &Stage, n_frames: usize) -> usize {
    let (plan, together) = (&stage.plan, together(&stage.plan));
    // As many pixels as if tiles were of whole frames.
    let n_slices = plan.tiling.slices().len();
    let wanted = stage.staging.depth().map_or(1, |depth| depth.saturating_mul(n_slices));
    let deeper = wanted.max(plan.tiling.depth());
    let deeper = match deeper - deeper % together.max(1) {
        aligned if aligned > 0 && deeper < n_frames => aligned,
        _ => deeper,
    };
    deeper.min(n_frames)
}

/// The bytes of so many cells of so many frames.
fn bytes(cells: usize, dtype: DType, n_frames: usize) -> Result<usize> {
    let bytes = cells.checked_mul(dtype.size()).and_then(|n| n.checked_mul(n_frames));
    bytes.ok_or_else(|| Error::limit("a tile does not fit in memory"))
}
