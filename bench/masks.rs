//! How fast frames are multiplied with masks, by the number of masks, on one core.
//!
//! A deep tile of parts of frames is measured, which is what masks ask the planner for: it stays
//! in the cache, so that arithmetic counts. Dense products are bound by it from some 8 masks on:
//! rates are in products, each a multiplication and an addition, and should approach 32 (16 in
//! double precision) per cycle with AVX-512 and half of that with AVX2. Sparse ones are bound by
//! their conversion to double precision; each pixel that is not zero is a product.
//!
//! ```text
//! cargo bench -p framefold-bench --bench masks
//! FRAMEFOLD_SIMD=avx2 cargo bench -p framefold-bench --bench masks -- u16/dense
//! ```

#![expect(clippy::unwrap_used, reason = "a program that may stop where it stands")]

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use framefold_core::{
    ArrayFormat, DenseTile, Element, FramesView, JobMeta, NativeArray, Partition, RunMeta, Shape,
    Tile, TilePosition, TilingScheme, Udf,
};
use framefold_kernels::{Masks, Shifts, disk};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// The tile: as deep as masks ask for, and some rows.
const DEPTH: usize = 64;
const ROWS: usize = 32;
const COLUMNS: usize = 256;
const PIXELS: usize = ROWS * COLUMNS;

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .configure_from_args();
    measure::<u8>(&mut criterion, |count| count);
    measure::<u16>(&mut criterion, u16::from);
    measure::<u32>(&mut criterion, u32::from);
    measure::<f32>(&mut criterion, f32::from);
    criterion.final_summary();
}

fn measure<T: Element>(criterion: &mut Criterion, cell: fn(u8) -> T) {
    let cells: Vec<T> = (0..DEPTH * PIXELS).map(|i| cell((i * i % 251) as u8)).collect();
    let mut group = criterion.benchmark_group(T::DTYPE.to_string());
    for n_masks in [1, 2, 8, 16, 64] {
        let weights: Vec<f32> = (0..n_masks * PIXELS).map(|i| (i as f32).sin()).collect();
        let stack = NativeArray::try_new(&[n_masks, ROWS, COLUMNS], weights).unwrap();
        let masks = Masks::try_new(stack).unwrap();
        run(&mut group, &format!("dense/{n_masks}"), &masks, n_masks * PIXELS, &cells);
    }
    let weights: Vec<f32> = (0..8 * PIXELS).map(|i| (i as f32).sin()).collect();
    let stack = NativeArray::try_new(&[8, ROWS, COLUMNS], weights).unwrap();
    let masks = Masks::try_new(stack).unwrap();
    for (name, step) in [("shifted/8", 1.0), ("between-pixels/8", 0.9)] {
        let shifts: Vec<f64> = (0..2 * DEPTH).map(|i| step * (i * i % 13) as f64 - 6.0).collect();
        let shifts = Shifts::try_new(NativeArray::try_new(&[DEPTH, 2], shifts).unwrap()).unwrap();
        run(&mut group, name, &masks.clone().with_shifts(shifts), 8 * PIXELS, &cells);
    }
    let (disks, n_stored) = disks();
    run(&mut group, "sparse/20", &disks, n_stored, &cells);
}

/// Twenty disks of radius 5, and how many pixels they have.
fn disks() -> (Masks, usize) {
    let (mut starts, mut pixels) = (vec![0], vec![]);
    for i in 0..20 {
        let (cy, cx) = (6.0 + f64::from(i / 10) * 14.0, 12.0 + f64::from(i % 10) * 25.0);
        let disk = disk(&[ROWS, COLUMNS], cy, cx, 5.0).unwrap();
        let inside = disk.as_slice::<f32>().unwrap().iter().enumerate();
        pixels.extend(inside.filter(|&(_, &weight)| weight != 0.0).map(|(pixel, _)| pixel));
        starts.push(pixels.len());
    }
    let values = NativeArray::try_new(&[pixels.len()], vec![1f32; pixels.len()]).unwrap();
    let masks = Masks::try_new_sparse(&[ROWS, COLUMNS], &starts, &pixels, values).unwrap();
    (masks, pixels.len())
}

fn run<T: Element>(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: &str,
    masks: &Masks,
    products_per_frame: usize,
    cells: &[T],
) {
    let sig = [ROWS, COLUMNS];
    let run = RunMeta {
        may_wait: false,
        to_sink: Arc::from([]),
        job: JobMeta {
            shape: Shape::try_new(&[DEPTH], &sig).unwrap(),
            native_dtype: T::DTYPE,
            input_dtype: T::DTYPE,
            roi: None,
        },
        tiling: Arc::new(TilingScheme::try_new(&sig, &sig, DEPTH).unwrap()),
        partitions: Arc::new([Partition { index: 0, frames: 0..DEPTH }]),
        format: ArrayFormat::Dense,
    };
    let mut accumulator = masks.accumulator(&run, &run.partitions[0]).unwrap();
    let view = FramesView::try_new(cells, DEPTH, PIXELS, PIXELS).unwrap();
    let tile = Tile {
        position: TilePosition {
            in_partition: 0..DEPTH,
            frames: 0..DEPTH,
            sig: &run.tiling.slices()[0],
        },
        data: DenseTile::borrowed(T::wrap_frames(view)),
    };
    group.throughput(Throughput::Elements((DEPTH * products_per_frame) as u64));
    group.bench_function(name, |b| b.iter(|| accumulator.process(black_box(&tile)).unwrap()));
}
