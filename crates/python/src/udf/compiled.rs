//! Functions that Numba compiled: C functions for a table, and what they work with.
//!
//! What is compiled takes a block of 8-byte slots, in which the Python half
//! (`framefold.compilation`) put parameters and task data. Each partition has its own copy.

mod code;
mod frames;

pub(crate) use code::CompiledCode;
pub(crate) use frames::CompiledFrames;

use super::PyUdf;
use crate::arrays::{ArrayMemory, memory_of, to_numpy};
use crate::ending::attached;
use crate::errors::{OrRaise, from_python};
use framefold::core::{
    Accumulator, Array, BufferDecl, BufferKind, BufferUse, Partial, Partition, RunMeta,
    TilePosition,
};
use framefold::plugins::{Explain, FailedFrame, FailedTile, PluginAccumulator, Table};
use framefold::{Error, Result};
use framefold_abi::raw;
use numpy::npyffi::npy_intp;
use numpy::{PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::any::Any;
use std::ffi::c_void;
use std::ops::Range;
use std::sync::{Arc, PoisonError};

/// The first slots of a block, as in `framefold.compilation.plan`.
const FAILURE: usize = 0;
const FIRST: usize = 1;
const N_FRAMES: usize = 2;

/// What Numba compiled: block, tile (or `src`), views (or `dest`), their number, host.
type Entry = unsafe extern "C" fn(usize, usize, usize, usize, usize) -> i32;

/// A table and the program behind it.
pub(super) struct Compiled {
    table: Arc<Table>,
    program: Arc<Program>,
}

/// Machine code and its data.
struct Program {
    process: Entry,
    merge: Option<Entry>,
    end: Option<Entry>,
    block: Vec<i64>,
    /// Slots of the addresses of arrays of which each partition gets a copy, and their bytes.
    private: Vec<(usize, usize)>,
    /// What buffers begin with, if that is not zeros: whether there is a row for each selected frame,
    /// address and bytes.
    initial: Vec<(usize, usize)>,
    /// Whether frames of a tile must follow each other without gaps.
    packs: bool,
    /// What owns all that addresses lead to.
    _owner: Py<PyAny>,
}

/// One partition at work.
struct Task {
    program: *const Program,
    block: Vec<i64>,
    _copies: Vec<Vec<u64>>,
    packed: Vec<u64>,
}

impl Compiled {
    fn try_new(name: &str, program: Arc<Program>, sparse: bool) -> Result<Self> {
        let table = raw::UdfV1 {
            size: size_of::<raw::UdfV1>(),
            major: raw::MAJOR,
            minor: raw::MINOR,
            name: raw::Text { data: name.as_ptr().cast(), len: name.len() },
            this: Arc::as_ptr(&program).cast_mut().cast(),
            requirements: Some(requirements),
            buffers: Some(buffers),
            begin: Some(begin),
            process: (!sparse).then_some(process),
            process_csr: sparse.then_some(process_csr),
            end: program.end.is_some().then_some(end),
            drop_task: Some(drop_task),
            merge: None, // see `DirectMerge`
            results: None,
            drop: None,
        };
        let owner: Arc<dyn Any + Send + Sync> = program.clone();
        // SAFETY: a table of this version whose functions are those below, which obey; the program that
        // they work on is the owner, and is not moved.
        let table = unsafe { Table::try_new(&raw const table, owner) }?;
        Ok(Compiled { table: Arc::new(table), program })
    }

    /// The worker for a partition.
    pub(super) fn accumulator(
        &self,
        decls: Arc<[BufferDecl]>,
        meta: &RunMeta,
        partition: &Partition,
        explain: Arc<dyn Explain>,
    ) -> Result<Box<dyn Accumulator>> {
        let table = self.table.clone();
        let worked_on = decls.clone();
        // SAFETY: the program was compiled for these buffers, without gaps.
        let mut made = unsafe {
            PluginAccumulator::begin(table, decls, true, meta, partition, Some(explain))
        }?;
        let initial = self.program.initial.iter();
        let worked_on = worked_on.iter().filter(|decl| decl.usage != BufferUse::ResultOnly);
        for ((bytes, decl), &(address, len)) in made.bytes_mut().zip(worked_on).zip(initial) {
            let row = bytes.len() / partition.n_frames().max(1);
            let offset =
                if decl.kind == BufferKind::Nav { partition.frames.start * row } else { 0 };
            if offset.checked_add(bytes.len()).is_none_or(|end| end > len) {
                return Err(Error::bug("initial values do not fit their buffer"));
            }
            // SAFETY: the owner has an array of `len` bytes there, which is not written to while the run lasts.
            let from =
                unsafe { std::slice::from_raw_parts((address + offset) as *const u8, bytes.len()) };
            bytes.copy_from_slice(from);
        }
        Ok(Box::new(made))
    }
}

unsafe extern "C" fn requirements(
    _: *mut c_void,
    _: *const raw::Job,
    _: *mut raw::Requirements,
    _: *const raw::Host,
) -> i32 {
    raw::OK
}

unsafe extern "C" fn buffers(_: *mut c_void, _: *const raw::Job, _: *const raw::Host) -> i32 {
    raw::OK
}

unsafe extern "C" fn begin(
    this: *mut c_void,
    run: *const raw::Run,
    _: *const raw::Host,
    task: *mut *mut c_void,
) -> i32 {
    let program = this.cast::<Program>().cast_const();
    // SAFETY: `this` is the program, which the table keeps alive; the host's structs obey `framefold.h`.
    let (known, run) = unsafe { (&*program, &*run) };
    let mut made = Task::of(known);
    for (slot, value) in [(FIRST, run.first_frame), (N_FRAMES, run.n_frames)] {
        if let Some(place) = made.block.get_mut(slot) {
            *place = value as i64;
        }
    }
    // SAFETY: the host's pointer to where the task goes.
    unsafe { *task = Box::into_raw(Box::new(made)).cast() };
    raw::OK
}

unsafe extern "C" fn drop_task(task: *mut c_void) {
    // SAFETY: `begin` made it of a box, and the host calls this once.
    drop(unsafe { Box::from_raw(task.cast::<Task>()) });
}

unsafe extern "C" fn process(
    task: *mut c_void,
    tile: *const raw::Tile,
    views: *const raw::View,
    n: usize,
    host: *const raw::Host,
) -> i32 {
    // SAFETY: `begin` made it; one thread at a time uses it.
    let task = unsafe { &mut *task.cast::<Task>() };
    // SAFETY: the host's struct.
    task.process(unsafe { *tile }, views, n, host)
}

unsafe extern "C" fn process_csr(
    task: *mut c_void,
    tile: *const raw::Rows,
    views: *const raw::View,
    n: usize,
    host: *const raw::Host,
) -> i32 {
    // SAFETY: as above.
    let task = unsafe { &mut *task.cast::<Task>() };
    // SAFETY: as above.
    let entry = unsafe { (*task.program).process };
    task.run(entry, tile as usize, views, n, host)
}

unsafe extern "C" fn end(
    task: *mut c_void,
    views: *const raw::View,
    n: usize,
    host: *const raw::Host,
) -> i32 {
    // SAFETY: as above.
    let task = unsafe { &mut *task.cast::<Task>() };
    // SAFETY: as above.
    match unsafe { (*task.program).end } {
        Some(entry) => task.run(entry, 0, views, n, host),
        None => raw::OK,
    }
}

impl Task {
    /// What works on its own copy of the block.
    fn of(program: &Program) -> Self {
        let mut block = program.block.clone();
        let mut copies = Vec::with_capacity(program.private.len());
        for &(slot, len) in &program.private {
            let Some(place) = block.get_mut(slot) else { continue };
            let mut copy = vec![0u64; len.div_ceil(8)];
            // SAFETY: the owner has an array of so many bytes there, and so has the copy.
            unsafe {
                copy.as_mut_ptr()
                    .cast::<u8>()
                    .copy_from_nonoverlapping(*place as usize as *const u8, len);
            }
            *place = copy.as_mut_ptr() as usize as i64;
            copies.push(copy);
        }
        Task { program, block, _copies: copies, packed: Vec::new() }
    }

    /// Runs what processes a dense tile.
    fn process(
        &mut self,
        mut given: raw::Tile,
        views: *const raw::View,
        n: usize,
        host: *const raw::Host,
    ) -> i32 {
        // SAFETY: the program outlives its tasks.
        let program = unsafe { &*self.program };
        if program.packs && given.depth > 1 {
            // SAFETY: the host's array of as many lengths.
            let shape = unsafe { std::slice::from_raw_parts(given.sig_shape, given.n_sig) };
            let len = shape.iter().product::<usize>() * (given.dtype & 0xff) as usize;
            if given.frame_stride != len {
                self.packed.resize((len * given.depth).div_ceil(8), 0);
                let to = self.packed.as_mut_ptr().cast::<u8>();
                for i in 0..given.depth {
                    // SAFETY: a tile has so many frames of `len` bytes, `frame_stride` apart; the memory
                    // that they are copied to was made as large just now.
                    unsafe {
                        let from = given.data.cast::<u8>().add(i * given.frame_stride);
                        to.add(i * len).copy_from_nonoverlapping(from, len);
                    }
                }
                given.data = self.packed.as_ptr().cast();
                given.frame_stride = len;
            }
        }
        self.run(program.process, (&raw const given) as usize, views, n, host)
    }

    fn run(
        &mut self,
        entry: Entry,
        tile: usize,
        views: *const raw::View,
        n: usize,
        host: *const raw::Host,
    ) -> i32 {
        let block = self.block.as_mut_ptr();
        // SAFETY: the signature is that of all entries; the pointers are the host's, or of this task.
        let status = unsafe { entry(block as usize, tile, views as usize, n, host as usize) };
        if status != raw::OK {
            let at = self.block.get(FAILURE).copied().unwrap_or_default();
            let text = format!("{WHERE}{at}");
            let text = raw::Text { data: text.as_ptr().cast(), len: text.len() };
            // SAFETY: the host's struct and function.
            unsafe {
                if let Some(fail) = (*host).fail {
                    fail((*host).ctx, text);
                }
            }
            return raw::FAILED;
        }
        raw::OK
    }
}

/// What the text of a failure begins with; the address of Numba's description of the exception follows.
const WHERE: &str = "numba:";

/// Merges into the arrays of a `MergeTask`, which keep their memory during a run.
pub(super) struct DirectMerge {
    run: Py<PyAny>,
    code: Py<CompiledCode>,
    dest: Vec<Dest>,
    /// One truth value for each selected frame: whether it is merged.
    merged: Dest,
}

/// An array of the main side.
struct Dest {
    name: String,
    is_nav: bool,
    memory: ArrayMemory,
    /// Keeps the memory.
    _array: Py<PyUntypedArray>,
}

// SAFETY: the pointer is to memory of an array that is kept; one thread at a time merges.
unsafe impl Send for Dest {}

impl Dest {
    fn new(name: String, is_nav: bool, array: Bound<'_, PyUntypedArray>) -> PyResult<Self> {
        if !array.is_c_contiguous() {
            return Err(PyRuntimeError::new_err("a result buffer has gaps"));
        }
        Ok(Dest { name, is_nav, memory: memory_of(&array), _array: array.unbind() })
    }

    /// Address, shape and strides of the part that belongs to a partition.
    fn part(&self, frames: &Range<usize>) -> Result<(*mut u8, Vec<usize>, Vec<isize>)> {
        let as_len = |&n: &npy_intp| usize::try_from(n).unwrap_or(0);
        let mut shape: Vec<usize> = self.memory.shape.iter().map(as_len).collect();
        let (mut start, strides) = (self.memory.start, self.memory.strides.clone());
        if let (true, Some(rows), Some(&stride)) = (self.is_nav, shape.first_mut(), strides.first())
        {
            if frames.end > *rows {
                return Err(Error::bug("a partition lies outside of the results"));
            }
            start = start.wrapping_add(frames.start * stride.unsigned_abs());
            *rows = frames.len();
        }
        Ok((start, shape, strides))
    }
}

impl DirectMerge {
    /// Of a `RunDescription` and its `MergeTask`; `None` if Python merges.
    pub(super) fn of(run: &Bound<'_, PyAny>, task: &Bound<'_, PyAny>) -> PyResult<Option<Self>> {
        type Given<'py> = Option<(Vec<(String, String, Bound<'py, PyAny>)>, Bound<'py, PyAny>)>;
        let given = task.call_method0("direct")?;
        let Some((arrays, merged)) = given.extract::<Given<'_>>()? else { return Ok(None) };
        let made = |(name, kind, array): (String, String, Bound<'_, PyAny>)| {
            Dest::new(name, kind == "nav", array.cast_into::<PyUntypedArray>()?)
        };
        Ok(Some(DirectMerge {
            run: run.clone().unbind(),
            code: run.getattr("code")?.cast_into::<CompiledCode>()?.unbind(),
            dest: arrays.into_iter().map(made).collect::<PyResult<_>>()?,
            merged: Dest::new(String::new(), true, merged.cast_into::<PyUntypedArray>()?)?,
        }))
    }

    /// Folds a partition in, by what is compiled for that, or by copying rows.
    pub(super) fn merge(&mut self, partition: &Partition, mut partial: Partial) -> Result<()> {
        let frames = &partition.frames;
        let compiled = self.code.get().at(frames.start);
        let (mut parts, mut arrays) = (Vec::new(), Vec::new());
        for dest in &self.dest {
            let array = partial.take_native(&dest.name)?;
            let part = dest.part(frames)?;
            if array.shape() != part.1 {
                return Err(Error::bug("a partial result has another shape than the result"));
            }
            arrays.push(array);
            parts.push(part);
        }
        match compiled.program.merge {
            Some(entry) => {
                let view = |data: *mut u8, shape: &[usize], strides: &[isize]| raw::View {
                    data: data.cast(),
                    dtype: 0,
                    n_dims: shape.len(),
                    shape: shape.as_ptr(),
                    strides: strides.as_ptr(),
                };
                let dest: Vec<_> = parts.iter().map(|(at, n, step)| view(*at, n, step)).collect();
                let src = parts.iter().zip(&mut arrays).map(|((_, n, step), array)| {
                    view(array.values_mut().as_bytes_mut().as_mut_ptr(), n, step)
                });
                let src: Vec<_> = src.collect();
                let mut block = compiled.program.block.clone();
                // SAFETY: the signature is that of all entries; views are of the arrays just measured. This
                // entry uses no host.
                let status = unsafe {
                    let (src, dest) = (src.as_ptr() as usize, dest.as_ptr() as usize);
                    entry(block.as_mut_ptr() as usize, src, dest, parts.len(), 0)
                };
                if status != raw::OK {
                    let address = block.get(FAILURE).copied().unwrap_or_default();
                    let raised =
                        attached(|py| self.run.call_method1(py, "merge_failed", (address,)));
                    let raised = raised.map_err(|exception| from_python(exception, "merge"));
                    return Err(raised.err().unwrap_or_else(|| Error::bug("merge failed")));
                }
            }
            None => {
                for ((at, ..), array) in parts.iter().zip(&mut arrays) {
                    let from = array.values().as_bytes();
                    // SAFETY: both are arrays of the same shape and dtype; all are `nav`, whose rows of
                    // this partition were found to lie within.
                    unsafe { at.copy_from_nonoverlapping(from.as_ptr(), from.len()) };
                }
            }
        }
        let (at, ..) = self.merged.part(frames)?;
        // SAFETY: so many truth values of one byte lie there.
        unsafe { at.write_bytes(1, frames.len()) };
        Ok(())
    }
}

/// Runs in the interpreter what failed, for the user's own exception.
pub(super) struct Rerun(pub(super) Py<PyAny>);

impl Explain for Rerun {
    fn explain(&self, failed: FailedFrame<'_>) -> Error {
        let place = match (&failed.tile, failed.frame) {
            (FailedTile::End, _) => "postprocess".to_owned(),
            (FailedTile::Dense(tile), frame) => place(&tile.position, frame),
            (FailedTile::Csr(position, _), frame) => place(position, frame),
        };
        let address = failed.text.strip_prefix(WHERE).and_then(|at| at.parse::<i64>().ok());
        let explained = attached(|py| self.rerun(py, &failed, address.unwrap_or_default()));
        match explained {
            Ok(()) => Error::bug(format!("{place}: compiled code failed, and nothing says why")),
            Err(exception) => from_python(exception, place),
        }
    }
}

fn place(position: &TilePosition<'_>, frame: Option<usize>) -> String {
    let frames = &position.frames;
    match frame {
        Some(frame) => format!("frame {}", frames.start + frame),
        None => format!(
            "tile of frames {} to {} at {:?}",
            frames.start,
            frames.end - 1,
            position.sig.origin()
        ),
    }
}

impl Rerun {
    fn rerun(&self, py: Python<'_>, failed: &FailedFrame<'_>, address: i64) -> PyResult<()> {
        let arrays = PyDict::new(py);
        for (name, array) in &failed.arrays {
            arrays.set_item(name, to_numpy(py, Array::Native(array.try_clone().or_raise(py)?))?)?;
        }
        let partition = failed.partition;
        let given = PyDict::new(py);
        match &failed.tile {
            FailedTile::End => {}
            FailedTile::Dense(tile) => {
                let frames = tile.frames();
                let (size, bytes) = (frames.dtype().size(), frames.as_bytes());
                let (stride, len) = (frames.stride() * size, frames.frame_len() * size);
                let mut pixels = Vec::with_capacity(len * frames.depth());
                for i in 0..frames.depth() {
                    pixels.extend_from_slice(&bytes[i * stride..i * stride + len]);
                }
                given.set_item("pixels", PyBytes::new(py, &pixels))?;
                set_position(&given, &tile.position)?;
            }
            FailedTile::Csr(position, tile) => {
                given.set_item("starts", tile.starts())?;
                given.set_item("columns", tile.columns())?;
                given.set_item("values", PyBytes::new(py, tile.values().as_bytes()))?;
                set_position(&given, position)?;
            }
        }
        let frames = &partition.frames;
        let arguments =
            ((partition.index, frames.start, frames.end), &given, failed.frame, arrays, address);
        self.0.call_method1(py, "explain_failure", arguments).map(drop)
    }
}

fn set_position(given: &Bound<'_, PyDict>, position: &TilePosition<'_>) -> PyResult<()> {
    given.set_item("frames", (position.frames.start, position.frames.end))?;
    given.set_item("in_partition", (position.in_partition.start, position.in_partition.end))?;
    given.set_item("slice_index", position.sig.index())?;
    given.set_item("origin", position.sig.origin())?;
    given.set_item("shape", position.sig.shape())
}

/// What a run of a compiled UDF has, once it has begun.
pub(super) struct CompiledRun {
    code: Py<CompiledCode>,
    explain: Arc<dyn Explain>,
}

impl CompiledRun {
    /// Of a `RunDescription`.
    pub(super) fn of(run: &Bound<'_, PyAny>) -> PyResult<Self> {
        let code = run.getattr("code")?.cast_into::<CompiledCode>()?.unbind();
        Ok(CompiledRun { code, explain: Arc::new(Rerun(run.clone().unbind())) })
    }
}

impl PyUdf {
    /// The worker for a partition; takes the interpreter's lock for the first one only.
    pub(super) fn compiled_accumulator(
        &self,
        meta: &RunMeta,
        partition: &Partition,
    ) -> Result<Box<dyn Accumulator>> {
        let run = match self.compiled_run.get() {
            Some(run) => run,
            None => {
                let made = attached(|py| {
                    let run = self.run(py, meta)?;
                    CompiledRun::of(&run).map_err(|e| from_python(e, "preparing the run"))
                })?;
                self.compiled_run.get_or_init(|| made)
            }
        };
        let decls = self.decls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let code = run.code.get().begin(&partition.frames);
        code.accumulator(decls, meta, partition, run.explain.clone())
    }
}
