//! A Python UDF as an implementer of the engine's `Udf` contract.
//!
//! The Python half is `framefold.udf.engine.bridge`: it makes clean copies of the UDF, sets `meta`,
//! allocates buffers and calls the user's hooks once per partition. This half does what happens
//! once per tile or frame: it sets the views of result buffers and hands over the pixels.

mod accumulator;
mod attached;
mod binding;
mod compiled;
mod cursor;
mod merger;
mod pixels;
mod rows;
mod staging;

pub(crate) use attached::{KnownThread, hold_gil, release_held_gil, stash_held_gil};
pub(crate) use compiled::{CompiledCode, CompiledFrames};
pub(crate) use cursor::TileCursor;
pub(crate) use pixels::Pixels;

use crate::arrays::descr;
use crate::ending::attached;
use crate::errors::from_python;
use crate::words::{Processing, Word};
use accumulator::{PyAccumulator, Task};
use attached::Attached;
use compiled::{CompiledRun, DirectMerge};
use framefold::core::{
    Accumulator, ArrayFormat, BufferDecl, BufferDtype, BufferKind, BufferUse, DType, Foreign,
    InputDType, JobMeta, Merger, Partition, Requirements, RunMeta, SourceInfo, Staging,
    StoredDType, Udf,
};
use framefold::{Cancel, Error, Result};
use merger::{PyMerger, RowsMerger};
use numpy::PyArrayDescr;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use staging::PyStaging;
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A UDF written in Python.
pub(crate) struct PyUdf {
    name: String,
    /// A `framefold.udf.engine.bridge.Bridge`.
    bridge: Py<PyAny>,
    /// The bridge's description of the run, made when tiles and partitions are known.
    run: PyOnceLock<Py<PyAny>>,
    /// NumPy's description of the pixels.
    descr: PyOnceLock<Py<PyArrayDescr>>,
    cancel: Cancel,
    /// See [`Attached`].
    short: Arc<AtomicBool>,
    /// Whether it has tried to write into what it gets: it gets separate copies from then on.
    writes: Arc<AtomicBool>,
    /// Whether what processes the data is compiled.
    compiled: AtomicBool,
    /// Whether workers with a device get its tiles there.
    on_device: AtomicBool,
    compiled_run: OnceLock<CompiledRun>,
    decls: Mutex<Arc<[BufferDecl]>>,
}

type Wishes = (String, String, Option<usize>, Option<usize>, String, Option<usize>);
type Declaration = (String, String, Vec<usize>, String, usize, Option<String>);

impl PyUdf {
    pub(crate) fn new(name: String, bridge: Py<PyAny>, cancel: Cancel) -> Self {
        PyUdf {
            name,
            bridge,
            run: PyOnceLock::new(),
            descr: PyOnceLock::new(),
            cancel,
            short: Arc::default(),
            writes: Arc::default(),
            compiled: AtomicBool::new(false),
            on_device: AtomicBool::new(false),
            compiled_run: OnceLock::new(),
            decls: Mutex::new(Arc::from([])),
        }
    }

    fn run<'py>(&self, py: Python<'py>, meta: &RunMeta) -> Result<Bound<'py, PyAny>> {
        let run = self.run.get_or_try_init(py, || {
            let tiling = &meta.tiling;
            let arguments = (tiling.depth(), tiling.tile_shape(), meta.partitions.len());
            self.bridge.call_method1(py, "describe_run", arguments)
        });
        run.map(|run| run.bind(py).clone())
            .map_err(|exception| from_python(exception, "preparing the run"))
    }

    fn decls(&self) -> Arc<[BufferDecl]> {
        self.decls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn descr(&self, py: Python<'_>, meta: &RunMeta) -> PyResult<Py<PyArrayDescr>> {
        let made = || descr(py, meta.job.input_dtype).map(Bound::unbind);
        self.descr.get_or_try_init(py, made).map(|descr| descr.clone_ref(py))
    }
}

impl Udf for PyUdf {
    fn name(&self) -> &str {
        &self.name
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        let native = source.dtype.dtype.name();
        let wishes = attached(|py| {
            let wishes = self.bridge.call_method1(py, "requirements", (native,))?;
            let compiled = self.bridge.getattr(py, "is_compiled")?.extract::<bool>(py)?;
            self.compiled.store(compiled, Ordering::Relaxed);
            let on_device = !self.bridge.getattr(py, "on_device")?.is_none(py);
            self.on_device.store(on_device, Ordering::Relaxed);
            let by_rows = self.bridge.getattr(py, "by_rows")?.extract::<bool>(py)?;
            PyResult::Ok((wishes.extract::<Wishes>(py)?, by_rows))
        });
        let ((method, dtype, tile_depth, tile_bytes, layout, max_depth), by_rows) =
            wishes.map_err(|exception| from_python(exception, "asking for its preferences"))?;
        let method = Processing::parse(&method)?.method();
        let format = ArrayFormat::parse(&layout)?;
        let preferred = StoredDType::parse(&dtype).map_err(|error| {
            Error::invalid(format!("get_preferred_input_dtype: {}", error.message()))
                .with_hint("return a NumPy number dtype, or USE_NATIVE_DTYPE")
        })?;
        Ok(Requirements {
            method,
            input: InputDType::AtLeast(preferred.dtype),
            formats: vec![format],
            tile_depth,
            tile_bytes,
            max_depth,
            cellwise: false,
            framewise: false,
            by_rows,
            contends: !self.compiled.load(Ordering::Relaxed),
        })
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        let declared = attached(|py| {
            let declared = self.bridge.call_method1(py, "declare", (job.input_dtype.name(),))?;
            declared.extract::<Vec<Declaration>>(py)
        });
        let declared = declared
            .map_err(|exception| from_python(exception, "declaring its result buffers"))?
            .into_iter()
            .map(declaration)
            .collect::<Result<Vec<_>>>()?;
        *self.decls.lock().unwrap_or_else(PoisonError::into_inner) = Arc::from(&declared[..]);
        Ok(declared)
    }

    fn accumulator(&self, meta: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        if self.compiled.load(Ordering::Relaxed) {
            return self.compiled_accumulator(meta, partition);
        }
        // A worker with a device waits for those that read its tiles.
        let may_wait = meta.may_wait || self.on_device.load(Ordering::Relaxed);
        let attached = Attached::begin(self.short.clone(), may_wait, |py| {
            let run = self.run(py, meta)?;
            self.descr(py, meta)
                .and_then(|descr| {
                    Task::try_new(&run, descr, partition, self.cancel.clone(), self.writes.clone())
                })
                .map_err(|exception| from_python(exception, "preparing the partition"))
        });
        Ok(Box::new(PyAccumulator::new(attached?)))
    }

    fn staging(&self) -> Result<Option<Arc<dyn Staging>>> {
        if !self.on_device.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let staging = attached(|py| {
            let staging = self.bridge.call_method0(py, "staging")?;
            let found = (!staging.is_none(py)).then(|| PyStaging::try_new(py, staging));
            found.transpose()
        });
        let staging = staging.map_err(|exception| from_python(exception, "preparing a device"))?;
        Ok(staging.map(|staging| Arc::new(staging) as Arc<dyn Staging>))
    }

    fn merger(&self, meta: &RunMeta) -> Result<Box<dyn Merger>> {
        let rows = match meta.to_sink.is_empty() {
            true => None,
            false => Some(merger::rows_of(&self.decls(), meta)?),
        };
        attached(|py| {
            let run = self.run(py, meta)?;
            let merger = run.call_method1("merger", (meta.to_sink.to_vec(),));
            let merger = merger
                .map_err(|exception| from_python(exception, "preparing the result buffers"))?;
            if let Some(rows) = rows {
                return Ok(Box::new(RowsMerger::new(merger.unbind(), rows)) as Box<dyn Merger>);
            }
            let direct = match self.compiled.load(Ordering::Relaxed) {
                true => DirectMerge::of(&run, &merger)
                    .map_err(|exception| from_python(exception, "preparing the result buffers"))?,
                false => None,
            };
            Ok(Box::new(PyMerger::new(merger.unbind(), direct)) as Box<dyn Merger>)
        })
    }
}

fn declaration(declared: Declaration) -> Result<BufferDecl> {
    let (name, kind, extra_shape, dtype, size, usage) = declared;
    let kind = BufferKind::parse(&kind)?;
    let usage = usage.map_or(Ok(BufferUse::Public), |usage| BufferUse::parse(&usage))?;
    let known = DType::all().find(|known| known.name() == dtype);
    let dtype = match known {
        Some(known) => BufferDtype::Native(known),
        None => BufferDtype::Foreign { name: dtype, size },
    };
    Ok(BufferDecl { name, kind, extra_shape, dtype, usage })
}

/// A Python object in the place of an engine array.
pub(crate) struct PyForeign {
    object: Py<PyAny>,
    len_bytes: usize,
}

impl PyForeign {
    pub(crate) fn new(object: Py<PyAny>, len_bytes: usize) -> Self {
        PyForeign { object, len_bytes }
    }

    pub(crate) fn into_inner(self) -> Py<PyAny> {
        self.object
    }
}

impl Foreign for PyForeign {
    fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
