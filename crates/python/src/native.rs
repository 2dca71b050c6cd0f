//! Native kernels for the UDFs that come with framefold.

use crate::arrays::native_from_numpy;
use crate::errors::OrRaise;
use framefold::core::{
    Accumulator, BufferDecl, DType, JobMeta, Merger, NativeArray, Partition, Requirements, RunMeta,
    SourceInfo, StoredDType, Udf,
};
use framefold::kernels::{Com, LogSum, Masks, Max, Pick, REDUCTIONS, StdDev, Sum, SumSig};
use framefold::{Error, Result};
use framefold_python_macros::caught;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Arc;

/// A native kernel with its parameters, under the name of the Python class it stands for.
#[pyclass(frozen, module = "framefold._engine")]
pub(crate) struct NativeUdf(Arc<dyn Udf>);

impl NativeUdf {
    pub(crate) fn udf(&self) -> Arc<dyn Udf> {
        self.0.clone()
    }
}

#[caught]
#[pymethods]
impl NativeUdf {
    /// The kernel `kernel` with `parameters`, shown to users as `name`.
    #[new]
    fn new(
        py: Python<'_>,
        kernel: &str,
        name: String,
        parameters: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let kernel = build(kernel, parameters)?.or_raise(py)?;
        Ok(NativeUdf(Arc::new(Renamed { name, kernel })))
    }
}

/// A kernel's name, summary and result buffers.
type Summary = (&'static str, &'static str, Vec<&'static str>);

/// Names, summaries and result buffers of all native kernels.
#[caught]
#[pyfunction]
pub(crate) fn native_reductions() -> PyResult<Vec<Summary>> {
    Ok(REDUCTIONS.iter().map(|r| (r.name, r.summary, r.buffers.to_vec())).collect())
}

fn build(kernel: &str, parameters: &Bound<'_, PyDict>) -> PyResult<Result<Arc<dyn Udf>>> {
    let given = |name: &str| parameters.get_item(name).map(|item| item.filter(|v| !v.is_none()));
    let number = |name: &str| given(name)?.map(|value| value.extract::<f64>()).transpose();
    let udf: Arc<dyn Udf> = match kernel {
        "sum" => match dtype(given("dtype")?)? {
            Ok(dtype) => Arc::new(Sum { dtype: dtype.unwrap_or(DType::F32) }),
            Err(error) => return Ok(Err(error)),
        },
        "sum_sig" => Arc::new(SumSig),
        "max" => Arc::new(Max),
        "stddev" => Arc::new(StdDev::default()),
        "logsum" => Arc::new(LogSum),
        "pick" => Arc::new(Pick::default()),
        "com" => Arc::new(Com {
            cy: number("cy")?,
            cx: number("cx")?,
            r: number("r")?.unwrap_or(f64::INFINITY),
            ri: number("ri")?.unwrap_or(0.0),
            // All else is the same for native and Python runs, and comes of the shifts.
            shifts_only: true,
            ..Com::default()
        }),
        "masks" => match masks(parameters)? {
            Ok(masks) => Arc::new(masks),
            Err(error) => return Ok(Err(error)),
        },
        other => return Ok(Err(Error::bug(format!("there is no native kernel '{other}'")))),
    };
    Ok(Ok(udf))
}

/// A stack of masks, as `kernel_masks` of the Python class gives it.
pub(crate) fn masks(parameters: &Bound<'_, PyDict>) -> PyResult<Result<Masks>> {
    let given = |name: &str| parameters.get_item(name).map(|item| item.filter(|v| !v.is_none()));
    let Some(stack) = given("masks")? else {
        return Ok(Err(Error::bug("masks without a stack")));
    };
    let stack = native_from_numpy(&stack)?;
    let Some(pixels) = given("pixels")? else { return Ok(Masks::try_new(stack)) };
    let (sig, starts) = (given("sig_shape")?, given("starts")?);
    let (Some(sig), Some(starts)) = (sig, starts) else {
        return Ok(Err(Error::bug("sparse masks without a shape or rows")));
    };
    Ok(sparse_masks(
        &native_from_numpy(&sig)?,
        &native_from_numpy(&starts)?,
        &native_from_numpy(&pixels)?,
        stack,
    ))
}

/// A stack of compressed rows, whose parts are arrays of int64.
fn sparse_masks(
    sig_shape: &NativeArray,
    starts: &NativeArray,
    pixels: &NativeArray,
    values: NativeArray,
) -> Result<Masks> {
    let numbers = |array: &NativeArray| {
        let count =
            |&number: &i64| usize::try_from(number).map_err(|e| Error::invalid(e.to_string()));
        array.as_slice::<i64>()?.iter().map(count).collect::<Result<Vec<usize>>>()
    };
    Masks::try_new_sparse(&numbers(sig_shape)?, &numbers(starts)?, &numbers(pixels)?, values)
}

fn dtype(value: Option<Bound<'_, PyAny>>) -> PyResult<Result<Option<DType>>> {
    let Some(value) = value else { return Ok(Ok(None)) };
    let name = value.extract::<String>()?;
    Ok(StoredDType::parse(&name).map(|stored| Some(stored.dtype)))
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
