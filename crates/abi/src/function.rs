//! What a function is, in Rust.

use crate::{DType, Element, Rows, Tile, Views, raw};
use std::fmt;
use std::marker::PhantomData;

/// A function over the frames of a data set.
///
/// It declares result buffers, takes in tiles of each partition, and merges the results of partitions. Laws:
/// each method gives the same answer every time, and results do not depend on how frames are cut into tiles
/// and partitions.
///
/// One function is used by several threads at the same time; each task by one.
pub trait Function: Send + Sync + 'static {
    /// What it keeps while it works on one partition, apart from result buffers; `()` for nothing.
    type Task: Default + Send;

    /// Whether every buffer has one row per frame, which is final when its partition ends: such rows can be
    /// written to a file while the run goes on. [`Function::merge`] and [`Function::results`] are not called then.
    const FINAL_ROWS: bool = false;

    /// The name in messages.
    fn name(&self) -> &str;

    /// What it asks of the planner: dense tiles in the dtype of the data set, if it says nothing.
    ///
    /// # Errors
    /// If it cannot work on this data set.
    fn requirements(&self, job: &Job<'_>) -> Result<Requirements, Failure> {
        let _ = job;
        Ok(Requirements::default())
    }

    /// Its result buffers.
    ///
    /// # Errors
    /// If its parameters do not fit the data set.
    fn buffers(&self, job: &Job<'_>) -> Result<Vec<Buffer>, Failure>;

    /// Begins a partition; all buffers are 0.
    ///
    /// # Errors
    /// The run ends with what it says; so it does with all other methods.
    fn begin(&self, run: &Run<'_>) -> Result<Self::Task, Failure> {
        let _ = run;
        Ok(Self::Task::default())
    }

    /// Takes in a dense tile. Views show the rows of its frames of `nav` buffers, its cells of `sig` buffers,
    /// and all of `single` ones.
    ///
    /// # Errors
    /// See [`Function::begin`].
    fn process(
        &self,
        task: &mut Self::Task,
        tile: &Tile<'_>,
        views: &mut Views<'_>,
    ) -> Result<(), Failure>;

    /// Takes in a sparse tile. Only called if [`Requirements::formats`] asks for it.
    ///
    /// # Errors
    /// See [`Function::begin`].
    fn process_rows(
        &self,
        task: &mut Self::Task,
        rows: &Rows<'_>,
        views: &mut Views<'_>,
    ) -> Result<(), Failure> {
        let _ = (task, rows, views);
        Err("it asks for sparse tiles, and does not have process_rows".into())
    }

    /// Ends a partition; views show all of its buffers.
    ///
    /// # Errors
    /// See [`Function::begin`].
    fn end(&self, task: &mut Self::Task, views: &mut Views<'_>) -> Result<(), Failure> {
        let _ = (task, views);
        Ok(())
    }

    /// Folds a partition into the result: rows of its frames of `nav` buffers, and all of the others.
    /// Partitions come in order. Copies rows of `nav` buffers; a function with others says how those merge.
    ///
    /// # Errors
    /// See [`Function::begin`].
    fn merge(&self, dest: &mut Views<'_>, src: &Views<'_>) -> Result<(), Failure> {
        let _ = (dest, src);
        Err(Failure::not_overridden())
    }

    /// From what was merged to the results that users get: public buffers, which hold what was merged, and
    /// those that are only results, which hold 0.
    ///
    /// # Errors
    /// See [`Function::begin`].
    fn results(
        &self,
        job: &Job<'_>,
        merged: &Views<'_>,
        results: &mut Views<'_>,
    ) -> Result<(), Failure> {
        let _ = (job, merged, results);
        Ok(())
    }
}

/// Why a function failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure(pub(crate) Why);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    Said(String),
    Cancelled,
    NotOverridden,
}

impl Failure {
    /// With the reason in words.
    pub fn new(why: impl Into<String>) -> Self {
        Failure(Why::Said(why.into()))
    }

    /// It ended early since the run was cancelled: see [`Tile::is_cancelled`].
    pub fn cancelled() -> Self {
        Failure(Why::Cancelled)
    }

    pub(crate) fn not_overridden() -> Self {
        Failure(Why::NotOverridden)
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Failure::new(why)
    }
}

impl From<&str> for Failure {
    fn from(why: &str) -> Self {
        Failure::new(why)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Why::Said(why) => why,
            Why::Cancelled => "the run was cancelled",
            Why::NotOverridden => {
                "it has buffers that are not of one row per frame, and does not say how they merge"
            }
        })
    }
}

impl std::error::Error for Failure {}

/// The data set, and which of its frames are selected.
///
/// In [`Function::requirements`], what the file says: the scan may be run over in another shape, and all of
/// it counts as selected.
#[derive(Clone, Copy)]
pub struct Job<'a>(pub(crate) &'a raw::Job);

impl<'a> Job<'a> {
    /// The axes of the scan.
    pub fn nav_shape(&self) -> &'a [usize] {
        // SAFETY: what the host gives is as the header says, for as long as it is borrowed.
        unsafe { crate::tile::slice(self.0.nav_shape, self.0.n_nav) }
    }

    /// The axes of a frame.
    pub fn sig_shape(&self) -> &'a [usize] {
        // SAFETY: as above.
        unsafe { crate::tile::slice(self.0.sig_shape, self.0.n_sig) }
    }

    /// The type of the data set.
    pub fn native_dtype(&self) -> DType {
        DType(self.0.native_dtype)
    }

    /// The type of the tiles that this function gets; [`DType::NATIVE`] while that is not decided.
    pub fn input_dtype(&self) -> DType {
        DType(self.0.input_dtype)
    }

    /// The number of selected frames.
    pub fn n_selected(&self) -> usize {
        self.0.n_selected
    }

    /// The flat scan position of each selected frame, ascending; none if all are selected.
    pub fn positions(&self) -> Option<&'a [usize]> {
        // SAFETY: as above.
        let positions = || unsafe { crate::tile::slice(self.0.positions, self.0.n_selected) };
        (!self.0.positions.is_null()).then(positions)
    }
}

/// A partition, at its beginning.
#[derive(Clone, Copy)]
pub struct Run<'a>(pub(crate) &'a raw::Run);

impl<'a> Run<'a> {
    /// The data set.
    pub fn job(&self) -> Job<'a> {
        // SAFETY: what the host gives is as the header says, for as long as it is borrowed.
        Job(unsafe { &*self.0.job })
    }

    /// In which layout the tiles of this run come.
    pub fn format(&self) -> Format {
        if self.0.format == raw::CSR { Format::Sparse } else { Format::Dense }
    }

    /// The number of this partition.
    pub fn partition(&self) -> usize {
        self.0.partition
    }

    /// The numbers of its frames among those selected.
    pub fn frames(&self) -> std::ops::Range<usize> {
        self.0.first_frame..self.0.first_frame + self.0.n_frames
    }
}

/// The layout of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// All cells.
    Dense,
    /// Of each frame, the cells that are not 0.
    Sparse,
}

/// How much of the data a function gets in one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// Parts of frames, some frames deep.
    #[default]
    Tile,
    /// Whole frames, some deep.
    Frames,
    /// A whole partition.
    Partition,
}

/// The layouts that a function takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Formats {
    /// Dense tiles.
    #[default]
    Dense,
    /// Sparse tiles.
    Sparse,
    /// What the data set has.
    Both,
}

/// What a function asks of the planner.
#[derive(Clone, Debug)]
pub struct Requirements {
    /// How much it gets in one call.
    pub method: Method,
    /// In which type: [`DType::NATIVE`], or a type that holds this one and the data's.
    pub input: DType,
    /// In which layouts.
    pub formats: Formats,
    /// A wish for the frames of a tile; 0 leaves them to the planner. Tiles can be deeper or shallower, as other
    /// functions of the run wish: each tile says how many it has.
    pub depth: usize,
    /// The largest useful size of a tile in bytes; 0 for no more than fits the cache.
    pub tile_bytes: usize,
    /// Whether [`crate::View::as_mut_slice`] works for `sig` buffers whatever part of the frame a tile has.
    pub contiguous: bool,
}

impl Default for Requirements {
    /// Dense tiles of the planner's choice, in the type of the data set; `sig` buffers as slices.
    fn default() -> Self {
        Requirements {
            method: Method::Tile,
            input: DType::NATIVE,
            formats: Formats::Dense,
            depth: 0,
            tile_bytes: 0,
            contiguous: true,
        }
    }
}

/// The declaration of a result buffer.
#[derive(Clone, Debug)]
pub struct Buffer {
    pub(crate) name: String,
    pub(crate) kind: u64,
    pub(crate) dtype: DType,
    pub(crate) extra: Vec<usize>,
    pub(crate) usage: u64,
}

impl Buffer {
    fn new(name: impl Into<String>, kind: u64, dtype: DType) -> Self {
        Buffer { name: name.into(), kind, dtype, extra: Vec::new(), usage: raw::PUBLIC }
    }

    /// One entry per frame.
    pub fn nav<T: Element>(name: impl Into<String>) -> Self {
        Buffer::new(name, raw::NAV, T::DTYPE)
    }

    /// One entry per cell of a frame.
    pub fn sig<T: Element>(name: impl Into<String>) -> Self {
        Buffer::new(name, raw::SIG, T::DTYPE)
    }

    /// Another shape: that of [`Buffer::with_extra_shape`], or one entry.
    pub fn single<T: Element>(name: impl Into<String>) -> Self {
        Buffer::new(name, raw::SINGLE, T::DTYPE)
    }

    /// Sets axes that follow the others.
    #[must_use]
    pub fn with_extra_shape(mut self, extra_shape: &[usize]) -> Self {
        self.extra = extra_shape.to_vec();
        self
    }

    /// Sets the type.
    #[must_use]
    pub fn with_dtype(mut self, dtype: DType) -> Self {
        self.dtype = dtype;
        self
    }

    /// Merged, but not part of the results.
    #[must_use]
    pub fn private(mut self) -> Self {
        self.usage = raw::PRIVATE;
        self
    }

    /// Only computed from what was merged, by [`Function::results`].
    #[must_use]
    pub fn result_only(mut self) -> Self {
        self.usage = raw::RESULT_ONLY;
        self
    }
}

/// What one call has of the host.
#[derive(Clone, Copy)]
pub(crate) struct Host<'a>(pub(crate) *const raw::Host, pub(crate) PhantomData<&'a raw::Host>);

impl Host<'_> {
    pub(crate) fn is_cancelled(self) -> bool {
        // SAFETY: what the host gives is as the header says, for as long as it is borrowed.
        let host = unsafe { &*self.0 };
        // SAFETY: as above.
        host.cancelled.is_some_and(|cancelled| unsafe { cancelled(host.ctx) } != 0)
    }

    /// Where a function says which frame of the tile it is at.
    pub(crate) fn frame(self) -> *mut u64 {
        // SAFETY: as above.
        unsafe { (*self.0).frame }
    }

    pub(crate) fn fail(self, why: &str) {
        // SAFETY: as above.
        let host = unsafe { &*self.0 };
        if let Some(fail) = host.fail {
            // SAFETY: as above; the text is borrowed for the call.
            unsafe { fail(host.ctx, raw::Text { data: why.as_ptr().cast(), len: why.len() }) }
        }
    }
}
