//! Partial results as plain Python values, to be sent elsewhere, and back.

use crate::arrays::{native_from_numpy, to_numpy};
use crate::errors::OrRaise;
use crate::udf::PyForeign;
use framefold::core::{Array, Partial};
use framefold::exec::MergedState;
use pyo3::prelude::*;

/// Name and value of one array; of a value that is not the engine's own, the size in bytes.
pub(crate) type Part = (String, Py<PyAny>, Option<usize>);

/// The arrays of one UDF's partial result. Their memory is handed over, not copied.
pub(crate) fn split(py: Python<'_>, mut partial: Partial) -> PyResult<Vec<Part>> {
    let names: Vec<String> = partial.arrays().iter().map(|(name, _)| name.clone()).collect();
    let mut parts = Vec::with_capacity(names.len());
    for name in names {
        let array = partial.take(&name).or_raise(py)?;
        let len_bytes = match &array {
            Array::Native(_) => None,
            Array::Foreign(foreign) => Some(foreign.len_bytes()),
        };
        parts.push((name, to_numpy(py, array)?.unbind(), len_bytes));
    }
    Ok(parts)
}

/// The partial result that [`split`] took apart. The engine's own arrays are copied.
pub(crate) fn join(py: Python<'_>, parts: Vec<Part>) -> PyResult<Partial> {
    let mut partial = Partial::new();
    for (name, value, len_bytes) in parts {
        let array = match len_bytes {
            None => Array::Native(native_from_numpy(value.bind(py))?),
            Some(len_bytes) => Array::Foreign(Box::new(PyForeign::new(value, len_bytes))),
        };
        partial = partial.with(name, array);
    }
    Ok(partial)
}

/// [`split`] for what was merged so far.
pub(crate) fn split_state(py: Python<'_>, state: MergedState) -> PyResult<Vec<Vec<Vec<Part>>>> {
    let of_band = |partials: Vec<Partial>| partials.into_iter().map(|p| split(py, p)).collect();
    state.into_iter().map(of_band).collect()
}

/// [`join`] for what [`split_state`] took apart.
pub(crate) fn join_state(py: Python<'_>, state: Vec<Vec<Vec<Part>>>) -> PyResult<MergedState> {
    let of_band = |partials: Vec<Vec<Part>>| partials.into_iter().map(|p| join(py, p)).collect();
    state.into_iter().map(of_band).collect()
}
