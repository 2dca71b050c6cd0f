//! How many partitions, and where they end.
//!
//! A partition is large enough that merging its `sig` and `single` buffers stays a small share
//! of its work, and small enough that any machine gets several per core. Sizes follow from
//! constants and the job, never from the machine, so that results are the same everywhere.

use super::saturating_u64;
use crate::PlanOptions;
use framefold_core::{
    BufferDecl, BufferKind, BufferUse, Dataset, Error, JobMeta, Method, Partition, Requirements,
    Result,
};
use std::ops::Range;

/// Enough partitions to keep many cores busy, when there is nothing against it.
const WANTED: u64 = 256;
/// Never fewer than this, as far as there are frames: user code may be slow on few data.
const FEWEST: u64 = 64;
/// No fewer than this even where merging large `sig` buffers argues for fewer.
const FEWEST_WITH_LARGE_BUFFERS: u64 = 16;
const SMALLEST_BYTES: u64 = 4 << 20;
const LARGEST_BYTES: u64 = 64 << 20;
/// A partition holds at least this many times the bytes that merging it touches.
const WORK_PER_MERGE: u64 = 4;

pub(super) fn choose(
    dataset: &Dataset,
    jobs: &[(JobMeta, Vec<BufferDecl>)],
    requirements: &[Requirements],
    runs: Vec<Range<usize>>,
    options: &PlanOptions,
) -> Result<(Vec<Partition>, String)> {
    let n_frames: usize = runs.iter().map(ExactSizeIterator::len).sum();
    if n_frames == 0 {
        return Ok((Vec::new(), "none of the selected positions has data".into()));
    }
    let frame_bytes = saturating_u64(dataset.shape().frame_len())
        .saturating_mul(saturating_u64(dataset.source().info().dtype.dtype.size()));
    let (count, why) = match options.num_partitions {
        Some(0) => {
            return Err(Error::invalid("num_partitions is 0").with_hint("use 1 or more"));
        }
        Some(n) => (saturating_u64(n), "as asked for".to_owned()),
        None => {
            let merged = merged_bytes(jobs);
            let whole = requirements.iter().any(|r| r.method == Method::Partition);
            count(saturating_u64(n_frames), frame_bytes, merged, whole)
        }
    };
    let count = usize::try_from(count).unwrap_or(usize::MAX).clamp(1, n_frames);
    Ok((cut(&runs, n_frames, count), why))
}

/// The bytes of all buffers that are merged as a whole after every partition.
fn merged_bytes(jobs: &[(JobMeta, Vec<BufferDecl>)]) -> u64 {
    let mut bytes = 0u64;
    for (job, buffers) in jobs {
        for decl in buffers {
            if decl.kind != BufferKind::Nav && decl.usage != BufferUse::ResultOnly {
                bytes = bytes.saturating_add(decl.len_bytes(&job.shape, 0));
            }
        }
    }
    bytes
}

fn count(n_frames: u64, frame_bytes: u64, merged_bytes: u64, whole: bool) -> (u64, String) {
    let total = n_frames.saturating_mul(frame_bytes);
    let target = (total / WANTED).clamp(SMALLEST_BYTES, LARGEST_BYTES);
    let mut count = (total / target).max(FEWEST);
    let mut why = format!("about {} of pixels each", super::explain::bytes(target));
    if total / target < FEWEST {
        why = format!("at least {FEWEST}, so that slow user code runs on all cores");
    }
    let few =
        (total / merged_bytes.saturating_mul(WORK_PER_MERGE).max(1)).max(FEWEST_WITH_LARGE_BUFFERS);
    // A UDF that takes whole partitions has them in memory: those stay small.
    if few < count && !whole {
        count = few;
        why = format!(
            "fewer, because {} of result buffers are merged after each",
            super::explain::bytes(merged_bytes)
        );
    }
    if count >= n_frames {
        why = "one frame each".into();
    }
    (count, why)
}

/// Cuts the runs into about `count` partitions of nearly the same size, none across a gap.
fn cut(runs: &[Range<usize>], n_frames: usize, count: usize) -> Vec<Partition> {
    let mut partitions = Vec::with_capacity(count + runs.len());
    for run in runs {
        // This run's share of the count, rounded up, so that no partition gets larger.
        let share = u128::try_from(run.len()).unwrap_or(1) * u128::try_from(count).unwrap_or(1);
        let pieces = share.div_ceil(u128::try_from(n_frames).unwrap_or(1));
        let pieces = usize::try_from(pieces).unwrap_or(usize::MAX).clamp(1, run.len());
        let (size, larger) = (run.len() / pieces, run.len() % pieces);
        let mut start = run.start;
        for piece in 0..pieces {
            let end = start + size + usize::from(piece < larger);
            partitions.push(Partition { index: partitions.len(), frames: start..end });
            start = end;
        }
    }
    partitions
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn partitions_cover_the_runs_evenly(
            lengths in prop::collection::vec((1usize..50, 1usize..5), 1..6),
            count in 1usize..40,
        ) {
            let mut runs = Vec::new();
            let mut at = 0;
            for (len, gap) in lengths {
                runs.push(at..at + len);
                at += len + gap;
            }
            let n_frames: usize = runs.iter().map(|run| run.len()).sum();
            let count = count.min(n_frames);
            let partitions = cut(&runs, n_frames, count);
            let covered: Vec<usize> = partitions.iter().flat_map(|p| p.frames.clone()).collect();
            let expected: Vec<usize> = runs.iter().cloned().flatten().collect();
            prop_assert_eq!(covered, expected);
            let largest = partitions.iter().map(Partition::n_frames).max().unwrap();
            prop_assert!(largest <= n_frames.div_ceil(count));
            prop_assert!(partitions.iter().all(|p| !p.frames.is_empty()));
            if runs.len() == 1 {
                let smallest = partitions.iter().map(Partition::n_frames).min().unwrap();
                prop_assert!(largest - smallest <= 1);
                prop_assert_eq!(partitions.len(), count);
            }
        }
    }

    #[test]
    fn counts_follow_the_job_alone() {
        // 2 GiB of 128 KiB frames with a small result: several MiB each.
        assert_eq!(count(16384, 128 << 10, 256 << 10, false).0, 256);
        // 64 frames of 4096² uint16 with a 64 MiB sum: limited by merging.
        assert_eq!(count(64, 32 << 20, 64 << 20, false).0, 16);
        // Few data: still enough for many cores.
        assert_eq!(count(256, 4096, 4096, false).0, 64);
        // 1 TB.
        assert_eq!(count(8 << 20, 128 << 10, 256 << 10, false).0, 16384);
    }
}
