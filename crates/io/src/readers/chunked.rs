//! The source for arrays that are stored in chunks: HDF5 and Zarr.
//!
//! An array, or several one after the other, is cut into chunks of one shape on all of its axes,
//! those of the scan included; each chunk was compressed by itself. A worker's reader decodes
//! whole chunks, straight into the tile where chunk and tile have the same shape, and otherwise
//! into memory from which it copies parts. It keeps as many decoded chunks as lie side by side along
//! the fast axes of the scan, so that each one is read and decoded once while frames are read in order.
//! Chunks that are stored as they are and lie in mapped memory are copied from there.

mod cache;
mod encoded;
mod geometry;
mod reader;

pub(crate) use geometry::{Geometry, GeometrySpec};

use crate::codec::Pipeline;
use framefold_core::{DataSource, Encoding, Error, FrameReader, Result, SourceInfo};
use reader::ChunkedReader;
use std::fmt::Debug;
use std::ops::Range;

/// Among so many chunks, it is asked once whether the tile is still wanted.
const CHECK: usize = 256;
/// The most that one reader keeps of decoded chunks.
const CACHE_BYTES: usize = 256 << 20;
/// Chunks beyond this are refused: one of them must fit in memory.
const LARGEST_CHUNK: u64 = 1 << 31;

/// Where the chunks of one array are.
pub(crate) trait ChunkStore: Send + Sync + Debug {
    /// The stored bytes of chunk number `index`, in C order of the grid of chunks; `None` if it was
    /// never written. `buffer` is the reader's, for stores that cannot lend theirs.
    ///
    /// # Errors
    /// `BadFile` or `Io`, with path and offset.
    fn fetch<'b>(&'b self, index: u64, buffer: &'b mut Vec<u8>) -> Result<Option<Stored<'b>>>;

    /// The bytes that chunk `index` decodes to: `whole`, those of its shape, or fewer where the rest
    /// lies beyond the array and is not stored.
    fn decoded_len(&self, _index: u64, whole: usize) -> usize {
        whole
    }

    /// Adds to an error where chunk `index` lies.
    fn locate(&self, index: u64, error: Error) -> Error;

    /// Readies files for a new worker.
    ///
    /// # Errors
    /// `Io` if the system refuses.
    fn prepare(&self) -> Result<()>;

    /// Confirms that everything read so far was in the files.
    ///
    /// # Errors
    /// `BadFile` or `Io` that names the file.
    fn verify(&self) -> Result<()>;
}

/// One chunk as it was stored.
pub(crate) struct Stored<'b> {
    pub(crate) bytes: &'b [u8],
    /// Which filters were left out.
    pub(crate) mask: u32,
    /// Whether they are where the store has them, which costs nothing each time that they are fetched.
    pub(crate) lent: bool,
}

/// One array.
#[derive(Debug)]
pub(crate) struct Segment {
    /// The frames that it holds.
    pub(crate) frames: Range<u64>,
    pub(crate) geometry: Geometry,
    pub(crate) pipeline: Pipeline,
    /// One element, as stored: what chunks that were never written are made of.
    pub(crate) fill: Vec<u8>,
    pub(crate) store: Box<dyn ChunkStore>,
}

impl Segment {
    /// Bytes of a decoded chunk. The product was checked when the source was made.
    fn chunk_bytes(&self, size: usize) -> usize {
        usize::try_from(self.geometry.chunk_cells()).unwrap_or(usize::MAX).saturating_mul(size)
    }
}

/// Frames in chunks.
#[derive(Debug)]
pub(crate) struct ChunkedSource {
    info: SourceInfo,
    segments: Vec<Segment>,
    frames_together: usize,
    encoding: Option<Encoding>,
}

impl ChunkedSource {
    /// A source of these segments: ascending, disjoint, at least one. `info` says all that does not
    /// follow from them.
    ///
    /// # Errors
    /// `Limit` if a chunk does not fit in memory; `Bug` if a segment does not fit `info`.
    pub(crate) fn try_new(mut info: SourceInfo, segments: Vec<Segment>) -> Result<Self> {
        let size = info.dtype.dtype.size();
        let mut end = 0;
        for segment in &segments {
            let Range { start, end: next } = segment.frames;
            let geometry = &segment.geometry;
            if start < end || next - start != geometry.n_frames() || segment.fill.len() != size {
                return Err(Error::bug(format!("frames {start}..{next} after frame {end}")));
            }
            end = next;
            let bytes = geometry.chunk_cells().checked_mul(u64::try_from(size).unwrap_or(u64::MAX));
            if bytes.is_none_or(|bytes| bytes > LARGEST_CHUNK) {
                return Err(Error::limit(format!(
                    "a chunk of {} elements of {size} bytes does not fit in memory",
                    geometry.chunk_cells()
                ))
                .with_hint("rewrite the data in chunks of about 1 MB"));
            }
        }
        let Some(first) = segments.first() else {
            return Err(Error::bug("a source without frames"));
        };
        let geometry = &first.geometry;
        info.base_shape = geometry.sig_chunk();
        info.preferred_depth = 1;
        // Where decoded chunks of whole frames are too many to keep, those of parts of frames
        // may not be.
        let row_bytes = geometry.row_cells().saturating_mul(size);
        let frames_together = geometry.row_frames();
        if row_bytes > CACHE_BYTES && frames_together > 1 {
            info.preferred_depth = frames_together;
        }
        let encoding = encoded::encoding_of(&info, &segments);
        Ok(ChunkedSource { info, segments, frames_together, encoding })
    }

    /// The segment that holds a frame.
    fn segment_of(&self, frame: u64) -> Result<(usize, &Segment)> {
        let i = self.segments.partition_point(|segment| segment.frames.end <= frame);
        match self.segments.get(i) {
            Some(segment) if segment.frames.contains(&frame) => Ok((i, segment)),
            _ => Err(Error::bug("a frame that is not there was read").with_frame(frame)),
        }
    }
}

impl DataSource for ChunkedSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Ok(Box::new(ChunkedReader::try_new(self)?))
    }

    fn frames_together(&self) -> usize {
        self.frames_together
    }

    fn encoding(&self) -> Option<Encoding> {
        self.encoding
    }
}
