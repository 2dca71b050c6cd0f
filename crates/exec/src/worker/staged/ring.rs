//! Places for tiles, which readers fill in turn while the worker takes one tile after the other.

use super::tiles::Tiles;
use crate::driver::POLL;
use framefold_core::{Error, Result, StagingBuffer, guarded};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The tiles of a partition, whose numbers go on from those of the partition before it.
pub(super) struct Section {
    /// How many partitions were before it.
    pub(super) number: usize,
    /// The number of its first tile.
    pub(super) first: usize,
    pub(super) tiles: Tiles,
}

impl Section {
    /// The number of the first tile after it.
    pub(super) fn end(&self) -> usize {
        self.first + self.tiles.len()
    }
}

/// A part of a tile, which is read at a time.
pub(super) struct Piece {
    pub(super) section: Arc<Section>,
    /// The number of the tile.
    pub(super) tile: usize,
    pub(super) part: usize,
}

/// What a reader does next.
pub(super) enum Work {
    /// Read a piece to where it belongs.
    Read(Piece, Box<dyn StagingBuffer>),
    /// Confirm what it has read, all of one partition, of which this is the last tile.
    Verify(usize),
    End,
}

/// Tile `n` is in place `n` modulo the number of places, and is written when the one before it in that
/// place was released.
pub(super) struct Ring {
    state: Mutex<State>,
    n_places: usize,
    /// Wakes the worker: a tile is filled, or something went wrong.
    filled: Condvar,
    /// Wakes readers: a place is free, a partition has ended, or all have.
    free: Condvar,
    stopped: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    places: Vec<Place>,
    /// How many tiles there was a place for so far, and the first of them with parts that no reader has taken.
    n_begun: usize,
    next: usize,
    n_reading: usize,
    /// For each reader, the partition of which it has read something that it has not confirmed.
    unverified: Vec<Option<Arc<Section>>>,
    /// So many partitions have ended.
    n_ended: usize,
    /// The first error in the order of tiles.
    error: Option<(usize, Error)>,
}

/// Where a tile is, and what is done of it.
#[derive(Default)]
struct Place {
    section: Option<Arc<Section>>,
    n_parts: usize,
    /// The parts that no reader has taken.
    free: VecDeque<Box<dyn StagingBuffer>>,
    n_written: usize,
    /// How long each part is as it is encoded; 0 for pixels.
    encoded: Vec<usize>,
}

impl Ring {
    pub(super) fn new(n_places: usize, n_readers: usize) -> Self {
        let places = (0..n_places).map(|_| Place::default()).collect();
        let unverified = vec![None; n_readers];
        let state = State { places, unverified, ..State::default() };
        Ring {
            state: Mutex::new(state),
            n_places,
            filled: Condvar::new(),
            free: Condvar::new(),
            stopped: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; a poisoned one is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn n_places(&self) -> usize {
        self.n_places
    }

    /// Where a tile is.
    pub(super) fn place_of(&self, tile: usize) -> usize {
        tile % self.n_places
    }

    /// Lets readers fill the next tile, in a place from which nothing reads any more.
    pub(super) fn begin(
        &self,
        section: Arc<Section>,
        tile: usize,
        parts: Vec<Box<dyn StagingBuffer>>,
    ) {
        let n_parts = parts.len();
        let place = Place {
            section: Some(section),
            n_parts,
            free: parts.into(),
            n_written: 0,
            encoded: vec![0; n_parts],
        };
        let mut state = self.lock();
        state.places[self.place_of(tile)] = place;
        state.n_begun = tile + 1;
        drop(state);
        self.free.notify_all();
    }

    /// Runs `read` on the thread of a reader; what it returns is kept for the worker.
    pub(super) fn reader(&self, read: impl FnOnce() -> Result<()>) {
        if let Err(error) = guarded(read) {
            self.note(0, error);
        }
        self.reader_ends();
    }

    /// Counts a reader that is about to be started.
    pub(super) fn reader_begins(&self) {
        self.lock().n_reading += 1;
    }

    /// Counts a reader that has ended, or was not started.
    pub(super) fn reader_ends(&self) {
        self.lock().n_reading -= 1;
        self.filled.notify_all();
    }

    /// What reader number `reader` does next; waits for it.
    pub(super) fn next(&self, reader: usize) -> Work {
        let mut state = self.lock();
        while !self.stopped.load(Ordering::Relaxed) {
            if let Some(work) = state.work_of(reader, self.n_places) {
                return work;
            }
            state = self.free.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Work::End
    }

    /// Notes that a part of a tile is written, with so many bytes as it is encoded; 0 for pixels.
    pub(super) fn written(&self, piece: &Piece, encoded: usize) {
        let mut state = self.lock();
        let place = &mut state.places[self.place_of(piece.tile)];
        place.n_written += 1;
        if let Some(len) = place.encoded.get_mut(piece.part) {
            *len = encoded;
        }
        drop(state);
        self.filled.notify_all();
    }

    /// Notes that a reader has confirmed what it has read.
    pub(super) fn verified(&self, reader: usize) {
        self.lock().unverified[reader] = None;
        self.filled.notify_all();
    }

    /// How long the parts of a tile that is written are as they are encoded.
    pub(super) fn encoded(&self, tile: usize) -> Vec<usize> {
        std::mem::take(&mut self.lock().places[self.place_of(tile)].encoded)
    }

    /// Notes why a tile will not be complete, or its partition.
    pub(super) fn note(&self, tile: usize, error: Error) {
        let mut state = self.lock();
        if state.error.as_ref().is_none_or(|(first, _)| tile < *first) {
            state.error = Some((tile, error));
        }
        drop(state);
        self.filled.notify_all();
    }

    /// Returns when all parts of a tile are written; asks `tick` now and then whether to go on.
    pub(super) fn wait_for(&self, tile: usize, tick: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        let n_begun = self.lock().n_begun;
        if !(tile + 1..=tile + self.n_places).contains(&n_begun) {
            return Err(Error::bug(format!("tile {tile} has no place, and {n_begun} had one")));
        }
        self.wait_until(tile, tick, |state| {
            let place = &state.places[self.place_of(tile)];
            place.n_written == place.n_parts
        })
    }

    /// Returns when all readers have confirmed what they have read of a partition, and of those before it.
    pub(super) fn end(
        &self,
        section: &Section,
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        self.lock().n_ended = section.number + 1;
        self.free.notify_all();
        let last = section.end() - 1;
        self.wait_until(last, tick, |state| (0..state.unverified.len()).all(|n| !state.owes(n)))
    }

    /// Errors of tiles up to `tile` are returned.
    fn wait_until(
        &self,
        tile: usize,
        tick: &mut dyn FnMut() -> Result<()>,
        done: impl Fn(&State) -> bool,
    ) -> Result<()> {
        let mut state = self.lock();
        loop {
            if state.error.as_ref().is_some_and(|(first, _)| *first <= tile)
                && let Some((_, error)) = state.error.take()
            {
                return Err(error);
            }
            if done(&state) {
                return Ok(());
            }
            if state.n_reading == 0 {
                return Err(match state.error.take() {
                    Some((_, error)) => error,
                    None => Error::bug("no thread is left to read the tiles of a partition"),
                });
            }
            let (waited, timeout) =
                self.filled.wait_timeout(state, POLL).unwrap_or_else(PoisonError::into_inner);
            drop(waited);
            if timeout.timed_out() {
                tick()?;
            }
            state = self.lock();
        }
    }

    /// Lets readers go on until they are to end.
    pub(super) fn going_on(&self) -> impl Fn() -> Result<()> + 'static {
        let stopped = self.stopped.clone();
        move || if stopped.load(Ordering::Relaxed) { Err(Error::cancelled()) } else { Ok(()) }
    }

    /// Ends the readers.
    pub(super) fn stop(&self) {
        // With the lock, or a reader that is about to wait would miss it.
        let state = self.lock();
        self.stopped.store(true, Ordering::Relaxed);
        drop(state);
        self.free.notify_all();
    }
}

impl State {
    /// Whether a partition has ended of which a reader has not confirmed what it has read.
    fn owes(&self, reader: usize) -> bool {
        self.unverified[reader].as_ref().is_some_and(|section| section.number < self.n_ended)
    }

    fn work_of(&mut self, reader: usize, n_places: usize) -> Option<Work> {
        let place = (self.next < self.n_begun).then(|| self.next % n_places);
        let section = place.and_then(|place| self.places[place].section.clone());
        if let Some(read) = &self.unverified[reader] {
            // Before it reads of another partition, so that an error is one of the right partition.
            let goes_on = section.as_ref().is_some_and(|next| next.number != read.number);
            if goes_on || self.owes(reader) {
                return Some(Work::Verify(read.end() - 1));
            }
        }
        let (section, place) = (section?, &mut self.places[place?]);
        let (tile, part) = (self.next, place.n_parts - place.free.len());
        let memory = place.free.pop_front()?;
        if place.free.is_empty() {
            self.next += 1;
        }
        self.unverified[reader] = Some(section.clone());
        Some(Work::Read(Piece { section, tile, part }, memory))
    }
}
