//! The colours of the command line's pictures, for those of the Python package.

use crate::ending::detached;
use framefold_cli::render::direction_colour;
use framefold_python_macros::caught;
use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

/// The colours of vectors: red, green and blue of each. Full saturation from length `vmax` on; black
/// where a component is not finite.
#[caught]
#[pyfunction]
pub(crate) fn vector_colours<'py>(
    py: Python<'py>,
    y: PyReadonlyArray1<'py, f64>,
    x: PyReadonlyArray1<'py, f64>,
    vmax: f64,
) -> PyResult<Bound<'py, PyArray1<u8>>> {
    // Copies: while this thread is detached, others may write to the arrays.
    let (y, x) = (y.as_slice()?.to_vec(), x.as_slice()?.to_vec());
    let colour = |(y, x): (&f64, &f64)| {
        if !(y.is_finite() && x.is_finite()) {
            return [0; 3];
        }
        let length = y.hypot(*x);
        let saturation = match vmax > 0.0 {
            true => length / vmax,
            // Nothing has a length, or everything that has one is too long.
            false => f64::from(u8::from(length > 0.0)),
        };
        direction_colour(*y, *x, saturation)
    };
    let colours = detached(py, || y.iter().zip(&x).flat_map(colour).collect::<Vec<u8>>());
    Ok(PyArray1::from_vec(py, colours))
}
