//! Products of single frames with masks that are moved against them.

use crate::ending::detached;
use crate::errors::OrRaise;
use crate::native::given;
use framefold::core::{Complex64, Complex128};
use framefold::kernels::{FrameCells, Masks, ShiftedMasks, reduction};
use framefold_python_macros::caught;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// A stack of masks.
#[pyclass(frozen, name = "ShiftedMasks", module = "framefold._engine")]
pub(crate) struct PyShiftedMasks(ShiftedMasks);

type Read<'py, T> = PyReadonlyArray1<'py, T>;

#[caught]
#[pymethods]
impl PyShiftedMasks {
    /// From parameters of the reduction `masks`, for frames of shape `sig_shape`.
    #[new]
    fn new(
        py: Python<'_>,
        parameters: &Bound<'_, PyDict>,
        sig_shape: Vec<usize>,
    ) -> PyResult<Self> {
        let mut given = given(reduction("masks").or_raise(py)?, parameters)?;
        let masks = Masks::from_parameters(&mut given, &sig_shape).or_raise(py)?;
        Ok(PyShiftedMasks(ShiftedMasks::new(masks)))
    }

    /// Complex products of a flat frame, float32 to complex128, with each mask; of entries in
    /// double precision, if there are `columns`.
    #[pyo3(signature = (values, shifts, columns=None))]
    fn products<'py>(
        &self,
        py: Python<'py>,
        values: &Bound<'py, PyAny>,
        shifts: Vec<f64>,
        columns: Option<Read<'py, u32>>,
    ) -> PyResult<Bound<'py, PyArray1<Complex128>>> {
        let columns = columns.as_ref().map(|columns| columns.as_slice()).transpose()?;
        let work = |cells: FrameCells<'_>| detached(py, || self.0.products(cells, &shifts));
        let products = if let Ok(values) = values.extract::<Read<'py, f64>>() {
            let values = values.as_slice()?;
            work(columns.map_or(FrameCells::Double(values), |c| FrameCells::Entries(c, values)))
        } else if let Ok(values) = values.extract::<Read<'py, Complex128>>() {
            let values = values.as_slice()?;
            let entries = |c| FrameCells::ComplexEntries(c, values);
            work(columns.map_or(FrameCells::DoubleComplex(values), entries))
        } else if columns.is_some() {
            return Err(PyTypeError::new_err("entries in double precision"));
        } else if let Ok(values) = values.extract::<Read<'py, f32>>() {
            work(FrameCells::Single(values.as_slice()?))
        } else {
            let values = values.extract::<Read<'py, Complex64>>()?;
            work(FrameCells::SingleComplex(values.as_slice()?))
        };
        Ok(PyArray1::from_vec(py, products.or_raise(py)?))
    }
}
