//! The threads that read tiles for one worker, partition after partition.

use super::ring::{Piece, Ring, Section, Work};
use super::tiles::Tiles;
use super::{IN_FLIGHT, PassOn, Stage, copy_frames};
use crate::worker::Next;
use crate::worker::stages::Stages;
use crate::worker::tiles::TileMaker;
use framefold_core::{Error, FrameReader, Result, StagingBuffer, guarded, interrupt};
use std::sync::Arc;
use std::thread::JoinHandle;

/// So many pieces each reader has at least.
const PIECES_EACH: usize = 4;
/// There are no more tiles than fit this, unless fewer could not be filled ahead.
const MOST_BYTES: usize = 512 << 20;

pub(super) struct Readers {
    stage: Arc<Stage>,
    ring: Arc<Ring>,
    threads: Vec<JoinHandle<()>>,
    /// The process that started them: a fork of it has none of them.
    process: u32,
    /// How many partitions, and how many tiles, there were a place for so far.
    n_sections: usize,
    n_begun: usize,
    /// From so many tiles, the first ones, no transfer reads any more.
    n_released: usize,
    /// The partition of which tiles are read already.
    ahead: Option<Arc<Section>>,
}

impl Readers {
    /// Starts them: as many, with as many places, as the longest partition of the run needs.
    pub(super) fn start(stage: &Arc<Stage>) -> Result<Self> {
        let longest = stage.plan.cuts.iter().max_by_key(|cut| cut.n_frames());
        let longest = longest.ok_or_else(|| Error::bug("there is no partition to be read"))?;
        let tiles = Tiles::of(stage, longest, 0);
        let n_readers = stage.staging.n_readers().min(tiles.n_pieces().div_ceil(PIECES_EACH));
        let tile_bytes = Tiles::most_bytes(stage)?;
        // Each reader has a part that it fills, and another one to go on with if that takes long.
        let parts_each = if tiles.encoding.is_some() { 1 } else { 2 };
        let ahead = (parts_each * n_readers).div_ceil(tiles.parts_of_tile());
        let fit = (MOST_BYTES / tile_bytes.max(1)).max(IN_FLIGHT + 2);
        let n_places = (IN_FLIGHT + 1 + ahead).min(fit);
        let is_only = stage.plan.n_partitions() == 1;
        let n_places = if is_only { n_places.min(tiles.len()) } else { n_places };
        stage.staging.prepare(n_places, tile_bytes).map_err(|error| stage.of_all(error))?;
        let mut readers = Readers {
            stage: stage.clone(),
            ring: Arc::new(Ring::new(n_places, n_readers)),
            threads: Vec::with_capacity(n_readers),
            process: std::process::id(),
            n_sections: 0,
            n_begun: 0,
            n_released: 0,
            ahead: None,
        };
        for number in 0..n_readers {
            if let Err(error) = readers.start_one(number) {
                if number == 0 {
                    return Err(error);
                }
                break; // fewer do as well
            }
        }
        Ok(readers)
    }

    fn start_one(&mut self, number: usize) -> Result<()> {
        let (stage, ring) = (self.stage.clone(), self.ring.clone());
        ring.reader_begins();
        let name = format!("framefold-reads-{number}");
        let work = move || ring.reader(|| stage.read_pieces(&ring, number));
        match std::thread::Builder::new().name(name).spawn(work) {
            Ok(thread) => {
                self.threads.push(thread);
                Ok(())
            }
            Err(error) => {
                self.ring.reader_ends();
                Err(Error::io("start a thread that reads tiles", error))
            }
        }
    }

    /// How many places there are, from which transfers may read.
    pub(super) fn n_places(&self) -> usize {
        self.ring.n_places()
    }

    /// Whether these tiles can be the next ones: no others are read already.
    pub(super) fn can_go_on(&self, tiles: &Tiles) -> bool {
        self.ahead.as_ref().is_none_or(|ahead| ahead.tiles.same_as(tiles))
    }

    /// Passes the tiles of a partition on; they are those that are read already, if there are any.
    pub(super) fn read(
        &mut self,
        tiles: Tiles,
        next: &Next<'_>,
        tick: &mut dyn FnMut() -> Result<()>,
        pass_on: &mut PassOn<'_>,
    ) -> Result<()> {
        let section = self.ahead.take().unwrap_or_else(|| self.section(tiles));
        self.fill(&section, next)?;
        for (tile, number) in (section.first..section.end()).enumerate() {
            tick()?;
            self.ring.wait_for(number, tick)?;
            pass_on(&section.tiles, tile, self.ring.place_of(number), &self.ring.encoded(number))?;
            if tile >= IN_FLIGHT {
                self.release(&section, next)?;
            }
        }
        while self.n_released < section.end() {
            self.release(&section, next)?;
        }
        self.ring.end(&section, tick)
    }

    fn section(&mut self, tiles: Tiles) -> Arc<Section> {
        self.n_sections += 1;
        Arc::new(Section { number: self.n_sections - 1, first: self.n_begun, tiles })
    }

    /// Waits until nothing reads from the next tile in turn, and lets another one be written.
    fn release(&mut self, section: &Arc<Section>, next: &Next<'_>) -> Result<()> {
        self.stage.wait(self.ring.place_of(self.n_released))?;
        self.n_released += 1;
        self.fill(section, next)
    }

    /// Begins tiles while there are places: first of this partition, then of the one that `next` gives.
    fn fill(&mut self, section: &Arc<Section>, next: &Next<'_>) -> Result<()> {
        while self.n_begun < self.n_released + self.ring.n_places() {
            let number = self.n_begun;
            if number >= section.end() && self.ahead.is_none() {
                self.ahead = next()?.and_then(|index| self.section_of(index));
            }
            let mut both = [Some(section), self.ahead.as_ref()].into_iter().flatten();
            let Some(section) = both.find(|section| number < section.end()).cloned() else { break };
            let lens = section.tiles.lens(number - section.first)?;
            let parts = self.stage.staging.parts(self.ring.place_of(number), &lens);
            let parts = parts.map_err(|error| self.stage.of_all(error))?;
            self.ring.begin(section, number, parts);
            self.n_begun += 1;
        }
        Ok(())
    }

    /// The tiles of a partition that the worker may get; none if it cannot be read now.
    fn section_of(&mut self, index: usize) -> Option<Arc<Section>> {
        let (partition, band) = self.stage.plan.partition(index).ok()?;
        let tiles = Tiles::of(&self.stage, partition, band);
        (tiles.len() > 0).then(|| self.section(tiles))
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return self.threads.drain(..).for_each(std::mem::forget);
        }
        self.ring.stop();
        for thread in self.threads.drain(..) {
            // A reader catches its panics itself.
            let _ = thread.join();
        }
    }
}

impl Stage {
    /// What a reader does: part after part, until it is to end.
    fn read_pieces(&self, ring: &Ring, number: usize) -> Result<()> {
        let mut reader = self.plan.source().reader()?;
        let stages = match self.is_raw {
            true => Stages::without_corrections(&self.plan),
            false => Stages::of(&self.plan),
        };
        let wanted = [(framefold_core::ArrayFormat::Dense, self.dtype)];
        let mut maker = TileMaker::of(&self.plan, stages, &wanted)?;
        let mut numbers = Vec::new();
        loop {
            let (tile, done) = match ring.next(number) {
                Work::Read(piece, memory) => {
                    let read = guarded(|| {
                        let read = || {
                            self.read_piece(
                                reader.as_mut(),
                                &mut maker,
                                &mut numbers,
                                &piece,
                                memory,
                            )
                        };
                        interrupt::watched(ring.going_on(), read)
                    });
                    (piece.tile, read.map(|encoded| ring.written(&piece, encoded)))
                }
                Work::Verify(last) => {
                    (last, guarded(|| reader.verify()).map(|()| ring.verified(number)))
                }
                Work::End => return Ok(()),
            };
            // Whatever happens, the worker hears of it, and does not wait in vain.
            if let Err(error) = done {
                ring.note(tile, error);
                return Ok(());
            }
        }
    }

    /// Writes a piece; returns how long it is as it is encoded, 0 for pixels.
    fn read_piece(
        &self,
        reader: &mut dyn FrameReader,
        maker: &mut TileMaker<'_>,
        numbers: &mut Vec<u64>,
        piece: &Piece,
        mut memory: Box<dyn StagingBuffer>,
    ) -> Result<usize> {
        let tiles = &piece.section.tiles;
        let tile = piece.tile - piece.section.first;
        let frames = self.plan.source_frames(tiles.frames_of(tile, piece.part), numbers)?;
        if tiles.encoding.is_some()
            && let Some(len) = reader.read_encoded(frames.clone(), memory.bytes_mut())?
        {
            return Ok(len);
        }
        let made = maker.make(reader, frames, tiles.slice_of(tile))?;
        copy_frames(made.dense(self.dtype)?.frames(), memory.bytes_mut())?;
        Ok(0)
    }
}
