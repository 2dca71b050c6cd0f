//! Native kernels for the UDFs that come with framefold, built by their rows.

use crate::arrays::{native_from_numpy, roi_of};
use crate::capsules;
use crate::errors::OrRaise;
use crate::options::{number, numbers, sequence};
use crate::plugin::Plugin;
use framefold::core::{
    Accumulator, BufferDecl, BufferUse, JobMeta, Merger, NativeArray, Partition, Requirements,
    RunMeta, SourceInfo, StoredDType, TypedVec, Udf,
};
use framefold::kernels::{
    DefaultValue, GivenArray, Look, Parameter, ParameterKind, Parameters, REDUCTIONS, Reduction,
    Value, reduction,
};
use framefold::plugins::PluginUdf;
use framefold::{Result, Shape};
use framefold_python_macros::caught;
use numpy::{PyArray1, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};
use std::sync::Arc;

/// A native kernel with its parameters, under the name of the Python class it stands for.
#[pyclass(frozen, module = "framefold._engine")]
pub(crate) struct NativeUdf {
    udf: Arc<dyn Udf>,
    is_plugin: bool,
}

impl NativeUdf {
    pub(crate) fn udf(&self) -> Arc<dyn Udf> {
        self.udf.clone()
    }

    /// Whether others compiled it.
    pub(crate) fn is_plugin(&self) -> bool {
        self.is_plugin
    }
}

#[caught]
#[pymethods]
impl NativeUdf {
    /// The reduction of that name with `parameters` of its row, for frames of shape `sig_shape`,
    /// shown to users as `name`.
    #[new]
    fn new(
        py: Python<'_>,
        kernel: &str,
        name: String,
        parameters: &Bound<'_, PyDict>,
        sig_shape: Vec<usize>,
    ) -> PyResult<Self> {
        let given = given(reduction(kernel).or_raise(py)?, parameters)?;
        let kernel = given.reduction().build(given, &sig_shape).or_raise(py)?;
        Ok(NativeUdf { udf: Arc::new(Renamed { name, kernel }), is_plugin: false })
    }

    /// The function that `function.__framefold_udf__()` returns in a capsule.
    #[staticmethod]
    fn of_plugin(py: Python<'_>, function: &Bound<'_, PyAny>) -> PyResult<Self> {
        let table = capsules::table(function).or_raise(py)?;
        let udf = Arc::new(Plugin(PluginUdf::new(Arc::new(table))));
        Ok(NativeUdf { udf, is_plugin: true })
    }

    /// What it is called in messages.
    #[getter]
    fn name(&self) -> &str {
        self.udf.name()
    }

    /// The result buffers of a run: name, kind, extra shape, dtype, and what they are used for, in
    /// the words of the Python interface.
    #[pyo3(signature = (nav_shape, sig_shape, dtype, roi=None))]
    fn buffers(
        &self,
        py: Python<'_>,
        nav_shape: Vec<usize>,
        sig_shape: Vec<usize>,
        dtype: &str,
        roi: Option<Bound<'_, PyArray1<bool>>>,
    ) -> PyResult<Vec<Described>> {
        let dtype = StoredDType::parse(dtype).or_raise(py)?.dtype;
        let roi = roi.map(|roi| roi_of(&roi)).transpose()?.map(Arc::new);
        let shape = Shape::try_new(&nav_shape, &sig_shape).or_raise(py)?;
        let job = JobMeta { shape, native_dtype: dtype, input_dtype: dtype, roi };
        let described = |decl: BufferDecl| {
            let usage = match decl.usage {
                BufferUse::Public => None,
                BufferUse::Private => Some("private"),
                BufferUse::ResultOnly => Some("result_only"),
            };
            (decl.name, decl.kind.name(), decl.extra_shape, decl.dtype.to_string(), usage)
        };
        Ok(self.udf.buffers(&job).or_raise(py)?.into_iter().map(described).collect())
    }
}

/// Name, kind, extra shape, dtype and use of a buffer.
type Described = (String, &'static str, Vec<usize>, String, Option<&'static str>);

/// A sentence for each virtual detector of a reduction that looks at nothing.
#[caught]
#[pyfunction]
pub(crate) fn doubts(
    py: Python<'_>,
    kernel: &str,
    parameters: &Bound<'_, PyDict>,
    sig_shape: Vec<usize>,
) -> PyResult<Vec<String>> {
    given(reduction(kernel).or_raise(py)?, parameters)?.doubts(&sig_shape).or_raise(py)
}

/// The rows of all native reductions.
#[caught]
#[pyfunction]
pub(crate) fn native_reductions(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let rows = REDUCTIONS.iter().map(|row| {
        let described = PyDict::new(py);
        described.set_item("name", row.name)?;
        described.set_item("alias", row.alias)?;
        described.set_item("summary", row.summary)?;
        described.set_item("buffers", row.buffers)?;
        described.set_item("main_buffer", row.main_buffer)?;
        described.set_item("vectors", row.look == Look::Vectors)?;
        described.set_item("example", row.example)?;
        let parameters = row.parameters.iter().map(|parameter| {
            let described = PyDict::new(py);
            described.set_item("name", parameter.name)?;
            described.set_item("option", parameter.option)?;
            described.set_item("kind", parameter.kind.name())?;
            described.set_item("unit", parameter.unit)?;
            described.set_item(
                "default",
                match parameter.default {
                    DefaultValue::Is(text) | DefaultValue::Found(text) => Some(text),
                    DefaultValue::Nothing | DefaultValue::OneOfThese => None,
                },
            )?;
            described.set_item("help", parameter.help)?;
            Ok(described)
        });
        described.set_item("parameters", parameters.collect::<PyResult<Vec<_>>>()?)?;
        Ok(described)
    });
    rows.collect()
}

/// The parameters in a dictionary, each checked against its row; None stands for the default.
///
/// # Errors
/// `InvalidArgumentError` that names the parameter, what was found and what was expected.
pub(crate) fn given(
    row: &'static Reduction,
    parameters: &Bound<'_, PyDict>,
) -> PyResult<Parameters> {
    let py = parameters.py();
    let mut given = Parameters::new(row);
    for (name, found) in parameters {
        let name = name.extract::<String>()?;
        let parameter = row.parameter(&name).or_raise(py)?;
        if found.is_none() {
            continue;
        }
        let value = match parameter.kind {
            // What is no dtype, its own error says best.
            ParameterKind::DType if found.is_instance_of::<PyString>() => {
                let stored = StoredDType::parse(&found.extract::<String>()?).or_raise(py)?;
                Some(Value::DType(stored.dtype))
            }
            _ => value(parameter, &found),
        };
        let Some(value) = value else {
            let error = row.refuses(parameter, &found.repr()?);
            return Err(match parameter.kind {
                ParameterKind::Disks | ParameterKind::Rings => error.with_hint(
                    "one detector is a tuple of these numbers, and several are a list of tuples",
                ),
                ParameterKind::Arrays => error.with_hint(
                    "several of them are one array, with an axis before those of a frame: np.stack \
                     and np.concatenate make one",
                ),
                _ => error,
            })
            .or_raise(py);
        };
        given.set(&name, value).or_raise(py)?;
    }
    Ok(given)
}

/// A parameter's value; None if it is not of its kind. Whatever can be written can be text.
fn value(parameter: &Parameter, found: &Bound<'_, PyAny>) -> Option<Value> {
    let kind = parameter.kind;
    if let Ok(text) = found.cast::<PyString>() {
        return kind.parse(&text.to_cow().ok()?).ok();
    }
    match kind {
        ParameterKind::DType => None,
        ParameterKind::Number | ParameterKind::Radius => number(found).ok().map(Value::Number),
        ParameterKind::Switch => found.extract::<bool>().ok().map(Value::Switch),
        ParameterKind::Disks | ParameterKind::Rings => detectors(found)?
            .into_iter()
            .map(|numbers| kind.detector(numbers))
            .collect::<Option<_>>()
            .map(Value::Detectors),
        ParameterKind::Arrays | ParameterKind::Array => {
            let array = native_from_numpy(found).ok()?;
            Some(Value::Arrays(vec![GivenArray { array, path: None }]))
        }
        ParameterKind::Counts => match found.cast::<PyUntypedArray>() {
            Ok(array) if array.ndim() == 1 => counts(&native_from_numpy(array).ok()?),
            Ok(_) => None,
            Err(_) => numbers(found).ok(),
        }
        .map(Value::Counts),
    }
}

/// The numbers of an array of integers, of which none is below 0.
fn counts(array: &NativeArray) -> Option<Vec<usize>> {
    fn of<T: Copy + TryInto<usize>>(numbers: &[T]) -> Option<Vec<usize>> {
        numbers.iter().map(|&number| number.try_into().ok()).collect()
    }
    match array.values() {
        TypedVec::U8(numbers) => of(numbers),
        TypedVec::U16(numbers) => of(numbers),
        TypedVec::U32(numbers) => of(numbers),
        TypedVec::U64(numbers) => of(numbers),
        TypedVec::I8(numbers) => of(numbers),
        TypedVec::I16(numbers) => of(numbers),
        TypedVec::I32(numbers) => of(numbers),
        TypedVec::I64(numbers) => of(numbers),
        _ => None,
    }
}

/// The numbers of each detector: a number or a tuple of numbers is one, other sequences, such as
/// lists and arrays, hold several.
fn detectors(found: &Bound<'_, PyAny>) -> Option<Vec<Vec<f64>>> {
    let detector = |one: &Bound<'_, PyAny>| {
        let radius = number(one).ok().map(|radius| vec![radius]);
        radius.or_else(|| numbers(one).ok())
    };
    let several = sequence::<Bound<'_, PyAny>>(found).ok();
    let one =
        if several.is_none() || found.is_instance_of::<PyTuple>() { detector(found) } else { None };
    match one {
        Some(one) => Some(vec![one]),
        None => several.filter(|all| !all.is_empty())?.iter().map(detector).collect(),
    }
}

/// A kernel under another name: messages name the class that the user knows.
struct Renamed {
    name: String,
    kernel: Arc<dyn Udf>,
}

impl Udf for Renamed {
    fn name(&self) -> &str {
        &self.name
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        self.kernel.requirements(source)
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        self.kernel.buffers(job)
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        self.kernel.accumulator(run, partition)
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        self.kernel.merger(run)
    }
}
