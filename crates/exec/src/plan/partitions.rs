//! How many partitions, and where they end.
//!
//! A partition is large enough that merging its `sig` and `single` buffers stays a small share
//! of its work, and small enough that any machine gets several per core. Where both cannot be had,
//! frames are cut into bands, if the UDFs allow. Sizes follow from constants and the job, never
//! from the machine, so that results are the same everywhere.

use super::explain::bytes;
use super::formats::FrameSize;
use super::saturating_u64;
use crate::PlanOptions;
use framefold_core::{
    BufferDecl, BufferKind, BufferUse, Error, JobMeta, Method, Partition, Requirements, Result,
    SourceInfo,
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
/// What large partitions hold, and how many of them there are at least: they may be for several workers.
const LARGE_BYTES: u64 = 4 << 30;
/// Results of frames in a large partition: workers have them in memory, and those that wait for others.
const LARGE_RESULT_BYTES: u64 = 256 << 20;
const FEWEST_LARGE: u64 = 8;
/// A band of all frames of a partition is at least that large.
const SMALLEST_BAND_BYTES: u64 = 1 << 20;
/// The least that partitions hold of sparse data that no user code looks at: kernels are done with
/// that before the next partition has begun.
const SMALLEST_SPARSE_BYTES: u64 = 256 << 10;
/// Never fewer of them than this, as far as there are frames.
const FEWEST_SPARSE: u64 = 8;
/// A partition holds at least this many times the bytes that merging it touches.
const WORK_PER_MERGE: u64 = 4;
/// It should hold this many times as many, as far as there are enough partitions all the same: in
/// worker processes, results are made, shared and merged with memory that no cache has.
const WORK_PER_MERGE_WANTED: u64 = 64;
/// The same where bands can make up for fewer runs of frames.
const WORK_PER_MERGE_OF_BANDS: u64 = 32;

/// So many there are at most: those of a plan are held in memory.
const MOST_RUNS: usize = 1 << 20;

/// What was decided.
pub(super) struct Cuts {
    /// The frames.
    pub(super) frames: Vec<Partition>,
    /// How many bands each frame should be cut into.
    pub(super) n_bands: usize,
    pub(super) why: String,
}

/// No fewer than this even where the source argues for many frames at a time.
const FEWEST_OF_DEEP_SOURCES: u64 = 8;

/// How many partitions a job should have.
#[derive(Debug, PartialEq)]
struct Count {
    runs: u64,
    bands: u64,
    why: String,
}

pub(super) fn choose(
    info: &SourceInfo,
    frame: FrameSize,
    jobs: &[(JobMeta, Vec<BufferDecl>)],
    requirements: &[Requirements],
    runs: Vec<Range<usize>>,
    options: &PlanOptions,
) -> Result<Cuts> {
    let n_frames: usize = runs.iter().map(ExactSizeIterator::len).sum();
    if n_frames == 0 {
        let why = "none of the selected positions has data".into();
        return Ok(Cuts { frames: Vec::new(), n_bands: 1, why });
    }
    let frame_bytes = frame.bytes();
    let count = match options.num_partitions {
        Some(0) => {
            return Err(Error::invalid("num_partitions is 0").with_hint("use 1 or more"));
        }
        Some(n) => Count { runs: saturating_u64(n), bands: 1, why: "as asked for".to_owned() },
        None => {
            let work = Work {
                n_frames: saturating_u64(n_frames),
                frame_bytes,
                merged_bytes: merged_bytes(jobs),
                nav_bytes: nav_bytes(jobs),
                depth: saturating_u64(info.preferred_depth).max(1),
                quick: matches!(frame, FrameSize::Sparse(_))
                    && !requirements.iter().any(|r| r.contends),
            };
            let whole = requirements.iter().any(|r| r.method == Method::Partition);
            let large = options.large_partitions && !whole;
            // What the source reads at least may be all rows of a frame.
            let has_bands = info.base_shape.first() < info.sig_shape.first();
            let by_bands = matches!(frame, FrameSize::Dense(_))
                && has_bands
                && options.tile_shape.is_none()
                && cellwise(jobs, requirements);
            match work.banded().filter(|_| by_bands && !large) {
                Some(banded) => banded,
                None if large => work.large(),
                None => work.plain(whole),
            }
        }
    };
    let runs_wanted = usize::try_from(count.runs).unwrap_or(usize::MAX).clamp(1, n_frames);
    let asked = options.num_partitions.is_some();
    if asked && runs_wanted > MOST_RUNS {
        return Err(Error::limit(format!(
            "num_partitions is {runs_wanted}, and there can be {MOST_RUNS} at most"
        ))
        .with_hint("leave it out, or use fewer: a few for each core are enough"));
    }
    let runs_wanted = runs_wanted.min(MOST_RUNS);
    let n_bands = usize::try_from(count.bands).unwrap_or(usize::MAX);
    Ok(Cuts { frames: cut(&runs, n_frames, runs_wanted), n_bands, why: count.why })
}

/// Whether every UDF treats each cell of a frame by itself.
fn cellwise(jobs: &[(JobMeta, Vec<BufferDecl>)], requirements: &[Requirements]) -> bool {
    let no_nav = |(_, buffers): &(_, Vec<BufferDecl>)| {
        buffers.iter().all(|decl| decl.kind != BufferKind::Nav)
    };
    requirements.iter().all(|r| r.cellwise && r.method == Method::Tile) && jobs.iter().all(no_nav)
}

/// The bytes of all buffers that are merged as a whole after every partition.
fn merged_bytes(jobs: &[(JobMeta, Vec<BufferDecl>)]) -> u64 {
    let mut total = 0u64;
    for (job, buffers) in jobs {
        for decl in buffers {
            if decl.kind != BufferKind::Nav && decl.usage != BufferUse::ResultOnly {
                total = total.saturating_add(decl.len_bytes(&job.shape, 0));
            }
        }
    }
    total
}

/// The bytes of all results of frames that partitions hold.
fn nav_bytes(jobs: &[(JobMeta, Vec<BufferDecl>)]) -> u64 {
    let mut total = 0u64;
    for (job, buffers) in jobs {
        for decl in buffers {
            if decl.kind == BufferKind::Nav && decl.usage != BufferUse::ResultOnly {
                total = total.saturating_add(decl.len_bytes(&job.shape, job.n_selected()));
            }
        }
    }
    total
}

/// What the number of partitions depends on.
#[derive(Clone, Copy)]
struct Work {
    n_frames: u64,
    frame_bytes: u64,
    /// The size of what is merged after each partition.
    merged_bytes: u64,
    /// The size of all results of frames.
    nav_bytes: u64,
    /// How many frames the source likes to read together.
    depth: u64,
    /// Whether nothing but kernels looks at sparse data: they go with the bytes.
    quick: bool,
}

impl Work {
    fn total(&self) -> u64 {
        self.n_frames.saturating_mul(self.frame_bytes)
    }

    /// Bytes of pixels in a partition.
    fn target(&self) -> u64 {
        (self.total() / WANTED).clamp(SMALLEST_BYTES, LARGEST_BYTES)
    }

    /// Runs of whole frames. `whole`: a UDF takes each partition as one tile.
    fn plain(&self, whole: bool) -> Count {
        let (total, target) = (self.total(), self.target());
        let mut runs = (total / target).max(FEWEST);
        let mut why = format!("about {} of pixels each", bytes(target));
        if total / target < FEWEST {
            why = format!("at least {FEWEST}, so that slow user code runs on all cores");
        }
        let merged = bytes(self.merged_bytes);
        let fewer = format!("fewer, because {merged} of result buffers are merged after each");
        let wanted = total / self.merged_bytes.saturating_mul(WORK_PER_MERGE_WANTED).max(1);
        let wanted = wanted.max(total / LARGEST_BYTES).max(FEWEST);
        if wanted < runs {
            runs = wanted;
            why.clone_from(&fewer);
        }
        let mut fewest = FEWEST_WITH_LARGE_BUFFERS;
        let few_bytes = (total / SMALLEST_SPARSE_BYTES).max(FEWEST_SPARSE);
        if self.quick && few_bytes < runs {
            (runs, fewest) = (few_bytes, few_bytes.min(fewest));
            let least = bytes(SMALLEST_SPARSE_BYTES);
            why = format!("few, because kernels are done with {least} of entries in no time");
        }
        // A UDF that takes whole partitions has them in memory: those stay small.
        let merges = total / self.merged_bytes.saturating_mul(WORK_PER_MERGE).max(1);
        let few = merges.max(fewest);
        if few < runs && !whole {
            runs = few;
            why = fewer;
        }
        let deep = (self.n_frames / self.depth).max(FEWEST_OF_DEEP_SOURCES);
        if self.depth > 1 && deep < runs && !whole {
            runs = deep;
            why = format!("few, because these data are best read {} frames at a time", self.depth);
        }
        if runs >= self.n_frames {
            why = "one frame each".into();
        }
        Count { runs, bands: 1, why }
    }

    /// Few large ones.
    fn large(&self) -> Count {
        let runs = (self.total() / LARGE_BYTES).max(FEWEST_LARGE);
        let of_results = self.nav_bytes / LARGE_RESULT_BYTES;
        if of_results > runs {
            let why = format!("up to {} of results each", bytes(LARGE_RESULT_BYTES));
            return Count { runs: of_results, bands: 1, why };
        }
        let why = format!("up to {}, as each takes a device the same time", bytes(LARGE_BYTES));
        Count { runs, bands: 1, why }
    }

    /// Fewer runs of frames, each in several bands, if merging would be too much work otherwise,
    /// or if the source likes to read more frames at a time.
    fn banded(&self) -> Option<Count> {
        let total = self.total();
        let wanted = (total / self.target()).max(FEWEST);
        let merges = total / self.merged_bytes.saturating_mul(WORK_PER_MERGE_OF_BANDS).max(1);
        let runs = merges.min(self.n_frames / self.depth).clamp(1, self.n_frames);
        // Few data are merged in no time, and more steps make a livelier plot.
        if runs >= wanted.min(self.n_frames) || total < SMALLEST_BYTES {
            return None;
        }
        let bands = (wanted / runs).min(total / runs / SMALLEST_BAND_BYTES);
        let why = format!(
            "{runs} runs of frames in about {bands} bands each, because {} of result buffers are \
             merged after each run",
            bytes(self.merged_bytes)
        );
        Some(Count { runs, bands, why }).filter(|count| count.bands > 1)
    }
}

/// Cuts the runs into about `count` partitions of nearly the same size, none across a gap.
fn cut(runs: &[Range<usize>], n_frames: usize, count: usize) -> Vec<Partition> {
    let mut partitions = Vec::new();
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

    fn work(n_frames: u64, frame_bytes: u64, merged_bytes: u64) -> Work {
        Work { n_frames, frame_bytes, merged_bytes, nav_bytes: 0, depth: 1, quick: false }
    }

    #[test]
    fn large_ones_have_results_that_fit_in_memory() {
        // 128 GiB of 128 KiB frames, and few of them.
        let all = work(1 << 20, 128 << 10, 4);
        let with_results = |nav_bytes| Work { nav_bytes, ..all };
        assert_eq!(all.large().runs, 32);
        assert_eq!(work(64, 4096, 4).large().runs, 8);
        // A number for each frame, and a spectrum of 512 KiB: 256 MiB of them.
        assert_eq!(with_results(8 << 20).large().runs, 32);
        assert_eq!(with_results(512 << 30).large().runs, 2048);
    }

    #[test]
    fn counts_follow_the_job_alone() {
        let runs = |work: Work| work.plain(false).runs;
        // 2 GiB of 128 KiB frames with a small result: several MiB each.
        assert_eq!(runs(work(16384, 128 << 10, 4)), 256);
        // With results of two and four frames: merging stays a small share.
        assert_eq!(runs(work(16384, 128 << 10, 256 << 10)), 128);
        assert_eq!(runs(work(16384, 128 << 10, 512 << 10)), 64);
        // 64 frames of 4096² uint16 with a 64 MiB sum: limited by merging.
        assert_eq!(runs(work(64, 32 << 20, 64 << 20)), 16);
        // Few data: still enough for many cores.
        assert_eq!(runs(work(256, 4096, 4096)), 64);
        // 1 TB.
        assert_eq!(runs(work(8 << 20, 128 << 10, 256 << 10)), 16384);
        // 2 GiB of which 4096 frames make use of a line of memory.
        let fortran = Work { depth: 4096, ..work(16384, 128 << 10, 4) };
        assert_eq!(runs(fortran), 8);
        assert_eq!(fortran.plain(true).runs, 256);
    }

    #[test]
    fn few_entries_are_few_partitions_for_kernels_alone() {
        let runs = |work: Work| work.plain(false).runs;
        // 65536 frames of 7 entries of 6 bytes, and the pointers.
        let very_sparse = work(1 << 16, 50, 4);
        let quick = |work: Work| Work { quick: true, ..work };
        assert_eq!(runs(very_sparse), 64);
        assert_eq!(runs(quick(very_sparse)), 12);
        // Merging argues for fewer, but not for less than there are anyway.
        assert_eq!(runs(quick(work(1 << 16, 50, 256 << 10))), 12);
        assert_eq!(runs(quick(work(1 << 16, 10, 4))), 8);
        assert_eq!(runs(quick(work(3, 10, 4))), 8);
        // With more of them it is as it was.
        assert_eq!(runs(quick(work(1 << 16, 500, 4))), runs(work(1 << 16, 500, 4)));
        assert_eq!(runs(quick(work(1 << 16, 500, 256 << 10))), 31);
        assert_eq!(runs(quick(work(1 << 26, 50, 4))), runs(work(1 << 26, 50, 4)));
    }

    #[test]
    fn bands_stand_in_for_runs_of_frames() {
        let banded = |work: Work| work.banded().map(|count| (count.runs, count.bands));
        // 64 frames of 4096² uint16: merged once.
        assert_eq!(banded(work(64, 32 << 20, 64 << 20)), Some((1, 256)));
        // A TB of them: often enough for merging to be a small share.
        assert_eq!(banded(work(1 << 15, 32 << 20, 64 << 20)), Some((512, 32)));
        // Merging is no work, or the data are few: as it was.
        assert_eq!(banded(work(16384, 128 << 10, 256 << 10)), None);
        assert_eq!(banded(work(16, 128 << 10, 256 << 10)), None);
        // The source asks for deep tiles.
        let fortran = Work { depth: 4096, ..work(16384, 128 << 10, 256 << 10) };
        assert_eq!(banded(fortran), Some((4, 64)));
    }
}
