//! One worker: reads, tiles, converts, and feeds the accumulators.

mod staged;
mod stages;
mod tiles;

use crate::Plan;
use crate::call::{call_of, call_of_source};
use crate::plan::Piece;
use framefold_core::{
    Accumulator, ArrayFormat, Error, FrameReader, Partial, Partition, Result, Tile, TilePosition,
    guarded,
};
use staged::StagedWorker;
use std::ops::Range;
use std::sync::Arc;
use tiles::TileMaker;

/// Gives the partition that a worker gets next, once that is known.
type Next<'f> = dyn Fn() -> Result<Option<usize>> + 'f;

/// The result of one partition: one partial result per UDF of the plan.
#[derive(Debug)]
pub struct PartialResult {
    /// The partition's number.
    pub partition: usize,
    /// Which of its frames these are, if they are not all that is left of it.
    pub frames: Option<Range<usize>>,
    /// One partial result per UDF, in the plan's order; none of frames that never came.
    pub partials: Vec<Partial>,
    /// Whether frames of it never came, so that none was processed.
    pub absent: bool,
}

impl PartialResult {
    /// Size in bytes, for the memory budget.
    pub fn len_bytes(&self) -> usize {
        self.partials.iter().map(Partial::len_bytes).sum()
    }
}

/// Runs partitions of one plan on one thread, using its reader and its memory again and again.
pub struct Worker<'p> {
    plan: &'p Arc<Plan>,
    reader: Box<dyn FrameReader + 'p>,
    tiles: TileMaker<'p>,
    frames: Vec<u64>,
    /// Once the first partition has come: what is needed if its tiles are staged.
    staged: Option<Option<StagedWorker>>,
}

impl<'p> Worker<'p> {
    /// A worker, which opens a reader for itself alone.
    ///
    /// # Errors
    /// Whatever the source reports when it is opened for reading.
    pub fn try_new(plan: &'p Arc<Plan>) -> Result<Self> {
        let tiles = TileMaker::try_new(plan)?;
        let source = &**plan.dataset.source();
        let reader = call_of_source(source, || source.reader())?;
        Ok(Worker { plan, reader, tiles, frames: Vec::new(), staged: None })
    }

    /// Gives the reader back.
    ///
    /// # Errors
    /// `Bug` if that panics.
    pub(crate) fn end(self) -> Result<()> {
        let Worker { plan, reader, .. } = self;
        call_of_source(plan.source(), || {
            drop(reader);
            Ok(())
        })
    }

    /// Processes partition `index`; a pure function of the plan and the index.
    ///
    /// `tick` is called before every tile and every function; an error from it ends the partition.
    ///
    /// # Errors
    /// From the source, from a UDF, or from `tick`; with the partition, and the UDF if it was one.
    /// `Unsupported` if its frames have not arrived: see [`Plan::check_arrived`].
    pub fn run_partition(
        &mut self,
        index: usize,
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<PartialResult> {
        self.run_partition_before(index, &|| Ok(None), tick)
    }

    /// The same; `next` gives the partition that the worker will get after it, once that is known: where
    /// tiles are read ahead for a device, its first ones are read before this one is finished.
    ///
    /// # Errors
    /// As before, and from `next`.
    pub fn run_partition_before(
        &mut self,
        index: usize,
        next: &Next<'_>,
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<PartialResult> {
        let (cut, band) = self.plan.partition(index)?;
        let partials =
            self.plan.check_here(cut).and_then(|()| self.repeated(cut, band, next, tick));
        let partials = partials.map_err(|error| error.with_partition(index))?;
        Ok(PartialResult { partition: index, frames: None, partials, absent: false })
    }

    /// The same for frames of it that have come, or never will: then none is processed.
    pub(crate) fn run_piece(
        &mut self,
        index: usize,
        piece: &Piece,
        next: &Next<'_>,
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<PartialResult> {
        let (cut, band) = self.plan.partition(index)?;
        let cut = Partition { index: cut.index, frames: piece.frames.clone() };
        // There is nothing to be merged of frames that never came.
        let partials = match piece.absent {
            true => Ok(Vec::new()),
            false => self.repeated(&cut, band, next, tick),
        };
        let partials = partials.map_err(|error| error.with_partition(index))?;
        let frames = Some(cut.frames);
        Ok(PartialResult { partition: index, frames, partials, absent: piece.absent })
    }

    fn repeated(
        &mut self,
        cut: &Partition,
        band: usize,
        next: &Next<'_>,
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Partial>> {
        let mut processed = self.process(cut, band, next, tick);
        // Each UDF may ask for that once.
        for _ in 0..self.plan.udfs.len() {
            if !processed.as_ref().is_err_and(Error::repeats) {
                break;
            }
            processed = self.process(cut, band, next, tick);
        }
        processed
    }

    fn process(
        &mut self,
        partition: &Partition,
        band: usize,
        next: &Next<'_>,
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Partial>> {
        let plan = self.plan;
        let staged = match &mut self.staged {
            Some(staged) => staged,
            None => self.staged.insert(StagedWorker::of(plan)?),
        };
        if let Some(staged) = staged {
            return staged.process(partition, band, next, tick);
        }
        // Made when the first tile was read: what a damaged file claims takes no memory for results.
        let mut accumulators = None;
        let make = || accumulators_of(plan, partition, band);
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
                self.process_tile(position, slice, &mut accumulators, &make, tick)?;
            }
        }
        // Before the result is used: were all bytes really there?
        call_of_source(&**plan.dataset.source(), || self.reader.verify())?;
        tick()?;
        finished(plan, accumulators.map_or_else(make, Ok)?)
    }

    /// Reads the slice of that number, in the tiling of the whole frame, and passes it on.
    fn process_tile(
        &mut self,
        position: TilePosition<'_>,
        slice: usize,
        accumulators: &mut Option<Accumulators>,
        make: &dyn Fn() -> Result<Accumulators>,
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        let plan = self.plan;
        let frames = plan.source_frames(position.frames.clone(), &mut self.frames)?;
        let source = &**plan.dataset.source();
        let tiles =
            call_of_source(source, || self.tiles.make(self.reader.as_mut(), frames, slice))?;
        // A thread that was left behind in there begins nothing else: the run is over, and there may be another.
        tick()?;
        let accumulators = match accumulators {
            Some(accumulators) => accumulators,
            None => accumulators.insert(make()?),
        };
        for (accumulator, planned) in accumulators.0.iter_mut().zip(&plan.udfs) {
            tick()?;
            let dtype = planned.input_dtype;
            match planned.format {
                ArrayFormat::Csr => {
                    let tile = tiles.csr(dtype)?;
                    call_of(&planned.name, || accumulator.process_csr(&position, tile))?;
                }
                _ => {
                    let data = tiles.dense(dtype)?.clone();
                    let tile = Tile { position: position.clone(), data };
                    call_of(&planned.name, || accumulator.process(&tile))?;
                }
            }
        }
        Ok(())
    }
}

/// One for each UDF of the plan, for a partition.
struct Accumulators(Vec<Box<dyn Accumulator>>);

/// Those that are left have met with an error, which is that of the run, whatever panics here: one by one, since
/// a second panic on the way out of a first ends the process.
impl Drop for Accumulators {
    fn drop(&mut self) {
        while let Some(accumulator) = self.0.pop() {
            let _ = guarded(|| {
                drop(accumulator);
                Ok(())
            });
        }
    }
}

fn accumulators_of(plan: &Plan, partition: &Partition, band: usize) -> Result<Accumulators> {
    let mut accumulators = Accumulators(Vec::with_capacity(plan.udfs.len()));
    for planned in &plan.udfs {
        let meta = &planned.metas[band];
        let made = call_of(&planned.name, || planned.udf.accumulator(meta, partition));
        accumulators.0.push(made?);
    }
    Ok(accumulators)
}

fn finished(plan: &Plan, mut accumulators: Accumulators) -> Result<Vec<Partial>> {
    let mut partials = Vec::with_capacity(accumulators.0.len());
    // The first one is taken first, and those that are left stay where they are dropped one by one.
    accumulators.0.reverse();
    for planned in &plan.udfs {
        let Some(accumulator) = accumulators.0.pop() else { break };
        partials.push(call_of(&planned.name, || accumulator.finish())?);
    }
    Ok(partials)
}

fn chunks(range: Range<usize>, depth: usize) -> impl Iterator<Item = Range<usize>> {
    let end = range.end;
    range.step_by(depth).map(move |start| start..end.min(start.saturating_add(depth)))
}
