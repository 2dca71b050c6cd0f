//! When tiles are lent as they lie in memory, and how long they live.

use crate::oracle::Frames;
use framefold_core::{DType, DataSource, FrameIndices, SigSlice, StoredDType, TilingScheme};
use framefold_io::{Backend, MemoryArray, MemorySource, OpenOptions, SharedBytes, open_as};
use std::sync::Arc;

/// Memory aligned to 16 bytes, whatever the allocator thinks.
struct Aligned(Vec<u128>, usize);

impl SharedBytes for Aligned {
    fn bytes(&self) -> &[u8] {
        // SAFETY: plain numbers may be looked at as bytes; the length is within the vector's.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.1) }
    }
}

fn aligned(bytes: &[u8]) -> Arc<Aligned> {
    let chunks = bytes.chunks(16).map(|chunk| {
        let mut group = [0; 16];
        group[..chunk.len()].copy_from_slice(chunk);
        u128::from_ne_bytes(group)
    });
    Arc::new(Aligned(chunks.collect(), bytes.len()))
}

fn slices(sig: &[usize], tile: &[usize]) -> Vec<SigSlice> {
    TilingScheme::try_new(sig, tile, 8).unwrap().slices().to_vec()
}

/// The offset of a tile in the memory, and its stride, if it was lent.
fn lent(
    memory: &Arc<Aligned>,
    array: MemoryArray,
    frames: FrameIndices<'_>,
    slice: &SigSlice,
) -> Option<(usize, usize)> {
    let source = MemorySource::try_new(memory.clone(), array).unwrap();
    let mut reader = source.reader().unwrap();
    let tile = reader.read(frames, slice).unwrap();
    let address = tile.frames().as_bytes().as_ptr() as usize;
    let start = memory.bytes().as_ptr() as usize;
    let within = (start..start + memory.bytes().len()).contains(&address);
    assert!(source.info().lends || !within);
    within.then(|| (address - start, tile.frames().stride()))
}

fn array(frames: &Frames) -> MemoryArray {
    let shape = std::iter::once(frames.n_frames).chain(frames.sig_shape.iter().copied());
    MemoryArray {
        shape: shape.collect(),
        strides_bytes: None,
        offset_bytes: 0,
        stored: frames.stored,
        sig_dims: frames.sig_shape.len(),
    }
}

#[test]
fn tiles_are_lent_where_layout_and_dtype_allow() {
    for dtype in DType::all() {
        let frames = Frames::random(dtype.into(), 8, &[4, 6], 2);
        let (memory, size) = (aligned(&frames.bytes), frames.size());
        let lent = |run, slice: &SigSlice| lent(&memory, array(&frames), run, slice);
        let rows = &slices(&[4, 6], &[2, 6])[1];
        if dtype == DType::Bool {
            // They may be other bytes than 0 and 1.
            assert_eq!(lent(FrameIndices::Run(3..6), rows), None);
            continue;
        }
        let run = lent(FrameIndices::Run(3..6), rows).unwrap();
        assert_eq!(run, ((3 * 24 + 12) * size, 24), "{dtype}");
        let spread = lent(FrameIndices::List(&[1, 4, 7]), rows).unwrap();
        assert_eq!(spread, ((24 + 12) * size, 72), "{dtype}");
        assert_eq!(lent(FrameIndices::List(&[1, 4, 6]), rows), None);
        let part = &slices(&[4, 6], &[2, 3])[0];
        assert_eq!(lent(FrameIndices::Run(3..6), part), None);
    }
}

#[test]
fn foreign_byte_order_and_odd_addresses_are_copied() {
    let frames = Frames::random(StoredDType::parse(">u4").unwrap(), 8, &[4, 6], 2);
    let memory = aligned(&frames.bytes);
    let whole = &slices(&[4, 6], &[4, 6])[0];
    assert_eq!(lent(&memory, array(&frames), FrameIndices::Run(0..2), whole), None);
    let native = MemoryArray { stored: DType::U32.into(), ..array(&frames) };
    assert!(lent(&memory, native.clone(), FrameIndices::Run(0..2), whole).is_some());
    let odd = MemoryArray { shape: vec![7, 4, 6], offset_bytes: 2, ..native.clone() };
    assert_eq!(lent(&memory, odd.clone(), FrameIndices::Run(0..2), whole), None);
    // What a plan is made of must not depend on addresses, which differ from process to process.
    let lends = |array| MemorySource::try_new(memory.clone(), array).unwrap().info().lends;
    assert_eq!([lends(native), lends(odd), lends(array(&frames))], [true, true, false]);
}

#[test]
fn a_tile_outlives_its_source_through_its_owner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scan.raw");
    let frames = Frames::random(DType::U16.into(), 8, &[4, 6], 2);
    std::fs::write(&path, &frames.bytes).unwrap();
    for backend in [Backend::Mmap, Backend::Buffered] {
        let options = OpenOptions {
            sig_shape: Some(vec![4, 6]),
            nav_shape: Some(vec![8]),
            backend,
            ..OpenOptions::default().with("dtype", frames.stored)
        };
        let dataset = open_as("raw", &path, &options).unwrap();
        assert_eq!(dataset.source().info().lends, backend == Backend::Mmap);
        let whole = &slices(&[4, 6], &[4, 6])[0];
        let (held, bytes) = {
            let mut reader = dataset.source().reader().unwrap();
            let tile = reader.read(FrameIndices::Run(2..5), whole).unwrap();
            let bytes = tile.frames().as_bytes().as_ptr() as usize;
            let held = tile.lent_bytes().cloned().unwrap();
            // The next tile must not overwrite what is held.
            reader.read(FrameIndices::Run(0..3), whole).unwrap();
            (held, bytes)
        };
        drop(dataset);
        assert_eq!(held.bytes().as_ptr() as usize, bytes);
        assert_eq!(held.bytes(), &frames.bytes[2 * 48..5 * 48]);
    }
}
