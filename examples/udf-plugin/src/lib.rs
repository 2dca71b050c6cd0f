//! Three functions for framefold: counts pixels above a threshold, adds up frames, and finds the brightest pixel.

mod brightest;
mod sum;

use framefold_abi::{
    Buffer, DType, Element, Failure, Function, Job, Requirements, Table, Tile, Views, raw,
};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

/// The number of pixels above a threshold: in each frame, and at each place.
#[derive(Clone)]
struct Counting {
    threshold: f32,
}

impl Function for Counting {
    type Task = ();

    fn name(&self) -> &str {
        "Above"
    }

    fn requirements(&self, _job: &Job<'_>) -> Result<Requirements, Failure> {
        // Or a wider one, where the data need it.
        Ok(Requirements { input: DType::of::<f32>(), ..Requirements::default() })
    }

    fn buffers(&self, _job: &Job<'_>) -> Result<Vec<Buffer>, Failure> {
        Ok(vec![Buffer::nav::<u32>("counts"), Buffer::sig::<u32>("image")])
    }

    fn process(
        &self,
        _task: &mut (),
        tile: &Tile<'_>,
        views: &mut Views<'_>,
    ) -> Result<(), Failure> {
        let [counts, image] = views.take()?;
        let (mut counts, mut image) = (counts.of::<u32>()?, image.of::<u32>()?);
        let (counts, image) = (counts.as_mut_slice()?, image.as_mut_slice()?);
        if tile.dtype() == DType::of::<f64>() {
            count(f64::from(self.threshold), tile, counts, image)
        } else {
            count(self.threshold, tile, counts, image)
        }
    }

    fn merge(&self, dest: &mut Views<'_>, src: &Views<'_>) -> Result<(), Failure> {
        let (new_counts, new_image) = (src.read::<u32>(0)?, src.read::<u32>(1)?);
        let [counts, image] = dest.take()?;
        counts.of::<u32>()?.as_mut_slice()?.copy_from_slice(new_counts);
        let mut image = image.of::<u32>()?;
        image.as_mut_slice()?.iter_mut().zip(new_image).for_each(|(sum, new)| *sum += new);
        Ok(())
    }
}

/// Counts the pixels of a tile.
fn count<T: Element + PartialOrd>(
    threshold: T,
    tile: &Tile<'_>,
    counts: &mut [u32],
    image: &mut [u32],
) -> Result<(), Failure> {
    for (count, frame) in counts.iter_mut().zip(tile.frames::<T>()?) {
        for (cell, value) in image.iter_mut().zip(frame) {
            let is_above = u32::from(*value > threshold);
            *count += is_above;
            *cell += is_above;
        }
    }
    Ok(())
}

/// The same for Python.
#[pyclass(frozen, module = "udf_plugin")]
struct Above(Counting);

#[pymethods]
impl Above {
    #[new]
    fn new(threshold: f32) -> PyResult<Self> {
        if threshold.is_nan() {
            return Err(pyo3::exceptions::PyValueError::new_err("the threshold is not a number"));
        }
        Ok(Above(Counting { threshold }))
    }

    /// What framefold runs.
    fn __framefold_udf__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, Table::of(self.0.clone()), raw::CAPSULE)
    }

    /// How other processes make it.
    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let arguments = PyTuple::new(slf.py(), [slf.get().0.threshold])?;
        Ok((slf.get_type().into_any(), arguments))
    }
}

/// The sum of frames, for Python.
#[pyclass(frozen, module = "udf_plugin")]
struct Sum;

#[pymethods]
impl Sum {
    #[new]
    fn new() -> Self {
        Sum
    }

    fn __framefold_udf__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, Table::of(sum::Summing), raw::CAPSULE)
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        Ok((slf.get_type().into_any(), PyTuple::empty(slf.py())))
    }
}

/// The brightest pixel of each frame, for Python.
#[pyclass(frozen, module = "udf_plugin")]
struct Brightest;

#[pymethods]
impl Brightest {
    #[new]
    fn new() -> Self {
        Brightest
    }

    fn __framefold_udf__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        PyCapsule::new_with_value(py, Table::of(brightest::Finding), raw::CAPSULE)
    }

    fn __reduce__<'py>(
        slf: &Bound<'py, Self>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        Ok((slf.get_type().into_any(), PyTuple::empty(slf.py())))
    }
}

#[pymodule]
mod udf_plugin {
    #[pymodule_export]
    use super::{Above, Brightest, Sum};
}
