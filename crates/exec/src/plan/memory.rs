//! Whether the results of a run can be held in memory at all.

use super::{explain, saturating_u64};
use framefold_core::{BufferDecl, Error, JobMeta, Result, Udf, memory};
use std::sync::Arc;

/// Refuses a run whose merged results the system has no memory for.
///
/// A damaged header can promise any number of frames; without this check, the first allocation
/// for them would end the process.
///
/// What goes to a sink is not held: `to_sink` has the names of such buffers, for each UDF.
pub(super) fn check(
    udfs: &[Arc<dyn Udf>],
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
    for ((udf, (job, buffers)), passed_on) in udfs.iter().zip(jobs).zip(to_sink) {
        // One more byte per frame tells which frames are valid.
        let n_selected = job.n_selected();
        add(saturating_u64(n_selected), &|| {
            format!("the mask of positions with data, a byte for each, of {}", udf.name())
        });
        for decl in buffers.iter().filter(|decl| !passed_on.contains(&decl.name)) {
            add(decl.len_bytes(&job.shape, n_selected), &|| {
                format!("'{}' of {}", decl.name, udf.name())
            });
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
