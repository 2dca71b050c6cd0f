//! Partitions whose tiles are read ahead, by several threads, into the staging memory of the worker.
//!
//! Tiles are read in pieces of about a megabyte, which fit the cache of a core, in order: so the first
//! tile is there soon, and little memory is needed. The worker takes one tile after the other, passes
//! it on, and gives the memory of an earlier one back when nothing reads from it any more. Behind the last
//! tile of a partition, the readers go on with the partition that the worker will get next: while it
//! finishes the one and begins with the other, the device need not wait.
//!
//! Where the device decodes what the source has, pieces are copied as they are stored.

mod encoded;
mod readers;
mod ring;
mod tiles;

use super::{Accumulators, Next, accumulators_of};
use crate::Plan;
use crate::call::call_of;
use framefold_core::{
    ArrayFormat, DType, EncodedTile, Encoding, Error, Partial, Partition, Result, StagedTile,
    Staging, TileFrames,
};
use readers::Readers;
use std::sync::Arc;
use tiles::Tiles;

/// Tiles that transfers may read from, or are queued, while others are filled.
const IN_FLIGHT: usize = 2;

/// Is given tiles, the number of one of them, its place, and how long its encoded parts are.
type PassOn<'f> = dyn FnMut(&Tiles, usize, usize, &[usize]) -> Result<()> + 'f;

/// Where tiles of a run are staged, and as what.
struct Stage {
    plan: Arc<Plan>,
    staging: Arc<dyn Staging>,
    /// Of the pixels that are put there.
    dtype: DType,
    /// Whether the device corrects them.
    is_raw: bool,
    /// How what it decodes is stored.
    encoding: Option<Encoding>,
}

/// What a worker needs whose tiles are staged.
pub(super) struct StagedWorker {
    stage: Arc<Stage>,
    readers: Option<Readers>,
}

impl Stage {
    /// `None` if the UDFs of the plan take tiles as they are read: all of them, or one, or if reading
    /// ahead is of no use.
    fn of(plan: &Arc<Plan>) -> Result<Option<Self>> {
        let mut found = None;
        for planned in &plan.udfs {
            if planned.format != ArrayFormat::Dense {
                return Ok(None);
            }
            match call_of(&planned.name, || planned.udf.staging())? {
                Some(staging) => found = Some(staging),
                None => return Ok(None),
            }
        }
        let Some(staging) = found else { return Ok(None) };
        let source = plan.source();
        if staging.n_readers() > 0 && (source.contends() || source.may_wait()) {
            return Ok(None);
        }
        let corrects = plan.dataset.corrections().is_some();
        let whole = plan.tiling.slices().len() == 1;
        let is_raw = corrects && whole && staging.corrects();
        let wanted = plan.udfs.iter().map(|planned| planned.input_dtype);
        let dtype = match same(wanted) {
            _ if is_raw || !corrects => source.info().dtype.dtype,
            Some(dtype) => dtype,
            None => return Ok(None),
        };
        let as_stored = whole && (is_raw || !corrects);
        let encoding = source
            .encoding()
            .filter(|encoding| as_stored && encoding.block_bytes <= staging.block_bytes());
        Ok(Some(Stage { plan: plan.clone(), staging, dtype, is_raw, encoding }))
    }

    fn wait(&self, place: usize) -> Result<()> {
        self.staging.wait(place).map_err(|error| self.of_all(error))
    }

    /// An error of what all UDFs share.
    fn of_all(&self, error: Error) -> Error {
        let names: Vec<_> = self.plan.udfs.iter().map(|planned| planned.name.as_str()).collect();
        error.with_udf(names.join(", "))
    }

    /// Hands a tile to the UDFs; `place` is where it lies, `lens` how long its encoded parts are.
    fn pass_on(
        &self,
        tiles: &Tiles,
        tile: usize,
        place: Option<usize>,
        lens: &[usize],
        accumulators: &mut Accumulators,
    ) -> Result<()> {
        let position = tiles.position(tile);
        let (dtype, is_raw, part_frames) = (self.dtype, self.is_raw, tiles.piece_depth.get());
        let encoded = tiles
            .encoding
            .filter(|_| lens.iter().any(|&len| len > 0))
            .map(|encoding| EncodedTile { encoding, part_frames, lens });
        let staged = StagedTile { number: place, dtype, is_raw, encoded };
        for (accumulator, planned) in accumulators.0.iter_mut().zip(&self.plan.udfs) {
            call_of(&planned.name, || accumulator.process_staged(&position, staged))?;
        }
        Ok(())
    }
}

impl StagedWorker {
    /// `None` if the UDFs of the plan take tiles as they are read: all of them, or one, or if reading
    /// ahead is of no use.
    pub(super) fn of(plan: &Arc<Plan>) -> Result<Option<Self>> {
        let stage = Stage::of(plan)?;
        Ok(stage.map(|stage| StagedWorker { stage: Arc::new(stage), readers: None }))
    }

    /// Processes a partition; `next` gives the one that probably comes after it.
    pub(super) fn process(
        &mut self,
        partition: &Partition,
        band: usize,
        next: &Next<'_>,
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Partial>> {
        let stage = self.stage.clone();
        let tiles = Tiles::of(&stage, partition, band);
        // Made when the first tile was read: what a damaged file claims takes no memory for results.
        let mut accumulators = None;
        let make = || accumulators_of(&stage.plan, partition, band);
        let mut pass_on = |tiles: &Tiles, tile: usize, place, lens: &[usize]| {
            let accumulators = match &mut accumulators {
                Some(accumulators) => accumulators,
                None => accumulators.insert(make()?),
            };
            stage.pass_on(tiles, tile, place, lens, accumulators)
        };
        if stage.staging.n_readers() == 0 {
            for tile in 0..tiles.len() {
                tick()?;
                pass_on(&tiles, tile, None, &[])?;
            }
        } else if tiles.len() > 0 {
            let mut pass_on = |tiles: &Tiles, tile, place, lens: &[usize]| {
                pass_on(tiles, tile, Some(place), lens)
            };
            self.read(tiles, next, tick, &mut pass_on)?;
        }
        super::finished(&stage.plan, accumulators.map_or_else(make, Ok)?)
    }

    fn read(
        &mut self,
        tiles: Tiles,
        next: &Next<'_>,
        tick: &mut dyn FnMut() -> Result<()>,
        pass_on: &mut PassOn<'_>,
    ) -> Result<()> {
        // Where another partition came than was read ahead, that is read in vain.
        let mut readers = match self.readers.take().filter(|readers| readers.can_go_on(&tiles)) {
            Some(readers) => readers,
            None => Readers::start(&self.stage)?,
        };
        let read = readers.read(tiles, next, tick, pass_on);
        let ended = if read.is_ok() {
            self.readers = Some(readers);
            Ok(())
        } else {
            let n_places = readers.n_places();
            drop(readers);
            // Some of it may be on its way to the device.
            (0..n_places).try_for_each(|place| self.stage.wait(place))
        };
        self.stage.or_damaged(read.and(ended))
    }
}

/// The one that all are; `None` if they differ, or there is none.
fn same(mut all: impl Iterator<Item = DType>) -> Option<DType> {
    let first = all.next()?;
    all.all(|each| each == first).then_some(first)
}

/// Puts frames one behind the other.
fn copy_frames(frames: TileFrames<'_>, memory: &mut [u8]) -> Result<()> {
    let size = frames.dtype().size();
    let (len, step) = (frames.frame_len() * size, frames.stride() * size);
    let memory = memory
        .get_mut(..frames.depth() * len)
        .ok_or_else(|| Error::bug("a piece of a tile is larger than its staging memory"))?;
    let bytes = frames.as_bytes();
    if len == step {
        memory.copy_from_slice(bytes);
        return Ok(());
    }
    for (to, from) in memory.chunks_exact_mut(len).zip(bytes.chunks(step)) {
        to.copy_from_slice(&from[..len]);
    }
    Ok(())
}
