//! The door between Python and the run machine.

use crate::arrays::{roi_of, to_numpy};
use crate::dataset::PyDataset;
use crate::ending::{attached, detached, note};
use crate::errors::{OrRaise, from_python};
use crate::native::NativeUdf;
use crate::observer::{POLL, PyObserver, watched};
use crate::own_formats::is_read_by_python;
use crate::parts::{self, Part};
use crate::udf::PyUdf;
use crate::verbs::{Partial, PyResults};
use framefold::core::{BufferUse, Udf, memory};
use framefold::exec::{Explanation, Observer, PartialResult, RunResults, Worker, guarded};
use framefold::{Cancel, Plan, PlanOptions, Roi};
use framefold_python_macros::caught;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::sync::Arc;
use std::time::Instant;

/// Which positions take part: one truth value for each, or ascending flat positions.
#[derive(FromPyObject)]
enum Selected<'py> {
    Mask(Bound<'py, PyArray1<bool>>),
    Positions(PyReadonlyArray1<'py, isize>),
}

/// A run, decided but not started.
#[pyclass(frozen, name = "Plan", module = "framefold._engine")]
pub(crate) struct PyPlan {
    plan: Arc<Plan>,
    cancel: Cancel,
    /// For each UDF in Python the array format it gets, in words.
    formats: Vec<Option<String>>,
    /// Whether others compiled any of them.
    has_plugins: bool,
}

#[caught]
#[pymethods]
impl PyPlan {
    /// Plans `udfs` (native ones, or `(name, bridge)` pairs) over `dataset`.
    #[new]
    ///
    /// `large_partitions`: each costs a worker the same time, whatever its size.
    /// `tile_depth` is that of tiles of whole frames; the planner's own choice without it. `cuts`
    /// are the numbers of selected frames at which partitions begin. `to_sink` has for each UDF the
    /// names of `nav` buffers whose rows go to a sink, as far as they can; None for all.
    #[pyo3(signature = (
        dataset, udfs, roi=None, large_partitions=false, tile_depth=None, cuts=None, to_sink=None
    ))]
    #[expect(clippy::too_many_arguments, reason = "Python names most of them")]
    fn new(
        py: Python<'_>,
        dataset: &PyDataset,
        udfs: &Bound<'_, PyList>,
        roi: Option<Selected<'_>>,
        large_partitions: bool,
        tile_depth: Option<usize>,
        cuts: Option<Vec<usize>>,
        to_sink: Option<Vec<Option<Vec<String>>>>,
    ) -> PyResult<Self> {
        let cancel = Cancel::new();
        note(&cancel);
        let mut planned: Vec<Arc<dyn Udf>> = Vec::with_capacity(udfs.len());
        let mut formats = Vec::with_capacity(udfs.len());
        let mut has_plugins = false;
        for udf in udfs {
            if let Ok(native) = udf.cast::<NativeUdf>() {
                planned.push(native.get().udf());
                has_plugins |= native.get().is_plugin();
                formats.push(None);
            } else {
                let (name, bridge) = udf.extract::<(String, Py<PyAny>)>()?;
                formats.push(Some(bridge.getattr(py, "described_format")?.extract(py)?));
                planned.push(Arc::new(PyUdf::new(name, bridge, cancel.clone())));
            }
        }
        let roi = match roi {
            Some(Selected::Mask(mask)) => Some(roi_of(&mask)?),
            Some(Selected::Positions(positions)) => {
                let whole = positions.as_slice()?.iter();
                // A negative one is beyond any scan.
                let positions = whole.map(|&at| usize::try_from(at).unwrap_or(usize::MAX));
                let n_frames = dataset.inner().shape().n_frames();
                let roi = memory::collected(positions)
                    .and_then(|positions| Roi::from_positions(positions, n_frames));
                Some(roi.or_raise(py)?)
            }
            None => None,
        };
        let whole = tile_depth.map(|depth| (depth, dataset.inner().shape().sig()));
        let tile = dataset.tile_shape().or(whole);
        let options = PlanOptions {
            num_partitions: dataset.num_partitions(),
            large_partitions,
            cuts: cuts.map(sorted),
            tile_depth: tile.map(|(depth, _)| depth),
            tile_shape: tile.map(|(_, sig)| sig.to_vec()),
            to_sink: to_sink.unwrap_or_default(),
        };
        let made = watched(&cancel, || {
            Plan::try_new(dataset.inner(), planned, roi.map(Arc::new), &options)
        });
        let plan = made.or_raise(py)?;
        Ok(PyPlan { plan: Arc::new(plan), cancel, formats, has_plugins })
    }

    /// What was decided, and why.
    fn explain(&self) -> PyResult<String> {
        Ok(self.explanation().to_string())
    }

    /// The same, taken apart: what holds for the run, and each UDF with its buffers.
    fn explained(&self) -> PyResult<Explained> {
        let explanation = self.explanation();
        let udfs = explanation.udfs.iter().map(|udf| {
            let buffers = udf.buffers.iter().map(|buffer| {
                let (name, shape) = (buffer.name.clone(), buffer.shape.clone());
                (name, buffer.kind, shape, buffer.dtype.to_string(), buffer.usage)
            });
            (udf.name.clone(), udf.how(), buffers.collect())
        });
        Ok((explanation.lines(), udfs.collect()))
    }

    /// How many positions the ROI selects.
    #[getter]
    fn n_selected(&self) -> usize {
        self.plan.n_selected()
    }

    /// The compressed frame ranges that are complete after each partition, in merge order.
    fn partitions(&self) -> PyResult<Vec<(usize, usize)>> {
        let completed = (0..self.plan.n_partitions()).map(|index| self.plan.completed_by(index));
        Ok(completed.map(|frames| (frames.start, frames.end)).collect())
    }

    /// The buffers whose rows go to a sink: the number of the UDF, and the name.
    #[getter]
    fn to_sink(&self) -> Vec<(usize, String)> {
        self.plan.to_sink().into_iter().map(|(udf, decl)| (udf, decl.name.clone())).collect()
    }

    /// The results of UDF number `udf`: name, kind, extra shape and dtype.
    fn results_of(&self, udf: usize) -> PyResult<Vec<Described>> {
        let public = self.plan.buffers(udf).iter().filter(|d| d.usage != BufferUse::Private);
        let described = public.map(|decl| {
            let (name, extra_shape) = (decl.name.clone(), decl.extra_shape.clone());
            (name, decl.kind.name(), extra_shape, decl.dtype.to_string())
        });
        Ok(described.collect())
    }

    /// Whether the results of UDF number `udf` are the rows of its partial results, one after the other.
    fn by_rows(&self, udf: usize) -> bool {
        self.plan.by_rows(udf)
    }

    /// Stops the run, from any thread.
    fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Whether the run was cancelled.
    #[getter]
    fn cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// The largest number of frames in a tile.
    #[getter]
    fn tile_depth(&self) -> usize {
        self.plan.tiling().depth()
    }

    /// The shape of a tile on the signal axes; smaller at the borders.
    #[getter]
    fn tile_shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.plan.tiling().tile_shape())
    }

    /// The number of partitions.
    #[getter]
    fn n_partitions(&self) -> usize {
        self.plan.n_partitions()
    }

    /// How many of `wanted` worker processes on this machine there is memory for: one, if for none.
    fn workers_that_fit(&self, wanted: usize) -> usize {
        // The one that it makes, and the copies that it shares of that and of the one before.
        self.plan.workers_that_fit(wanted, 3)
    }

    /// Processes one partition on the calling thread, with the GIL released where no Python runs.
    ///
    /// May be called from several threads at once, and again for the same partition. On the main
    /// thread, Ctrl-C ends it.
    fn run_partition(&self, py: Python<'_>, index: usize) -> PyResult<Partial> {
        let partial = detached(py, || {
            guarded(|| {
                let mut worker = Worker::try_new(&self.plan)?;
                self.run_one(&mut worker, index, &|| Ok(None))
            })
        });
        Ok(Partial::new(partial.or_raise(py)?))
    }

    /// Processes partitions on the calling thread, with one reader and one piece of memory for
    /// all of them.
    ///
    /// `take()` returns the number of the next one, or None to end; `give(partial)` gets its
    /// partial result. `upcoming()`, while one is processed, returns what `take()` will return, if that
    /// is known: it may be read ahead for a device. What goes wrong is raised.
    #[pyo3(signature = (take, give, upcoming=None))]
    fn work(
        &self,
        py: Python<'_>,
        take: &Bound<'_, PyAny>,
        give: &Bound<'_, PyAny>,
        upcoming: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let (take, give) = (take.clone().unbind(), give.clone().unbind());
        let upcoming = upcoming.map(|upcoming| upcoming.clone().unbind());
        let next = || match &upcoming {
            Some(upcoming) => attached(|py| upcoming.call0(py)?.extract(py))
                .map_err(|exception| from_python(exception, "asking for the next partition")),
            None => Ok(None),
        };
        let outcome = detached(py, || {
            guarded(|| {
                let mut worker = Worker::try_new(&self.plan)?;
                while let Some(index) = attached(|py| take.call0(py)?.extract::<Option<usize>>(py))
                    .map_err(|exception| from_python(exception, "taking a partition"))?
                {
                    let partial = self.run_one(&mut worker, index, &next)?;
                    attached(|py| give.call1(py, (Partial::new(partial),)).map(drop))
                        .map_err(|exception| from_python(exception, "giving a partial result"))?;
                }
                Ok(())
            })
        });
        outcome.or_raise(py)
    }

    /// Empty results, to merge partial ones into.
    ///
    /// With `udf`, those of one UDF alone, which takes partial results that hold nothing else;
    /// with `state`, what `Results.take_state` gave after `n_merged` partitions.
    #[pyo3(signature = (udf=None, n_merged=0, state=None))]
    fn results(
        &self,
        py: Python<'_>,
        udf: Option<usize>,
        n_merged: usize,
        state: Option<Vec<Vec<Vec<Part>>>>,
    ) -> PyResult<PyResults> {
        let Some(udf) = udf else {
            let made =
                detached(py, || watched(&self.cancel, || PyResults::try_new(self.plan.clone())));
            return made.or_raise(py);
        };
        let state = parts::join_state(py, state.unwrap_or_default())?;
        let of_udf = || PyResults::of_udf(self.plan.clone(), udf, n_merged, state);
        let made = detached(py, || watched(&self.cancel, of_udf));
        made.or_raise(py)
    }
}

impl PyPlan {
    pub(crate) fn inner(&self) -> Arc<Plan> {
        self.plan.clone()
    }

    fn explanation(&self) -> Explanation {
        let mut explanation = self.plan.explain();
        for (udf, format) in explanation.udfs.iter_mut().zip(&self.formats) {
            if let Some(format) = format {
                udf.format.clone_from(format);
            }
        }
        explanation
    }

    /// Whether any UDF or stage is written in Python.
    pub(crate) fn needs_python(&self) -> bool {
        self.formats.iter().any(Option::is_some) || self.plan.dataset().source().contends()
    }

    /// Whether its threads may run Python: where any of these is, Python reads the frames, or what others
    /// compiled may take the interpreter's lock.
    pub(crate) fn runs_python(&self) -> bool {
        let reads = || is_read_by_python(self.plan.dataset().source().info().format);
        self.needs_python() || self.has_plugins || reads()
    }

    /// What stops its runs.
    pub(crate) fn cancel_flag(&self) -> Cancel {
        self.cancel.clone()
    }

    /// Processes one partition, looking for signals now and then.
    fn run_one(
        &self,
        worker: &mut Worker<'_>,
        index: usize,
        next: &dyn Fn() -> framefold::Result<Option<usize>>,
    ) -> framefold::Result<PartialResult> {
        let mut signals = PyObserver { callback: None, cancel: self.cancel.clone(), merges: None };
        let mut last_poll = Instant::now();
        let mut tick = || {
            self.cancel.check()?;
            if last_poll.elapsed() < POLL {
                return Ok(());
            }
            last_poll = Instant::now();
            signals.poll()
        };
        watched(&self.cancel, || worker.run_partition_before(index, next, &mut tick))
    }
}

fn sorted(mut cuts: Vec<usize>) -> Vec<usize> {
    cuts.sort_unstable();
    cuts
}

/// Lines about the run, and of each UDF its name, how it runs, and its buffers: name, kind, shape,
/// dtype, and what is special about it.
type Explained = (Vec<(&'static str, String)>, Vec<(String, String, Vec<ExplainedBuffer>)>);
type ExplainedBuffer = (String, &'static str, Vec<usize>, String, &'static str);

/// Name, kind, extra shape and dtype of a result.
type Described = (String, &'static str, Vec<usize>, String);

/// Per UDF, a list of `(name, kind, extra_shape, array)`.
pub(crate) type ResultLists<'py> = Bound<'py, PyList>;

/// Results as Python gets them, and one truth value per selected frame.
pub(crate) fn to_lists(
    py: Python<'_>,
    run: RunResults,
) -> PyResult<(ResultLists<'_>, Bound<'_, PyArray1<bool>>)> {
    let valid = PyArray1::from_vec(py, run.valid);
    let udfs = PyList::empty(py);
    for udf in run.udfs {
        let buffers = PyList::empty(py);
        for buffer in udf.buffers {
            let decl = buffer.decl;
            let extra_shape = PyTuple::new(py, decl.extra_shape)?;
            let array = to_numpy(py, buffer.array)?;
            buffers.append((decl.name, decl.kind.name(), extra_shape, array))?;
        }
        udfs.append(buffers)?;
    }
    Ok((udfs, valid))
}
