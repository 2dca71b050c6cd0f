//! The Python front of the engine: the only crate that names pyo3.
//!
//! Python passes plain descriptions in and gets NumPy arrays back. A Python UDF becomes one more
//! implementer of the engine's `Udf` contract (`udf::PyUdf`); the engine cannot tell it from a
//! native kernel. Runs are entered through one door (`plan`), which releases the GIL, looks for
//! signals, and gives exceptions from user code back as themselves.

mod allocator;
mod arrays;
mod capsules;
mod cli;
mod colours;
mod convert;
mod corrections;
mod dataset;
mod door;
mod driver;
mod ending;
mod errors;
mod file_path;
mod frames;
mod memory;
mod moving_view;
mod native;
mod observer;
mod options;
mod own_formats;
mod parts;
mod plan;
mod plugin;
mod row_files;
mod schedule;
mod shifted;
mod sparse;
mod transform;
mod udf;
mod verbs;
mod viewer;
mod whole;
mod words;

use pyo3::prelude::*;

// What reads reference counts and writes array headers (`moving_view`, `udf::binding::cut`) counts on
// the interpreter's lock. An interpreter without one takes it again when it imports this.
#[pymodule(gil_used = true)]
mod _engine {
    #[pymodule_export]
    use super::cli::{cli_main, nearest_names, parse_roi};
    #[pymodule_export]
    use super::colours::vector_colours;
    #[pymodule_export]
    use super::convert::{write_dataset, write_raw_csr};
    #[pymodule_export]
    use super::corrections::Corrections;
    #[pymodule_export]
    use super::dataset::{
        PyDataset, detect, from_array, known_extensions, known_formats, known_metadata,
        known_stages, load, parse_steps,
    };
    #[pymodule_export]
    use super::door::panic_in_next_call;
    #[pymodule_export]
    use super::driver::{PyDriver, PyLasting};
    #[pymodule_export]
    use super::ending::{end_threads, threads_left};
    #[pymodule_export]
    use super::frames::from_pieces;
    #[pymodule_export]
    use super::memory::check_memory;
    #[pymodule_export]
    use super::native::{NativeUdf, doubts, native_reductions};
    #[pymodule_export]
    use super::options::format_table;
    #[pymodule_export]
    use super::own_formats::register_format;
    #[pymodule_export]
    use super::plan::PyPlan;
    #[pymodule_export]
    use super::row_files::RowFiles;
    #[pymodule_export]
    use super::schedule::PySchedule;
    #[pymodule_export]
    use super::shifted::PyShiftedMasks;
    #[pymodule_export]
    use super::sparse::from_csr;
    #[pymodule_export]
    use super::udf::{CompiledCode, TileCursor};
    #[pymodule_export]
    use super::verbs::{Partial, PyResults};
    #[pymodule_export]
    use super::viewer::{ViewerHostOfPython, ViewerSession, viewer_page};
    #[pymodule_export]
    use super::whole::{WholeFile, keeps_inputs, part_of};
    use super::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        framefold::exec::heed_system_memory();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
