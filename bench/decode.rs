//! How fast MIB and K2IS frames become tiles: every stored form, in bytes of decoded pixels, beside a copy
//! of as many bytes from memory to memory. A form should reach half the speed of the copy.
//!
//! The files are in the page cache, so this measures decoding and memory, not disks. Set
//! `FRAMEFOLD_SIMD` to `plain` or `avx2` to compare instruction sets.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a benchmark that cannot be set up has nothing better to do than to stop"
)]

#[expect(dead_code, reason = "shared with the tests, which use all of it")]
#[path = "../crates/io/tests/all/mib/writer.rs"]
mod writer;

#[path = "../crates/io/tests/all/k2is/writer.rs"]
mod k2is;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use framefold_core::{Dataset, FrameIndices, TilingScheme};
use framefold_io::{OpenOptions, open_as};
use std::hint::black_box;
use std::io::Write;
use std::path::Path;
use std::time::Duration;
use writer::Mode;

/// Bytes of decoded pixels in each file: more than a core's caches.
const DECODED: usize = 128 << 20;
/// Bytes of one tile, as runs make them.
const TILE: usize = 1 << 20;

fn decode(c: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut group = c.benchmark_group("decode");
    group.sample_size(10).warm_up_time(Duration::from_millis(200));
    group.measurement_time(Duration::from_millis(800)).throughput(bytes(DECODED));

    let from = vec![7u8; DECODED];
    let mut to = vec![0u8; DECODED];
    group.bench_function("copy", |b| b.iter(|| black_box(&mut to).copy_from_slice(&from)));
    drop((from, to));

    let small = [256, 256];
    let large = [512, 512];
    let modes = [
        ("raw 1 bit", Mode::raw(1, small), 1),
        ("raw 6 bits", Mode::raw(6, small), 1),
        ("raw 12 bits", Mode::raw(12, small), 2),
        ("raw 24 bits", Mode::raw(24, small), 4),
        ("quad 1 bit", Mode::quad(1, large), 1),
        ("quad 6 bits", Mode::quad(6, large), 1),
        ("quad 12 bits", Mode::quad(12, large), 2),
        ("u16", Mode::plain("U16", large), 2),
        ("u32", Mode::plain("U32", large), 4),
    ];
    for (name, mode, pixel_bytes) in modes {
        let path = dir.path().join("scan.mib");
        write(&path, &mode, pixel_bytes);
        let dataset = open_as("mib", &path, &OpenOptions::default()).expect("a MIB file");
        group.bench_function(name, |b| b.iter(|| read(&dataset, pixel_bytes)));
    }
    // In tiles as runs make them: blocks of many frames.
    let set = k2is::Set::new(16, 0, None);
    let (gtg, _) = k2is::save(&set, dir.path());
    let dataset = open_as("k2is", &gtg, &OpenOptions::default()).expect("a K2IS set");
    group.throughput(bytes(16 * k2is::ROWS * k2is::COLUMNS * 2));
    group.bench_function("k2is", |b| b.iter(|| read_blocks(&dataset)));
    group.finish();
}

/// Reads all frames of a K2IS set, block by block.
fn read_blocks(dataset: &Dataset) {
    let scheme = TilingScheme::try_new(dataset.shape().sig(), &[930, 16], 1).expect("blocks");
    let n_frames = dataset.source().info().n_frames;
    let mut reader = dataset.source().reader().expect("a reader");
    for slice in scheme.slices() {
        black_box(reader.read(FrameIndices::Run(0..n_frames), slice).expect("a tile"));
    }
}

/// Writes a file of a few different frames, again and again.
fn write(path: &Path, mode: &Mode, pixel_bytes: usize) {
    let n_frames = DECODED / (mode.shape[0] * mode.shape[1] * pixel_bytes);
    let payloads: Vec<_> = mode.noise(4, 1).iter().map(|frame| mode.payload(frame)).collect();
    let mut file = std::io::BufWriter::new(std::fs::File::create(path).expect("a new file"));
    for (sequence, payload) in (1..).zip(payloads.iter().cycle().take(n_frames)) {
        file.write_all(&mode.header(sequence)).expect("space for a header");
        file.write_all(payload).expect("space for a frame");
    }
}

/// Reads all frames, one tile after the other, as a worker does.
fn read(dataset: &Dataset, pixel_bytes: usize) {
    let sig = dataset.shape().sig();
    let scheme = TilingScheme::try_new(sig, sig, 1).expect("whole frames");
    let frame_bytes = sig.iter().product::<usize>() * pixel_bytes;
    let depth = TILE.div_ceil(frame_bytes);
    let mut reader = dataset.source().reader().expect("a reader");
    let n_frames = dataset.source().info().n_frames;
    for start in (0..n_frames).step_by(depth) {
        let frames = FrameIndices::Run(start..n_frames.min(start + depth as u64));
        black_box(reader.read(frames, &scheme.slices()[0]).expect("a tile"));
    }
}

fn bytes(n: usize) -> Throughput {
    Throughput::Bytes(n as u64)
}

criterion_group!(benches, decode);
criterion_main!(benches);
