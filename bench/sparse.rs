//! How fast each native reduction goes through sparse tiles, on one core.
//!
//! Frames of 256 × 256 pixels have entries in 1 %, 0.1 % and 0.01 % of them, in tiles as the
//! planner makes them. Rates are entries per second: as long as they do not fall with the
//! occupancy, time goes with the entries. What a partition costs besides, once for all of its
//! frames, is measured as `finish`, per pixel of the frame.
//!
//! ```text
//! cargo bench -p framefold-bench --bench sparse
//! cargo bench -p framefold-bench --bench sparse -- uint16/1%
//! ```
//!
//! Names are `dtype/occupancy/reduction`.

#![expect(clippy::unwrap_used, reason = "a program that may stop where it stands")]

use criterion::{Criterion, Throughput};
use framefold_core::{
    ArrayFormat, CsrTile, Element, JobMeta, NativeArray, Partition, RunMeta, Shape, TilePosition,
    TilingScheme, Udf,
};
use framefold_kernels::{Com, LogSum, Masks, Max, StdDev, Sum, SumSig, disk};
use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

const SIDE: usize = 256;
const N_PIXELS: usize = SIDE * SIDE;

/// Names, one entry in so many pixels, and frames.
const OCCUPANCIES: [(&str, usize, usize); 3] =
    [("1%", 100, 2048), ("0.1%", 1_000, 16_384), ("0.01%", 10_000, 65_536)];

/// The entries of a tile, in bytes, that the planner aims for.
const TILE_BYTES: usize = 1 << 20;

/// All native reductions but `pick`, whose results are dense.
fn reductions() -> Vec<(&'static str, Box<dyn Udf>)> {
    let masks = |n: usize| {
        let cells: Vec<f32> = (0..n * N_PIXELS).map(|i| (i % 7) as f32 / 8.0).collect();
        let masks = NativeArray::try_new(&[n, SIDE, SIDE], cells).unwrap();
        Box::new(Masks::try_new(masks).unwrap())
    };
    vec![
        ("sum", Box::new(Sum::default())),
        ("sum_sig", Box::new(SumSig)),
        ("max", Box::new(Max)),
        ("stddev", Box::new(StdDev::default())),
        ("com", Box::new(Com::default())),
        ("com of a disk", Box::new(Com { r: 100.0, ..Com::default() })),
        ("logsum", Box::new(LogSum)),
        ("1 mask", masks(1)),
        ("8 masks", masks(8)),
        ("64 masks", masks(64)),
        ("64 disks", Box::new(disks())),
    ]
}

/// 64 disks side by side, that store only what is not zero.
fn disks() -> Masks {
    let (mut starts, mut pixels) = (vec![0], vec![]);
    for i in 0..64 {
        let centre = |i: u8| 16.0 + f64::from(i) * 32.0;
        let disk = disk(&[SIDE, SIDE], centre(i / 8), centre(i % 8), 15.0).unwrap();
        let inside = disk.as_slice::<f32>().unwrap().iter().enumerate();
        pixels.extend(inside.filter(|&(_, &weight)| weight != 0.0).map(|(pixel, _)| pixel));
        starts.push(pixels.len());
    }
    let values = NativeArray::try_new(&[pixels.len()], vec![1f32; pixels.len()]).unwrap();
    Masks::try_new_sparse(&[SIDE, SIDE], &starts, &pixels, values).unwrap()
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300))
        .configure_from_args();
    for (name, one_in, n_frames) in OCCUPANCIES {
        measure::<u8>(&mut criterion, name, one_in, n_frames, |count| count);
        measure::<u16>(&mut criterion, name, one_in, n_frames, u16::from);
        measure::<u32>(&mut criterion, name, one_in, n_frames, u32::from);
        measure::<f32>(&mut criterion, name, one_in, n_frames, f32::from);
    }
    criterion.final_summary();
}

/// The entries of some frames.
struct Rows<T> {
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<T>,
    n_frames: usize,
}

impl<T: Element> Rows<T> {
    /// Entries at places without a pattern, on average `one_in` pixels apart.
    fn new(one_in: usize, n_frames: usize, value: fn(u8) -> T) -> Self {
        let mut rows = Rows { starts: vec![0], columns: vec![], values: vec![], n_frames };
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize
        };
        for _ in 0..n_frames {
            let mut pixel = random() % (2 * one_in);
            while pixel < N_PIXELS {
                rows.columns.push(pixel as u32);
                rows.values.push(value(1 + (random() % 7) as u8));
                pixel += 1 + random() % (2 * one_in - 1);
            }
            rows.starts.push(rows.columns.len());
        }
        rows
    }

    /// Frames whose entries fit a tile, with the starts of their rows.
    fn tiles(&self) -> Vec<(Range<usize>, Vec<usize>)> {
        let entries = TILE_BYTES / (size_of::<u32>() + size_of::<T>());
        let depth = (entries * self.n_frames / self.columns.len()).clamp(1, self.n_frames);
        let frames = (0..self.n_frames).step_by(depth);
        let frames = frames.map(|first| first..self.n_frames.min(first + depth));
        let starts = |frames: Range<usize>| {
            let rows = &self.starts[frames.start..=frames.end];
            (frames, rows.iter().map(|start| start - rows[0]).collect())
        };
        frames.map(starts).collect()
    }
}

fn measure<T: Element>(
    criterion: &mut Criterion,
    occupancy: &str,
    one_in: usize,
    n_frames: usize,
    value: fn(u8) -> T,
) {
    let rows = Rows::new(one_in, n_frames, value);
    let tiles = rows.tiles();
    let tiles: Vec<(Range<usize>, CsrTile<'_>)> = tiles
        .iter()
        .map(|(frames, starts)| {
            let entries = rows.starts[frames.start]..rows.starts[frames.end];
            let values = T::wrap_slice(&rows.values[entries.clone()]);
            let columns = &rows.columns[entries];
            (frames.clone(), CsrTile::try_new(starts, columns, values, N_PIXELS).unwrap())
        })
        .collect();
    let run = run_meta::<T>(n_frames);
    for (name, udf) in reductions() {
        let mut group = criterion.benchmark_group(format!("{}/{occupancy}", T::DTYPE));
        let accumulator = || udf.accumulator(&run, &run.partitions[0]).unwrap();
        group.throughput(Throughput::Elements(rows.columns.len() as u64));
        let mut worker = accumulator();
        group.bench_function(name, |b| {
            b.iter(|| {
                for (frames, tile) in &tiles {
                    let position = TilePosition {
                        in_partition: frames.clone(),
                        frames: frames.clone(),
                        sig: &run.tiling.slices()[0],
                    };
                    worker.process_csr(black_box(&position), black_box(tile)).unwrap();
                }
            });
        });
        if matches!(name, "sum" | "max" | "stddev" | "logsum") && one_in == 100 {
            group.throughput(Throughput::Elements(N_PIXELS as u64));
            group.bench_function(format!("{name}: finish"), |b| {
                b.iter(|| accumulator().finish().unwrap().len_bytes());
            });
        }
    }
}

/// A run over one partition, in tiles of whole frames.
fn run_meta<T: Element>(n_frames: usize) -> RunMeta {
    let sig = [SIDE, SIDE];
    RunMeta {
        may_wait: false,
        to_sink: Arc::from([]),
        job: JobMeta {
            shape: Shape::try_new(&[n_frames], &sig).unwrap(),
            native_dtype: T::DTYPE,
            input_dtype: T::DTYPE,
            roi: None,
        },
        tiling: Arc::new(TilingScheme::try_new(&sig, &sig, n_frames).unwrap()),
        partitions: Arc::new([Partition { index: 0, frames: 0..n_frames }]),
        format: ArrayFormat::Csr,
    }
}
