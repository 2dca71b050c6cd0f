//! Files of results that get their rows while a run goes on.

use crate::ending::detached;
use crate::errors::OrRaise;
use crate::file_path::FilePath;
use framefold::Error;
use framefold::core::Sink;
use framefold::io::{OutputKind, RowsDone, RowsEntry, RowsLayout, RowsSink, WholeOutput};
use framefold_python_macros::caught;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Outputs in the making, and what a run passes its rows on to.
#[pyclass(frozen, module = "framefold._engine")]
pub(crate) struct RowFiles {
    /// Until they are published or discarded.
    outputs: Mutex<Vec<WholeOutput>>,
    sink: Mutex<Option<RowsSink>>,
    parts: Vec<PathBuf>,
    records: Vec<Option<String>>,
}

/// The number of the UDF, the name of the buffer, the number of the output; for folders the file
/// within and the size of its chunks.
type Entry = (usize, String, usize, Option<(PathBuf, u64)>);

#[caught]
#[pymethods]
impl RowFiles {
    /// Begins outputs, each a file or, if so, a folder for Zarr, which may replace what there is. With
    /// `resume`, goes on with parts that were left, if there are records of all of them.
    #[new]
    #[pyo3(signature = (paths, replace, resume, inputs))]
    fn new(
        py: Python<'_>,
        paths: Vec<(PathBuf, bool)>,
        replace: bool,
        resume: bool,
        inputs: Vec<PathBuf>,
    ) -> PyResult<Self> {
        let begun = detached(py, || {
            let (mut outputs, mut records) = (Vec::new(), Vec::new());
            for (path, is_folder) in &paths {
                let kind = if *is_folder { OutputKind::ZarrGroup } else { OutputKind::File };
                let (output, record) = match resume {
                    true => WholeOutput::resume(path, kind, replace, &inputs)?,
                    false => (WholeOutput::create(path, kind, replace, &inputs)?, None),
                };
                outputs.push(output);
                records.push(record);
            }
            Ok((outputs, records))
        });
        let (outputs, records) = begun.or_raise(py)?;
        let parts = outputs.iter().map(|output| output.part().to_path_buf()).collect();
        let (outputs, sink) = (Mutex::new(outputs), Mutex::new(None));
        Ok(RowFiles { outputs, sink, parts, records })
    }

    /// Where they are until they are published.
    #[getter]
    fn parts(&self) -> Vec<FilePath> {
        self.parts.iter().map(|path| path.as_path().into()).collect()
    }

    /// What the records say of the parts that were left; None for those that are new.
    #[getter]
    fn records(&self) -> Vec<Option<String>> {
        self.records.clone()
    }

    /// Says which rows are to come. With `about`, a JSON object, there are records from now on, which
    /// say that and how far they are; `n_merged` and `position` are what earlier ones said.
    #[pyo3(signature = (entries, about=None, n_merged=0, position=0))]
    fn prepare(
        &self,
        py: Python<'_>,
        entries: Vec<Entry>,
        about: Option<&str>,
        n_merged: usize,
        position: usize,
    ) -> PyResult<()> {
        let entries = entries.into_iter().map(|(udf, name, output, place)| {
            let layout = match place {
                Some((file, chunk_bytes)) => RowsLayout::Chunks { file, chunk_bytes },
                None => RowsLayout::Npy,
            };
            RowsEntry { udf, name, output, layout }
        });
        let done = RowsDone { n_merged, position };
        let sink = RowsSink::try_new(&self.lock(), entries.collect(), about, done).or_raise(py)?;
        *self.sink.lock().unwrap_or_else(PoisonError::into_inner) = Some(sink);
        Ok(())
    }

    /// Gives all of them their names; nothing, if that was done or they were discarded.
    fn publish(&self, py: Python<'_>) -> PyResult<()> {
        let mut outputs = std::mem::take(&mut *self.lock());
        // Of several, those stay that cannot have their names.
        outputs.iter_mut().for_each(WholeOutput::keep);
        let publish = || outputs.into_iter().try_for_each(WholeOutput::publish);
        detached(py, publish).or_raise(py)
    }

    /// Leaves them as they are, for a run that goes on with them.
    fn keep(&self) -> PyResult<()> {
        for mut output in std::mem::take(&mut *self.lock()) {
            output.keep();
        }
        Ok(())
    }

    /// Removes them, unless they are published.
    fn discard(&self) -> PyResult<()> {
        for output in std::mem::take(&mut *self.lock()) {
            output.discard();
        }
        Ok(())
    }
}

impl RowFiles {
    fn lock(&self) -> MutexGuard<'_, Vec<WholeOutput>> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a driver passes rows on to; can be taken once.
    pub(crate) fn take_sink(&self) -> framefold::Result<Box<dyn Sink>> {
        let sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner).take();
        let sink = sink.ok_or_else(|| Error::invalid("these files belong to a run already"))?;
        Ok(Box::new(sink))
    }
}
