//! Arrays in memory with axes in any order, gaps, and repetition.

use crate::oracle::{Frames, all, any_frames, any_questions, check};
use framefold_core::{DType, DataSource, Error, ErrorKind, FrameIndices, TilingScheme, interrupt};
use framefold_io::{MemoryArray, MemorySource};
use proptest::prelude::*;
use std::sync::Arc;

proptest! {
    #[test]
    fn any_axis_order(
        frames in any_frames(),
        ask in any_questions(),
        keys in prop::collection::vec(any::<u32>(), 4),
        gaps in prop::collection::vec(0usize..3, 4),
        offset in 0usize..9,
    ) {
        let mut shape = vec![frames.n_frames];
        shape.extend(&frames.sig_shape);
        let mut order: Vec<usize> = (0..shape.len()).collect();
        order.sort_by_key(|&axis| keys[axis]);
        let mut strides = vec![0; shape.len()];
        let mut stride = frames.size();
        for &axis in &order {
            strides[axis] = stride;
            stride = stride * shape[axis] + gaps[axis] * frames.size();
        }
        let mut memory = vec![0xA5; offset + stride];
        for (flat, element) in frames.bytes.chunks(frames.size()).enumerate() {
            let (mut rest, mut place) = (flat, offset);
            for axis in (0..shape.len()).rev() {
                place += rest % shape[axis] * strides[axis];
                rest /= shape[axis];
            }
            memory[place..][..frames.size()].copy_from_slice(element);
        }
        let source = MemorySource::try_new(Arc::new(memory), MemoryArray {
            sig_dims: frames.sig_shape.len(),
            shape,
            strides_bytes: Some(strides),
            offset_bytes: offset,
            stored: frames.stored,
        }).unwrap();
        check(&source, &frames, &all(frames.n_frames), &ask);
    }
}

fn array(shape: &[usize], sig_dims: usize) -> MemoryArray {
    MemoryArray {
        shape: shape.to_vec(),
        strides_bytes: None,
        offset_bytes: 0,
        stored: DType::U16.into(),
        sig_dims,
    }
}

#[test]
fn one_frame_repeated() {
    let once = Frames::random(DType::U16.into(), 1, &[3, 4], 5);
    let repeated = Frames { n_frames: 5, bytes: once.bytes.repeat(5), ..once.clone() };
    let source = MemorySource::try_new(
        Arc::new(once.bytes),
        MemoryArray { strides_bytes: Some(vec![0, 8, 2]), ..array(&[5, 3, 4], 2) },
    )
    .unwrap();
    let ask = crate::oracle::Questions {
        tile_shape: vec![2, 4],
        picks: vec![crate::suite::npy::any_index()],
    };
    check(&source, &repeated, &all(5), &ask);
}

#[test]
fn what_a_reader_was_stopped_in_is_done_anew() {
    const N: usize = 5000;
    let memory: Vec<u8> = (0..3 * 4 * N).map(|i| (i * i / 77) as u8).collect();
    // Frames of three cells, each far from the others, and gaps between frames.
    let strides_bytes = Some(vec![4, 4 * N]);
    let array = MemoryArray { strides_bytes, ..array(&[N, 3], 1) };
    let source = MemorySource::try_new(Arc::new(memory.clone()), array).unwrap();
    let tiling = TilingScheme::try_new(&[3], &[3], 1).unwrap();
    let mut reader = source.reader().unwrap();
    let mut read = || {
        let tile = reader.read(FrameIndices::Run(0..N as u64), &tiling.slices()[0]);
        tile.map(|tile| tile.frames().as_bytes().to_vec())
    };
    assert!(interrupt::watched(|| Err(Error::cancelled()), &mut read).is_err());
    let at = |i: usize| &memory[4 * (i / 3) + 4 * N * (i % 3)..][..2];
    let expected: Vec<u8> = (0..3 * N).flat_map(at).copied().collect();
    assert!(read().unwrap() == expected);
}

#[test]
fn arrays_that_do_not_fit_are_refused() {
    let refused = |array: MemoryArray| {
        let error = MemorySource::try_new(Arc::new(vec![0; 120]), array).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    };
    assert!(MemorySource::try_new(Arc::new(vec![0; 120]), array(&[3, 4, 5], 2)).is_ok());
    refused(array(&[3, 4, 6], 2));
    refused(array(&[3, 4, 5], 0));
    refused(array(&[3, 4, 5], 4));
    refused(array(&[3, 0, 5], 2));
    refused(array(&[], 0));
    refused(array(&[usize::MAX, usize::MAX, 2], 2));
    refused(array(&[usize::MAX, 2, 2], 2));
    refused(MemoryArray { offset_bytes: 1, ..array(&[3, 4, 5], 2) });
    refused(MemoryArray { offset_bytes: usize::MAX, ..array(&[3, 4, 5], 2) });
    refused(MemoryArray { strides_bytes: Some(vec![40, 10]), ..array(&[3, 4, 5], 2) });
    refused(MemoryArray { strides_bytes: Some(vec![40, usize::MAX, 2]), ..array(&[3, 4, 5], 2) });
    let one_frame = MemorySource::try_new(Arc::new(vec![0; 120]), array(&[3, 4, 5], 3)).unwrap();
    assert_eq!(one_frame.info().nav_shape, [1]);
}

#[test]
fn large_arrays_in_fortran_order() {
    let (ny, nx, sy, _) = LARGE;
    let strides = [1, ny, ny * nx, ny * nx * sy];
    check_large(strides, |size| nx * (64 / size).clamp(1, ny));
}

#[test]
fn large_arrays_with_the_scan_as_fast_axes() {
    let (ny, nx, _, sx) = LARGE;
    let strides = [nx, 1, ny * nx * sx, ny * nx];
    check_large(strides, |size| (4096 / size).min(ny * nx));
}

#[test]
fn large_arrays_with_gaps_between_rows_of_the_scan() {
    let (ny, nx, _, sx) = LARGE;
    let strides = [nx + 3, 1, ny * (nx + 3) * sx, ny * (nx + 3)];
    check_large(strides, |size| (4096 / size).min(nx));
}

/// More frames and cells than one block of the gathering loops takes.
const LARGE: (usize, usize, usize, usize) = (37, 41, 6, 19);

/// Reads arrays of such strides, counted in elements, in every element size.
fn check_large(strides: [usize; 4], preferred_depth: impl Fn(usize) -> usize) {
    let (ny, nx, sy, sx) = LARGE;
    let (n_frames, n_cells) = (ny * nx, sy * sx);
    for dtype in [DType::U8, DType::U16, DType::F32, DType::F64, DType::C128] {
        let size = dtype.size();
        let frames = Frames::random(dtype.into(), n_frames, &[sy, sx], 3);
        let lens = [ny, nx, sy, sx];
        let last: usize = strides.iter().zip(lens).map(|(stride, len)| stride * (len - 1)).sum();
        let mut memory = vec![0; (last + 1) * size];
        for (flat, element) in frames.bytes.chunks(size).enumerate() {
            let (frame, cell) = (flat / n_cells, flat % n_cells);
            let at = [frame / nx, frame % nx, cell / sx, cell % sx];
            let place: usize = strides.iter().zip(at).map(|(stride, at)| stride * at).sum();
            memory[place * size..][..size].copy_from_slice(element);
        }
        let source = MemorySource::try_new(
            Arc::new(memory),
            MemoryArray {
                strides_bytes: Some(strides.map(|stride| stride * size).to_vec()),
                stored: dtype.into(),
                ..array(&[ny, nx, sy, sx], 2)
            },
        )
        .unwrap();
        assert_eq!(source.info().preferred_depth, preferred_depth(size));
        let tiling = TilingScheme::try_new(&[sy, sx], &[4, 7], 1).unwrap();
        let mut reader = source.reader().unwrap();
        // Shallow ones are read ahead, and found there, or in part behind it.
        let shallow = [0..3, 3..6, 5..6, 254..260, 500..520, 0..1, 1510..1517];
        for slice in tiling.slices() {
            for range in [0..n_frames as u64, 100..1400].into_iter().chain(shallow.clone()) {
                let tile = reader.read(FrameIndices::Run(range.clone()), slice).unwrap();
                let found = tile.frames().as_bytes();
                let expected: Vec<u8> = range
                    .clone()
                    .flat_map(|frame| slice.runs(&[sy, sx]).flatten().map(move |c| (frame, c)))
                    .flat_map(|(frame, cell)| {
                        let flat = frame as usize * n_cells + cell;
                        frames.bytes[flat * size..][..size].to_vec()
                    })
                    .collect();
                assert!(found == expected, "{dtype}, frames {range:?}, slice {slice:?}");
            }
        }
    }
}
