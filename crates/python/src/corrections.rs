//! Corrections of raw pixels.

use crate::arrays::{native_from_numpy, native_to_numpy};
use crate::ending::detached;
use crate::errors::OrRaise;
use framefold::core::{self, NativeArray, TypedVec};
use framefold_python_macros::caught;
use pyo3::prelude::*;
use std::sync::Arc;

/// Checked corrections for frames of one shape.
#[pyclass(frozen, module = "framefold._engine")]
pub(crate) struct Corrections(Arc<core::Corrections>);

impl Corrections {
    fn plane<'py>(
        &self,
        py: Python<'py>,
        values: Option<&TypedVec>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let array = values.map(|values| NativeArray::try_new(self.0.sig_shape(), values.clone()));
        array.transpose().or_raise(py)?.map(|array| native_to_numpy(py, array)).transpose()
    }

    pub(crate) fn new_from(inner: Arc<core::Corrections>) -> Self {
        Corrections(inner)
    }

    pub(crate) fn inner(&self) -> Arc<core::Corrections> {
        self.0.clone()
    }
}

/// What is given to [`Corrections::new`].
type Pickled<'py> =
    (Vec<usize>, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, Vec<usize>, bool);

#[caught]
#[pymethods]
impl Corrections {
    /// Corrections for frames of `sig_shape`; `excluded` holds flat cells.
    #[new]
    #[pyo3(signature = (sig_shape, dark=None, gain=None, excluded=vec![], allow_empty=false))]
    fn new(
        py: Python<'_>,
        sig_shape: Vec<usize>,
        dark: Option<&Bound<'_, PyAny>>,
        gain: Option<&Bound<'_, PyAny>>,
        excluded: Vec<usize>,
        allow_empty: bool,
    ) -> PyResult<Self> {
        let plane = |array: Option<&Bound<'_, PyAny>>| -> PyResult<Option<NativeArray>> {
            array.map(native_from_numpy).transpose()
        };
        let (dark, gain) = (plane(dark)?, plane(gain)?);
        let made = detached(py, || {
            core::Corrections::try_new(&sig_shape, dark, gain, excluded, allow_empty)
        });
        Ok(Corrections(Arc::new(made.or_raise(py)?)))
    }

    /// Pickles hold what was checked already.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Pickled<'py>)> {
        let class = py.get_type::<Corrections>().into_any();
        let shape = self.0.sig_shape().to_vec();
        Ok((class, (shape, self.dark(py)?, self.gain(py)?, self.excluded(), true)))
    }

    /// What is subtracted, in the shape of a frame.
    #[getter]
    fn dark<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.plane(py, self.0.dark())
    }

    /// What is multiplied with, in the shape of a frame.
    #[getter]
    fn gain<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.plane(py, self.0.gain())
    }

    /// The excluded pixels as flat cells of the frame, ascending.
    #[getter]
    fn excluded(&self) -> Vec<usize> {
        self.0.excluded().to_vec()
    }
}
