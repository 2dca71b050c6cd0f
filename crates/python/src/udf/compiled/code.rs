//! The code of a run, with what its parameters have changed to.

use super::{Compiled, Entry, Program};
use crate::errors::OrRaise;
use framefold::Error;
use framefold_python_macros::caught;
use pyo3::prelude::*;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What partitions run, by their first frames: parameters may change in the middle of a run.
#[pyclass(frozen, module = "framefold._engine")]
pub(crate) struct CompiledCode(Mutex<Versions>);

/// Code with the parameters of a run, and with those that it changed to.
struct Versions {
    first: Arc<Compiled>,
    /// From which frame on there are others, in the order of the changes.
    changes: Vec<(usize, Arc<Compiled>)>,
    /// No frame from this one on was begun with in this process.
    begun: usize,
}

impl Versions {
    /// What a partition that begins at that frame runs.
    fn at(&self, start: usize) -> &Arc<Compiled> {
        let latest = self.changes.iter().rev().find(|(first, _)| *first <= start);
        latest.map_or(&self.first, |(_, compiled)| compiled)
    }
}

#[caught]
#[pymethods]
impl CompiledCode {
    /// Machine code by addresses, `(process, end, merge)` with 0 for what there is not, and its data;
    /// `owner` keeps all of it alive.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "one caller, which names them")]
    fn new(
        py: Python<'_>,
        name: &str,
        addresses: (usize, usize, usize),
        sparse: bool,
        packs: bool,
        block: Vec<i64>,
        private: Vec<(usize, usize)>,
        initial: Vec<(usize, usize)>,
        owner: Py<PyAny>,
    ) -> PyResult<Self> {
        let (process, end, merge) = addresses;
        let entry = |address: usize| {
            // SAFETY: addresses are those of functions that `_compiler.py` made with this signature.
            (address != 0).then(|| unsafe { std::mem::transmute::<usize, Entry>(address) })
        };
        let process = entry(process)
            .ok_or_else(|| Error::bug("compiled code without a function for tiles"))
            .or_raise(py)?;
        let (end, merge) = (entry(end), entry(merge));
        let program =
            Program { process, merge, end, block, private, initial, packs, _owner: owner };
        let made = Compiled::try_new(name, Arc::new(program), sparse).or_raise(py)?;
        let versions = Versions { first: Arc::new(made), changes: Vec::new(), begun: 0 };
        Ok(CompiledCode(Mutex::new(versions)))
    }

    /// Has partitions run what `other` has, from the first frame on that is `first` or later and
    /// that no partition has begun with. Gives that frame.
    fn follow(&self, other: &CompiledCode, first: usize) -> PyResult<usize> {
        let made = other.at(0);
        let mut versions = self.locked();
        let first = first.max(versions.begun);
        // What no frame was processed with is gone.
        let (mut kept, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut versions.changes).into_iter().partition(|each| each.0 < first);
        kept.push((first, made));
        versions.changes = kept;
        drop(versions);
        drop(gone); // which runs Python: not with the lock
        Ok(first)
    }

    /// Has partitions run what these have, each from a frame on, in place of all changes so far.
    fn replace(&self, changes: Vec<(usize, PyRef<'_, CompiledCode>)>) -> PyResult<()> {
        let changes = changes.iter().map(|(first, code)| (*first, code.at(0))).collect();
        let gone = std::mem::replace(&mut self.locked().changes, changes);
        drop(gone); // as above
        Ok(())
    }
}

impl CompiledCode {
    /// What a partition runs that begins now.
    pub(super) fn begin(&self, frames: &Range<usize>) -> Arc<Compiled> {
        let mut versions = self.locked();
        versions.begun = versions.begun.max(frames.end);
        versions.at(frames.start).clone()
    }

    /// What a partition has run that begins at that frame.
    pub(super) fn at(&self, start: usize) -> Arc<Compiled> {
        self.locked().at(start).clone()
    }

    fn locked(&self) -> MutexGuard<'_, Versions> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
