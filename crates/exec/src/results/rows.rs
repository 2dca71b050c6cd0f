//! Rows of results that are final while the run goes on.

use super::{ResultBuffer, Results, RunResults, UdfResults, valid};
use crate::Plan;
use crate::call::call_of;
use framefold_core::{BufferDecl, BufferKind, BufferUse, Error, FinalRows, Result};
use std::ops::Range;
use std::sync::Arc;

/// Rows of a `nav` buffer that the latest merge has made final.
#[derive(Clone, Debug)]
pub struct MergedRows<'a> {
    /// The number of the UDF.
    pub udf: usize,
    /// The buffer.
    pub buffer: &'a BufferDecl,
    /// The selected frames, of which each has one row.
    pub frames: Range<usize>,
    /// The rows in C order and native byte order, of the buffer's dtype and its extra axes.
    pub bytes: &'a [u8],
}

/// The results as they were when [`Results::lasting`] was called, whatever is merged later.
pub struct LastingResults {
    plan: Arc<Plan>,
    udfs: Range<usize>,
    /// For each UDF, one for each public buffer.
    rows: Vec<Vec<FinalRows>>,
    merged: usize,
    piece_end: Option<usize>,
    absent: Vec<Range<usize>>,
}

impl Results {
    /// Passes on the rows that the latest merge has made final: for files, pictures and others that
    /// take results while the run goes on, from within [`crate::Observer::event`]. Nothing is copied.
    /// UDFs that cannot say which rows are final are left out: see
    /// [`Merger::final_rows`](framefold_core::Merger::final_rows).
    ///
    /// # Errors
    /// The first one of `take`.
    pub fn merged_rows(&self, take: &mut dyn FnMut(MergedRows<'_>) -> Result<()>) -> Result<()> {
        let frames = &self.latest;
        if self.torn.is_some() || frames.is_empty() {
            return Ok(());
        }
        for (udf, mergers) in self.udfs.clone().zip(&self.mergers) {
            let [merger] = mergers.as_slice() else { continue };
            let name = &self.plan.udfs[udf].name;
            let rows = call_of(name, || Ok(merger.final_rows()))?.unwrap_or_default();
            for (buffer, rows) in public(&self.plan, udf).zip(rows) {
                if buffer.kind == BufferKind::Nav {
                    rows.look_at(frames, |bytes| {
                        take(MergedRows { udf, buffer, frames: frames.clone(), bytes })
                    })?;
                }
            }
        }
        Ok(())
    }

    /// What the latest merge has made final.
    pub(crate) fn latest(&self) -> &Range<usize> {
        &self.latest
    }

    /// The rows that go to a sink: for each of [`Plan::to_sink`], those that are latest at any time.
    ///
    /// # Errors
    /// `Bug` if a UDF that merges by rows has none.
    pub(crate) fn rows_to_sink(&self) -> Result<Vec<FinalRows>> {
        let mut found = Vec::new();
        for (udf, decl) in self.plan.to_sink() {
            let rows = match self.mergers.get(udf).map(Vec::as_slice) {
                Some([merger]) => {
                    let name = &self.plan.udfs[udf].name;
                    call_of(name, || Ok(merger.final_rows()))?.unwrap_or_default()
                }
                _ => Vec::new(),
            };
            let place = public(&self.plan, udf).position(|each| each.name == decl.name);
            let rows = place.and_then(|place| rows.into_iter().nth(place));
            found.push(rows.filter(FinalRows::pass).ok_or_else(|| {
                Error::bug(format!("the rows of '{}' cannot go to a sink", decl.name))
            })?);
        }
        Ok(found)
    }

    /// The results so far, without a copy of them, as long as they are the same when more is merged.
    /// None, if some UDF cannot say which of its rows are final.
    pub fn lasting(&self) -> Option<LastingResults> {
        self.check().ok()?;
        let rows = self.udfs.clone().zip(&self.mergers);
        let rows = rows.map(|(udf, mergers)| self.rows(udf, mergers).ok().flatten());
        Some(LastingResults {
            plan: self.plan.clone(),
            udfs: self.udfs.clone(),
            rows: rows.collect::<Option<_>>()?,
            merged: self.merged,
            piece_end: self.piece_end,
            absent: self.absent.clone(),
        })
    }
}

impl LastingResults {
    /// A copy of the results.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it.
    pub fn snapshot(&self) -> Result<RunResults> {
        let whole = || self.merged.checked_sub(1).map(|latest| self.plan.completed_by(latest).end);
        let n_frames = self.piece_end.or_else(whole).unwrap_or(0);
        let mut udfs = Vec::with_capacity(self.rows.len());
        for (udf, rows) in self.udfs.clone().zip(&self.rows) {
            let mut buffers = Vec::with_capacity(rows.len());
            for (decl, rows) in public(&self.plan, udf).zip(rows) {
                buffers
                    .push(ResultBuffer { decl: decl.clone(), array: rows.first(n_frames)?.into() });
            }
            udfs.push(UdfResults { name: self.plan.udfs[udf].name.clone(), buffers });
        }
        Ok(RunResults {
            shape: self.plan.dataset.shape().clone(),
            roi: self.plan.roi.clone(),
            valid: self.valid()?,
            udfs,
        })
    }

    /// One truth value per selected frame: whether it came, and has been merged.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them.
    pub fn valid(&self) -> Result<Vec<bool>> {
        valid(&self.plan, self.merged, self.piece_end, &self.absent)
    }
}

pub(super) fn public(plan: &Plan, udf: usize) -> impl Iterator<Item = &BufferDecl> {
    plan.buffers(udf).iter().filter(|decl| decl.usage != BufferUse::Private)
}
