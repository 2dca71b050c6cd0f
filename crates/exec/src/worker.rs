//! One worker: reads, tiles, converts, and feeds the accumulators.

use crate::Plan;
use framefold_core::{
    Accumulator, CorrectionPlanes, DType, DenseTile, Error, FrameReader, Partial, Partition,
    Result, Scratch, SigSlice, Tile, TilePosition, convert_tile, correct_tile,
};
use std::ops::Range;

/// The result of one partition: one partial result per UDF of the plan.
#[derive(Debug)]
pub struct PartialResult {
    /// The partition's number.
    pub partition: usize,
    /// One partial result per UDF, in the plan's order.
    pub partials: Vec<Partial>,
}

impl PartialResult {
    /// Size in bytes, for the memory budget.
    pub fn len_bytes(&self) -> usize {
        self.partials.iter().map(Partial::len_bytes).sum()
    }
}

/// Runs partitions of one plan on one thread, using its reader and its memory again and again.
pub struct Worker<'p> {
    plan: &'p Plan,
    reader: Box<dyn FrameReader + 'p>,
    /// One per dtype that some UDF wants, other than that of uncorrected data.
    converted: Vec<Converted>,
    frames: Vec<u64>,
}

/// Where tiles of one dtype are made.
struct Converted {
    dtype: DType,
    scratch: Scratch,
    /// Dark frame and gain map in that dtype, if there are corrections.
    planes: Option<CorrectionPlanes>,
}

impl<'p> Worker<'p> {
    /// A worker with a reader of its own.
    ///
    /// # Errors
    /// Whatever the source reports when it is opened for reading.
    pub fn try_new(plan: &'p Plan) -> Result<Self> {
        let native = plan.dataset.source().info().dtype.dtype;
        let corrections = plan.dataset.corrections();
        let mut converted: Vec<Converted> = Vec::new();
        for planned in &plan.udfs {
            let dtype = planned.input_dtype;
            let as_it_is = dtype == native && corrections.is_none();
            if !as_it_is && !converted.iter().any(|known| known.dtype == dtype) {
                let planes =
                    corrections.map(|c| CorrectionPlanes::try_new(c, dtype)).transpose()?;
                converted.push(Converted { dtype, scratch: Scratch::new(), planes });
            }
        }
        Ok(Worker { plan, reader: plan.dataset.source().reader()?, converted, frames: Vec::new() })
    }

    /// Processes partition `index`; a pure function of the plan and the index.
    ///
    /// `tick` is called before every tile; an error from it ends the partition.
    ///
    /// # Errors
    /// From the source, from a UDF, or from `tick`; with the partition, and the UDF if it was one.
    pub fn run_partition(
        &mut self,
        index: usize,
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<PartialResult> {
        let (cut, band) = self.plan.partition(index)?;
        let partials = self.process(cut, band, tick).map_err(|e| e.with_partition(index))?;
        Ok(PartialResult { partition: index, partials })
    }

    fn process(
        &mut self,
        partition: &Partition,
        band: usize,
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Partial>> {
        let plan = self.plan;
        let mut accumulators = Vec::with_capacity(plan.udfs.len());
        for planned in &plan.udfs {
            let accumulator = planned
                .udf
                .accumulator(&planned.metas[band], partition)
                .map_err(|error| error.with_udf(planned.udf.name()))?;
            accumulators.push(accumulator);
        }
        let band = &plan.bands[band];
        // Slice by slice: what the frames of a slice are added to stays in the cache.
        for (slice, sig) in band.slices.clone().zip(band.tiling.slices()) {
            for frames in chunks(partition.frames.clone(), plan.tiling.depth()) {
                tick()?;
                let start = partition.frames.start;
                let position = TilePosition {
                    in_partition: frames.start - start..frames.end - start,
                    frames,
                    sig,
                };
                self.process_tile(position, slice, &mut accumulators)?;
            }
        }
        // Before anybody uses the result: were all bytes really there?
        self.reader.verify()?;
        let mut partials = Vec::with_capacity(accumulators.len());
        for (accumulator, planned) in accumulators.into_iter().zip(&plan.udfs) {
            let partial = accumulator.finish().map_err(|e| e.with_udf(planned.udf.name()))?;
            partials.push(partial);
        }
        Ok(partials)
    }

    /// Reads the slice of that number, in the tiling of the whole frame, and passes it on.
    fn process_tile(
        &mut self,
        position: TilePosition<'_>,
        slice: usize,
        accumulators: &mut [Box<dyn Accumulator>],
    ) -> Result<()> {
        let plan = self.plan;
        let frames = plan.source_frames(position.frames.clone(), &mut self.frames)?;
        let corrected = plan.corrected.get(slice);
        let read = corrected.map_or(&plan.tiling.slices()[slice], |slice| slice.read());
        let native = self.reader.read(frames, read)?;
        check_geometry(&native, position.frames.len(), read)?;
        let mut tiles = Vec::with_capacity(self.converted.len());
        for Converted { dtype, scratch, planes } in &mut self.converted {
            let tile = match (corrected, planes) {
                (Some(slice), Some(planes)) => correct_tile(&native, slice, planes, scratch)?,
                _ => convert_tile(&native, *dtype, scratch)?,
            };
            tiles.push((*dtype, tile));
        }
        for (accumulator, planned) in accumulators.iter_mut().zip(&plan.udfs) {
            let dtype = planned.input_dtype;
            let data = tiles.iter().find(|(known, _)| *known == dtype).map_or(&native, |t| &t.1);
            let tile = Tile { position: position.clone(), data: data.clone() };
            accumulator.process(&tile).map_err(|error| error.with_udf(planned.udf.name()))?;
        }
        Ok(())
    }
}

/// A source that hands out another tile than was asked for must not get any further.
fn check_geometry(tile: &DenseTile<'_>, n_frames: usize, sig: &SigSlice) -> Result<()> {
    let (found, expected) = ((tile.frames.depth(), tile.frames.frame_len()), (n_frames, sig.len()));
    if found == expected {
        return Ok(());
    }
    Err(Error::bug(format!(
        "the source gave {} frames of {} cells, but {} of {} were asked for",
        found.0, found.1, expected.0, expected.1
    )))
}

fn chunks(range: Range<usize>, depth: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(depth).map(move |start| start..end.min(start.saturating_add(depth)))
}
