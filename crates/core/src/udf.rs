//! The contracts of a user-defined function: declare, accumulate, merge.

use crate::{
    Array, BufferDecl, CsrTile, DType, FinalRows, JobMeta, NativeArray, Partition, Result, RunMeta,
    SourceInfo, StagedTile, Staging, Tile, TilePosition,
};
use std::sync::Arc;

/// How much of the data a UDF wants to see in one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Method {
    /// Any tile will do: part of the frame, some frames deep.
    Tile,
    /// Whole frames.
    Frame,
    /// A whole partition in one tile.
    Partition,
}

impl Method {
    /// The name used in `explain()`.
    pub fn name(self) -> &'static str {
        match self {
            Method::Tile => "tile",
            Method::Frame => "frame",
            Method::Partition => "partition",
        }
    }
}

/// Which dtype a UDF wants its tiles in, whatever other UDFs of the run ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputDType {
    /// As the data set has it.
    Native,
    /// The common dtype of the data set and this one.
    AtLeast(DType),
}

/// The layout of a tile's cells in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ArrayFormat {
    /// A dense array in host memory.
    Dense,
    /// Compressed sparse rows in host memory, one row per frame: [`crate::CsrTile`].
    Csr,
}

impl ArrayFormat {
    /// The name used in `explain()`.
    pub fn name(self) -> &'static str {
        match self {
            ArrayFormat::Dense => "dense",
            ArrayFormat::Csr => "csr",
        }
    }
}

/// What a UDF asks of the planner.
#[derive(Clone, Debug)]
pub struct Requirements {
    /// How much data it wants to see in one call.
    pub method: Method,
    /// In which dtype.
    pub input: InputDType,
    /// In which layouts, best first. The planner takes the one in which the source has the data,
    /// if it is among them, and otherwise the first.
    pub formats: Vec<ArrayFormat>,
    /// The number of frames a tile should hold; `None` leaves it to the planner.
    pub tile_depth: Option<usize>,
    /// The largest useful size of a tile in bytes; `None` for no more than fits the cache.
    pub tile_bytes: Option<usize>,
    /// The most frames that a tile may hold, because each of them takes memory that the planner
    /// does not know of; `None` for no limit. Whole partitions are as deep as they are.
    pub max_depth: Option<usize>,
    /// Whether each cell of its `sig` buffers follows from that cell of the frames alone. The
    /// planner may then run it over parts of the frame one by one, as if each were a data set of
    /// its own ([`JobMeta::shape`] says so). Its `single` buffers must be the same for all parts,
    /// and it may have no `nav` buffers.
    pub cellwise: bool,
    /// Whether each row of its results follows from that frame alone, bit for bit, and it has no
    /// other results. Partitions may then be merged in pieces: the frames that have arrived, and
    /// later the others. Accumulators and mergers get a [`Partition`] of these frames alone.
    pub framewise: bool,
    /// Whether all of its results are `nav` buffers to which partial results are assigned:
    /// [`Merger::final_rows`] has them all. They may go to a [`Sink`](crate::Sink) then, and need
    /// not be kept.
    pub by_rows: bool,
    /// Whether its calls on different threads may wait for each other, as those into an
    /// interpreter do. Drivers then find out whether more than one thread is any good.
    pub contends: bool,
}

impl Requirements {
    /// Native dense tiles of the planner's choice.
    pub fn native_tiles() -> Self {
        Requirements {
            method: Method::Tile,
            input: InputDType::Native,
            formats: vec![ArrayFormat::Dense],
            tile_depth: None,
            tile_bytes: None,
            max_depth: None,
            cellwise: false,
            framewise: false,
            by_rows: false,
            contends: false,
        }
    }

    /// The format that tiles of a source of format `native` come in.
    ///
    /// # Errors
    /// `InvalidArgument` if no format is asked for.
    pub fn format_for(&self, native: ArrayFormat) -> Result<ArrayFormat> {
        let first = self.formats.first().copied();
        let found = self.formats.contains(&native).then_some(native).or(first);
        found.ok_or_else(|| {
            crate::Error::invalid("no array format is asked for")
                .with_hint("name at least one, such as dense")
        })
    }
}

/// One partition's result.
#[derive(Debug)]
pub struct Partial {
    arrays: Vec<(String, Array)>,
}

impl Partial {
    /// No arrays yet.
    pub fn new() -> Self {
        Partial { arrays: Vec::new() }
    }

    /// Adds an array; names are a matter between an accumulator and its merger.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, array: impl Into<Array>) -> Self {
        self.arrays.push((name.into(), array.into()));
        self
    }

    /// Takes the array of that name out.
    ///
    /// # Errors
    /// `Bug` if there is none.
    pub fn take(&mut self, name: &str) -> Result<Array> {
        match self.arrays.iter().position(|(n, _)| n == name) {
            Some(i) => Ok(self.arrays.swap_remove(i).1),
            None => Err(crate::Error::bug(format!("the partial result has no array '{name}'"))),
        }
    }

    /// Takes the native array of that name out.
    ///
    /// # Errors
    /// `Bug` if there is none, or it is foreign.
    pub fn take_native(&mut self, name: &str) -> Result<NativeArray> {
        self.take(name)?.try_native()
    }

    /// Whether there is an array of that name.
    pub fn has(&self, name: &str) -> bool {
        self.arrays.iter().any(|(n, _)| n == name)
    }

    /// The arrays with their names.
    pub fn arrays(&self) -> &[(String, Array)] {
        &self.arrays
    }

    /// Size in bytes, for the memory budget.
    pub fn len_bytes(&self) -> usize {
        self.arrays.iter().map(|(_, array)| array.len_bytes()).sum()
    }
}

impl Default for Partial {
    fn default() -> Self {
        Partial::new()
    }
}

/// A user-defined function: says what it needs and makes the objects that do the work.
///
/// Plain data, shared between threads. Laws, checked by `framefold_testkit::check_udf`:
/// each method gives the same answer every time; results do not depend on how the frames are
/// cut into tiles and partitions, up to rounding of floating-point sums.
pub trait Udf: Send + Sync {
    /// The name used in messages and by the command line.
    fn name(&self) -> &str;

    /// What it asks of the planner. Called once per plan, first of all, on the main side.
    ///
    /// # Errors
    /// `InvalidArgument` or `Unsupported` if it cannot work on this source at all.
    fn requirements(&self, source: &SourceInfo) -> Result<Requirements>;

    /// Its result buffers, in the order in which results are returned. Called once per plan,
    /// after [`Udf::requirements`] of all UDFs of the run, on the main side.
    ///
    /// # Errors
    /// `InvalidArgument` if its parameters do not fit the data set; `UserCode` from user code.
    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>>;

    /// The worker for one partition. Called by the run machine on the thread that will process
    /// the partition, once per partition (or again, if a partition is repeated).
    ///
    /// # Errors
    /// As [`Udf::buffers`]; the run ends.
    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>>;

    /// The staging memory from which the worker of this thread takes dense tiles; `None` if it takes
    /// them as they are read. Called by the run machine before [`Udf::accumulator`], on the same
    /// thread.
    ///
    /// # Errors
    /// As [`Udf::buffers`]; the run ends.
    fn staging(&self) -> Result<Option<Arc<dyn Staging>>> {
        Ok(None)
    }

    /// The keeper of the merged result. Called once per run, on the main side, after planning
    /// and before the first partition.
    ///
    /// # Errors
    /// As [`Udf::buffers`]; the run does not start.
    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>>;
}

/// The worker for one partition; lives on one thread.
pub trait Accumulator {
    /// Takes in one tile. Called 0..n times: by the end, every (frame, cell) of the partition
    /// was in exactly one tile. Within a signal slice, tiles come in frame order; nothing else
    /// about their order is promised. The tile's memory is valid during the call only.
    ///
    /// # Errors
    /// Ends the run; the accumulator is dropped. With [`crate::Error::with_repeat`], those of all
    /// UDFs of the partition are dropped, and it is processed from its beginning with new ones; a
    /// UDF may ask for that once per partition.
    fn process(&mut self, tile: &Tile<'_>) -> Result<()>;

    /// As [`Accumulator::process`], for a tile of [`ArrayFormat::Csr`]. Called instead of it, and
    /// only if [`Requirements::formats`] names that format; all tiles of a run have one format.
    ///
    /// # Errors
    /// Ends the run; the accumulator is dropped.
    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        let (depth, origin) = (tile.depth(), position.sig.origin());
        Err(crate::Error::bug(format!(
            "a sparse tile of {depth} frames at {origin:?} came to a UDF that takes dense ones"
        )))
    }

    /// As [`Accumulator::process`], for a tile in the memory of [`Udf::staging`]. May be called instead
    /// of it if there is any; the tile is written again after [`Staging::wait`].
    ///
    /// # Errors
    /// Ends the run; the accumulator is dropped.
    fn process_staged(&mut self, position: &TilePosition<'_>, tile: StagedTile<'_>) -> Result<()> {
        let _ = position;
        Err(tile.unexpected())
    }

    /// Gives the partial result. Called once, last, on the same thread.
    ///
    /// # Errors
    /// Ends the run.
    fn finish(self: Box<Self>) -> Result<Partial>;
}

/// The keeper of the merged result.
pub trait Merger: Send {
    /// Folds one partition in, or the next frames of one: see [`Requirements::framewise`]. Called
    /// once for each of which frames came, in partition order, never at the same time from two threads;
    /// not always from the same thread.
    ///
    /// # Errors
    /// Ends the run; results so far stay readable.
    fn merge(&mut self, partition: &Partition, partial: Partial) -> Result<()>;

    /// The results so far: one array per declared public or result-only buffer, in the declared
    /// order, of [`BufferDecl::flat_shape`] for all selected frames. May be called at any time
    /// between merges, any number of times; changes nothing.
    ///
    /// # Errors
    /// `UserCode` from user code.
    fn results(&self) -> Result<Vec<Array>>;

    /// The rows that [`Merger::results`] copies, where they lie: one for each array that it returns,
    /// in the same order. Only from those that keep nothing else: each result has one row per
    /// selected frame, which is final once its partition is merged. Their owner can look at
    /// the rows of a few frames, or at earlier results, while more is merged. Called at any time
    /// between merges.
    fn final_rows(&self) -> Option<Vec<FinalRows>> {
        None
    }

    /// All that was merged so far, as partial results: a fresh merger of the same run that merges
    /// them, in this order, becomes what this one was, bit for bit. Called by drivers that merge in
    /// several places, at most once, last: this one is not used any more. `None` from those that
    /// keep what they merge in another form; they merge in one place.
    ///
    /// # Errors
    /// Ends the run.
    fn take_partials(&mut self) -> Result<Option<Vec<Partial>>> {
        Ok(None)
    }
}
