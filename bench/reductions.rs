//! How fast each native reduction goes through its data, for each dtype, on one core.
//!
//! Two buffers are measured: a tile that stays in the second-level cache, where arithmetic is what
//! counts, and one larger than any cache, where a good kernel is as fast as memory. Beside them
//! stands `read`, the plain sum of the bytes of the same buffer: nothing can be much faster.
//! `read` in the larger buffer is the line that kernels should come close to.
//!
//! ```text
//! cargo bench -p framefold-bench --bench reductions              # all; some minutes
//! cargo bench -p framefold-bench --bench reductions -- memory/u16
//! FRAMEFOLD_SIMD=avx2 cargo bench -p framefold-bench --bench reductions -- cache/
//! ```
//!
//! Names are `buffer/dtype/reduction`, rates are those of the data in decimal units.

#![expect(clippy::unwrap_used, reason = "a program that may stop where it stands")]

use bytemuck::pod_align_to;
use criterion::{Criterion, Throughput};
use framefold_core::{
    ArrayFormat, DType, DenseTile, Element, FramesView, JobMeta, NativeArray, Partition, RunMeta,
    Shape, Tile, TilePosition, TilingScheme, Udf,
};
use framefold_kernels::{Com, LogSum, Masks, Max, StdDev, Sum, SumSig};
use framefold_simd::{Simd, run};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// A tile of the size that the planner aims for.
const TILE_BYTES: usize = 1 << 20;

/// Buffers: their names, the frames' sides, and their sizes in bytes.
const BUFFERS: [(&str, usize, usize); 2] =
    [("cache", 64, TILE_BYTES / 2), ("memory", 256, 256 << 20)];

/// All native reductions but `pick`, which is a copy.
fn reductions(side: usize) -> Vec<Box<dyn Udf>> {
    let mask = NativeArray::try_new(&[1, side, side], vec![0.5f32; side * side]).unwrap();
    vec![
        Box::new(Sum::default()),
        Box::new(SumSig),
        Box::new(Max),
        Box::new(StdDev::default()),
        Box::new(Com::default()),
        Box::new(Masks::try_new(mask).unwrap()),
        Box::new(LogSum),
    ]
}

fn main() {
    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(500))
        .configure_from_args();
    for (name, side, len_bytes) in BUFFERS {
        measure::<u8>(&mut criterion, name, side, len_bytes, |count| count);
        measure::<u16>(&mut criterion, name, side, len_bytes, u16::from);
        measure::<i16>(&mut criterion, name, side, len_bytes, i16::from);
        measure::<u32>(&mut criterion, name, side, len_bytes, u32::from);
        measure::<f32>(&mut criterion, name, side, len_bytes, f32::from);
        measure::<f64>(&mut criterion, name, side, len_bytes, f64::from);
    }
    criterion.final_summary();
}

/// Measures all reductions on a buffer of small counts.
fn measure<T: Element>(
    criterion: &mut Criterion,
    buffer: &str,
    side: usize,
    len_bytes: usize,
    cell: fn(u8) -> T,
) {
    let frame_len = side * side;
    let n_frames = len_bytes / size_of::<T>() / frame_len;
    let depth = (TILE_BYTES / size_of::<T>() / frame_len).clamp(1, n_frames);
    let cells: Vec<T> = counts().take(n_frames * frame_len).map(cell).collect();

    let mut group = criterion.benchmark_group(format!("{buffer}/{}", T::DTYPE));
    group.throughput(Throughput::BytesDecimal(len_bytes as u64));
    group.bench_function("read", |b| {
        b.iter(|| run!(Simd::best(), read(pod_align_to::<T, u64>(black_box(&cells)).1)));
    });
    let run = run_meta(T::DTYPE, n_frames, side, depth);
    for udf in reductions(side) {
        let mut accumulator = udf.accumulator(&run, &run.partitions[0]).unwrap();
        group.bench_function(udf.name(), |b| {
            b.iter(|| {
                for (index, cells) in cells.chunks(depth * frame_len).enumerate() {
                    let depth = cells.len() / frame_len;
                    let frames = index * depth..(index + 1) * depth;
                    let view = FramesView::try_new(cells, depth, frame_len, frame_len).unwrap();
                    let tile = Tile {
                        position: TilePosition {
                            in_partition: frames.clone(),
                            frames,
                            sig: &run.tiling.slices()[0],
                        },
                        data: DenseTile::borrowed(T::wrap_frames(view)),
                    };
                    accumulator.process(black_box(&tile)).unwrap();
                }
            });
        });
    }
}

/// A run over one partition, in tiles of whole frames.
fn run_meta(dtype: DType, n_frames: usize, side: usize, depth: usize) -> RunMeta {
    RunMeta {
        may_wait: false,
        to_sink: Arc::from([]),
        job: JobMeta {
            shape: Shape::try_new(&[n_frames], &[side, side]).unwrap(),
            native_dtype: dtype,
            input_dtype: dtype,
            roi: None,
        },
        tiling: Arc::new(TilingScheme::try_new(&[side, side], &[side, side], depth).unwrap()),
        partitions: Arc::new([Partition { index: 0, frames: 0..n_frames }]),
        format: ArrayFormat::Dense,
    }
}

/// Small numbers without a pattern, mostly below 10.
fn counts() -> impl Iterator<Item = u8> {
    let mut state = 1u64;
    std::iter::repeat_with(move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 60) & (state >> 56) & 15) as u8
    })
}

/// The sum of all words, read as eight streams side by side: memory is slower with one.
#[inline(always)]
fn read(words: &[u64]) -> u64 {
    const STREAMS: usize = 8;
    let rows = words.as_chunks::<32>().0;
    let len = rows.len() / STREAMS;
    let mut sums = [0u64; 32];
    for i in 0..len {
        for stream in 0..STREAMS {
            let row = &rows[stream * len + i];
            for k in 0..32 {
                sums[k] = sums[k].wrapping_add(row[k]);
            }
        }
    }
    sums.into_iter().fold(0, u64::wrapping_add)
}
