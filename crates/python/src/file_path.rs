//! Paths as Python has them.

use pyo3::prelude::*;
#[cfg(unix)]
use pyo3::types::PyBytes;
use std::path::{Path, PathBuf};

/// A path that Python gets as its own functions give paths: as text from which `os.fsencode` makes the
/// bytes of the name again, also where names are not UTF-8 in the locale.
pub(crate) struct FilePath(pub(crate) PathBuf);

impl From<&Path> for FilePath {
    fn from(path: &Path) -> Self {
        FilePath(path.to_path_buf())
    }
}

impl FilePath {
    /// The text alone.
    #[cfg(unix)]
    pub(crate) fn text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        use std::os::unix::ffi::OsStrExt;
        let bytes = PyBytes::new(py, self.0.as_os_str().as_bytes());
        py.import("os")?.call_method1("fsdecode", (bytes,))
    }

    /// The text alone.
    #[cfg(not(unix))]
    pub(crate) fn text<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        use pyo3::IntoPyObjectExt;
        self.0.as_os_str().into_bound_py_any(py)
    }
}

impl<'py> IntoPyObject<'py> for FilePath {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        py.import("pathlib")?.call_method1("Path", (self.text(py)?,))
    }
}
