//! A partition whose tiles are read ahead, by several threads, into the staging memory of the worker.
//!
//! Tiles are read in pieces of about a megabyte, which fit the cache of a core, in order: so the first
//! tile is there soon, and little memory is needed. The worker takes one tile after the other, passes
//! it on, and gives the memory of an earlier one back when nothing reads from it any more.
//!
//! Where the device decodes what the source has, pieces are copied as they are stored.

mod encoded;
mod ring;

use super::stages::Stages;
use super::tiles::TileMaker;
use super::{Accumulators, accumulators_of, chunks};
use crate::Plan;
use framefold_core::{
    ArrayFormat, DType, EncodedTile, Encoding, Error, Partial, Partition, Result, StagedTile,
    Staging, TileFrames, TilePosition, guarded, interrupt,
};
use ring::Ring;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::Arc;
use std::thread::Scope;

/// What a reader decodes at a time.
const PIECE_BYTES: usize = 1 << 20;
/// What a reader copies at a time that the device decodes, when it is decoded.
const ENCODED_PIECE_BYTES: usize = 4 << 20;
/// So many pieces each reader has at least.
const PIECES_EACH: usize = 4;
/// Tiles that transfers may read from, or are queued, while others are filled.
const IN_FLIGHT: usize = 2;
/// There are no more tiles than fit this, unless fewer could not be filled ahead.
const MOST_BYTES: usize = 512 << 20;

/// Is given the number of a tile, its place, and how long its encoded parts are.
type PassOn<'f> = dyn FnMut(usize, Option<usize>, &[usize]) -> Result<()> + 'f;

/// Where a partition's tiles are staged, and as what.
pub(super) struct Stage<'p> {
    plan: &'p Plan,
    staging: Arc<dyn Staging>,
    /// Of the pixels that are put there.
    dtype: DType,
    /// Whether the device corrects them.
    is_raw: bool,
    /// How what it decodes is stored.
    encoding: Option<Encoding>,
}

impl<'p> Stage<'p> {
    /// `None` if the UDFs of the plan take tiles as they are read: all of them, or one, or if reading
    /// ahead is of no use.
    pub(super) fn of(plan: &'p Plan) -> Result<Option<Self>> {
        let mut found = None;
        for planned in &plan.udfs {
            if planned.format != ArrayFormat::Dense {
                return Ok(None);
            }
            match planned.udf.staging().map_err(|error| error.with_udf(planned.udf.name()))? {
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
        Ok(Some(Stage { plan, staging, dtype, is_raw, encoding }))
    }

    /// Processes a partition.
    pub(super) fn process(
        &self,
        partition: &Partition,
        band: usize,
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Vec<Partial>> {
        let tiles = Tiles::of(self, partition, band);
        // Made when the first tile was read: what a damaged file claims takes no memory for results.
        let mut accumulators = None;
        let make = || accumulators_of(self.plan, partition, band);
        let mut pass_on = |tile: usize, place: Option<usize>, encoded: &[usize]| {
            let accumulators = match &mut accumulators {
                Some(accumulators) => accumulators,
                None => accumulators.insert(make()?),
            };
            self.pass_on(&tiles, tile, place, encoded, accumulators)
        };
        if self.staging.n_readers() == 0 {
            for tile in 0..tiles.len() {
                tick()?;
                pass_on(tile, None, &[])?;
            }
        } else if tiles.len() > 0 {
            self.read_ahead(&tiles, tick, &mut pass_on)?;
        }
        super::finished(self.plan, accumulators.map_or_else(make, Ok)?)
    }

    fn read_ahead(
        &self,
        tiles: &Tiles<'p>,
        tick: &mut dyn FnMut() -> Result<()>,
        pass_on: &mut PassOn<'_>,
    ) -> Result<()> {
        // To start one takes as long as to read some hundred kilobytes.
        let n_readers = self.staging.n_readers().min(tiles.n_pieces().div_ceil(PIECES_EACH));
        let n_places = self.prepare(tiles, n_readers)?;
        let ring = Ring::new(n_places);
        let read = std::thread::scope(|scope| {
            // However this ends, the readers do.
            let _stops = ring.stops_readers();
            self.start(scope, n_readers, tiles, &ring)?;
            let begin = |tile: usize| {
                let parts = self.staging.parts(ring.place_of(tile), &tiles.lens(tile)?);
                let parts = parts.map_err(|error| self.of_all(error))?;
                ring.begin(tile, parts);
                Ok(())
            };
            (0..n_places).try_for_each(begin)?;
            for tile in 0..tiles.len() {
                tick()?;
                ring.wait_for(tile, tiles.n_parts(tile), tick)?;
                pass_on(tile, Some(ring.place_of(tile)), &ring.encoded(tile))?;
                if let Some(earlier) = tile.checked_sub(IN_FLIGHT) {
                    self.wait(ring.place_of(earlier))?;
                    if earlier + n_places < tiles.len() {
                        begin(earlier + n_places)?;
                    }
                }
            }
            ring.wait_for_readers(tick)
        });
        // The next partition writes to the same memory; and after a failure, some may be on its way.
        let ended = (0..n_places).try_for_each(|place| self.wait(place));
        self.or_damaged(read.and(ended))
    }

    /// Makes room for tiles; returns for how many.
    fn prepare(&self, tiles: &Tiles<'p>, n_readers: usize) -> Result<usize> {
        let n_parts = tiles.parts_of_tile();
        let tile_bytes = tiles.most_bytes()?;
        // Each reader has a part that it fills, and another one to go on with if that takes long.
        let parts_each = if tiles.encoding.is_some() { 1 } else { 2 };
        let ahead = (parts_each * n_readers).div_ceil(n_parts);
        let fit = (MOST_BYTES / tile_bytes.max(1)).max(IN_FLIGHT + 2);
        let n_places = (IN_FLIGHT + 1 + ahead).min(fit).min(tiles.len());
        self.staging.prepare(n_places, tile_bytes).map_err(|error| self.of_all(error))?;
        Ok(n_places)
    }

    fn wait(&self, place: usize) -> Result<()> {
        self.staging.wait(place).map_err(|error| self.of_all(error))
    }

    /// An error of what all UDFs share.
    fn of_all(&self, error: Error) -> Error {
        let names: Vec<_> = self.plan.udfs.iter().map(|planned| planned.udf.name()).collect();
        error.with_udf(names.join(", "))
    }

    fn start<'s>(
        &'s self,
        scope: &'s Scope<'s, '_>,
        n_readers: usize,
        tiles: &'s Tiles<'p>,
        ring: &'s Ring,
    ) -> Result<()> {
        for number in 0..n_readers {
            let name = format!("framefold-reads-{number}");
            let work = || ring.reader(|| self.read_pieces(tiles, ring));
            ring.reader_begins();
            if let Err(error) = std::thread::Builder::new().name(name).spawn_scoped(scope, work) {
                ring.reader_ends();
                if number == 0 {
                    return Err(Error::io("start a thread that reads tiles", error));
                }
                break; // fewer do as well
            }
        }
        Ok(())
    }

    /// What a reader does: part after part, until there are none left, or the partition has ended.
    fn read_pieces(&self, tiles: &Tiles<'p>, ring: &Ring) -> Result<()> {
        let mut reader = self.plan.source().reader()?;
        let stages = if self.is_raw {
            Stages::without_corrections(self.plan)
        } else {
            Stages::of(self.plan)
        };
        let mut maker = TileMaker::of(self.plan, stages, &[(ArrayFormat::Dense, self.dtype)])?;
        let mut numbers = Vec::new();
        loop {
            let number = ring.next_piece();
            if number >= tiles.n_pieces() {
                break;
            }
            let piece = tiles.piece(number);
            // Whatever happens, the worker hears of the piece, and does not wait for it in vain.
            let read = guarded(|| {
                let Some(mut memory) = ring.take(piece)? else { return Ok(None) };
                interrupt::watched(ring.going_on(), || {
                    let frames = self.plan.source_frames(tiles.frames_of(piece), &mut numbers)?;
                    if tiles.encoding.is_some()
                        && let Some(len) =
                            reader.read_encoded(frames.clone(), memory.bytes_mut())?
                    {
                        return Ok(Some(len));
                    }
                    let made = maker.make(reader.as_mut(), frames, tiles.slice_of(piece.tile))?;
                    copy_frames(made.dense(self.dtype)?.frames(), memory.bytes_mut())?;
                    Ok(Some(0))
                })
            });
            match read {
                Ok(Some(encoded)) => ring.written(piece, encoded),
                Ok(None) => break,
                Err(error) => {
                    ring.note(piece.tile, error);
                    break;
                }
            }
        }
        // Before anything of it is used: were all bytes really there?
        reader.verify()
    }

    /// Hands a tile to the UDFs; `place` is where it lies, `encoded` how long its encoded parts are.
    fn pass_on(
        &self,
        tiles: &Tiles<'p>,
        tile: usize,
        place: Option<usize>,
        encoded: &[usize],
        accumulators: &mut Accumulators,
    ) -> Result<()> {
        let position = tiles.position(tile);
        let (dtype, is_raw, part_frames) = (self.dtype, self.is_raw, tiles.piece_depth.get());
        let encoded = tiles
            .encoding
            .filter(|_| encoded.iter().any(|&len| len > 0))
            .map(|encoding| EncodedTile { encoding, part_frames, lens: encoded });
        let staged = StagedTile { number: place, dtype, is_raw, encoded };
        for (accumulator, planned) in accumulators.iter_mut().zip(&self.plan.udfs) {
            let processed = accumulator.process_staged(&position, staged);
            processed.map_err(|error| error.with_udf(planned.udf.name()))?;
        }
        Ok(())
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

/// A part of a tile, which is read at a time.
#[derive(Clone, Copy)]
struct Piece {
    tile: usize,
    part: usize,
}

/// The tiles of one partition, and the parts that each is read in.
struct Tiles<'p> {
    plan: &'p Plan,
    band: usize,
    frames: Range<usize>,
    dtype: DType,
    /// How many frames a tile has, but for the last one of a slice, and a piece, but for the last one of
    /// a tile.
    depth: NonZeroUsize,
    piece_depth: NonZeroUsize,
    /// How pieces are stored, if they are whole chunks.
    encoding: Option<Encoding>,
}

impl<'p> Tiles<'p> {
    fn of(stage: &Stage<'p>, partition: &Partition, band: usize) -> Self {
        let (plan, dtype, wanted_depth) = (stage.plan, stage.dtype, stage.staging.depth());
        let frames = partition.frames.clone();
        let one = NonZeroUsize::MIN;
        // What is decoded together is not shared by two readers, or by two tiles.
        let together = plan.source().frames_together().max(plan.source().info().preferred_depth);
        // As many pixels as if tiles were of whole frames.
        let n_slices = plan.tiling.slices().len();
        let wanted = wanted_depth.map_or(1, |depth| depth.saturating_mul(n_slices));
        let deeper = wanted.max(plan.tiling.depth());
        let deeper = match deeper - deeper % together.max(1) {
            aligned if aligned > 0 && deeper < frames.len() => aligned,
            _ => deeper,
        };
        let depth = NonZeroUsize::new(deeper.min(frames.len())).unwrap_or(one);
        let longest = plan.tiling.slices().iter().map(|slice| slice.len()).max().unwrap_or(1);
        let frame_bytes = longest.saturating_mul(dtype.size()).max(1);
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

    fn tiles_of_slice(&self) -> usize {
        self.frames.len().div_ceil(self.depth.get())
    }

    /// The parts of a tile that is as deep as most.
    fn parts_of_tile(&self) -> usize {
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

    fn len(&self) -> usize {
        self.slices().len() * self.tiles_of_slice()
    }

    fn n_pieces(&self) -> usize {
        self.slices().len() * self.pieces_of_slice()
    }

    /// Pieces are counted in the order of tiles.
    fn piece(&self, number: usize) -> Piece {
        let (slice, in_slice) = (number / self.pieces_of_slice(), number % self.pieces_of_slice());
        let tile = slice * self.tiles_of_slice() + in_slice / self.parts_of_tile();
        Piece { tile, part: in_slice % self.parts_of_tile() }
    }

    /// The number of its slice in the tiling of the whole frame.
    fn slice_of(&self, tile: usize) -> usize {
        self.slices().start + tile / self.tiles_of_slice()
    }

    fn frames_of_tile(&self, tile: usize) -> Range<usize> {
        let start = self.frames.start + tile % self.tiles_of_slice() * self.depth.get();
        start..self.frames.end.min(start + self.depth.get())
    }

    fn n_parts(&self, tile: usize) -> usize {
        self.frames_of_tile(tile).len().div_ceil(self.piece_depth.get())
    }

    fn frames_of(&self, piece: Piece) -> Range<usize> {
        let tile = self.frames_of_tile(piece.tile);
        let start = tile.start + piece.part * self.piece_depth.get();
        start..tile.end.min(start + self.piece_depth.get())
    }

    /// The bytes of so many frames of a slice.
    fn bytes(&self, slice: usize, n_frames: usize) -> Result<usize> {
        let cells = self.plan.tiling.slices()[slice].len();
        let bytes = cells.checked_mul(self.dtype.size()).and_then(|n| n.checked_mul(n_frames));
        bytes.ok_or_else(|| Error::limit("a tile does not fit in memory"))
    }

    /// The bytes of each part of a tile.
    fn lens(&self, tile: usize) -> Result<Vec<usize>> {
        let parts = chunks(self.frames_of_tile(tile), self.piece_depth.get());
        parts.map(|frames| self.bytes(self.slice_of(tile), frames.len())).collect()
    }

    /// The bytes of the largest tile.
    fn most_bytes(&self) -> Result<usize> {
        let mut all = self.slices().map(|slice| self.bytes(slice, self.depth.get()));
        all.try_fold(0, |most, bytes| Ok(most.max(bytes?)))
    }

    fn position(&self, tile: usize) -> TilePosition<'p> {
        let frames = self.frames_of_tile(tile);
        let band = &self.plan.bands[self.band];
        let sig = &band.tiling.slices()[tile / self.tiles_of_slice()];
        let in_partition = frames.start - self.frames.start..frames.end - self.frames.start;
        TilePosition { in_partition, frames, sig }
    }
}
