//! Stages that Python classes are: `framefold.Transform`.
//!
//! The half that is written in Python is `framefold.udf.engine.transforms`: it checks what a class declares, and
//! makes a clean copy of it for each worker.

use crate::arrays::descr;
use crate::ending::{EngineThread, attached};
use crate::errors::{from_python, is_about_read_only};
use crate::moving_view::MovingView;
use crate::udf::{CompiledCode, CompiledFrames, Pixels, stash_held_gil};
use framefold::core::{
    AxisMap, DType, DenseTile, Error, FrameIndices, FrameKind, Result, Scratch, SigSlice, Stage,
    StagePart, StoredDType, interrupt,
};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::fmt;

/// Name and description, shape and dtype of its frames, and whether it takes stacks of frames.
type Declared = (String, String, Vec<usize>, String, bool);

/// A transform, made for frames of one kind.
#[derive(Debug)]
pub(crate) struct PyStage {
    /// A `framefold.udf.engine.transforms.Prepared`.
    prepared: Py<PyAny>,
    /// What errors call it.
    name: String,
    /// What explanations say that it does.
    text: String,
    input: FrameKind,
    output: FrameKind,
    stacks: bool,
    /// The machine code, if it is compiled.
    code: Option<Py<CompiledCode>>,
}

impl PyStage {
    /// `transform` for frames of the kind `input`, on a scan of the shape `nav`; `native` is the dtype of
    /// the data set.
    pub(crate) fn try_new(
        transform: &Bound<'_, PyAny>,
        input: FrameKind,
        nav: &[usize],
        native: DType,
    ) -> Result<Self> {
        let declared = || -> PyResult<(Declared, Py<PyAny>, Option<Py<CompiledCode>>)> {
            let arguments = (nav, input.shape.as_slice(), input.dtype.name(), native.name());
            let prepared = transform.call_method1("_prepared", arguments)?;
            let declared = prepared.getattr("declared")?.extract()?;
            let code = prepared.getattr("code")?.extract()?;
            Ok((declared, prepared.unbind(), code))
        };
        // An exception of a class that does not fit says all that there is to say.
        let (declared, prepared, code) = declared().map_err(|error| from_python(error, ""))?;
        let (name, text, shape, dtype, stacks) = declared;
        let dtype = StoredDType::parse(&dtype)?.dtype;
        let bytes = shape.iter().try_fold(dtype.size(), |bytes, &len| bytes.checked_mul(len));
        if bytes.is_none_or(|bytes| isize::try_from(bytes).is_err()) {
            return Err(Error::limit(format!("{name}: there cannot be frames of shape {shape:?}")));
        }
        let output = FrameKind { shape, dtype };
        Ok(PyStage { prepared, name, text, input, output, stacks, code })
    }

    /// What was going on, for an exception.
    fn place(&self, frames: &FrameIndices<'_>, frame: Option<usize>) -> String {
        let number = |i: usize| frames.get(i).unwrap_or_default();
        let name = &self.name;
        match (frame, frames.len()) {
            (Some(i), _) => format!("{name} for frame {}", number(i)),
            (None, 0 | 1) => format!("{name} for frame {}", number(0)),
            (None, n) => format!("{name} for frames {} to {}", number(0), number(n - 1)),
        }
    }
}

impl fmt::Display for PyStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Stage for PyStage {
    fn input(&self) -> &FrameKind {
        &self.input
    }

    fn output(&self) -> &FrameKind {
        &self.output
    }

    fn axes(&self) -> Option<Vec<AxisMap>> {
        let same = self.output.shape == self.input.shape;
        same.then(|| vec![AxisMap::SAME; self.input.shape.len()])
    }

    fn base_shape(&self, _input: &[usize]) -> Vec<usize> {
        // Frames are made as a whole: a tile of parts of them would make each several times.
        self.output.shape.clone()
    }

    fn contends(&self) -> bool {
        self.code.is_none()
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        let read = &self.input.shape;
        let read = SigSlice::try_within(vec![0; read.len()], read.clone(), read)?;
        let work = match &self.code {
            Some(code) => Work::Compiled(CompiledFrames::new(code.get())),
            None => Work::Python(None),
        };
        let (sig, scratch, thread) = (sig.clone(), Scratch::new(), EngineThread::new());
        Ok(Box::new(Part { stage: self, read, sig, work, scratch, _thread: thread }))
    }
}

/// What makes frames, or parts of them, for one worker.
struct Part<'s> {
    stage: &'s PyStage,
    read: SigSlice,
    sig: SigSlice,
    work: Work,
    /// Whole frames, where they are copied from.
    scratch: Scratch,
    /// The interpreter may end while it is used.
    _thread: EngineThread,
}

enum Work {
    /// Made when the first frames come.
    Python(Option<OwnCopy>),
    Compiled(CompiledFrames),
}

/// A clean copy of the transform at work.
struct OwnCopy {
    process: Py<PyAny>,
    /// NumPy's descriptions of the pixels.
    input: Py<PyArrayDescr>,
    output: Py<PyArrayDescr>,
}

impl OwnCopy {
    fn new(py: Python<'_>, stage: &PyStage) -> PyResult<Self> {
        Ok(OwnCopy {
            process: stage.prepared.call_method0(py, "worker")?,
            input: descr(py, stage.input.dtype)?.unbind(),
            output: descr(py, stage.output.dtype)?.unbind(),
        })
    }

    /// Has Python write frames, and copies each as soon as it is there: what the class does later to an
    /// array that it was given changes nothing.
    fn process(
        &self,
        py: Python<'_>,
        stage: &PyStage,
        tile: &DenseTile<'_>,
        frames: &FrameIndices<'_>,
        scratch: &mut Scratch,
        mut take: impl FnMut(usize, &Pixels<'_>),
    ) -> Result<()> {
        let shown = || format!("handing frames to {}", stage.name);
        let (input, output) = (self.input.bind(py), self.output.bind(py));
        let depth = frames.len();
        let given = Pixels::of(py, tile, &stage.input.shape, None)
            .map_err(|exception| from_python(exception, shown()))?;
        let out = Pixels::zeros(py, stage.output.dtype, depth, &stage.output.shape, scratch)
            .map_err(|exception| from_python(exception, shown()))?;
        let (mut shown, mut shown_out) = (MovingView::default(), MovingView::default());
        if stage.stacks {
            let returned = given.tile(input).and_then(|given| {
                let out = out.tile(output)?;
                Ok((self.process.bind(py).call1((given, &out))?, is_of(&out, output)?))
            });
            Self::check(py, stage, frames, None, returned)?;
            (0..depth).for_each(|i| take(i, &out));
            return Ok(());
        }
        for i in 0..depth {
            interrupt::check()?;
            let returned = given.frame(input, i, &mut shown).and_then(|given| {
                let out = out.frame(output, i, &mut shown_out)?;
                let returned = self.process.bind(py).call1((given, out))?;
                Ok((returned, is_of(out.bind(py), output)?))
            });
            Self::check(py, stage, frames, Some(i), returned)?;
            take(i, &out);
        }
        Ok(())
    }

    /// An error if the method raised something, returned something, or set the dtype of what it writes into.
    fn check(
        py: Python<'_>,
        stage: &PyStage,
        frames: &FrameIndices<'_>,
        frame: Option<usize>,
        returned: PyResult<(Bound<'_, PyAny>, bool)>,
    ) -> Result<()> {
        let (returned, has_the_dtype) = returned.map_err(|exception| {
            let mut doing = stage.place(frames, frame);
            if is_about_read_only(py, &exception) {
                doing.push_str(": frames and parameters are read-only; work on frame.copy()");
            }
            from_python(exception, doing)
        })?;
        if !has_the_dtype {
            return Err(Error::user_code(format!(
                "{} changed the dtype of the array that it was given",
                stage.place(frames, frame)
            ))
            .with_hint("write into the array as it is, out[:] = …, or set the dtype of a view"));
        }
        if returned.is_none() {
            return Ok(());
        }
        let kind = returned.get_type().name();
        let kind = kind.as_ref().map(|name| name.to_string_lossy().into_owned());
        Err(Error::user_code(format!(
            "{} returned a {}, expected None: what it returns has no effect",
            stage.place(frames, frame),
            kind.unwrap_or_else(|_| "value".to_owned())
        ))
        .with_hint("write into the array that it is given: out[:] = …"))
    }
}

/// Whether an array still has the dtype that it was made with.
fn is_of(array: &Bound<'_, PyAny>, descr: &Bound<'_, PyArrayDescr>) -> PyResult<bool> {
    Ok(array.cast::<PyUntypedArray>()?.dtype().is_equiv_to(descr))
}

impl Part<'_> {
    /// The bytes of a whole frame.
    fn frame_bytes(&self) -> usize {
        let FrameKind { shape, dtype } = &self.stage.output;
        shape.iter().product::<usize>() * dtype.size()
    }

    fn compiled(
        &mut self,
        tile: &DenseTile<'_>,
        frames: &FrameIndices<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        let (stage, whole) = (self.stage, self.frame_bytes());
        let Work::Compiled(code) = &mut self.work else {
            return Err(Error::bug("a transform that is not compiled was to run compiled code"));
        };
        let (input, output) = (&stage.input, &stage.output);
        let mut run = |out: &mut [u8]| {
            out.fill(0);
            let (shape, size) = (&output.shape, output.dtype.size());
            code.process(tile, &input.shape, out, shape, size).map_err(|failure| {
                let explained = stash_held_gil(|| {
                    attached(|py| {
                        let pixels = packed(py, tile);
                        let arguments = (pixels, frames.len(), failure.frame, failure.address);
                        stage.prepared.call_method1(py, "explain_failure", arguments)
                    })
                });
                let place = stage.place(frames, failure.frame);
                match explained {
                    Err(exception) => from_python(exception, place),
                    Ok(_) => Error::bug(format!("{place}: compiled code failed")),
                }
            })
        };
        if self.sig.len() * output.dtype.size() == whole {
            return run(out);
        }
        let len_bytes = whole.saturating_mul(frames.len());
        let room = self.scratch.prepare(len_bytes)?;
        run(room)?;
        let size = output.dtype.size();
        for (i, frame) in room.chunks_exact(whole.max(1)).enumerate() {
            copy_part(&self.sig, output, size, frame, i, out);
        }
        Ok(())
    }
}

impl StagePart for Part<'_> {
    fn read(&self) -> &SigSlice {
        &self.read
    }

    fn apply(
        &mut self,
        tile: &DenseTile<'_>,
        frames: &FrameIndices<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        interrupt::check()?;
        if matches!(self.work, Work::Compiled(_)) {
            return self.compiled(tile, frames, out);
        }
        let whole = self.frame_bytes();
        let Part { stage, sig, work, scratch, .. } = self;
        let Work::Python(copy) = work else { return Ok(()) };
        let size = stage.output.dtype.size();
        // A thread that keeps the interpreter's lock from one tile to the next calls with it; of others, it
        // waits for it here, with nothing in hand that the one who has it could wait for.
        stash_held_gil(|| {
            attached(|py| {
                let copy = match copy {
                    Some(copy) => copy,
                    None => copy.insert(OwnCopy::new(py, stage).map_err(|exception| {
                        from_python(exception, format!("making a copy of {}", stage.name))
                    })?),
                };
                copy.process(py, stage, tile, frames, scratch, |i, written| {
                    // SAFETY: a frame of so many bytes begins there, in memory that `written` keeps alive.
                    // Python code may still show it, but runs on no thread while this one has the lock.
                    let frame = unsafe { std::slice::from_raw_parts(written.start_of(i), whole) };
                    copy_part(sig, &stage.output, size, frame, i, out);
                })
            })
        })
    }
}

/// Copies the part `sig` of a frame to its place in `out`, as the `i`-th.
fn copy_part(
    sig: &SigSlice,
    kind: &FrameKind,
    size: usize,
    frame: &[u8],
    i: usize,
    out: &mut [u8],
) {
    let mut at = i * sig.len() * size;
    for cells in sig.runs(&kind.shape) {
        let from = frame.get(cells.start * size..cells.end * size).unwrap_or_default();
        if let Some(to) = out.get_mut(at..at + from.len()) {
            to.copy_from_slice(from);
        }
        at += from.len();
    }
}

/// The pixels of a tile, without gaps between frames.
fn packed<'py>(py: Python<'py>, tile: &DenseTile<'_>) -> Bound<'py, PyBytes> {
    let frames = tile.frames();
    let (size, bytes) = (frames.dtype().size(), frames.as_bytes());
    let (stride, len) = (frames.stride() * size, frames.frame_len() * size);
    let mut pixels = Vec::with_capacity(len * frames.depth());
    for i in 0..frames.depth() {
        pixels.extend_from_slice(bytes.get(i * stride..i * stride + len).unwrap_or_default());
    }
    PyBytes::new(py, &pixels)
}
