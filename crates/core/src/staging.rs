//! Tiles that lie in memory of their worker, from where a device fetches them.

use crate::{DType, EncodedTile, Error, Result};

/// A part of a tile, which one thread writes.
pub trait StagingBuffer: Send {
    /// The bytes.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// The staging memory of one worker: what a device fetches is put there, by several threads, ahead of
/// its use. It has room for some tiles, which are used in turn.
pub trait Staging: Send + Sync {
    /// How many threads read; 0 if the frames are on the device already, and nothing has to be put
    /// anywhere.
    fn n_readers(&self) -> usize;

    /// How many whole frames a tile should have, or as many pixels where tiles are parts of frames; `None`
    /// for as many as planned. Not less than planned.
    fn depth(&self) -> Option<usize> {
        None
    }

    /// Whether the device applies the corrections of the data set, where tiles are whole frames: these are
    /// put there as they are read then.
    fn corrects(&self) -> bool {
        false
    }

    /// The largest block that the device decodes, in bytes, where tiles are whole frames and come as they
    /// are stored: see [`crate::Encoding`]. 0 if it decodes nothing.
    fn block_bytes(&self) -> usize {
        0
    }

    /// The first of the selected frames of tiles so far that the device could not decode. Called on
    /// the thread of the worker, after the last tile of a partition; waits for the device.
    ///
    /// # Errors
    /// What went wrong on the device.
    fn damaged(&self) -> Result<Option<usize>> {
        Ok(None)
    }

    /// Whether an error asks for the end of the program, as Ctrl-C does: nothing takes its place.
    fn ends_program(&self, _error: &Error) -> bool {
        false
    }

    /// Makes room for `n_tiles` tiles of `len_bytes` bytes. Called on the thread of the worker before its first
    /// partition, and before others, but only when nothing reads from earlier tiles any more.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it.
    fn prepare(&self, n_tiles: usize, len_bytes: usize) -> Result<()>;

    /// Parts of tile number `tile` of so many bytes, one behind the other, to be written.
    ///
    /// # Errors
    /// `Bug` if the tile is shorter, or earlier parts of it still exist.
    fn parts(&self, tile: usize, lens: &[usize]) -> Result<Vec<Box<dyn StagingBuffer>>>;

    /// Returns when nothing reads from tile number `tile` any more, and it may be written again. Called on
    /// the thread of the worker.
    ///
    /// # Errors
    /// What went wrong on the device.
    fn wait(&self, tile: usize) -> Result<()>;
}

/// What lies in staging memory, or on the device, for [`crate::Accumulator::process_staged`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StagedTile<'t> {
    /// Which tile of the staging memory it is; `None` if the frames are on the device already.
    pub number: Option<usize>,
    /// The dtype of its pixels: that of the data set, or of corrected pixels. Another one that the UDF
    /// wants is made on the device.
    pub dtype: DType,
    /// Whether its pixels are to be corrected on the device.
    pub is_raw: bool,
    /// What of it is encoded; `None` if nothing is.
    pub encoded: Option<EncodedTile<'t>>,
}

impl StagedTile<'_> {
    /// The error of an accumulator that was given one, and takes none.
    pub(crate) fn unexpected(self) -> Error {
        Error::bug(format!("a staged tile of {} came to a UDF that takes none", self.dtype))
    }
}
