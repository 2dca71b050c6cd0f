//! Files that Python writes, and that appear when they are complete.

use crate::arrays::native_from_numpy;
use crate::ending::detached;
use crate::errors::{OrRaise, from_python};
use crate::file_path::FilePath;
use crate::observer::interruptible;
use framefold::Error;
use framefold::core::{StoredDType, interrupt};
use framefold::io::{
    OutputKind, TiffLabels, TiffStep, Tree, TreeNode, TreeValue, WholeOutput, refused, write_tiff,
    write_tree,
};
use framefold_python_macros::caught;
use numpy::{PyReadonlyArray1, PyUntypedArray};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};
use std::io::{BufWriter, Write};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file in the making.
#[pyclass(frozen, module = "framefold._engine")]
pub(crate) struct WholeFile {
    /// Until it is published or discarded.
    output: Mutex<Option<WholeOutput>>,
    part: PathBuf,
}

#[caught]
#[pymethods]
impl WholeFile {
    /// Begins what is to be `path`: an empty file, or a folder for Zarr, where `part` says.
    #[new]
    #[pyo3(signature = (path, replace, folder=false))]
    fn new(py: Python<'_>, path: PathBuf, replace: bool, folder: bool) -> PyResult<Self> {
        let kind = if folder { OutputKind::ZarrGroup } else { OutputKind::File };
        let output = WholeOutput::create(&path, kind, replace, &[])
            .map_err(|error| error.with_path(&path))
            .or_raise(py)?;
        let part = output.part().to_path_buf();
        Ok(WholeFile { output: Mutex::new(Some(output)), part })
    }

    /// Where it is until it is published.
    #[getter]
    fn part(&self) -> FilePath {
        self.part.as_path().into()
    }

    /// Writes groups and arrays as HDF5. A group is `(attributes, [(name, member), ...])`, an array
    /// `(attributes, dtype, shape, bytes)`.
    fn write_hdf5(&self, py: Python<'_>, root: Bound<'_, PyTuple>) -> PyResult<()> {
        // The interpreter's lock is kept, so that no other thread of Python changes the arrays, unless a signal is handled.
        let mut bytes = Vec::new();
        collect_bytes(&root, &mut bytes)?;
        let tree = tree(py, &root, &mut bytes.iter())?;
        // Not with `locked`: what handles a signal may let other threads of Python go on.
        let Some(output) = self.locked().take() else { return Ok(()) };
        let written = interrupt::watched(signals, || write_tree(&output, &tree));
        *self.locked() = Some(output);
        written.or_raise(py)
    }

    /// Writes pages as TIFF: the last two axes but those of channels, in C order of the others.
    ///
    /// `y` and `x` are unit, scale and offset of the axes of pages, where these are known; `ome` has
    /// them described by OME-XML, otherwise by what ImageJ reads.
    #[pyo3(signature = (array, n_channel_axes, title, y=None, x=None, ome=false))]
    #[expect(clippy::too_many_arguments, reason = "Python names most of them")]
    fn write_tiff(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyUntypedArray>,
        n_channel_axes: usize,
        title: String,
        y: Option<(String, f64, f64)>,
        x: Option<(String, f64, f64)>,
        ome: bool,
    ) -> PyResult<()> {
        let array = native_from_numpy(array)?;
        let step =
            |axis: (String, f64, f64)| TiffStep { unit: axis.0, scale: axis.1, offset: axis.2 };
        let labels = TiffLabels { title, y: y.map(step), x: x.map(step), ome };
        // Not with `locked`: it attaches now and then, to look for Ctrl-C.
        let file = self.locked().as_ref().map(|output| {
            let file = output.file()?.try_clone();
            file.map_err(|error| refused("write the output", error))
        });
        interruptible(py, || {
            let Some(file) = file.transpose()? else { return Ok(()) };
            let mut out = BufWriter::new(file);
            write_tiff(&mut out, &array, n_channel_axes, &labels)?;
            out.flush().map_err(|error| refused("write the output", error))
        })
        .or_raise(py)
    }

    /// Gives it its name; nothing, if that was done or it was discarded.
    fn publish(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || {
            let output = self.locked().take();
            output.map_or(Ok(()), WholeOutput::publish)
        })
        .or_raise(py)
    }

    /// Removes it, unless it is published.
    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        detached(py, || drop(self.locked().take()));
        Ok(())
    }
}

impl WholeFile {
    /// Who is attached to the interpreter and waits for this keeps all of Python waiting, so who has it
    /// asks for no interpreter: detached threads give it back before they attach.
    fn locked(&self) -> MutexGuard<'_, Option<WholeOutput>> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks for Ctrl-C on a thread that keeps the interpreter's lock.
fn signals() -> framefold::Result<()> {
    Python::attach(|py| py.check_signals())
        .map_err(|exception| from_python(exception, "interrupted"))
}

/// Where what is to be `path` is until it is complete.
#[caught]
#[pyfunction]
pub(crate) fn part_of(py: Python<'_>, path: PathBuf) -> PyResult<FilePath> {
    framefold::io::part_of(&path).map(FilePath).or_raise(py)
}

/// Raises if a file is to replace one of `inputs`, lies within one, or holds one.
#[caught]
#[pyfunction]
pub(crate) fn keeps_inputs(py: Python<'_>, path: PathBuf, inputs: Vec<PathBuf>) -> PyResult<()> {
    detached(py, || framefold::io::keeps_inputs(&path, &inputs)).or_raise(py)
}

/// The bytes of all arrays of a group, in order.
fn collect_bytes<'py>(
    group: &Bound<'py, PyTuple>,
    bytes: &mut Vec<PyReadonlyArray1<'py, u8>>,
) -> PyResult<()> {
    for member in group.get_item(1)?.try_iter()? {
        let (_, member): (String, Bound<'py, PyTuple>) = member?.extract()?;
        match member.len() {
            2 => collect_bytes(&member, bytes)?,
            _ => bytes.push(member.get_item(3)?.extract()?),
        }
    }
    Ok(())
}

/// A group that Python describes, with the bytes of its arrays.
fn tree<'a, 'py: 'a>(
    py: Python<'py>,
    group: &Bound<'py, PyTuple>,
    bytes: &mut std::slice::Iter<'a, PyReadonlyArray1<'py, u8>>,
) -> PyResult<Tree<'a>> {
    let mut members = Vec::new();
    for member in group.get_item(1)?.try_iter()? {
        let (name, member): (String, Bound<'py, PyTuple>) = member?.extract()?;
        let node = match member.len() {
            2 => TreeNode::Group(tree(py, &member, bytes)?),
            _ => {
                let dtype: String = member.get_item(1)?.extract()?;
                let bytes =
                    bytes.next().ok_or_else(|| Error::bug("an array is gone")).or_raise(py)?;
                TreeNode::Array {
                    attributes: attributes(&member)?,
                    shape: member.get_item(2)?.extract()?,
                    dtype: StoredDType::parse(&dtype).or_raise(py)?.dtype,
                    bytes: bytes.as_slice()?,
                }
            }
        };
        members.push((name, node));
    }
    Ok(Tree { attributes: attributes(group)?, members })
}

/// What is said of a group or an array.
fn attributes(node: &Bound<'_, PyTuple>) -> PyResult<Vec<(String, TreeValue)>> {
    let given = node.get_item(0)?.cast_into::<PyDict>()?;
    let mut found = Vec::with_capacity(given.len());
    for (name, value) in given {
        let value = if value.is_instance_of::<PyBool>() {
            TreeValue::Truth(value.extract()?)
        } else if value.is_instance_of::<PyInt>() {
            TreeValue::Integer(value.extract()?)
        } else if value.is_instance_of::<PyFloat>() {
            TreeValue::Number(value.extract()?)
        } else if value.is_instance_of::<PyString>() {
            TreeValue::Text(value.extract()?)
        } else {
            TreeValue::Texts(value.cast_into::<PyList>()?.extract()?)
        };
        found.push((name.extract()?, value));
    }
    Ok(found)
}
