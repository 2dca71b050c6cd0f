//! Data sets.

use crate::arrays::{Layout, memory_of, view};
use crate::corrections::Corrections;
use crate::ending::detached;
use crate::errors::OrRaise;
use crate::file_path::FilePath;
use crate::memory::NumpyBytes;
use crate::observer::interruptible;
use crate::options::open_options;
use crate::sparse::read_frames;
use crate::transform::PyStage;
use framefold::core::{
    ByteOrder, CorrectionStage, Dataset, Error, MetadataValue, Orientation, Quantity, StoredDType,
    memory,
};
use framefold::io::{self, Calibrate, CsrSource, MemoryArray, MemorySource, SharedBytes};
use framefold::stages;
use framefold_python_macros::caught;
use numpy::npyffi::npy_intp;
use numpy::{
    PyArrayDescr, PyArrayDescrMethods, PyReadonlyArrayDyn, PyReadwriteArray1, PyUntypedArray,
    PyUntypedArrayMethods,
};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

/// A part of sparse rows: the text of its dtype, and its bytes.
type Part<'py> = (String, Bound<'py, PyAny>);

/// An open data set.
#[pyclass(frozen, name = "Dataset", module = "framefold._engine")]
pub(crate) struct PyDataset {
    dataset: Dataset,
    num_partitions: Option<usize>,
    tile_shape: Option<Vec<usize>>,
    /// Once that was asked for: of many chunks it takes a while.
    stamps: OnceLock<Vec<u8>>,
    /// The sparse rows in memory that its frames are, if they are that and nothing was put behind them.
    rows: Option<Arc<CsrSource>>,
}

impl PyDataset {
    pub(crate) fn new(dataset: Dataset, num_partitions: Option<usize>) -> Self {
        PyDataset { dataset, num_partitions, tile_shape: None, stamps: OnceLock::new(), rows: None }
    }

    /// A data set of sparse rows in memory.
    pub(crate) fn of_rows(
        rows: Arc<CsrSource>,
        nav_shape: Option<&[usize]>,
        sync_offset: i64,
        num_partitions: Option<usize>,
    ) -> framefold::Result<Self> {
        let dataset = Dataset::try_new(rows.clone(), nav_shape, sync_offset)?;
        Ok(PyDataset { rows: Some(rows), ..PyDataset::new(dataset, num_partitions) })
    }

    /// Another one that is cut in the same way.
    fn with_dataset(&self, dataset: Dataset) -> Self {
        let (num_partitions, tile_shape) = (self.num_partitions, self.tile_shape.clone());
        PyDataset { tile_shape, ..PyDataset::new(dataset, num_partitions) }
    }

    pub(crate) fn inner(&self) -> &Dataset {
        &self.dataset
    }

    pub(crate) fn num_partitions(&self) -> Option<usize> {
        self.num_partitions
    }

    /// The number of frames in a tile, and its shape on the signal axes, if they were given.
    pub(crate) fn tile_shape(&self) -> Option<(usize, &[usize])> {
        self.tile_shape.as_deref()?.split_first().map(|(depth, sig)| (*depth, sig))
    }
}

#[caught]
#[pymethods]
impl PyDataset {
    /// All axes, navigation first.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyTuple>> {
        pyo3::types::PyTuple::new(py, self.dataset.shape().dims())
    }

    /// How many of the axes are navigation axes.
    #[getter]
    fn nav_dims(&self) -> usize {
        self.dataset.shape().nav().len()
    }

    /// The name of the dtype of the pixels.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.dataset.source().info().dtype.dtype.name()
    }

    /// The name of the format.
    #[getter]
    fn format(&self) -> &'static str {
        self.dataset.source().info().format
    }

    /// The layout in which it has its frames: `dense` or `csr`.
    #[getter]
    fn layout(&self) -> &'static str {
        self.dataset.source().format().name()
    }

    /// The files the data are read from.
    #[getter]
    fn paths(&self) -> Vec<FilePath> {
        self.dataset.source().info().paths.iter().map(|path| path.as_path().into()).collect()
    }

    /// What no output may replace, nor be added to: files, folders and patterns.
    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.dataset.inputs().into_iter().map(|path| FilePath(path).text(py)).collect()
    }

    /// The files that were opened for it, and how long they were.
    #[getter]
    fn opened(&self) -> Vec<(FilePath, u64)> {
        let lengths = self.dataset.stamps().iter().map(|stamp| stamp.len);
        let paths = self.dataset.opened().iter().map(|path| path.as_path().into());
        paths.zip(lengths).collect()
    }

    /// What the files were when they were opened, for `check_same` of a data set opened elsewhere.
    #[getter]
    fn stamps<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let packed = detached(py, || self.stamps.get_or_init(|| io::pack(&self.dataset)));
        Ok(PyBytes::new(py, packed))
    }

    /// Raises if a file is another one than that of the data set which gave these stamps.
    fn check_same(&self, py: Python<'_>, stamps: &[u8]) -> PyResult<()> {
        detached(py, || io::check_same(&self.dataset, stamps)).or_raise(py)
    }

    /// Raises also if one was replaced or written to between the run of that data set and this one.
    fn check_same_since(&self, py: Python<'_>, stamps: &[u8]) -> PyResult<()> {
        detached(py, || io::check_same_since(&self.dataset, stamps)).or_raise(py)
    }

    /// Raises if a file was replaced or written to since it was opened.
    fn check_unchanged(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || io::check_unchanged(&self.dataset)).or_raise(py)
    }

    /// What the headers tell: names, values and units.
    #[getter]
    fn metadata<'py>(&self, py: Python<'py>) -> PyResult<Vec<(&'static str, Bound<'py, PyAny>)>> {
        let facts = self.dataset.metadata().iter();
        facts.map(|fact| Ok((fact.quantity.name(), value(py, &fact.value)?))).collect()
    }

    /// The axes, navigation first: name, unit, scale, offset, size, and `nav` or `sig`.
    #[getter]
    fn axes(&self) -> Vec<(String, String, f64, f64, usize, &'static str)> {
        let axes = self.dataset.axes().into_iter();
        axes.map(|axis| {
            (axis.name, axis.unit, axis.scale, axis.offset, axis.size, axis.kind.name())
        })
        .collect()
    }

    /// In which order rows are given, where that is not simply as they lie in the file.
    #[getter]
    fn row_order(&self) -> Option<String> {
        io::row_order_of(&self.dataset)
    }

    /// More meta data for people to read.
    #[getter]
    fn details(&self) -> Vec<(String, String)> {
        self.dataset.source().info().details.clone()
    }

    /// What is odd but not an error.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.dataset.warnings()
    }

    /// A sentence about corrections that came with the file and are not applied.
    #[getter]
    fn unused_corrections(&self) -> Option<&str> {
        self.dataset.unused_corrections()
    }

    /// The ranges of flat navigation positions that have data.
    #[getter]
    fn positions_with_data(&self) -> PyResult<Vec<(usize, usize)>> {
        Ok(self.dataset.positions_with_data().into_iter().map(|r| (r.start, r.end)).collect())
    }

    /// The corrections that came with the file, or were set since.
    #[getter]
    fn corrections(&self) -> Option<Corrections> {
        self.dataset.corrections().cloned().map(Corrections::new_from)
    }

    /// The same data set with other corrections, or with none.
    #[pyo3(signature = (corrections=None))]
    fn with_corrections(
        &self,
        py: Python<'_>,
        corrections: Option<&Corrections>,
    ) -> PyResult<PyDataset> {
        let corrections = corrections.map(Corrections::inner);
        let dataset = self.dataset.clone().with_corrections(corrections).or_raise(py)?;
        Ok(self.with_dataset(dataset))
    }

    /// The same data set with these facts about its axes; what is empty stays as it is.
    fn calibrated(
        &self,
        py: Python<'_>,
        scan_step: Vec<(f64, String)>,
        pixel_size: Vec<(f64, String)>,
        rotation: Option<f64>,
        centre: Vec<f64>,
        names: Vec<String>,
    ) -> PyResult<PyDataset> {
        let facts = Calibrate { scan_step, pixel_size, rotation, centre, names };
        let dataset = facts.apply(self.dataset.clone()).or_raise(py)?;
        Ok(self.with_dataset(dataset))
    }

    /// The same data set with its frames turned.
    #[pyo3(signature = (flip=None, transpose=false))]
    fn oriented(&self, py: Python<'_>, flip: Option<&str>, transpose: bool) -> PyResult<PyDataset> {
        let orientation = Orientation::of_options(flip, transpose).or_raise(py)?;
        let dataset = io::orient(self.dataset.clone(), orientation).or_raise(py)?;
        let mut turned = self.with_dataset(dataset);
        if let Some((_, of_frame)) =
            turned.tile_shape.as_deref_mut().and_then(<[_]>::split_first_mut)
        {
            orientation.swap(of_frame);
        }
        Ok(turned)
    }

    /// The same scan over the frames that a stage makes, written as text.
    fn piped(&self, py: Python<'_>, stage: &str) -> PyResult<PyDataset> {
        let piped = framefold::pipe(self.dataset.clone(), stage);
        Ok(PyDataset::new(piped.or_raise(py)?, self.num_partitions))
    }

    /// The same scan over the frames that a `framefold.Transform` makes.
    fn transformed(&self, transform: &Bound<'_, PyAny>) -> PyResult<PyDataset> {
        let info = self.dataset.source().info();
        let piped = io::pipe(self.dataset.clone(), |frames| {
            let nav = self.dataset.shape().nav();
            Ok(Arc::new(PyStage::try_new(transform, frames, nav, info.dtype.dtype)?))
        });
        Ok(PyDataset::new(piped.or_raise(transform.py())?, self.num_partitions))
    }

    /// The same data set with the corrections that options of the command line say.
    #[pyo3(signature = (dark=None, gain=None, bad_pixels=None))]
    fn corrected_by_files(
        &self,
        py: Python<'_>,
        dark: Option<PathBuf>,
        gain: Option<PathBuf>,
        bad_pixels: Option<String>,
    ) -> PyResult<PyDataset> {
        let dataset = self.dataset.clone();
        let made = detached(py, || framefold_cli::corrected(dataset, dark, gain, bad_pixels));
        Ok(self.with_dataset(made.or_raise(py)?))
    }

    /// The same scan over frames with these corrections, which are there to stay.
    fn piped_corrections(&self, py: Python<'_>, corrections: &Corrections) -> PyResult<PyDataset> {
        let corrections = corrections.inner();
        let piped = io::pipe(self.dataset.clone(), |frames| {
            Ok(Arc::new(CorrectionStage::try_new(corrections, frames)?))
        });
        Ok(PyDataset::new(piped.or_raise(py)?, self.num_partitions))
    }

    /// The same scan over frames whose content is moved: by a number for each axis of frames, for all frames
    /// or for each position.
    fn shifted(
        &self,
        py: Python<'_>,
        yx: PyReadonlyArrayDyn<'_, f64>,
        fill: f64,
    ) -> PyResult<PyDataset> {
        let vectors = memory::copied(yx.as_slice()?).or_raise(py)?;
        let shifts = stages::Shifts::try_new(&self.dataset, yx.shape(), vectors).or_raise(py)?;
        let piped = io::pipe(self.dataset.clone(), |frames| shifts.stage(fill, frames));
        Ok(PyDataset::new(piped.or_raise(py)?, self.num_partitions))
    }

    /// What makes its frames of those of the file, in order.
    #[getter]
    fn stages(&self) -> Vec<String> {
        self.dataset.source().stages()
    }

    /// The same data set in tiles of this shape: frames, then signal axes.
    fn with_tile_shape(&self, tile_shape: Vec<usize>) -> PyDataset {
        PyDataset {
            tile_shape: Some(tile_shape),
            rows: self.rows.clone(),
            ..PyDataset::new(self.dataset.clone(), self.num_partitions)
        }
    }

    /// The same frames as sparse rows in memory, laid out anew.
    #[pyo3(signature = (nav_shape=None, sync_offset=0, num_partitions=None))]
    fn to_sparse(
        &self,
        py: Python<'_>,
        nav_shape: Option<Vec<usize>>,
        sync_offset: i64,
        num_partitions: Option<usize>,
    ) -> PyResult<PyDataset> {
        let made = interruptible(py, || {
            let rows = Arc::new(CsrSource::from_frames(self.dataset.source().clone())?);
            PyDataset::of_rows(rows, nav_shape.as_deref(), sync_offset, num_partitions)
        });
        made.or_raise(py)
    }

    /// The sparse rows in memory that its frames are: row pointers, columns and values, each as the text of its
    /// dtype and a read-only array of its bytes; None if it has others.
    fn rows<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Vec<Part<'py>>>> {
        let py = slf.py();
        let Some(parts) = slf.get().rows.as_deref().and_then(CsrSource::parts) else {
            return Ok(None);
        };
        let bytes_of = PyArrayDescr::new(py, "uint8")?;
        let shown = parts.map(|(stored, bytes)| {
            let layout = Layout {
                start: bytes.as_ptr().cast_mut(),
                shape: &[npy_intp::try_from(bytes.len())?],
                strides: &[1],
                writeable: false,
            };
            // SAFETY: the bytes belong to the rows, which this object keeps; the array is read-only.
            let array = unsafe { view(py, &bytes_of, &layout, slf.as_any())? };
            let order = if stored.order == ByteOrder::Little { '<' } else { '>' };
            Ok((format!("{order}{}", stored.dtype.code()), array))
        });
        shown.into_iter().collect::<PyResult<Vec<_>>>().map(Some)
    }

    /// Copies all frames of the source to `out`, which has as many bytes.
    fn read_frames(&self, py: Python<'_>, mut out: PyReadwriteArray1<'_, u8>) -> PyResult<()> {
        let out = out.as_slice_mut()?;
        interruptible(py, || read_frames(self.dataset.source().as_ref(), out)).or_raise(py)
    }

    /// How many frames are left out, and how many positions stay empty, at either end.
    #[getter]
    fn sync_info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = self.dataset.sync_info();
        let dict = PyDict::new(py);
        dict.set_item("frames_skipped_start", info.frames_skipped_start)?;
        dict.set_item("frames_ignored_end", info.frames_ignored_end)?;
        dict.set_item("frames_inserted_start", info.frames_inserted_start)?;
        dict.set_item("frames_inserted_end", info.frames_inserted_end)?;
        Ok(dict)
    }
}

fn value<'py>(py: Python<'py>, value: &MetadataValue) -> PyResult<Bound<'py, PyAny>> {
    match value {
        MetadataValue::Number(number) => number.into_bound_py_any(py),
        MetadataValue::Text(text) => text.into_bound_py_any(py),
    }
}

/// The stages: name, what it does, how its value is written, an example, and options with help.
#[caught]
#[pyfunction]
pub(crate) fn known_stages() -> Vec<StageWords> {
    let options = |row: &stages::StageRow| {
        row.options.iter().map(|option| (option.name, option.help)).collect()
    };
    let rows = stages::STAGES.iter();
    rows.map(|row| (row.name, row.summary, row.value, row.example, options(row))).collect()
}

type StageWords =
    (&'static str, &'static str, &'static str, &'static str, Vec<(&'static str, &'static str)>);

/// The names of all meta data, their units and what they mean.
#[caught]
#[pyfunction]
pub(crate) fn known_metadata() -> Vec<(&'static str, &'static str, &'static str)> {
    Quantity::ALL.iter().map(|each| (each.name(), each.unit(), each.meaning())).collect()
}

/// The numbers and units of a text: `0.5nm`, `2 s, 0.5 nm`.
#[caught]
#[pyfunction]
pub(crate) fn parse_steps(py: Python<'_>, text: &str) -> PyResult<Vec<(f64, String)>> {
    io::parse_steps(text).or_raise(py)
}

/// Opens a file as the given format, or as the one that is detected for `"auto"`.
///
/// `stamps` are those of the data set that is opened again.
#[caught]
#[pyfunction]
#[pyo3(signature = (filetype, path, options, stamps=None))]
pub(crate) fn load(
    py: Python<'_>,
    filetype: &str,
    path: PathBuf,
    options: &Bound<'_, PyDict>,
    stamps: Option<&[u8]>,
) -> PyResult<PyDataset> {
    let (options, num_partitions) = open_options(filetype, &path, options)?;
    let open = || io::open_as(filetype, &path, &options);
    let opened = interruptible(py, || match stamps {
        Some(stamps) => io::open_again(stamps, open),
        None => open(),
    });
    let dataset = opened.or_raise(py)?;
    Ok(PyDataset::new(dataset, num_partitions))
}

/// The format of a file, and how it was recognized.
#[caught]
#[pyfunction]
pub(crate) fn detect(py: Python<'_>, path: PathBuf) -> PyResult<(&'static str, String)> {
    let detection = detached(py, || io::detect(&path)).or_raise(py)?;
    Ok((detection.format.name, detection.reason))
}

/// The names of all file formats.
#[caught]
#[pyfunction]
pub(crate) fn known_formats() -> Vec<&'static str> {
    io::formats().into_iter().map(|format| format.name).collect()
}

/// The endings of the names of files of each format, without a dot.
#[caught]
#[pyfunction]
pub(crate) fn known_extensions() -> BTreeMap<&'static str, Vec<&'static str>> {
    io::formats().into_iter().map(|format| (format.name, format.extensions.to_vec())).collect()
}

/// A data set that reads `array` in place.
#[caught]
#[pyfunction]
#[pyo3(signature = (array, sig_dims, nav_shape=None, sync_offset=0, num_partitions=None))]
pub(crate) fn from_array(
    array: &Bound<'_, PyUntypedArray>,
    sig_dims: usize,
    nav_shape: Option<Vec<usize>>,
    sync_offset: i64,
    num_partitions: Option<usize>,
) -> PyResult<PyDataset> {
    let py = array.py();
    let type_string: String = array.dtype().getattr("str")?.extract()?;
    let strides = byte_strides(array.strides()).or_raise(py)?;
    let layout = MemoryArray {
        shape: array.shape().to_vec(),
        offset_bytes: 0,
        stored: StoredDType::parse(&type_string).or_raise(py)?,
        sig_dims,
        strides_bytes: None,
    };
    let bytes = shared_bytes(array, &strides).or_raise(py)?;
    let layout = MemoryArray { strides_bytes: Some(strides), ..layout };
    let source = MemorySource::try_new(bytes, layout).or_raise(py)?;
    let dataset =
        Dataset::try_new(Arc::new(source), nav_shape.as_deref(), sync_offset).or_raise(py)?;
    Ok(PyDataset::new(dataset, num_partitions))
}

fn byte_strides(strides: &[npy_intp]) -> framefold::Result<Vec<usize>> {
    let forward = strides.iter().map(|&stride| usize::try_from(stride)).collect::<Result<_, _>>();
    forward.map_err(|_| Error::unsupported("an array that runs backwards in memory"))
}

/// The memory from the first to the last element of `array`.
pub(crate) fn shared_bytes(
    array: &Bound<'_, PyUntypedArray>,
    strides: &[usize],
) -> framefold::Result<Arc<dyn SharedBytes>> {
    let last = array.shape().iter().zip(strides).try_fold(0usize, |offset, (&length, &stride)| {
        offset.checked_add(length.checked_sub(1)?.checked_mul(stride)?)
    });
    let len = last.and_then(|last| last.checked_add(array.dtype().itemsize()));
    let len = len.ok_or_else(|| {
        Error::invalid(format!("data has shape {:?}: there are no elements", array.shape()))
    })?;
    let start = memory_of(array).start;
    // SAFETY: the array is kept alive, and its elements lie between its first and its last one,
    // since no stride is negative.
    let bytes = unsafe { NumpyBytes::new(array.clone().into_any().unbind(), start, len) };
    Ok(Arc::new(bytes))
}
