//! Keyword arguments of `Context.load` as the engine's options, and the options of the formats.

use crate::ending::detached;
use crate::errors::OrRaise;
use crate::file_path::FilePath;
use framefold::core::{ByteOrder, Error};
use framefold::io::{self, Format, OpenOptions, OptionKind, OptionSpec, OptionValue};
use framefold::{ErrorKind, Result};
use framefold_python_macros::caught;
use pyo3::IntoPyObjectExt;
use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyByteArray, PyBytes, PyDict, PyTuple};
use std::path::{Path, PathBuf};

/// What the engine takes for all formats, beside the options in their rows.
const NUM_PARTITIONS: OptionSpec = OptionSpec::new(
    "num_partitions",
    OptionKind::Count,
    "How many partitions to process the data in; by default as the planner sees fit",
);

/// The engine's options for a file of a format, or `"auto"`, and the number of partitions, if it was given.
pub(crate) fn open_options(
    format: &str,
    path: &Path,
    given: &Bound<'_, PyDict>,
) -> PyResult<(OpenOptions, Option<usize>)> {
    let py = given.py();
    let mut options = OpenOptions::default();
    let mut num_partitions = None;
    let specs: Vec<OptionSpec> = specs(py, format, path, given)?;
    for (name, value) in given {
        let name: String = name.extract()?;
        let known = |spec: &&OptionSpec| spec.name == name || spec.alias == Some(name.as_str());
        let Some(spec) = specs.iter().find(known) else {
            let names: Vec<&str> = specs.iter().map(|spec| spec.name).collect();
            let error = Error::invalid(format!("there is no option '{name}'"));
            return Err(error.with_hint(format!("there are {}", names.join(", ")))).or_raise(py);
        };
        if value.is_none() {
            if spec.takes_none {
                options.set(spec, OptionValue::Nothing).or_raise(py)?;
            }
            continue;
        }
        // By the name that was given, which may be the other one.
        let name = if spec.name == name { spec.name } else { spec.alias.unwrap_or(spec.name) };
        let mut named = *spec;
        named.name = name;
        let value = option_value(&named, &value).or_raise(py)?;
        if spec.name == NUM_PARTITIONS.name {
            num_partitions = match value {
                OptionValue::Count(count) => usize::try_from(count).ok(),
                _ => None,
            };
        } else {
            options.set(spec, value).or_raise(py)?;
        }
    }
    Ok((options, num_partitions))
}

/// The options of the format that opens the file, and those that other formats have.
fn specs(
    py: Python<'_>,
    format: &str,
    path: &Path,
    given: &Bound<'_, PyDict>,
) -> PyResult<Vec<OptionSpec>> {
    let formats = io::formats();
    let mut found = formats.iter().copied().find(|known| known.name == format);
    if format == "auto" && given.keys().iter().any(|name| depends(&name.to_string(), &formats)) {
        let first = given.get_item("files")?.and_then(|files| files.get_item(0).ok());
        let first = first.and_then(|file| file.extract::<PathBuf>().ok());
        let path = first.as_deref().unwrap_or(path);
        found = match detached(py, || io::detect(path)) {
            Ok(detection) => Some(detection.format),
            Err(error) if error.kind() == ErrorKind::UserCode => return Err(error).or_raise(py),
            // A file of no format is refused when it is opened.
            Err(_) => None,
        };
    }
    let mut specs = vec![NUM_PARTITIONS];
    let own = found.map_or(&[][..], |format| format.options);
    let others = io::FORMATS.iter().chain(formats).flat_map(|format| format.options);
    for spec in own.iter().chain(others) {
        if specs.iter().all(|known| known.name != spec.name) {
            specs.push(*spec);
        }
    }
    Ok(specs)
}

/// Whether it depends on the format what the value of an option means.
fn depends(name: &str, formats: &[&Format]) -> bool {
    let mut specs = formats.iter().flat_map(|format| format.options).filter(|s| s.name == name);
    specs.next().is_some_and(|first| specs.any(|spec| !first.is_like(spec)))
}

/// The value of an option that a caller gave.
fn option_value(spec: &OptionSpec, value: &Bound<'_, PyAny>) -> Result<OptionValue> {
    let wrong = || spec.wrong(&shown(value));
    let wrong_of = |_: PyErr| wrong();
    let text = || value.extract::<String>().map_err(wrong_of);
    match spec.kind {
        OptionKind::Shape => numbers(value).map(OptionValue::Shape).map_err(wrong_of),
        OptionKind::Count | OptionKind::Bytes => {
            number(value).map(OptionValue::Count).map_err(wrong_of)
        }
        OptionKind::Integer => number(value).map(OptionValue::Integer).map_err(wrong_of),
        OptionKind::Number => match number::<f64>(value) {
            Ok(number) if number.is_finite() => Ok(OptionValue::Number(number)),
            _ => Err(wrong()),
        },
        OptionKind::Text => text().map(OptionValue::Text),
        OptionKind::Choice(choices) => match text() {
            Ok(word) if choices.contains(&word.as_str()) => Ok(OptionValue::Text(word)),
            _ => Err(wrong()),
        },
        OptionKind::DType => stored_dtype(spec, value),
        OptionKind::ByteOrder => spec.parse(&text()?).map_err(|_| wrong()),
        OptionKind::Flag | OptionKind::Switch { .. } => {
            // 0 and 1, too; but no texts, of which "no" would be true.
            let number = || value.extract::<u8>().ok().filter(|number| *number < 2);
            let on = value.extract::<bool>().ok().or_else(|| number().map(|number| number == 1));
            on.map(OptionValue::Switch).ok_or_else(wrong)
        }
        OptionKind::Path => value.extract().map(OptionValue::Path).map_err(wrong_of),
        OptionKind::Paths => value.extract().map(OptionValue::Paths).map_err(wrong_of),
        _ => Err(Error::bug(format!("options like '{}' cannot be given in Python", spec.name))),
    }
}

/// The items of a sequence. Bytes are text, not a sequence of the numbers that stand for its letters.
pub(crate) fn sequence<'py, T: FromPyObjectOwned<'py>>(
    value: &Bound<'py, PyAny>,
) -> PyResult<Vec<T>> {
    if value.is_instance_of::<PyBytes>() || value.is_instance_of::<PyByteArray>() {
        return Err(PyTypeError::new_err("bytes are text"));
    }
    value.extract()
}

/// The items of a sequence of numbers.
pub(crate) fn numbers<'py, T: FromPyObjectOwned<'py>>(
    value: &Bound<'py, PyAny>,
) -> PyResult<Vec<T>> {
    sequence::<Bound<'py, PyAny>>(value)?.iter().map(number).collect()
}

/// A number. True and False, of Python and of NumPy, are none, though both convert to 1 and 0.
pub(crate) fn number<'py, T: FromPyObjectOwned<'py>>(value: &Bound<'py, PyAny>) -> PyResult<T> {
    let kind = value.getattr_opt("dtype")?.and_then(|dtype| dtype.getattr("kind").ok());
    let is_truth =
        value.is_instance_of::<PyBool>() || kind.is_some_and(|kind| kind.eq("b").unwrap_or(false));
    if is_truth {
        return Err(PyTypeError::new_err("truth values are no numbers"));
    }
    value.extract().map_err(Into::into)
}

/// A dtype as NumPy understands it: a name, a type string, a class, a dtype.
fn stored_dtype(spec: &OptionSpec, value: &Bound<'_, PyAny>) -> Result<OptionValue> {
    let numpy = value.py().import("numpy");
    let dtype = numpy.and_then(|numpy| numpy.call_method1("dtype", (value,)));
    match dtype.and_then(|dtype| dtype.getattr("str")?.extract::<String>()) {
        Ok(text) => spec.parse(&text),
        Err(_) => spec.parse(&value.extract().unwrap_or_else(|_: PyErr| shown(value))),
    }
}

fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "?".to_owned(), |repr| repr.to_string())
}

/// The value of an option as Python has it.
pub(crate) fn to_python<'py>(py: Python<'py>, value: &OptionValue) -> PyResult<Bound<'py, PyAny>> {
    match value {
        OptionValue::Shape(shape) => Ok(PyTuple::new(py, shape)?.into_any()),
        OptionValue::Count(count) => count.into_bound_py_any(py),
        OptionValue::Integer(number) => number.into_bound_py_any(py),
        OptionValue::Number(number) => number.into_bound_py_any(py),
        OptionValue::Text(text) => text.into_bound_py_any(py),
        OptionValue::DType(dtype) => {
            let numpy = py.import("numpy")?;
            let order = match dtype.order {
                _ if dtype.is_native() => "=",
                ByteOrder::Little => "<",
                ByteOrder::Big => ">",
            };
            numpy.call_method1("dtype", (format!("{order}{}", dtype.dtype.code()),))
        }
        OptionValue::ByteOrder(ByteOrder::Little) => "<".into_bound_py_any(py),
        OptionValue::ByteOrder(ByteOrder::Big) => ">".into_bound_py_any(py),
        OptionValue::Switch(on) => on.into_bound_py_any(py),
        OptionValue::Path(path) => FilePath::from(path.as_path()).into_bound_py_any(py),
        OptionValue::Paths(paths) => {
            let paths: Vec<FilePath> = paths.iter().map(|path| path.as_path().into()).collect();
            paths.into_bound_py_any(py)
        }
        OptionValue::Nothing => Ok(py.None().into_bound(py)),
        _ => Err(Error::bug("an option of a kind that Python does not know")).or_raise(py),
    }
}

/// The word for what an option takes.
fn kind_name(kind: OptionKind) -> &'static str {
    match kind {
        OptionKind::Shape => "shape",
        OptionKind::Count => "count",
        OptionKind::Bytes => "bytes",
        OptionKind::Integer => "integer",
        OptionKind::Number => "number",
        OptionKind::Text => "text",
        OptionKind::Choice(_) => "choice",
        OptionKind::DType => "dtype",
        OptionKind::ByteOrder => "byte_order",
        OptionKind::Flag => "flag",
        OptionKind::Switch { .. } => "switch",
        OptionKind::Path => "path",
        OptionKind::Paths => "paths",
        _ => "other",
    }
}

/// What takes a word of [`kind_name`]; `choices` are those of `choice`.
pub(crate) fn kind_of(name: &str, choices: &'static [&'static str]) -> Option<OptionKind> {
    let kinds = [
        OptionKind::Shape,
        OptionKind::Count,
        OptionKind::Bytes,
        OptionKind::Integer,
        OptionKind::Number,
        OptionKind::Text,
        OptionKind::Choice(choices),
        OptionKind::DType,
        OptionKind::ByteOrder,
        OptionKind::Flag,
        OptionKind::Switch { off: "Turn it off" },
        OptionKind::Path,
        OptionKind::Paths,
    ];
    kinds.into_iter().find(|kind| kind_name(*kind) == name)
}

/// Name, title and extensions of a format, and its options.
type FormatRow<'py> = (&'static str, &'static str, Vec<&'static str>, Vec<Row<'py>>);

/// An option of a format: name, other name, flag, kind, choices, unit, default, whether None is another
/// value, help.
type Row<'py> = (
    &'static str,
    Option<&'static str>,
    String,
    &'static str,
    Vec<&'static str>,
    Option<&'static str>,
    Option<Bound<'py, PyAny>>,
    bool,
    &'static str,
);

/// The formats: name, title, extensions, options.
#[caught]
#[pyfunction]
pub(crate) fn format_table(py: Python<'_>) -> PyResult<Vec<FormatRow<'_>>> {
    let rows = io::formats().into_iter().map(|format| {
        let options = format.options.iter().chain([&NUM_PARTITIONS]).map(|spec| row(py, spec));
        let options = options.collect::<PyResult<Vec<Row<'_>>>>()?;
        Ok((format.name, format.title, format.extensions.to_vec(), options))
    });
    rows.collect()
}

fn row<'py>(py: Python<'py>, spec: &OptionSpec) -> PyResult<Row<'py>> {
    let choices = match spec.kind {
        OptionKind::Choice(choices) => choices.to_vec(),
        _ => Vec::new(),
    };
    let default = spec.default_value().map(|value| to_python(py, &value)).transpose()?;
    let (flag, kind) = (spec.flag_name(), kind_name(spec.kind));
    let (unit, takes_none) = (spec.unit, spec.takes_none);
    Ok((spec.name, spec.alias, flag, kind, choices, unit, default, takes_none, spec.help))
}

/// What was given for the options in the row of a format of Python's, but for those that the
/// engine goes by itself.
pub(crate) fn keywords<'py>(
    py: Python<'py>,
    specs: &[OptionSpec],
    options: &OpenOptions,
) -> PyResult<Bound<'py, PyDict>> {
    let keywords = PyDict::new(py);
    for spec in specs.iter().filter(|spec| !["nav_shape", "sync_offset"].contains(&spec.name)) {
        if let Some(value) = options.get(spec.name) {
            keywords.set_item(spec.name, to_python(py, &value)?)?;
        }
    }
    Ok(keywords)
}
