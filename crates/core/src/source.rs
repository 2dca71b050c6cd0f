//! The contract of a data source: frames in file order, nothing about scans.

use crate::{
    ArrayFormat, CsrTile, DenseTile, Encoding, Error, FrameIndices, MetadataList, Orientation,
    Result, SigSlice, StoredDType,
};
use std::fmt::Debug;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Which of the frames `0..n_frames` a source can deliver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Presence {
    /// All of them.
    All,
    /// Those in these ranges: ascending, disjoint, not empty. The others are known to be
    /// missing (a file of a set is not there, say).
    Ranges(Vec<Range<u64>>),
}

impl Presence {
    /// # Errors
    /// `Bug` if ranges overlap or do not ascend: frames would count twice, or not at all.
    pub(crate) fn check(&self) -> Result<()> {
        let Presence::Ranges(ranges) = self else { return Ok(()) };
        let mut end = 0;
        for range in ranges {
            if range.start < end || range.end < range.start {
                return Err(Error::bug(format!(
                    "the source says that it has the frames {range:?} behind those up to {end}: \
                     ranges have to ascend, without a frame twice"
                )));
            }
            end = range.end;
        }
        Ok(())
    }
}

/// What is known about a source after its headers were read, and before any pixel is.
#[derive(Clone, Debug)]
pub struct SourceInfo {
    /// The format's short name, as in `framefold.load(name, …)`.
    pub format: &'static str,
    /// The files it is made of, in order; empty for memory.
    pub paths: Vec<PathBuf>,
    /// The number of frames, missing ones in between included.
    pub n_frames: u64,
    /// Which of them are there.
    pub presence: Presence,
    /// The shape of a frame.
    pub sig_shape: Vec<usize>,
    /// The scan shape that the file itself suggests; its product need not be `n_frames`.
    pub nav_shape: Vec<usize>,
    /// The dtype of the pixels, and their byte order where they lie in the file.
    pub dtype: StoredDType,
    /// The smallest sensible tile, a number for each axis of a frame: tile edges fall on multiples of it.
    pub base_shape: Vec<usize>,
    /// How many consecutive frames are best read together: fewer, and the same memory is read for
    /// others again. 1 where frames lie one after the other.
    pub preferred_depth: usize,
    /// Whether tiles can be lent as they lie in memory, without decoding into a buffer.
    pub lends: bool,
    /// What the headers tell about the experiment, by the names that all formats share.
    pub metadata: MetadataList,
    /// More that is worth showing to a person, in order: ("detector chips", "4").
    pub details: Vec<(String, String)>,
    /// What is odd but not an error: a dropped partial frame, surplus bytes.
    pub warnings: Vec<String>,
}

/// A stack of frames that can be read from many threads at once.
///
/// Opening reads headers only. After that the geometry never changes: a file that grows is
/// read as it was, a file that shrinks gives an error when the missing part is read.
///
/// ```
/// use framefold_core::{
///     DType, DataSource, Dataset, DenseTile, Error, FrameIndices, FrameReader, FramesView, MetadataList,
///     Presence, Result, SigSlice, SourceInfo, TileFrames,
/// };
/// use std::sync::Arc;
///
/// /// Frames of 4 × 4 pixels in memory.
/// #[derive(Debug)]
/// struct Own {
///     info: SourceInfo,
///     pixels: Vec<u16>,
/// }
///
/// impl DataSource for Own {
///     fn info(&self) -> &SourceInfo {
///         &self.info
///     }
///
///     fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
///         Ok(Box::new(Reader { source: self, cells: Vec::new() }))
///     }
/// }
///
/// /// What one worker has: the cells of its tile.
/// struct Reader<'s> {
///     source: &'s Own,
///     cells: Vec<u16>,
/// }
///
/// impl FrameReader for Reader<'_> {
///     fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
///         self.cells.clear();
///         for number in frames.iter() {
///             let mut all = self.source.pixels.chunks_exact(16);
///             let frame = usize::try_from(number).ok().and_then(|n| all.nth(n));
///             let frame = frame.ok_or_else(|| Error::bad_file("it is missing").with_frame(number))?;
///             for run in sig.runs(&self.source.info.sig_shape) {
///                 self.cells.extend_from_slice(&frame[run]);
///             }
///         }
///         let tile = FramesView::try_new(&self.cells, frames.len(), sig.len(), sig.len())?;
///         Ok(DenseTile::borrowed(TileFrames::U16(tile)))
///     }
///
///     fn verify(&mut self) -> Result<()> {
///         Ok(())
///     }
/// }
///
/// let info = SourceInfo {
///     format: "own",
///     paths: Vec::new(),
///     n_frames: 6,
///     presence: Presence::All,
///     sig_shape: vec![4, 4],
///     nav_shape: vec![2, 3],
///     dtype: DType::U16.into(),
///     base_shape: vec![1, 4],
///     preferred_depth: 1,
///     lends: false,
///     metadata: MetadataList::new(),
///     details: Vec::new(),
///     warnings: Vec::new(),
/// };
/// let source = Own { info, pixels: (0..96).collect() };
/// let dataset = Dataset::try_new(Arc::new(source), None, 0)?;
/// assert_eq!(dataset.shape().to_string(), "(2, 3) + (4, 4)");
/// # let part = SigSlice::try_within(vec![1, 2], vec![2, 2], &[4, 4])?;
/// # let mut reader = dataset.source().reader()?;
/// # let TileFrames::U16(tile) = reader.read(FrameIndices::Run(4..6), &part)?.frames() else { panic!() };
/// # assert_eq!(tile.data(), [70, 71, 74, 75, 86, 87, 90, 91]);
/// # Ok::<(), Error>(())
/// ```
pub trait DataSource: Send + Sync + Debug {
    /// The geometry. Called by the planner and by users, often; must not read anything.
    fn info(&self) -> &SourceInfo;

    /// A reader for one worker. Called by the run machine once per worker, from the thread
    /// that will use it; must be cheap. Many readers may exist at once.
    ///
    /// # Errors
    /// `Io` or `BadFile` if the files can no longer be read.
    fn reader(&self) -> Result<Box<dyn FrameReader + '_>>;

    /// The layout in which it has its data. Of [`ArrayFormat::Csr`], readers can do
    /// [`FrameReader::read_csr`] as well as [`FrameReader::read`].
    fn format(&self) -> ArrayFormat {
        ArrayFormat::Dense
    }

    /// The bytes that reading all frames takes, where that is not what the pixels take: the size
    /// of the entries of sparse data, say. The planner cuts partitions by it.
    fn stored_bytes(&self) -> Option<u64> {
        None
    }

    /// How many consecutive frames are stored together, so that a partition that ends within them
    /// makes two workers decode them; they begin at multiples of it. 1 where each frame is for
    /// itself. The planner ends partitions there.
    fn frames_together(&self) -> usize {
        1
    }

    /// The first frame of each piece but the first, ascending, if the frames come in pieces that
    /// can only be read as a whole. The planner makes a partition of each, so that it is read once.
    fn pieces(&self) -> Option<&[u64]> {
        None
    }

    /// Whether these frames can be read. Where frames arrive during a run, [`Arrival::NotYet`]
    /// becomes one of the others at some time; both of these are final.
    fn arrival(&self, _frames: Range<u64>) -> Arrival {
        Arrival::Here
    }

    /// Returns when frames may have arrived, and after `most` at the latest. Called by workers that
    /// have nothing else to do.
    fn wait(&self, most: Duration) {
        std::thread::sleep(most);
    }

    /// How its chunks are stored, if [`FrameReader::read_encoded`] can give them to a device that decodes
    /// them. Called before each partition; must not read anything.
    fn encoding(&self) -> Option<Encoding> {
        None
    }

    /// Of a source that gives the frames of another one turned: that one, and how.
    fn turned(&self) -> Option<(&Arc<dyn DataSource>, Orientation)> {
        None
    }

    /// How its frames are turned, compared with those of the file; stages in between do not count.
    fn orientation(&self) -> Orientation {
        Orientation::default()
    }

    /// Of a source that makes its frames of those of another one: what is done, in words, in that order.
    fn stages(&self) -> Vec<String> {
        Vec::new()
    }

    /// Whether workers hinder each other in reading, as where a stage takes turns at an interpreter.
    fn contends(&self) -> bool {
        false
    }

    /// Whether a read may wait for another thread. A worker then holds no lock while it reads that
    /// the other thread might need, as Python's is.
    fn may_wait(&self) -> bool {
        false
    }
}

/// What a source says of frames that arrive during a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// All of them can be read.
    Here,
    /// Some may still come.
    NotYet,
    /// Some will not come.
    Never,
}

/// One worker's way into a source.
pub trait FrameReader {
    /// The cells `sig` of each of `frames`, in the source's dtype and native byte order.
    ///
    /// Called by the run machine for every tile, from one thread. The source either lends the
    /// bytes as they lie in memory, or decodes them into its scratch buffer, which it may use
    /// again on the next call (see [`crate::Scratch`]). Every frame asked for is present.
    ///
    /// # Errors
    /// `BadFile` or `Io`, with path, offset and frame. The run ends; the reader may be asked
    /// again or dropped.
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>>;

    /// The same as compressed sparse rows. Called only where [`DataSource::format`] says so.
    ///
    /// # Errors
    /// As [`FrameReader::read`]; entries that a file has no right to hold are `BadFile`.
    fn read_csr(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<CsrTile<'_>> {
        Err(Error::bug(format!(
            "{} frames at {:?} were to be read as sparse rows from a dense source",
            frames.len(),
            sig.origin()
        )))
    }

    /// Whole frames as they are stored, where [`DataSource::encoding`] says how; `out` is as long as
    /// their pixels would be. Gives the number of bytes that it has written:
    ///
    /// - for each block of each chunk, in order, where its stored bytes begin in `out`, and how many
    ///   they are: two numbers of 4 bytes, little endian. What a chunk stores as it is counts as a
    ///   block;
    /// - those bytes, all of them within what was written.
    ///
    /// `None` where this does not do: frames that are not whole chunks, chunks that were never written or
    /// that are stored in another way, and what takes more room than its pixels. They are to be
    /// [read](FrameReader::read) then; so they are where the device cannot decode them, which gives the error.
    ///
    /// # Errors
    /// As [`FrameReader::read`].
    fn read_encoded(&mut self, frames: FrameIndices<'_>, out: &mut [u8]) -> Result<Option<usize>> {
        let _ = (frames, out);
        Ok(None)
    }

    /// Confirms that all that was read so far was really in the file.
    ///
    /// Called by the run machine after the last tile of a partition and before its partial
    /// result is used. Memory-mapped sources find out here that the file shrank under them.
    ///
    /// # Errors
    /// `BadFile` that names the file and where it now ends.
    fn verify(&mut self) -> Result<()>;
}
