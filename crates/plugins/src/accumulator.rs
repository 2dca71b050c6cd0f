//! One partition of a compiled function.

use crate::buffers::{Buffers, worked_on, zeros};
use crate::call::{Failure, call};
use crate::dtype::number;
use crate::job::{raw_job, raw_run};
use crate::table::Table;
use framefold_abi::raw;
use framefold_core::{
    Accumulator, BufferDecl, CsrTile, Error, NativeArray, Partial, Partition, Result, RunMeta,
    Tile, TilePosition,
};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

/// Makes a better error of what a function failed with than what it said itself.
///
/// Functions that were compiled from another language may run there once more what failed.
pub trait Explain: Send + Sync {
    /// The error that the run ends with.
    fn explain(&self, failed: FailedFrame<'_>) -> Error;
}

/// A call that failed, and on what.
pub struct FailedFrame<'a> {
    /// The run.
    pub run: &'a RunMeta,
    /// The partition.
    pub partition: &'a Partition,
    /// What the function was given.
    pub tile: FailedTile<'a>,
    /// The frame within the tile that the function was at, if it said so and there is one.
    pub frame: Option<usize>,
    /// The buffers of the partition by name, as the function left them.
    pub arrays: Vec<(&'a str, &'a NativeArray)>,
    /// What it returned: see `ff_status`.
    pub status: i32,
    /// What it said, or what can be said for it.
    pub text: String,
}

/// What a function that failed was given.
#[derive(Clone, Copy, Debug)]
pub enum FailedTile<'a> {
    /// A dense tile.
    Dense(&'a Tile<'a>),
    /// A sparse tile.
    Csr(&'a TilePosition<'a>, &'a CsrTile<'a>),
    /// Nothing: it was at the end of the partition.
    End,
}

/// The worker for one partition.
pub struct PluginAccumulator {
    // Dropped first: its `drop_task` may still look at what the run is.
    task: Task,
    run: RunMeta,
    partition: Partition,
    decls: Arc<[BufferDecl]>,
    buffers: Buffers,
    /// Only valid during a call; kept for its memory.
    views: Vec<raw::View>,
    explain: Option<Arc<dyn Explain>>,
}

/// What a function made for one partition.
struct Task {
    table: Arc<Table>,
    task: *mut c_void,
    /// Whether it is to be dropped.
    made: bool,
}

impl Task {
    fn begin(table: Arc<Table>, run: &RunMeta, partition: &Partition) -> Result<Self> {
        let Some(begin) = table.raw.begin else {
            let task = table.raw.this;
            return Ok(Task { table, task, made: false });
        };
        let job = raw_job(&run.job);
        let described = raw_run(run, &job, partition);
        let mut task = null_mut();
        let this = table.raw.this;
        // SAFETY: the table obeys `framefold.h`, and so do these arguments.
        let outcome =
            call(|host| unsafe { begin(this, &raw const described, host, &raw mut task) });
        outcome.map_err(|failure| {
            failure.into_error("preparing the partition").with_udf(table.name())
        })?;
        Ok(Task { table, task, made: true })
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        if let (true, Some(drop_task)) = (self.made, self.table.raw.drop_task) {
            // SAFETY: `begin` made it, and nothing uses it any more.
            unsafe { drop_task(self.task) }
        }
    }
}

impl PluginAccumulator {
    /// A worker for `partition`, with buffers of zeros.
    ///
    /// `decls` are all buffers of the function. With `contiguous`, it sees parts of `sig` buffers without
    /// gaps. `explain` makes errors of its failures while it works on tiles and when the partition ends.
    ///
    /// # Errors
    /// `Limit` if there is no memory for the buffers; `UserCode` if the function fails; `Unsupported` for
    /// buffers that are not of numbers.
    ///
    /// # Safety
    /// `decls` are as the function would declare them itself for this run, and it takes gaps unless
    /// `contiguous` says that there are none: it writes to its buffers as they were declared.
    pub unsafe fn begin(
        table: Arc<Table>,
        decls: Arc<[BufferDecl]>,
        contiguous: bool,
        run: &RunMeta,
        partition: &Partition,
        explain: Option<Arc<dyn Explain>>,
    ) -> Result<Self> {
        let (shape, n_frames) = (&run.job.shape, partition.n_frames());
        let made = |decl| zeros(decl, shape, n_frames);
        let arrays = worked_on(&decls).map(made).collect::<Result<Vec<_>>>()?;
        let views = Vec::with_capacity(arrays.len());
        let buffers = Buffers::try_new(worked_on(&decls), arrays, shape, n_frames, contiguous)?;
        let task = Task::begin(table, run, partition)?;
        let (run, partition) = (run.clone(), partition.clone());
        Ok(PluginAccumulator { task, run, partition, decls, buffers, views, explain })
    }

    /// The bytes of the buffers that the function works on, in the order of their declarations, to set what
    /// they begin with.
    pub fn bytes_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.buffers.arrays_mut().iter_mut().map(|array| array.values_mut().as_bytes_mut())
    }

    #[cold]
    fn failed(&mut self, failure: Failure, tile: FailedTile<'_>) -> Error {
        if let Some(cancelled) = failure.cancellation() {
            return cancelled;
        }
        let text = failure.text();
        let position = match tile {
            FailedTile::Dense(tile) => Some(&tile.position),
            FailedTile::Csr(position, _) => Some(position),
            FailedTile::End => None,
        };
        let n_frames = position.map_or(0, |position| position.frames.len());
        let frame = failure.frame.filter(|&frame| frame < n_frames);
        let error = match &self.explain {
            Some(explain) => {
                let names = worked_on(&self.decls).map(|decl| decl.name.as_str());
                explain.explain(FailedFrame {
                    run: &self.run,
                    partition: &self.partition,
                    tile,
                    frame,
                    arrays: names.zip(self.buffers.arrays()).collect(),
                    status: failure.status,
                    text,
                })
            }
            None => {
                let place = self.place(position, frame);
                Error::user_code(format!("{place}: {text}"))
            }
        };
        error.with_partition(self.partition.index).with_udf(self.task.table.name())
    }

    /// Where it was, in words.
    fn place(&self, position: Option<&TilePosition<'_>>, frame: Option<usize>) -> String {
        let job = &self.run.job;
        let at = |index: usize| format!("{:?}", job.shape.nav_coordinates(job.position(index)));
        match (position, frame) {
            (None, _) => "ending the partition".to_owned(),
            (Some(position), Some(frame)) => {
                format!("frame at scan position {}", at(position.frames.start + frame))
            }
            (Some(position), None) => format!(
                "tile of the frames at scan positions {} to {}",
                at(position.frames.start),
                at(position.frames.end - 1)
            ),
        }
    }
}

impl Accumulator for PluginAccumulator {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let Some(process) = self.task.table.raw.process else {
            return Err(Error::bug("a dense tile came to a function that takes sparse ones"));
        };
        let (position, frames) = (&tile.position, tile.frames());
        let dtype = self.run.job.input_dtype;
        tile.data.check(position.in_partition.len(), position.sig, dtype)?;
        self.buffers.show_tile(&position.in_partition, position.sig, &mut self.views)?;
        let dtype = frames.dtype();
        let given = raw::Tile {
            size: size_of::<raw::Tile>(),
            data: frames.as_bytes().as_ptr().cast(),
            dtype: number(dtype),
            depth: frames.depth(),
            frame_stride: frames.stride() * dtype.size(),
            n_sig: position.sig.shape().len(),
            sig_origin: position.sig.origin().as_ptr(),
            sig_shape: position.sig.shape().as_ptr(),
            first_frame: position.frames.start,
            first_in_partition: position.in_partition.start,
            slice_index: position.sig.index(),
        };
        let (task, views) = (self.task.task, &self.views);
        // SAFETY: the table obeys `framefold.h`, and so do these arguments: the tile is as its source
        // promises, and the views are into arrays that nothing else uses until the call returns.
        let outcome = call(|host| unsafe {
            process(task, &raw const given, views.as_ptr(), views.len(), host)
        });
        outcome.map_err(|failure| self.failed(failure, FailedTile::Dense(tile)))
    }

    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        let Some(process) = self.task.table.raw.process_csr else {
            return Err(Error::bug("a sparse tile came to a function that takes dense ones"));
        };
        tile.check(position.in_partition.len(), position.sig, self.run.job.input_dtype)?;
        self.buffers.show_tile(&position.in_partition, position.sig, &mut self.views)?;
        let columns = tile.checked_columns()?;
        let given = raw::Rows {
            size: size_of::<raw::Rows>(),
            starts: tile.starts().as_ptr(),
            columns: columns.as_ptr(),
            values: tile.values().as_bytes().as_ptr().cast(),
            dtype: number(tile.dtype()),
            depth: tile.depth(),
            n_sig: position.sig.shape().len(),
            sig_origin: position.sig.origin().as_ptr(),
            sig_shape: position.sig.shape().as_ptr(),
            first_frame: position.frames.start,
            first_in_partition: position.in_partition.start,
            slice_index: position.sig.index(),
        };
        let (task, views) = (self.task.task, &self.views);
        // SAFETY: as above.
        let outcome = call(|host| unsafe {
            process(task, &raw const given, views.as_ptr(), views.len(), host)
        });
        outcome.map_err(|failure| self.failed(failure, FailedTile::Csr(position, tile)))
    }

    fn finish(mut self: Box<Self>) -> Result<Partial> {
        if let Some(end) = self.task.table.raw.end {
            let rows = 0..self.partition.n_frames();
            self.buffers.show_rows(&rows, &mut self.views);
            let (task, views) = (self.task.task, &self.views);
            // SAFETY: as above.
            let outcome = call(|host| unsafe { end(task, views.as_ptr(), views.len(), host) });
            outcome.map_err(|failure| self.failed(failure, FailedTile::End))?;
        }
        let PluginAccumulator { task, decls, buffers, .. } = *self;
        drop(task);
        let arrays = worked_on(&decls).zip(buffers.into_arrays());
        let partial = Partial::new();
        Ok(arrays.fold(partial, |partial, (decl, array)| partial.with(&decl.name, array)))
    }
}
