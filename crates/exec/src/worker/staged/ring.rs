//! Places for tiles, which readers fill in turn while the worker takes one tile after the other.

use super::Piece;
use crate::driver::POLL;
use framefold_core::{Error, Result, StagingBuffer, guarded};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

type Parts = Vec<Box<dyn StagingBuffer>>;

/// Tile `n` is in place `n` modulo the number of places, and is written when the one before it in that
/// place was released.
pub(super) struct Ring {
    n_places: usize,
    state: Mutex<State>,
    /// Wakes the worker: a tile is filled, or something went wrong.
    filled: Condvar,
    /// Wakes readers: a place is free, or the partition has ended.
    free: Condvar,
    /// The next piece that a reader takes.
    next: AtomicUsize,
    stopped: Arc<AtomicBool>,
}

#[derive(Default)]
struct State {
    /// The parts of the tile that each place is free for, unless they are being written or were.
    places: Vec<Vec<Option<Box<dyn StagingBuffer>>>>,
    /// How many tiles there was a place for so far.
    n_begun: usize,
    /// How many parts of the tile in each place are written.
    n_written: Vec<usize>,
    /// How long each of them is as it is encoded; 0 for pixels.
    encoded: Vec<Vec<usize>>,
    n_reading: usize,
    /// The first error in the order of tiles.
    error: Option<(usize, Error)>,
}

impl Ring {
    pub(super) fn new(n_places: usize) -> Self {
        let places = (0..n_places).map(|_| Vec::new()).collect();
        let (n_written, encoded) = (vec![0; n_places], vec![Vec::new(); n_places]);
        let state = State { places, n_written, encoded, ..State::default() };
        Ring {
            n_places,
            state: Mutex::new(state),
            filled: Condvar::new(),
            free: Condvar::new(),
            next: AtomicUsize::new(0),
            stopped: Arc::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics while it holds the lock; a poisoned one is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where tile number `tile` is.
    pub(super) fn place_of(&self, tile: usize) -> usize {
        tile % self.n_places
    }

    /// Lets readers fill the next tile, in a place from which nothing reads any more.
    pub(super) fn begin(&self, tile: usize, parts: Parts) {
        let (place, mut state) = (self.place_of(tile), self.lock());
        state.encoded[place] = vec![0; parts.len()];
        state.places[place] = parts.into_iter().map(Some).collect();
        state.n_written[place] = 0;
        state.n_begun = tile + 1;
        drop(state);
        self.free.notify_all();
    }

    /// Runs `read` on the thread of a reader; what it returns is kept for the worker.
    pub(super) fn reader(&self, read: impl FnOnce() -> Result<()>) {
        if let Err(error) = guarded(read) {
            self.note(usize::MAX, error);
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

    /// The number of a piece that no other reader takes.
    pub(super) fn next_piece(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The part of a tile, to be written, when there is a place for it; `None` if the partition has ended.
    pub(super) fn take(&self, piece: Piece) -> Result<Option<Box<dyn StagingBuffer>>> {
        let Piece { tile, part } = piece;
        let mut state = self.lock();
        while !self.stopped.load(Ordering::Relaxed) {
            if tile < state.n_begun {
                let place = self.place_of(tile);
                let memory = state.places[place].get_mut(part).and_then(Option::take);
                return match memory {
                    Some(memory) => Ok(Some(memory)),
                    None => Err(Error::bug(format!("tile {tile} has no part {part} to be read"))),
                };
            }
            state = self.free.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(None)
    }

    /// Notes that a part of a tile is written, with so many bytes as it is encoded; 0 for pixels.
    pub(super) fn written(&self, piece: Piece, encoded: usize) {
        let (place, mut state) = (self.place_of(piece.tile), self.lock());
        state.n_written[place] += 1;
        if let Some(len) = state.encoded[place].get_mut(piece.part) {
            *len = encoded;
        }
        drop(state);
        self.filled.notify_all();
    }

    /// How long the parts of a tile that is written are as they are encoded.
    pub(super) fn encoded(&self, tile: usize) -> Vec<usize> {
        std::mem::take(&mut self.lock().encoded[self.place_of(tile)])
    }

    /// Notes why a tile will not be complete.
    pub(super) fn note(&self, tile: usize, error: Error) {
        let mut state = self.lock();
        if state.error.as_ref().is_none_or(|(first, _)| tile < *first) {
            state.error = Some((tile, error));
        }
        drop(state);
        self.filled.notify_all();
    }

    /// Returns when all parts of a tile are written; asks `tick` now and then whether to go on.
    pub(super) fn wait_for(
        &self,
        tile: usize,
        n_parts: usize,
        tick: &mut dyn FnMut() -> Result<()>,
    ) -> Result<()> {
        self.wait_until(tile, tick, |state| state.n_written[self.place_of(tile)] == n_parts)
    }

    /// Returns when all readers have confirmed what they read.
    pub(super) fn wait_for_readers(&self, tick: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.wait_until(usize::MAX, tick, |state| state.n_reading == 0)
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
                    None => Error::bug("nobody is left to read the tiles of a partition"),
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

    /// Lets readers go on while the partition does.
    pub(super) fn going_on(&self) -> impl Fn() -> Result<()> + 'static {
        let stopped = self.stopped.clone();
        move || if stopped.load(Ordering::Relaxed) { Err(Error::cancelled()) } else { Ok(()) }
    }

    /// Ends the readers when what this returns is dropped.
    pub(super) fn stops_readers(&self) -> Stops<'_> {
        Stops(self)
    }
}

pub(super) struct Stops<'r>(&'r Ring);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        // With the lock, or a reader that is about to wait would miss it.
        let state = self.0.lock();
        self.0.stopped.store(true, Ordering::Relaxed);
        drop(state);
        self.0.free.notify_all();
    }
}
