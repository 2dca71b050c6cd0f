//! One pass over all of the data between answers, so that later answers need not read any.

use super::binning::Binning;
use super::cube::Cube;
use super::detect::{Detect, What};
use super::detector::Weights;
use super::gate::Urgent;
use super::gather::{Gather, Layout};
use super::grid::{Grid, Stride};
use super::pass;
use super::pattern;
use super::plane::Plane;
use super::raw::Raw;
use super::runs::Runs;
use super::store::Store;
use crate::viewer::Shared;
use framefold::core::{DType, Udf, memory};
use framefold::kernels::{Max, StdDev};
use framefold::{Cancel, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// What of it those of rings may take.
const RINGS_SHARE: u64 = 8;
/// What of it statistics of pixels may take while the pass goes on.
const STATISTICS_SHARE: u64 = 16;
/// Bytes of the moments of a whole frame.
const MOMENTS_BYTES: u64 = 24;
/// Bytes that can be read in the time of an answer: half of the planes of a cube of integers are not to take more,
/// unless blocks are this large anyway.
const QUICK_BYTES: u64 = 128 << 20;
const USUAL_BLOCK: usize = 8;
/// Sums of the columns of a block hold no more rows, whatever the dtype.
const MOST_ROWS: usize = 1 << 15;
/// Bytes of a pixel that statistics take, on each thread, in each result that waits, and merged.
const STATISTICS_BYTES: u64 = 32;

/// What of a budget cubes of blocks may take, with the moments of frames.
fn for_blocks(budget: u64) -> u64 {
    budget / 4 * 3
}

/// Makes a store, telling how far it is.
///
/// # Errors
/// Those of reading; `Cancelled`; `Limit` if there is no memory for anything.
pub(crate) fn make(
    shared: &Shared,
    cancel: &Cancel,
    progress: &mut dyn FnMut(f64) -> Result<()>,
) -> Result<Store> {
    let dataset = &shared.dataset;
    let (rows, columns, dtype) = (shared.sig.rows, shared.sig.columns, dataset.pixel_dtype());
    let n_positions = dataset.shape().n_frames();
    if moments_bytes(n_positions) > for_blocks(shared.budget) {
        return Ok(Store::default());
    }
    let mut binnings = Vec::new();
    if let Some(block) = block_size(shared.budget, dtype, n_positions, rows, columns) {
        let binning = Binning::blocks(rows, columns, block)?;
        binnings.push((binning, for_blocks(shared.budget)));
    }
    if rows > 1
        && let Ok(disk) = shared.disk(cancel)
        && let Some(width) = ring_width(shared.budget, n_positions, rows, columns)
    {
        let binning = Binning::rings(rows, columns, [disk.cy, disk.cx], width)?;
        binnings.push((binning, shared.budget / RINGS_SHARE));
    }
    cancel.check()?;
    let layouts =
        binnings.iter().map(|(binning, _)| Layout::try_new(binning, columns).map(Arc::new));
    let layouts = layouts.collect::<Result<Vec<_>>>()?;
    let cubes = binnings
        .into_iter()
        .map(|(binning, most)| Cube::try_new(binning, dtype, n_positions, most));
    let cubes = cubes.map(|cube| cube.map(Some)).collect::<Result<Vec<_>>>()?;
    let cubes = Arc::new(Mutex::new(cubes));
    let gather = Gather { cubes: cubes.clone(), binnings: layouts };
    let all = Weights { rows, columns, values: memory::filled(1.0, rows * columns)? };
    let runs = Arc::new(Runs::try_new(all)?);
    let mut udfs: Vec<Arc<dyn Udf>> =
        vec![Arc::new(Detect { what: What::Moments, runs }), Arc::new(gather)];
    if has_room_for_statistics(shared.budget, rows * columns) {
        udfs.push(Arc::new(StdDev { dtype: Some(DType::F64) }));
        udfs.push(Arc::new(Max));
    }
    udfs.push(shared.rest(Urgent::Answers, cancel));
    let results = pass::run(dataset, udfs, None, cancel, &mut |_, part| progress(part))?;
    let grid = Grid { first: 0, rows: 1, columns: n_positions, n_all: n_positions, n_axes: 1 };
    let raw = Raw::of_run(&results, &grid, Stride::ONE)?;
    let whole = memory::collected(raw.values.as_chunks::<3>().0.iter().copied())?;
    let mut patterns = Vec::new();
    if results.valid.iter().any(|&valid| valid) {
        for (udf, name, what) in [
            (2, "sum", pattern::What::Sum),
            (2, "mean", pattern::What::Mean),
            (2, "std", pattern::What::Std),
            (3, "intensity", pattern::What::Max),
        ] {
            let buffer = results.udfs.get(udf).and_then(|udf| udf.get(name));
            if let Some(framefold::core::Array::Native(array)) = buffer.map(|b| &b.array) {
                patterns.push((what, Arc::new(pattern::in_double(array)?)));
            }
        }
    }
    let cubes = std::mem::take(&mut *cubes.lock().unwrap_or_else(PoisonError::into_inner));
    let mut cubes: Vec<Cube> = cubes.into_iter().flatten().collect();
    if let Some((_, mean)) = patterns.iter().find(|(what, _)| *what == pattern::What::Mean) {
        cubes.iter_mut().try_for_each(|cube| cube.weigh(mean))?;
    }
    let missing = gaps(&dataset.positions_with_data(), n_positions);
    Ok(Store { whole, cubes, patterns, missing })
}

/// What lies between ranges.
fn gaps(there: &[std::ops::Range<usize>], end: usize) -> Vec<std::ops::Range<usize>> {
    let ends = std::iter::once(0).chain(there.iter().map(|range| range.end));
    let starts = there.iter().map(|range| range.start).chain(std::iter::once(end));
    ends.zip(starts).map(|(from, to)| from..to).filter(|gap| !gap.is_empty()).collect()
}

/// The finest blocks whose sums fit the budget, and can be added up in the time of an answer.
fn block_size(
    budget: u64,
    dtype: DType,
    n_positions: usize,
    rows: usize,
    columns: usize,
) -> Option<[usize; 2]> {
    let bytes = |edge: usize| {
        let by = edge.min(rows);
        let n_cells = rows.div_ceil(by).saturating_mul(columns.div_ceil(edge));
        let size = Plane::most_bytes(dtype, by.saturating_mul(edge));
        let bytes = n_cells.saturating_mul(n_positions).saturating_mul(size);
        (u64::try_from(bytes).unwrap_or(u64::MAX), u64::try_from(size).unwrap_or(1))
    };
    let moments = moments_bytes(n_positions);
    let edges = std::iter::successors(Some(1usize), |edge| edge.checked_mul(2));
    let mut edges =
        edges.take_while(|&edge| edge < 2 * rows.max(columns) && edge.min(rows) <= MOST_ROWS);
    let edge = edges.find(|&edge| {
        let (bytes, size) = bytes(edge);
        // Most planes are dark, and take 2 bytes.
        let half = bytes / size * size.min(2) / 2;
        bytes.saturating_add(moments) <= for_blocks(budget)
            && (edge >= USUAL_BLOCK || half <= QUICK_BYTES)
    })?;
    Some([edge.min(rows), edge.min(columns)])
}

/// The bytes of the moments of so many frames.
fn moments_bytes(n_positions: usize) -> u64 {
    u64::try_from(n_positions).unwrap_or(u64::MAX).saturating_mul(MOMENTS_BYTES)
}

/// The width of rings, if their sums fit the budget.
fn ring_width(budget: u64, n_positions: usize, rows: usize, columns: usize) -> Option<f64> {
    let longest = (rows as f64).hypot(columns as f64) + 2.0;
    // Sums up to a ring are large.
    let bytes = |width: f64| longest / width * n_positions as f64 * 4.0;
    [0.5, 1.0, 2.0].into_iter().find(|&width| bytes(width) <= (budget / RINGS_SHARE) as f64)
}

fn has_room_for_statistics(budget: u64, n_pixels: usize) -> bool {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let copies = u64::try_from(2 * threads + 4).unwrap_or(u64::MAX);
    let bytes = u64::try_from(n_pixels).unwrap_or(u64::MAX).saturating_mul(STATISTICS_BYTES);
    bytes.saturating_mul(copies) <= budget / STATISTICS_SHARE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_and_rings_fit_the_budget() {
        for dtype in [DType::U8, DType::U16, DType::I16, DType::U32, DType::F32] {
            for n_positions in [1, 1000, 18_000, 65_536, 762_129, 10_000_000] {
                for [rows, columns] in
                    [[256, 256], [1, 2048], [4096, 4096], [515, 515], [3, 7], [70_000, 2]]
                {
                    for budget in [0, 1 << 20, 1 << 28, 4 << 30] {
                        if let Some([by, bx]) =
                            block_size(budget, dtype, n_positions, rows, columns)
                        {
                            let cells = rows.div_ceil(by) * columns.div_ceil(bx);
                            let size = Plane::most_bytes(dtype, by * bx);
                            let bytes = (cells * n_positions * size) as u64;
                            assert!(by <= MOST_ROWS);
                            assert!(
                                bytes <= budget / 4 * 3,
                                "{dtype} {n_positions} {rows} {by} {bx}"
                            );
                        }
                        if let Some(width) = ring_width(budget, n_positions, rows, columns) {
                            let binning = (rows * columns < 1 << 20)
                                .then(|| Binning::rings(rows, columns, [0.0, 0.0], width).unwrap());
                            if let Some(binning) = binning {
                                let bytes = (binning.n_cells() * n_positions * 4) as u64;
                                assert!(bytes <= budget / 8, "{n_positions} {rows} {width}");
                            }
                        }
                    }
                }
            }
        }
        // The case that all of this is for: 8 × 8.
        let usual = |n_positions| block_size(4 << 30, DType::U16, n_positions, 256, 256);
        assert_eq!([usual(65_536), usual(762_129)], [Some([8, 8]); 2]);
        assert_eq!(block_size(0, DType::U16, 1, 256, 256), None);
    }

    #[test]
    fn gaps_are_what_is_left() {
        assert_eq!(gaps(&[2..4, 6..9], 10), [0..2, 4..6, 9..10]);
        assert_eq!(gaps(std::slice::from_ref(&(0..10)), 10), []);
        assert_eq!(gaps(&[], 3), vec![0..3; 1]);
    }
}
