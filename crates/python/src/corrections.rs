//! Corrections of raw pixels.

use crate::arrays::native_from_numpy;
use crate::errors::OrRaise;
use framefold::core::{self, NativeArray};
use pyo3::prelude::*;
use std::sync::Arc;

/// Checked corrections for frames of one shape.
#[pyclass(frozen, module = "framefold._engine")]
pub(crate) struct Corrections(Arc<core::Corrections>);

impl Corrections {
    pub(crate) fn inner(&self) -> Arc<core::Corrections> {
        self.0.clone()
    }
}

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
        let made =
            py.detach(|| core::Corrections::try_new(&sig_shape, dark, gain, excluded, allow_empty));
        Ok(Corrections(Arc::new(made.or_raise(py)?)))
    }
}
