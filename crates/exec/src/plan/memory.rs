//! Whether the results of a run can be held in memory at all, and tiles of how many workers beside them.

use super::{FrameSize, Plan, explain, formats, saturating_u64};
use crate::schedule::WAITING_BYTES;
use framefold_core::{BufferDecl, BufferUse, Error, JobMeta, Partition, Result, SigSlice, memory};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Refuses a run whose merged results the system has no memory for.
///
/// A damaged header can promise any number of frames; without this check, the first allocation
/// for them would end the process.
///
/// What goes to a sink is not held: `to_sink` has the names of such buffers, for each UDF.
pub(super) fn check(
    names: &[String],
    jobs: &[(JobMeta, Vec<BufferDecl>)],
    to_sink: &[Arc<[String]>],
) -> Result<()> {
    let mut total = 0u64;
    let mut largest = (0, String::new());
    let mut add = |len: u64, what: &dyn Fn() -> String| {
        total = total.saturating_add(len);
        if len > largest.0 {
            largest = (len, what());
        }
    };
    for ((name, (job, buffers)), passed_on) in names.iter().zip(jobs).zip(to_sink) {
        // One more byte per frame tells which frames are valid.
        let n_selected = job.n_selected();
        add(saturating_u64(n_selected), &|| {
            format!("the mask of positions with data, a byte for each, of {name}")
        });
        for decl in buffers.iter().filter(|decl| !passed_on.contains(&decl.name)) {
            add(decl.len_bytes(&job.shape, n_selected), &|| format!("'{}' of {name}", decl.name));
        }
    }
    if memory::fits(total) {
        return Ok(());
    }
    Err(Error::limit(format!(
        "the results would take {}, more than the system has left; the largest is {}",
        explain::bytes(total),
        largest.1
    ))
    .with_hint("select fewer positions with a ROI, or check the shape of the data set"))
}

impl Plan {
    /// How many of `wanted` workers on this machine there is memory for; one, if for none.
    ///
    /// Each may ask for its tile before the others have written into theirs. The system would grant
    /// all of them the same memory then, and end the process when they write. `n_partials` says how many
    /// partial results a worker has: one, or, if it is a process, also copies that it shares.
    pub fn workers_that_fit(&self, wanted: usize, n_partials: u64) -> usize {
        let of_results = self.udfs.iter().flat_map(|planned| {
            let held = planned.buffers.iter().filter(|d| !planned.to_sink.contains(&d.name));
            held.map(|decl| decl.len_bytes(self.dataset.shape(), self.n_selected()))
        });
        let of_results = of_results.fold(0, u64::saturating_add);
        let partial = self.partial_bytes();
        let of_worker = self.tile_bytes().saturating_add(partial.saturating_mul(n_partials)).max(1);
        // As many as workers have may wait to be merged.
        let waiting = partial.saturating_mul(saturating_u64(wanted));
        let waiting = waiting.min(saturating_u64(WAITING_BYTES)).max(partial);
        let others = of_results.saturating_add(waiting);
        let all = of_worker.saturating_mul(saturating_u64(wanted)).saturating_add(others);
        if memory::fits(all) {
            return wanted;
        }
        let n = memory::left().saturating_sub(others) / of_worker;
        usize::try_from(n).unwrap_or(usize::MAX).max(1).min(wanted)
    }

    /// The largest tile, in all dtypes that are made of it.
    fn tile_bytes(&self) -> u64 {
        let depth = saturating_u64(self.tiling.depth().min(self.longest()));
        let formats = self.formats();
        if let FrameSize::Sparse(bytes) = FrameSize::of(&self.dataset, &formats) {
            return depth.saturating_mul(bytes);
        }
        let native = self.source().info().dtype.dtype;
        let mut sizes: BTreeSet<_> = self.udfs.iter().map(|planned| planned.input_dtype).collect();
        let lent = formats::lends(&self.dataset, &formats) && self.roi.is_none();
        if lent {
            sizes.remove(&native)
        } else {
            sizes.insert(native)
        };
        let sizes: usize = sizes.into_iter().map(framefold_core::DType::size).sum();
        let cells = self.tiling.slices().iter().map(SigSlice::len).max().unwrap_or(0);
        depth.saturating_mul(saturating_u64(cells)).saturating_mul(saturating_u64(sizes))
    }

    /// The largest partial result.
    fn partial_bytes(&self) -> u64 {
        let buffers = self.udfs.iter().flat_map(|planned| &planned.buffers);
        let partial = buffers.filter(|decl| decl.usage != BufferUse::ResultOnly);
        let sizes = partial.map(|decl| decl.len_bytes(self.dataset.shape(), self.longest()));
        sizes.fold(0, u64::saturating_add) / saturating_u64(self.bands.len()).max(1)
    }

    /// The number of frames of the longest partition.
    fn longest(&self) -> usize {
        self.cuts.iter().map(Partition::n_frames).max().unwrap_or(0)
    }
}
