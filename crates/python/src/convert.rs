//! Writing data sets in another format.

use crate::dataset::PyDataset;
use crate::errors::{OrRaise, from_python};
use framefold::CsrWriteOptions;
use framefold::exec::guarded;
use pyo3::prelude::*;
use std::path::PathBuf;

/// Writes `dataset` as raw_csr; gives the files, and the numbers of frames, entries and bytes.
///
/// `callback(frames)` hears how many are done; Ctrl-C ends it. What is written appears when all
/// of it is complete.
#[pyfunction]
#[pyo3(signature = (dataset, path, threshold=None, force=false, callback=None))]
pub(crate) fn write_raw_csr(
    py: Python<'_>,
    dataset: &PyDataset,
    path: PathBuf,
    threshold: Option<f64>,
    force: bool,
    callback: Option<Py<PyAny>>,
) -> PyResult<(Vec<PathBuf>, u64, u64, u64)> {
    let options = CsrWriteOptions { threshold, force };
    let mut progress = |n_done: u64| {
        Python::attach(|py| {
            py.check_signals()?;
            callback.as_ref().map_or(Ok(()), |callback| callback.call1(py, (n_done,)).map(drop))
        })
        .map_err(|exception| from_python(exception, "writing raw_csr"))
    };
    let written = py.detach(|| {
        guarded(|| framefold::write_raw_csr(dataset.inner(), &path, &options, &mut progress))
            .map_err(|error| error.with_path(&path))
    });
    let written = written.or_raise(py)?;
    Ok((written.paths, written.n_frames, written.n_entries, written.len_bytes))
}
