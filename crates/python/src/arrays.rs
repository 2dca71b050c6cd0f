//! NumPy arrays that show the engine's memory, and results that become NumPy arrays.

use framefold::core::{Array, DType, NativeArray, Roi, TypedVec};
use numpy::npyffi::{
    self, NPY_ARRAY_WRITEABLE, NpyTypes, PY_ARRAY_API, PyArray_Descr, PyArrayObject, npy_intp,
};
use numpy::{PyArray1, PyArrayDescr, PyArrayMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyMemoryError;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyAnyMethods};
use std::ffi::c_void;

/// The most axes an array of ours has: NumPy 1.x allows no more.
pub(crate) const MAX_DIMS: usize = 32;

/// Where the elements of a view lie.
pub(crate) struct Layout<'a> {
    /// The first element.
    pub(crate) start: *mut u8,
    /// The length of each axis.
    pub(crate) shape: &'a [npy_intp],
    /// The distance between elements along each axis, in bytes.
    pub(crate) strides: &'a [npy_intp],
    /// Whether Python may write.
    pub(crate) writeable: bool,
}

/// A NumPy array that shows memory which `base` keeps alive.
///
/// # Safety
/// All elements that `layout` describes must lie in memory that stays valid, and is not written
/// by Rust, while `base` is alive; `layout.writeable` only if Python code may write to it.
pub(crate) unsafe fn view<'py>(
    py: Python<'py>,
    descr: &Bound<'py, PyArrayDescr>,
    layout: &Layout<'_>,
    base: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let n_dims =
        i32::try_from(layout.shape.len()).map_err(|_| PyMemoryError::new_err("too many axes"))?;
    let flags = if layout.writeable { NPY_ARRAY_WRITEABLE } else { 0 };
    // SAFETY: shape and strides have `n_dims` entries; NewFromDescr steals the reference to the
    // descriptor that `into_ptr` gives up, and copies shape and strides; the memory is valid by
    // this function's contract. SetBaseObject steals the reference to the base.
    unsafe {
        let descr = descr.clone().into_ptr().cast::<PyArray_Descr>();
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            npyffi::get_type_object(py, NpyTypes::PyArray_Type),
            descr,
            n_dims,
            layout.shape.as_ptr().cast_mut(),
            layout.strides.as_ptr().cast_mut(),
            layout.start.cast::<c_void>(),
            flags,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        let failed = PY_ARRAY_API.PyArray_SetBaseObject(
            py,
            array.as_ptr().cast::<PyArrayObject>(),
            base.clone().into_ptr(),
        );
        if failed == -1 { Err(PyErr::fetch(py)) } else { Ok(array) }
    }
}

/// The NumPy descriptor of an engine dtype.
pub(crate) fn descr(py: Python<'_>, dtype: DType) -> PyResult<Bound<'_, PyArrayDescr>> {
    PyArrayDescr::new(py, dtype.name())
}

/// Where the data of an existing array lie.
pub(crate) struct ArrayMemory {
    pub(crate) start: *mut u8,
    pub(crate) shape: Vec<npy_intp>,
    pub(crate) strides: Vec<npy_intp>,
}

/// Looks up where the data of `array` lie.
pub(crate) fn memory_of(array: &Bound<'_, PyUntypedArray>) -> ArrayMemory {
    let pointer = array.as_array_ptr();
    // SAFETY: the pointer is that of a live array object.
    let start = unsafe { (*pointer).fields.data.cast::<u8>() };
    ArrayMemory {
        start,
        shape: array
            .shape()
            .iter()
            .map(|&n| npy_intp::try_from(n).unwrap_or(npy_intp::MAX))
            .collect(),
        strides: array.strides().to_vec(),
    }
}

macro_rules! by_dtype {
    ($values:expr, $py:expr, $($variant:ident),*) => {
        match $values {
            TypedVec::Bool(values) => {
                // NumPy's bool: bytes that are 0 or 1.
                let values: Vec<bool> = values.into_iter().map(framefold::core::Bool8::get).collect();
                PyArray1::from_vec($py, values).into_any()
            }
            $(TypedVec::$variant(values) => PyArray1::from_vec($py, values).into_any(),)*
            // The crates' half and complex types differ from NumPy's bindings in name only;
            // their bytes are copied.
            other => from_bytes($py, &other)?,
        }
    };
}

/// A native array as a NumPy array: its memory is handed over, not copied (but for bool, half
/// and complex values).
pub(crate) fn native_to_numpy(py: Python<'_>, array: NativeArray) -> PyResult<Bound<'_, PyAny>> {
    let shape = array.shape().to_vec();
    let flat = by_dtype!(array.into_values(), py, U8, U16, U32, U64, I8, I16, I32, I64, F32, F64);
    flat.call_method1("reshape", (shape,))
}

fn from_bytes<'py>(py: Python<'py>, values: &TypedVec) -> PyResult<Bound<'py, PyAny>> {
    let bytes = PyArray1::from_slice(py, values.as_bytes());
    bytes.call_method1("view", (values.dtype().name(),))
}

/// A native or foreign array as a NumPy array.
pub(crate) fn to_numpy(py: Python<'_>, array: Array) -> PyResult<Bound<'_, PyAny>> {
    match array {
        Array::Native(array) => native_to_numpy(py, array),
        Array::Foreign(foreign) => match foreign.into_any().downcast::<crate::udf::PyForeign>() {
            Ok(object) => Ok(object.into_inner().into_bound(py)),
            Err(_) => Err(pyo3::exceptions::PyRuntimeError::new_err("an unknown kind of array")),
        },
    }
}

/// The positions that a NumPy mask in C order selects.
///
/// NumPy's booleans may be other bytes than 0 and 1, and no `bool` of Rust may: they are looked at as bytes.
pub(crate) fn roi_of(mask: &Bound<'_, PyArray1<bool>>) -> PyResult<Roi> {
    let bytes = mask.call_method1("view", ("uint8",))?;
    let bytes = bytes.cast::<PyArray1<u8>>()?.readonly();
    crate::errors::OrRaise::or_raise(Roi::from_bytes(bytes.as_slice()?), mask.py())
}

/// A NumPy array as a native array: copied, in C order and native byte order.
pub(crate) fn native_from_numpy(array: &Bound<'_, PyAny>) -> PyResult<NativeArray> {
    let py = array.py();
    let numpy = py.import("numpy")?;
    let array = numpy.call_method1("ascontiguousarray", (array,))?;
    let dtype_name: String = array.getattr("dtype")?.getattr("name")?.extract()?;
    let stored = framefold::core::StoredDType::parse(&dtype_name);
    let dtype = crate::errors::OrRaise::or_raise(stored, py)?.dtype;
    let unless_needed = [("copy", false)].into_py_dict(py)?;
    let native = array.call_method("astype", (dtype.name(),), Some(&unless_needed))?;
    let shape: Vec<usize> = native.getattr("shape")?.extract()?;
    let bytes = native.call_method1("reshape", (-1,))?.call_method1("view", ("uint8",))?;
    let bytes = bytes.cast::<PyArray1<u8>>()?.readonly();
    let mut values = TypedVec::zeros(dtype, shape.iter().product());
    values.as_bytes_mut().copy_from_slice(bytes.as_slice()?);
    crate::errors::OrRaise::or_raise(NativeArray::try_new(&shape, values), py)
}
