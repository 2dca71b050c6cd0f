//! Formats that Python classes read.
//!
//! A class becomes a row in the engine's table like any other; the half of the contract that is
//! written in Python is `framefold/io/dataset/_own.py`.

use crate::dataset::shared_bytes;
use crate::ending::{EngineThread, attached};
use crate::errors::{OrRaise, from_python};
use crate::file_path::FilePath;
use crate::frames::PIECES;
use crate::options::{keywords, kind_of};
use crate::udf::stash_held_gil;
use framefold::core::{
    DType, DataSource, Dataset, DenseTile, Error, FrameIndices, FrameReader, MetadataList, Owner,
    Presence, Result, Scratch, SigSlice, SourceInfo, StoredDType, TileFrames,
};
use framefold::io::{self, Backend, Format, OpenOptions, OptionSpec, Prefix, Storage, Verdict};
use framefold_python_macros::caught;
use numpy::{PyArray1, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyRange};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that are no zeros, and no number that data are full of.
const OTHER: u8 = 0xa5;

/// An option of a format of Python's: name, kind, choices, unit, default, whether None is another value, help.
type GivenOption = (String, String, Vec<String>, Option<String>, Option<String>, bool, String);

/// What `open` returns of a source: `read`, dtype, navigation and signal shape, files, details.
type Opened = (Py<PyAny>, String, Vec<usize>, Vec<usize>, Vec<PathBuf>, Vec<(String, String)>);

/// Adds a format, or puts it in the place of one of Python's of that name.
///
/// `detect(path, head)` returns a reason or None, `open(path, options)` what [`Opened`] says.
#[caught]
#[pyfunction]
pub(crate) fn register_format(
    py: Python<'_>,
    name: String,
    title: String,
    extensions: Vec<String>,
    options: Vec<GivenOption>,
    detect: Py<PyAny>,
    open: Py<PyAny>,
) -> PyResult<()> {
    let name = leaked(name);
    let options = options.into_iter().map(spec).collect::<Result<Vec<_>>>().or_raise(py)?;
    let options: &'static [OptionSpec] = options.leak();
    let extensions: Vec<&'static str> = extensions.into_iter().map(leaked).collect();
    let detect = move |prefix: &Prefix<'_>| is_one(&detect, name, prefix);
    let open = move |path: &Path, given: &OpenOptions| opened(&open, name, options, path, given);
    let format = Format {
        name,
        title: leaked(title),
        extensions: extensions.leak(),
        options,
        // Formats stay until the process ends, and so does what they are made of.
        detect: Box::leak(Box::new(detect)),
        open: Box::leak(Box::new(open)),
    };
    io::replace(format).or_raise(py).map(|_| ())
}

/// Whether Python reads the frames of data sets of that format.
pub(crate) fn is_read_by_python(format: &str) -> bool {
    let is_that = |known: &Format| known.name == format;
    let is_added = io::formats().into_iter().any(is_that) && !io::FORMATS.iter().any(is_that);
    is_added || format == PIECES
}

fn leaked(text: String) -> &'static str {
    text.leak()
}

fn spec((name, kind, choices, unit, default, takes_none, help): GivenOption) -> Result<OptionSpec> {
    let choices: Vec<&'static str> = choices.into_iter().map(leaked).collect();
    let Some(kind) = kind_of(&kind, choices.leak()) else {
        return Err(Error::bug(format!("there is no kind of options '{kind}'")));
    };
    let mut spec = OptionSpec::new(leaked(name), kind, leaked(help));
    spec.unit = unit.map(leaked);
    spec.takes_none = takes_none;
    spec.default = default.map(leaked).or(spec.default);
    Ok(spec)
}

fn is_one(detect: &Py<PyAny>, format: &str, prefix: &Prefix<'_>) -> Verdict {
    let reason = attached(|py| {
        let head = PyBytes::new(py, prefix.bytes);
        detect.bind(py).call1((FilePath::from(prefix.path), head))?.extract::<Option<String>>()
    });
    match reason {
        Ok(Some(reason)) => Verdict::Match(reason),
        Ok(None) => Verdict::No("its class says so".to_owned()),
        // Exceptions became warnings before; what is left ends the program, or is a warning that is an error.
        Err(exception) => {
            let doing = format!("detect of the format '{format}' on '{}'", prefix.path.display());
            Verdict::Failed(from_python(exception, doing))
        }
    }
}

fn opened(
    open: &Py<PyAny>,
    format: &'static str,
    options: &'static [OptionSpec],
    path: &Path,
    given: &OpenOptions,
) -> Result<Dataset> {
    let opened: PyResult<Opened> = attached(|py| {
        let keywords = keywords(py, options, given)?;
        open.bind(py).call1((FilePath::from(path), keywords))?.extract()
    });
    let opened = opened.map_err(|exception| {
        from_python(exception, format!("the format '{format}' on '{}'", path.display()))
    })?;
    let (read, dtype, nav_shape, sig_shape, paths, details) = opened;
    for file in paths.iter().filter(|file| file.is_file()) {
        // So that it is noticed if another file is there when it is opened again.
        Storage::open(file, Backend::Buffered)?;
    }
    let n_frames = nav_shape
        .iter()
        .try_fold(1u64, |n, &len| u64::try_from(len).ok().and_then(|len| n.checked_mul(len)));
    let info = SourceInfo {
        format,
        paths,
        n_frames: n_frames.ok_or_else(|| Error::limit("there are too many frames"))?,
        presence: Presence::All,
        // Frames are read as a whole: a tile of parts of them would read each several times.
        base_shape: sig_shape.clone(),
        sig_shape,
        nav_shape,
        dtype: StoredDType::native(StoredDType::parse(&dtype)?.dtype),
        preferred_depth: 1,
        lends: false,
        metadata: MetadataList::new(),
        details,
        warnings: Vec::new(),
    };
    let source = OwnSource { read, path: path.to_path_buf(), info };
    Dataset::try_new(Arc::new(source), given.nav_shape.as_deref(), given.sync_offset)
}

#[derive(Debug)]
struct OwnSource {
    /// `read(frames, out)`.
    read: Py<PyAny>,
    path: PathBuf,
    info: SourceInfo,
}

impl DataSource for OwnSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        let (scratch, thread) = (Scratch::new(), EngineThread::new());
        Ok(Box::new(OwnReader { source: self, block: None, scratch, _thread: thread }))
    }
}

/// Whole frames, one after the other.
struct Block {
    frames: Vec<u64>,
    bytes: Owner,
}

struct OwnReader<'s> {
    source: &'s OwnSource,
    /// What was read last: tiles of parts of frames ask for the same frames again.
    block: Option<Block>,
    scratch: Scratch,
    /// The interpreter may end while it is used.
    _thread: EngineThread,
}

impl OwnSource {
    /// Reads frames, with the interpreter's lock and no other.
    ///
    /// A thread that keeps that lock from one tile to the next calls with it; of others, it waits
    /// for it here, with nothing in hand that the one who has it could wait for.
    fn block_of(&self, frames: &FrameIndices<'_>) -> Result<Block> {
        let doing = || {
            let last = frames.get(frames.len().saturating_sub(1)).unwrap_or_default();
            let first = frames.get(0).unwrap_or_default();
            format!("the reader of '{}' for frames {first} to {last}", self.path.display())
        };
        let bytes = stash_held_gil(|| attached(|py| self.read_into_new(py, frames)));
        let bytes = bytes.map_err(|exception| from_python(exception, doing()));
        // The innermost file counts: a copy that is written would name its own.
        let bytes = bytes.and_then(|read| read).map_err(|error| error.with_path(&self.path))?;
        Ok(Block { frames: frames.iter().collect(), bytes })
    }

    fn read_into_new(&self, py: Python<'_>, frames: &FrameIndices<'_>) -> PyResult<Result<Owner>> {
        let read = match self.read_into(py, frames, 0)? {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        // A frame without the bytes that it had before was written to. Zeros may be the data: such frames
        // are read once more, over other bytes.
        let zero = self.frames_full_of(0, &read).into_iter().zip(frames.iter());
        let zero: Vec<u64> = zero.filter_map(|(is_zero, frame)| is_zero.then_some(frame)).collect();
        if zero.is_empty() {
            return Ok(Ok(read));
        }
        let all = zero.len() == frames.len();
        let again = if all { frames.clone() } else { FrameIndices::List(&zero) };
        let over_others = match self.read_into(py, &again, OTHER)? {
            Ok(read) => read,
            Err(error) => return Ok(Err(error)),
        };
        let as_before = self.frames_full_of(0, &over_others);
        let Some(at) = as_before.iter().position(|is_zero| !is_zero) else { return Ok(Ok(read)) };
        let frame = zero.get(at).copied().unwrap_or_default();
        let left = self.frames_full_of(OTHER, &over_others).get(at).copied().unwrap_or(true);
        let how = if left {
            format!("wrote nothing into `out` for frame {frame}, or added to it")
        } else {
            format!(
                "wrote only a part of frame {frame} into `out`, or gave other pixels when it was asked for \
                 that frame again"
            )
        };
        Ok(Err(Error::invalid(format!(
            "read(frames, out) of the format '{}' {how}; write out[...] = pixels, as out = pixels only gives \
             the name to another array, and out[...] = 0 before you write a part or add; where a file ends \
             early, raise an error",
            self.info.format
        ))))
    }

    /// For each of these frames, whether all its bytes are this one.
    fn frames_full_of(&self, byte: u8, frames: &Owner) -> Vec<bool> {
        let len = self.info.sig_shape.iter().product::<usize>() * self.info.dtype.dtype.size();
        // Blocks are looked at as a whole, which takes vector instructions.
        let differs =
            |block: &[u8]| block.iter().fold(0, |others, found| others | (found ^ byte)) != 0;
        let frames = frames.bytes().chunks_exact(len.max(1));
        frames.map(|frame| !frame.chunks(1024).any(differs)).collect()
    }

    /// Has Python read into an array of which each byte is `fill`.
    fn read_into(
        &self,
        py: Python<'_>,
        frames: &FrameIndices<'_>,
        fill: u8,
    ) -> PyResult<Result<Owner>> {
        let numpy = py.import("numpy")?;
        let depth = frames.len();
        let shape: Vec<usize> =
            std::iter::once(depth).chain(self.info.sig_shape.iter().copied()).collect();
        let dtype = self.info.dtype.dtype;
        let out = numpy.call_method1("zeros", (shape.clone(), dtype.name()))?;
        if fill != 0 {
            out.call_method1("view", ("uint8",))?.call_method1("fill", (fill,))?;
        }
        let given = out.cast::<PyUntypedArray>()?.dtype();
        let which = match frames {
            FrameIndices::Run(run) => {
                let bound = |frame: u64| isize::try_from(frame).unwrap_or(isize::MAX);
                PyRange::new(py, bound(run.start), bound(run.end))?.into_any()
            }
            FrameIndices::List(_) => {
                let list: Vec<i64> =
                    frames.iter().map(|frame| i64::try_from(frame).unwrap_or(i64::MAX)).collect();
                PyArray1::from_vec(py, list).into_any()
            }
        };
        let returned = self.read.bind(py).call1((which, &out))?;
        if !returned.is_none() {
            return Ok(Err(Error::invalid(format!(
                "read(frames, out) of the format '{}' returned a {}: it has to fill `out`, and to \
                 return nothing",
                self.info.format,
                returned.get_type().name()?
            ))));
        }
        // Python code that keeps the array, or a view of it, may write to it later.
        // SAFETY: the object is alive, and the thread attached.
        let is_kept = unsafe { pyo3::ffi::Py_REFCNT(out.as_ptr()) } > 1;
        let out = if is_kept { out.call_method0("copy")? } else { out };
        let out = out.cast_into::<PyUntypedArray>()?;
        let same_dtype = out.dtype().is_equiv_to(&given);
        let size = dtype.size();
        let strides = (0..shape.len())
            .map(|axis| shape.iter().skip(axis + 1).product::<usize>() * size)
            .collect::<Vec<_>>();
        if out.shape() != shape || !out.is_c_contiguous() || !same_dtype {
            let error = "the array that read(frames, out) was given has another shape or dtype now";
            return Ok(Err(Error::invalid(error)));
        }
        Ok(shared_bytes(&out, &strides))
    }
}

impl FrameReader for OwnReader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        let dtype: DType = self.source.info.dtype.dtype;
        let (size, depth) = (dtype.size(), frames.len());
        let frame_len: usize = self.source.info.sig_shape.iter().product();
        let kept = self.block.take().filter(|block| frames.iter().eq(block.frames.iter().copied()));
        let block = match kept {
            Some(block) => block,
            None => self.source.block_of(&frames)?,
        };
        let block = self.block.insert(block);
        if let Some(cells) = sig.linear() {
            let bytes = block.bytes.bytes().get(cells.start * size..).unwrap_or_default();
            let frames = TileFrames::from_bytes(dtype, bytes, depth, cells.len(), frame_len)?;
            return DenseTile::lent(frames, block.bytes.clone());
        }
        let mut out = self.scratch.prepare(depth * sig.len() * size)?;
        for frame in block.bytes.bytes().chunks(frame_len * size) {
            for cells in sig.runs(&self.source.info.sig_shape) {
                let (to, rest) = out.split_at_mut(cells.len() * size);
                let from = cells.start * size..cells.end * size;
                to.copy_from_slice(frame.get(from).unwrap_or_default());
                out = rest;
            }
        }
        let bytes = self.scratch.bytes();
        let frames = TileFrames::from_bytes(dtype, bytes, depth, sig.len(), sig.len())?;
        DenseTile::lent(frames, self.scratch.owner())
    }

    fn verify(&mut self) -> Result<()> {
        self.block = None;
        Ok(())
    }
}
