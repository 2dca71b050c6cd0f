//! Functions that others compiled, in capsules of Python objects.

use crate::errors::from_python;
use framefold::plugins::{Table, abi::raw};
use framefold::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::ffi::CStr;
use std::sync::Arc;

/// The table in the capsule that a method of `function` returns.
///
/// # Errors
/// `InvalidArgument` if there is no such method, it returns anything else, or the table cannot be used;
/// what the method raises.
pub(crate) fn table(function: &Bound<'_, PyAny>) -> Result<Table> {
    let class = function.get_type().name();
    let class = class.map_or_else(|_| "a function".to_owned(), |name| name.to_string());
    checked_table(function).map_err(|error| error.with_udf(class))
}

fn checked_table(function: &Bound<'_, PyAny>) -> Result<Table> {
    let returned = function
        .call_method0(raw::METHOD)
        .map_err(|exception| from_python(exception, format!("calling {}()", raw::METHOD)))?;
    let expected = raw::CAPSULE.to_string_lossy();
    let Ok(capsule) = returned.cast::<PyCapsule>() else {
        let found = returned.get_type().name().map_or_else(|_| String::new(), |n| n.to_string());
        return Err(Error::invalid(format!(
            "{}() returned an object of type {found}, expected a capsule named '{expected}'",
            raw::METHOD
        )));
    };
    let Ok(pointer) = capsule.pointer_checked(Some(raw::CAPSULE)) else {
        return Err(wrong_name(capsule));
    };
    let owner = Arc::new((returned.clone().unbind(), function.clone().unbind()));
    // SAFETY: the name says what the capsule points to, and it lives as long as its owner.
    unsafe { Table::try_new(pointer.as_ptr().cast_const().cast(), owner) }
}

fn wrong_name(capsule: &Bound<'_, PyCapsule>) -> Error {
    // SAFETY: the capsule is alive, and nothing renames it meanwhile.
    let name = capsule.name().ok().flatten().map(|name| unsafe { name.as_cstr() }.to_owned());
    let name = name.as_deref().map(CStr::to_string_lossy);
    let expected = raw::CAPSULE.to_string_lossy();
    let found = match &name {
        Some(name) => format!("a capsule named '{name}'"),
        None => "a capsule without a name".to_owned(),
    };
    let error = Error::invalid(format!(
        "{}() returned {found}, expected one named '{expected}'",
        raw::METHOD
    ));
    match name.as_deref().and_then(|name| name.strip_prefix("framefold.udf_v")) {
        Some(major) => error.with_hint(format!(
            "it is of major version {major} of the interface, and this framefold knows {}: update the \
             older of the two",
            raw::MAJOR
        )),
        None => error,
    }
}
