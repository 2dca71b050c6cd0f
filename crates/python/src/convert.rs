//! Writing data sets in another format.

use crate::arrays::roi_of;
use crate::dataset::PyDataset;
use crate::ending::{attached, detached};
use crate::errors::{OrRaise, from_python};
use crate::file_path::FilePath;
use crate::observer::watched;
use framefold::core::StoredDType;
use framefold::exec::guarded;
use framefold::io::{Compression, WriteFormat, WriteOrientation, ZarrVersion};
use framefold::{Cancel, CsrWriteOptions, Error, WriteOptions};
use framefold_python_macros::caught;
use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

/// Writes `dataset` as raw_csr; gives the files, and the numbers of frames, entries and bytes.
///
/// `callback(frames)` hears how many are done; Ctrl-C ends it. What is written appears when all
/// of it is complete.
#[caught]
#[pyfunction]
#[pyo3(signature = (dataset, path, threshold=None, force=false, callback=None))]
pub(crate) fn write_raw_csr(
    py: Python<'_>,
    dataset: &PyDataset,
    path: PathBuf,
    threshold: Option<f64>,
    force: bool,
    callback: Option<Py<PyAny>>,
) -> PyResult<(Vec<FilePath>, u64, u64, u64)> {
    let options = CsrWriteOptions { threshold, force, ..CsrWriteOptions::default() };
    let mut progress = |n_done: u64| report_progress(callback.as_ref(), n_done, "writing raw_csr");
    let written = detached(py, || {
        let mut write =
            || framefold::write_raw_csr(dataset.inner(), &path, &options, &mut progress);
        guarded(|| watched(&Cancel::new(), &mut write)).map_err(|error| error.with_path(&path))
    });
    let written = written.or_raise(py)?;
    let paths = written.paths.into_iter().map(FilePath).collect();
    Ok((paths, written.n_frames, written.n_entries, written.len_bytes))
}

/// Writes `dataset` as one array; gives what `Written` has, by name.
///
/// `callback(frames)` hears how many are done; Ctrl-C ends it. What is written appears when all
/// of it is complete.
#[caught]
#[pyfunction]
#[pyo3(signature = (
    dataset, path, format=None, *, zarr_format=None, chunks=None, compression=None, level=None,
    dtype=None, lossy=false, roi=None, force=false, verify=true, threads=None, callback=None,
    orientation=None
))]
#[expect(clippy::too_many_arguments, reason = "Python names each of them")]
pub(crate) fn write_dataset<'py>(
    py: Python<'py>,
    dataset: &PyDataset,
    path: PathBuf,
    format: Option<&str>,
    zarr_format: Option<u32>,
    chunks: Option<Vec<usize>>,
    compression: Option<&str>,
    level: Option<i32>,
    dtype: Option<&str>,
    lossy: bool,
    roi: Option<Bound<'py, PyArray1<bool>>>,
    force: bool,
    verify: bool,
    threads: Option<usize>,
    callback: Option<Py<PyAny>>,
    orientation: Option<&str>,
) -> PyResult<Bound<'py, PyDict>> {
    let roi = match roi {
        Some(roi) => Some(Arc::new(roi_of(&roi)?.not_empty().or_raise(py)?)),
        None => None,
    };
    let options = WriteOptions {
        format: format.map(format_named).transpose().or_raise(py)?,
        zarr_format: zarr_format.map(ZarrVersion::of_number).transpose().or_raise(py)?,
        chunks,
        compression: compression.map(compression_named).transpose().or_raise(py)?,
        level,
        dtype: dtype.map(StoredDType::parse).transpose().or_raise(py)?.map(|stored| stored.dtype),
        lossy,
        roi,
        force,
        unverified: !verify,
        threads: threads.and_then(NonZeroUsize::new),
        orientation: orientation.map(orientation_named).transpose().or_raise(py)?,
    };
    let mut progress =
        |n_done: u64| report_progress(callback.as_ref(), n_done, "writing a data set");
    let written = detached(py, || {
        let mut write =
            || framefold::write_dataset(dataset.inner(), &path, &options, &mut progress);
        guarded(|| watched(&Cancel::new(), &mut write)).map_err(|error| error.with_path(&path))
    });
    let written = written.or_raise(py)?;
    let dict = PyDict::new(py);
    dict.set_item("n_frames", written.n_frames)?;
    dict.set_item("n_missing", written.n_missing)?;
    dict.set_item("n_bytes", written.len_bytes)?;
    dict.set_item("fill", written.fill())?;
    dict.set_item("chunks", written.chunks)?;
    Ok(dict)
}

/// Reports progress to the callback; fails if it raises or a signal has come.
fn report_progress(
    callback: Option<&Py<PyAny>>,
    n_done: u64,
    doing: &str,
) -> framefold::Result<()> {
    attached(|py| {
        py.check_signals()?;
        callback.map_or(Ok(()), |callback| callback.call1(py, (n_done,)).map(drop))
    })
    .map_err(|exception| from_python(exception, doing))
}

fn orientation_named(name: &str) -> framefold::Result<WriteOrientation> {
    let known = WriteOrientation::ALL.iter().find(|(known, _)| *known == name);
    known.map(|(_, orientation)| *orientation).ok_or_else(|| {
        Error::invalid(format!("orientation is '{name}'"))
            .with_hint("use 'hyperspy' or 'framefold'")
    })
}

fn format_named(name: &str) -> framefold::Result<WriteFormat> {
    let known = WriteFormat::ALL.iter().find(|(format, _)| format.name() == name);
    known.map(|(format, _)| *format).ok_or_else(|| {
        Error::invalid(format!("there is no way to write '{name}'"))
            .with_hint("use 'npy', 'zarr', 'hdf5', 'hspy' or 'zspy'")
    })
}

fn compression_named(name: &str) -> framefold::Result<Compression> {
    let known = Compression::ALL.iter().find(|(known, _)| *known == name);
    known.map(|(_, compression)| *compression).ok_or_else(|| {
        let names: Vec<&str> = Compression::ALL.iter().map(|(name, _)| *name).collect();
        Error::invalid(format!("there is no compression '{name}'"))
            .with_hint(format!("use one of {}", names.join(", ")))
    })
}
