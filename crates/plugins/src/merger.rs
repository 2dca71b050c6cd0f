//! The merged result of a compiled function.

use crate::buffers::{Buffers, native_dtype, worked_on, zeros};
use crate::call::call;
use crate::job::raw_job;
use crate::table::Table;
use framefold_core::{
    Array, BufferDecl, BufferKind, BufferUse, Error, FinalRows, JobMeta, Merger, NativeArray,
    Partial, Partition, Result, RunMeta,
};
use std::sync::Arc;

/// The keeper of the merged result.
pub(crate) struct PluginMerger {
    table: Arc<Table>,
    decls: Arc<[BufferDecl]>,
    job: JobMeta,
    merged: Merged,
}

/// What was merged so far, in the order of the declarations of buffers that are worked on.
enum Merged {
    /// All results have one row per frame, which is final once it is there.
    Rows(Vec<FinalRows>),
    /// Whatever the function makes of it, and the number of frames whose rows it has seen.
    Folded(Buffers, usize),
}

impl PluginMerger {
    /// A merger for a run of `table`, which declared `decls`.
    ///
    /// # Errors
    /// `Limit` if there is no memory for the buffers; `InvalidArgument` if the table has no function that
    /// these buffers need.
    pub(crate) fn try_new(
        table: Arc<Table>,
        decls: Arc<[BufferDecl]>,
        run: &RunMeta,
    ) -> Result<Self> {
        check_entries(&table, &decls)?;
        let job = run.job.clone();
        let n_frames = job.n_selected();
        let merged = if table.raw.merge.is_none() && table.raw.results.is_none() {
            let made = |decl: &BufferDecl| {
                FinalRows::of_run(run, &decl.name, native_dtype(decl)?, &decl.extra_shape)
            };
            Merged::Rows(worked_on(&decls).map(made).collect::<Result<_>>()?)
        } else {
            // Rows of frames without data are not measured zeros.
            let made = |decl: &BufferDecl| match decl.kind {
                BufferKind::Nav => NativeArray::try_missing(
                    native_dtype(decl)?,
                    &decl.flat_shape(&job.shape, n_frames),
                ),
                _ => zeros(decl, &job.shape, n_frames),
            };
            let arrays = worked_on(&decls).map(made).collect::<Result<_>>()?;
            let shape = &job.shape;
            Merged::Folded(Buffers::try_new(worked_on(&decls), arrays, shape, n_frames, false)?, 0)
        };
        Ok(PluginMerger { table, decls, job, merged })
    }
}

/// # Errors
/// `InvalidArgument` if the table has no function that these buffers need.
pub(crate) fn check_entries(table: &Table, decls: &[BufferDecl]) -> Result<()> {
    let missing = |entry: &str, decl: &BufferDecl, why: &str| {
        let name = &decl.name;
        Err(Error::invalid(format!(
            "its table has no function '{entry}', but the buffer '{name}' {why}"
        ))
        .with_udf(table.name())
        .with_hint(format!("set the entry '{entry}' of ff_udf_v1")))
    };
    let folded = worked_on(decls).find(|decl| decl.kind != BufferKind::Nav);
    if let (Some(decl), None) = (folded, table.raw.merge) {
        return missing("merge", decl, "is not of one row per frame");
    }
    let computed = decls.iter().find(|decl| decl.usage == BufferUse::ResultOnly);
    if let (Some(decl), None) = (computed, table.raw.results) {
        return missing("results", decl, "is computed from the others");
    }
    Ok(())
}

impl Merger for PluginMerger {
    fn merge(&mut self, partition: &Partition, mut partial: Partial) -> Result<()> {
        let frames = &partition.frames;
        let (buffers, seen) = match &mut self.merged {
            Merged::Rows(rows) => {
                for (rows, decl) in rows.iter().zip(worked_on(&self.decls)) {
                    rows.put(frames.clone(), partial.take_native(&decl.name)?)?;
                }
                return Ok(());
            }
            Merged::Folded(buffers, seen) => (buffers, seen),
        };
        let taken = worked_on(&self.decls).map(|decl| partial.take_native(&decl.name));
        let arrays = taken.collect::<Result<Vec<_>>>()?;
        let (shape, n_frames) = (&self.job.shape, frames.len());
        let mut source = Buffers::try_new(worked_on(&self.decls), arrays, shape, n_frames, false)?;
        if frames.end > self.job.n_selected() {
            return Err(Error::bug(format!(
                "partition {frames:?} has frames that are not selected"
            )));
        }
        if frames.end > *seen {
            buffers.clear_rows(&((*seen).max(frames.start)..frames.end));
            *seen = frames.end;
        }
        let Some(merge) = self.table.raw.merge else {
            let all = worked_on(&self.decls).zip(buffers.arrays_mut()).zip(source.arrays());
            for ((_, to), from) in all {
                let from = from.values().as_bytes();
                let start = frames.start * (from.len() / n_frames.max(1));
                to.values_mut().as_bytes_mut()[start..start + from.len()].copy_from_slice(from);
            }
            return Ok(());
        };
        let (mut dest, mut src) = (Vec::new(), Vec::new());
        buffers.show_rows(frames, &mut dest);
        source.show_rows(&(0..n_frames), &mut src);
        let this = self.table.raw.this;
        // SAFETY: the table obeys `framefold.h`, and so do these arguments: as many views on both sides,
        // into arrays that nothing else uses until the call returns.
        let outcome =
            call(|host| unsafe { merge(this, dest.as_ptr(), src.as_ptr(), dest.len(), host) });
        outcome.map_err(|failure| {
            let error = failure.into_error("merging a partition");
            error.with_partition(partition.index).with_udf(self.table.name())
        })
    }

    fn results(&self) -> Result<Vec<Array>> {
        let buffers = match &self.merged {
            Merged::Rows(rows) => {
                let public = rows.iter().zip(worked_on(&self.decls)).filter(|(_, d)| is_public(d));
                return public.map(|(rows, _)| Ok(rows.first(usize::MAX)?.into())).collect();
            }
            Merged::Folded(buffers, _) => buffers,
        };
        let (shape, n_frames) = (&self.job.shape, self.job.n_selected());
        let mut merged = buffers.whole().iter();
        let mut arrays = Vec::with_capacity(self.decls.len());
        for decl in self.decls.iter() {
            match decl.usage {
                BufferUse::ResultOnly => arrays.push(zeros(decl, shape, n_frames)?),
                BufferUse::Public => {
                    arrays.extend(merged.next().map(NativeArray::try_clone).transpose()?)
                }
                BufferUse::Private => drop(merged.next()),
            }
        }
        let Some(results) = self.table.raw.results else {
            return Ok(arrays.into_iter().map(Array::from).collect());
        };
        let decls = || self.decls.iter().filter(|decl| decl.usage != BufferUse::Private);
        let mut computed = Buffers::try_new(decls(), arrays, shape, n_frames, false)?;
        let (mut from, mut to) = (Vec::new(), Vec::new());
        buffers.show_whole(&mut from);
        computed.show_rows(&(0..n_frames), &mut to);
        let this = self.table.raw.this;
        let job = raw_job(&self.job);
        // SAFETY: as above.
        let outcome = call(|host| unsafe {
            results(this, &raw const job, from.as_ptr(), from.len(), to.as_ptr(), to.len(), host)
        });
        outcome.map_err(|failure| {
            failure.into_error("computing the results").with_udf(self.table.name())
        })?;
        Ok(computed.into_arrays().into_iter().map(Array::from).collect())
    }

    fn final_rows(&self) -> Option<Vec<FinalRows>> {
        let Merged::Rows(rows) = &self.merged else { return None };
        let public = rows.iter().zip(worked_on(&self.decls)).filter(|(_, decl)| is_public(decl));
        Some(public.map(|(rows, _)| rows.clone()).collect())
    }
}

fn is_public(decl: &BufferDecl) -> bool {
    decl.usage == BufferUse::Public
}
