//! Sessions of the viewer for notebooks: messages in and out, without a network.
//!
//! The half that is written in Python is `framefold/_viewer`.

use crate::dataset::PyDataset;
use crate::ending::{EngineThread, attached, detached};
use crate::errors::OrRaise;
use crate::options::open_options;
use framefold::core::{Cancel, Error, Orientation};
use framefold_python_macros::caught;
use framefold_view::export::{Literal, Opened};
use framefold_view::{
    HostOptions, Listing, Loaded, Message, Opener, Own, OwnFunction, Picture, ScanChoice, Session,
    State, ViewerHost, ViewerOptions, page,
};
use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pictures of a function that runs come no more often.
const BETWEEN_PICTURES: Duration = Duration::from_millis(150);
/// How soon a function that runs is asked to stop.
const BETWEEN_LOOKS: Duration = Duration::from_millis(20);

/// The module and the style of the page, for notebooks.
#[caught]
#[pyfunction]
pub(crate) fn viewer_page() -> PyResult<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ok((text(page::SCRIPT), text(page::STYLE)))
}

/// All clients of one data set, in a notebook.
#[pyclass(frozen, name = "ViewerHost", module = "framefold._engine")]
pub(crate) struct ViewerHostOfPython {
    host: Arc<ViewerHost>,
}

#[caught]
#[pymethods]
impl ViewerHostOfPython {
    /// Shows `dataset` as `name`. Reads no pixel.
    ///
    /// `file` is where it is from, `(path, options)`; `changes` what was done to its frames: names of methods
    /// and what these were given. `functions` has `describe`, `begin` and `picture`. `reopen(nav_shape,
    /// sync_offset)` opens it with another scan, and gives the functions over that. `sync_offset` is that of data in
    /// memory, if it was given.
    #[new]
    #[pyo3(signature = (dataset, name, file=None, changes=None, functions=None, reopen=None, budget=None, sync_offset=None))]
    #[expect(clippy::too_many_arguments, reason = "Python names most of them")]
    fn new(
        py: Python<'_>,
        dataset: &PyDataset,
        name: String,
        file: Option<(PathBuf, Bound<'_, PyDict>)>,
        changes: Option<Vec<(String, Bound<'_, PyDict>)>>,
        functions: Option<Py<PyAny>>,
        reopen: Option<Py<PyAny>>,
        budget: Option<u64>,
        sync_offset: Option<i64>,
    ) -> PyResult<Self> {
        let format = dataset.inner().source().info().format;
        let opened = match file {
            None => sync_offset.into_iter().fold(Opened::memory(format), |opened, offset| {
                opened.with("sync_offset", Literal::Integer(offset))
            }),
            Some((path, options)) => {
                Opened::file(format, &path, &open_options(format, &path, &options)?.0)
            }
        };
        let opened = changes.unwrap_or_default().into_iter().try_fold(opened, changed)?;
        let own = functions.map(of_python);
        let dataset = dataset.inner().clone();
        let shown = Loaded { name, file: None, dataset, opened, own };
        let opener = Box::new(OneDataset { shown, reopen });
        let options = HostOptions {
            viewer: ViewerOptions { budget, ..ViewerOptions::default() },
            colormaps: framefold_cli::viewer_colormaps(),
            state: None,
        };
        let host = detached(py, || ViewerHost::try_new(opener, options)).or_raise(py)?;
        Ok(ViewerHostOfPython { host })
    }

    /// Another client.
    fn session(&self) -> ViewerSession {
        ViewerSession { session: Session::new(self.host.clone()) }
    }
}

/// One client.
#[pyclass(frozen, module = "framefold._engine")]
pub(crate) struct ViewerSession {
    session: Arc<Session>,
}

#[caught]
#[pymethods]
impl ViewerSession {
    /// Takes a text of the client.
    fn receive_text(&self, py: Python<'_>, text: String) -> PyResult<()> {
        detached(py, || self.session.receive_text(&text));
        Ok(())
    }

    /// Takes a binary message of the client.
    fn receive_bytes(&self, py: Python<'_>, bytes: Vec<u8>) -> PyResult<()> {
        detached(py, || self.session.receive_bytes(&bytes));
        Ok(())
    }

    /// The next message: a text or bytes; None after so many seconds without one, False once it has ended.
    ///
    /// Waits without the interpreter's lock, and without the processor.
    fn next<'py>(&self, py: Python<'py>, timeout: f64) -> PyResult<Bound<'py, PyAny>> {
        let timeout = Duration::try_from_secs_f64(timeout).unwrap_or(Duration::MAX);
        Ok(match detached(py, || self.session.next(timeout)) {
            None => py.None().into_bound(py),
            Some(Message::Text(text)) => PyString::new(py, &text).into_any(),
            Some(Message::Bytes(bytes)) => PyBytes::new(py, &bytes).into_any(),
            Some(Message::Closed) => false.into_pyobject(py)?.to_owned().into_any(),
        })
    }

    /// Ends it: stops what is computed for it. More calls do nothing.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || self.session.close());
        Ok(())
    }
}

/// What was done to the frames of a data set, by the names of the methods of `PyDataset`.
fn changed(opened: Opened, change: (String, Bound<'_, PyDict>)) -> PyResult<Opened> {
    let (method, given) = change;
    let text = |name: &str| -> PyResult<Option<String>> {
        given
            .get_item(name)?
            .filter(|value| !value.is_none())
            .map(|value| value.extract())
            .transpose()
    };
    Ok(match method.as_str() {
        "oriented" => {
            let flip = text("flip")?;
            let transpose =
                given.get_item("transpose")?.map_or(Ok(false), |value| value.extract())?;
            let turn = Orientation::of_options(flip.as_deref(), transpose);
            opened.oriented(turn.or_raise(given.py())?)
        }
        "piped" => match text("stage")? {
            Some(stage) => opened.piped(&stage),
            None => opened.unknown("a stage"),
        },
        // Axes, which a script has in its own words.
        "calibrated" => opened,
        "piped_corrections" => opened.missing("corrections that were given in Python"),
        other => opened.missing(&format!("a stage of its own in Python ({other})")),
    })
}

/// The data set that was given, with another scan if Python can open it again.
struct OneDataset {
    shown: Loaded,
    reopen: Option<Py<PyAny>>,
}

impl Opener for OneDataset {
    fn open(&self, _file: Option<&str>, scan: &ScanChoice) -> framefold::Result<Loaded> {
        if *scan == ScanChoice::default() {
            return Ok(self.shown.clone());
        }
        let reopen = self.reopen.as_ref().ok_or_else(|| {
            Error::unsupported("the scan of data in memory has the shape that it has")
                .with_hint("reshape the array, and view that")
        })?;
        let _thread = EngineThread::new();
        let (dataset, own) = attached(|py| {
            let made = reopen.bind(py).call1((scan.nav_shape.clone(), scan.sync_offset));
            made.and_then(|made| made.extract::<(Bound<'_, PyDataset>, Option<Py<PyAny>>)>())
                .map(|(dataset, own)| (dataset.get().inner().clone(), own.map(of_python)))
                .map_err(|error| failed("opening", &error))
        })?;
        let opened = self.shown.opened.clone().laid_out(scan);
        Ok(Loaded { name: self.shown.name.clone(), file: None, dataset, opened, own })
    }

    fn files(&self, _folder: Option<&str>) -> framefold::Result<Listing> {
        Ok(Listing::default())
    }
}

/// Functions of the session, in Python.
struct OfPython(Py<PyAny>);

fn of_python(functions: Py<PyAny>) -> Arc<dyn Own> {
    Arc::new(OfPython(functions))
}

/// A function as Python describes it: its name, and its pictures of the scan and of frames.
type Described = (String, Vec<String>, Vec<String>);

/// A picture as Python gives it: names of planes, shape, all values, and which part of the frames is in it.
type Given<'py> = (Vec<String>, Vec<usize>, PyReadonlyArray1<'py, f64>, f64);

impl Own for OfPython {
    fn describe(&self) -> Vec<OwnFunction> {
        let described: PyResult<Vec<Described>> =
            attached(|py| self.0.bind(py).call_method0("describe")?.extract());
        let described = described.unwrap_or_default();
        described.into_iter().map(|(name, nav, sig)| OwnFunction { name, nav, sig }).collect()
    }

    fn run(
        &self,
        name: &str,
        buffer: &str,
        cancel: &Cancel,
        emit: &mut dyn FnMut(Picture) -> framefold::Result<()>,
    ) -> framefold::Result<()> {
        let _thread = EngineThread::new();
        let doing = format!("the function '{name}'");
        let failed = |error: PyErr| match cancel.is_cancelled() {
            true => Error::cancelled(),
            false => failed(&doing, &error),
        };
        let run = attached(|py| self.0.bind(py).call_method1("begin", (name,)).map(Bound::unbind))
            .map_err(|error| attached(|_| failed(error)))?;
        let steps = || -> framefold::Result<()> {
            let mut shown = Instant::now();
            loop {
                cancel.check()?;
                let more: PyResult<bool> =
                    attached(|py| run.bind(py).call_method0("step")?.extract());
                let more = more.map_err(|error| attached(|_| failed(error)))?;
                if more && shown.elapsed() < BETWEEN_PICTURES {
                    continue;
                }
                let picture = attached(|py| -> PyResult<Picture> {
                    let arguments = (run.bind(py), name, buffer);
                    let given: Given<'_> =
                        self.0.bind(py).call_method1("picture", arguments)?.extract()?;
                    Ok(made(given, more))
                });
                emit(picture.map_err(|error| attached(|_| failed(error)))?)?;
                if !more {
                    return Ok(());
                }
                shown = Instant::now();
            }
        };
        let stop = || {
            // What is over cannot be stopped.
            let _ = attached(|py| run.bind(py).call_method0("cancel").map(drop));
        };
        let done = stopping(cancel, stop, steps);
        // Threads and files of the run go with it.
        let closed = attached(|py| run.bind(py).call_method0("close").map(drop));
        done?;
        closed.map_err(|error| attached(|_| failed(error)))
    }
}

/// Does `work`, and has it stop, by `stop`, as soon as `cancel` is set.
fn stopping<T>(cancel: &Cancel, stop: impl FnOnce() + Send, work: impl FnOnce() -> T) -> T {
    let done = Cancel::new();
    std::thread::scope(|scope| {
        let done = &done;
        let watch = move || {
            while !done.is_cancelled() {
                if cancel.is_cancelled() {
                    stop();
                    return;
                }
                std::thread::park_timeout(BETWEEN_LOOKS);
            }
        };
        let watcher = scope.spawn(watch);
        let _end = Ended { done, watcher: watcher.thread() };
        work()
    })
}

/// Lets the watcher end, also where the work panics.
struct Ended<'a> {
    done: &'a Cancel,
    watcher: &'a std::thread::Thread,
}

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.done.cancel();
        self.watcher.unpark();
    }
}

fn made((planes, shape, values, progress): Given<'_>, more: bool) -> Picture {
    let label = match more {
        true => format!("exact, {:.0} % so far", 100.0 * progress),
        false => "exact".to_owned(),
    };
    Picture {
        planes,
        shape,
        values: values.as_array().to_vec(),
        stride: [1, 1],
        state: if more { State::Partial } else { State::Exact },
        label,
        progress: if more { progress } else { 1.0 },
        axes: None,
    }
}

/// What went wrong in Python, in words; the interpreter's lock is held.
fn failed(doing: &str, error: &PyErr) -> Error {
    Error::user_code(format!("{doing} failed: {error}"))
}
