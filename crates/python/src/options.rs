//! Keyword arguments of `Context.load` as the engine's options.

use crate::errors::OrRaise;
use framefold::core::{ByteOrder, Error, StoredDType};
use framefold::io::{Backend, OpenOptions, QuadGap};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The names that [`open_options`] understands.
const KNOWN: &[&str] = &[
    "nav_shape",
    "sig_shape",
    "ds_path",
    "sig_dims",
    "dtype",
    "sync_offset",
    "io_backend",
    "num_partitions",
    "file_header",
    "file_footer",
    "frame_header",
    "frame_footer",
    "disable_glob",
    "quad_gap",
    "enable_corrections",
    "enable_offset_correction",
    "gain_map_path",
    "endianess",
    "files",
    "same_offset",
    "force_c_order",
    "dataset_index",
    "emipath",
    "allow_external_links",
];

/// The engine's options, and the number of partitions, if it was given.
pub(crate) fn open_options(given: &Bound<'_, PyDict>) -> PyResult<(OpenOptions, Option<usize>)> {
    let py = given.py();
    let mut options = OpenOptions::default();
    let mut num_partitions = None;
    for (name, value) in given {
        let name: String = name.extract()?;
        if value.is_none() && KNOWN.contains(&name.as_str()) {
            continue;
        }
        let wrong =
            |expected: &str| Error::invalid(format!("{name}={} is not {expected}", shown(&value)));
        let shape = || value.extract::<Vec<usize>>().map_err(|_| wrong("a tuple of lengths"));
        let count = || value.extract::<usize>().map_err(|_| wrong("a whole number from 0 up"));
        let bytes = || value.extract::<u64>().map_err(|_| wrong("a number of bytes from 0 up"));
        match name.as_str() {
            "nav_shape" => options.nav_shape = Some(shape().or_raise(py)?),
            "sig_shape" => options.sig_shape = Some(shape().or_raise(py)?),
            "ds_path" => {
                let path = value.extract::<String>().map_err(|_| wrong("the name of a data set"));
                options.ds_path = Some(path.or_raise(py)?);
            }
            "sig_dims" => options.sig_dims = Some(count().or_raise(py)?),
            "dtype" => options.dtype = Some(stored_dtype(&value)?),
            "sync_offset" => {
                let offset = value.extract::<i64>().map_err(|_| wrong("a whole number"));
                options.sync_offset = offset.or_raise(py)?;
                options.fixed_sync = true;
            }
            "io_backend" => options.backend = backend(&value).or_raise(py)?,
            "num_partitions" => num_partitions = Some(count().or_raise(py)?),
            "file_header" => options.file_header = bytes().or_raise(py)?,
            "file_footer" => options.file_footer = bytes().or_raise(py)?,
            "frame_header" => options.frame_header = bytes().or_raise(py)?,
            "frame_footer" => options.frame_footer = bytes().or_raise(py)?,
            "disable_glob" => options.disable_glob = value.is_truthy()?,
            // The reference's name, which it has for FRMS6 alone.
            "enable_corrections" | "enable_offset_correction" => {
                options.enable_corrections = Some(value.is_truthy()?);
            }
            "endianess" => options.byte_order = Some(byte_order(&value).or_raise(py)?),
            "gain_map_path" => {
                let path = value.extract().map_err(|_| wrong("a path"));
                options.gain_map_path = Some(path.or_raise(py)?);
            }
            "quad_gap" => options.quad_gap = quad_gap(&value).or_raise(py)?,
            "files" => {
                let files = value.extract().map_err(|_| wrong("a list of paths"));
                options.files = files.or_raise(py)?;
            }
            "emipath" => {
                let path = value.extract().map_err(|_| wrong("a path"));
                options.emipath = Some(path.or_raise(py)?);
            }
            "allow_external_links" => options.allow_external_links = value.is_truthy()?,
            "same_offset" => options.same_offset = value.is_truthy()?,
            "force_c_order" => options.force_c_order = value.is_truthy()?,
            "dataset_index" => options.dataset_index = Some(count().or_raise(py)?),
            _ => {
                let error = Error::invalid(format!("there is no option '{name}'"))
                    .with_hint(format!("there are {}", KNOWN.join(", ")));
                return Err(error).or_raise(py);
            }
        }
    }
    Ok((options, num_partitions))
}

/// A dtype as NumPy understands it: a name, a type string, a class, a dtype.
fn stored_dtype(value: &Bound<'_, PyAny>) -> PyResult<StoredDType> {
    let py = value.py();
    let dtype = match py.import("numpy")?.call_method1("dtype", (value,)) {
        Ok(dtype) => dtype.getattr("str")?.extract::<String>()?,
        Err(_) => shown(value),
    };
    StoredDType::parse(&dtype).or_raise(py)
}

fn backend(value: &Bound<'_, PyAny>) -> framefold::Result<Backend> {
    match value.extract::<String>().as_deref() {
        Ok("mmap") => Ok(Backend::Mmap),
        Ok("buffered") => Ok(Backend::Buffered),
        _ => Err(Error::invalid(format!("there is no I/O backend {}", shown(value)))
            .with_hint("use 'mmap' or 'buffered'")),
    }
}

fn byte_order(value: &Bound<'_, PyAny>) -> framefold::Result<ByteOrder> {
    match value.extract::<String>().as_deref() {
        Ok("<") => Ok(ByteOrder::Little),
        Ok(">") => Ok(ByteOrder::Big),
        _ => Err(Error::invalid(format!("endianess={} has no meaning", shown(value)))
            .with_hint("use '<' for little endian or '>' for big endian")),
    }
}

fn quad_gap(value: &Bound<'_, PyAny>) -> framefold::Result<QuadGap> {
    match value.extract::<String>().as_deref() {
        Ok("omit") => Ok(QuadGap::Omit),
        Ok("insert") => Ok(QuadGap::Insert),
        _ => Err(Error::invalid(format!("quad_gap={} has no meaning", shown(value)))
            .with_hint("use 'omit' or 'insert'")),
    }
}

fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "?".to_owned(), |repr| repr.to_string())
}
