//! Sparse arrays in memory as data sets.

use crate::dataset::{PyDataset, shared_bytes};
use crate::errors::OrRaise;
use crate::observer::interruptible;
use framefold::Error;
use framefold::core::{
    DataSource, ErrorKind, FrameIndices, Result, StoredDType, TilingScheme, interrupt,
};
use framefold::io::{CsrArray, CsrSource, CsrSpec, Storage};
use framefold_python_macros::caught;
use numpy::{PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use std::sync::Arc;

/// Frames that are read together when a sparse data set is made dense: so many bytes of them.
const READ_BYTES: usize = 4 << 20;

/// A data set of compressed sparse rows, one per frame: three arrays of one axis, without gaps.
///
/// They are read in place if rows are in order and `indices` has 4 bytes.
#[caught]
#[pyfunction]
#[pyo3(signature = (
    indptr, indices, values, sig_shape, nav_shape=None, sync_offset=0, num_partitions=None
))]
pub(crate) fn from_csr(
    indptr: &Bound<'_, PyUntypedArray>,
    indices: &Bound<'_, PyUntypedArray>,
    values: &Bound<'_, PyUntypedArray>,
    sig_shape: Vec<usize>,
    nav_shape: Option<Vec<usize>>,
    sync_offset: i64,
    num_partitions: Option<usize>,
) -> PyResult<PyDataset> {
    let py = indptr.py();
    let spec = CsrSpec {
        format: "memory",
        row_pointers: csr_array(indptr)?,
        columns: csr_array(indices)?,
        values: csr_array(values)?,
        descriptor: None,
        sig_shape,
        nav_shape: None,
        metadata: framefold::core::MetadataList::new(),
        details: vec![("array format".into(), "compressed sparse rows".into())],
    };
    let made = interruptible(py, || {
        let rows = CsrSource::try_new(spec).and_then(|source| Arc::new(source).in_order());
        let rows = rows.map_err(in_memory)?;
        PyDataset::of_rows(rows, nav_shape.as_deref(), sync_offset, num_partitions)
    });
    made.or_raise(py)
}

fn csr_array(array: &Bound<'_, PyUntypedArray>) -> PyResult<CsrArray> {
    let py = array.py();
    let type_string: String = array.dtype().getattr("str")?.extract()?;
    let stored = StoredDType::parse(&type_string).or_raise(py)?;
    if array.ndim() != 1 || !array.is_c_contiguous() {
        let error = Error::bug(format!("a part of sparse data has shape {:?}", array.shape()));
        return Err(error).or_raise(py);
    }
    let bytes: Arc<dyn framefold::io::SharedBytes> = if array.is_empty() {
        Arc::new(Vec::<u8>::new())
    } else {
        shared_bytes(array, &[array.dtype().itemsize()]).or_raise(py)?
    };
    Ok(CsrArray { storage: Storage::shared(bytes), stored })
}

/// What is wrong with a file would be, is wrong with an argument here.
fn in_memory(error: Error) -> Error {
    if error.kind() != ErrorKind::BadFile {
        return error;
    }
    // Advice about files is of no use here.
    let hint = error.hint().filter(|hint| !hint.contains("file")).unwrap_or(
        "row pointers are indptr of the sparse array, columns its indices; make the array anew",
    );
    let mut adapted = Error::invalid(error.message()).with_hint(hint);
    if let Some(format) = error.format() {
        adapted = adapted.with_format(format);
    }
    match error.frame() {
        Some(frame) => adapted.with_frame(frame),
        None => adapted,
    }
}

/// Copies all frames to `out`, some at a time.
///
/// # Errors
/// Those of the source; `Bug` if `out` has another length.
pub(crate) fn read_frames(source: &dyn DataSource, out: &mut [u8]) -> Result<()> {
    let info = source.info();
    let sig = &info.sig_shape;
    let frame_bytes = sig.iter().product::<usize>().saturating_mul(info.dtype.dtype.size());
    let depth = (READ_BYTES / frame_bytes.max(1)).max(1);
    let scheme = TilingScheme::try_new(sig, sig, depth)?;
    let [slice] = scheme.slices() else {
        return Err(Error::bug("whole frames were cut"));
    };
    let mut reader = source.reader()?;
    let mut rest = out;
    let mut first = 0;
    while first < info.n_frames {
        interrupt::check()?;
        let frames = first..info.n_frames.min(first.saturating_add(depth as u64));
        first = frames.end;
        let tile = reader.read(FrameIndices::Run(frames), slice)?;
        let bytes = tile.frames().as_bytes();
        let Some((to, left)) = rest.split_at_mut_checked(bytes.len()) else {
            return Err(Error::bug("frames take more memory than they were given"));
        };
        to.copy_from_slice(bytes);
        rest = left;
    }
    reader.verify()
}
