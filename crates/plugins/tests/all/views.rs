//! What functions see of tiles, buffers and the run.

use crate::sums::{Sums, checked};
use framefold_abi::raw::{self, Host, Rows, Run, View};
use framefold_core::{
    Accumulator, Array, ArrayFormat, CsrTile, DType, Dataset, DenseTile, FramesView, JobMeta,
    NativeArray, Partition, Roi, RunMeta, Shape, SigSlice, Tile, TileFrames, TilePosition,
    TilingScheme, TypedSlice, Udf,
};
use framefold_plugins::{PluginAccumulator, PluginUdf};
use framefold_testkit::{MemoryOptions, MemorySource, cut, evaluate_in};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr::null_mut;
use std::slice::from_raw_parts;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// What was seen, line by line. Tests of this module take turns.
static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// A null pointer is no elements.
unsafe fn slice<'a>(data: *const usize, len: usize) -> &'a [usize] {
    // SAFETY: the host's promises.
    if data.is_null() { &[] } else { unsafe { from_raw_parts(data, len) } }
}

unsafe extern "C" fn begin(
    this: *mut c_void,
    run: *const Run,
    _host: *const Host,
    task: *mut *mut c_void,
) -> i32 {
    // SAFETY: the host's promises.
    unsafe {
        *task = this;
        let (run, job) = (&*run, &*(*run).job);
        assert_eq!((run.size, job.size), (size_of::<Run>(), size_of::<raw::Job>()));
        SEEN.lock().unwrap().push(format!(
            "partition {}/{} format {} frames {}+{} of {} nav {:?} sig {:?} at {:?} {:x} {:x}",
            run.partition,
            run.n_partitions,
            run.format,
            run.first_frame,
            run.n_frames,
            job.n_selected,
            slice(job.nav_shape, job.n_nav),
            slice(job.sig_shape, job.n_sig),
            slice(job.positions, job.n_selected),
            job.native_dtype,
            job.input_dtype,
        ));
    }
    raw::OK
}

unsafe extern "C" fn drop_task(_task: *mut c_void) {
    SEEN.lock().unwrap().push("dropped".to_owned());
}

unsafe fn views(views: *const View, n: usize) -> String {
    // SAFETY: the host's promises.
    let views = unsafe { from_raw_parts(views, n) };
    let described = views.iter().map(|view| {
        // SAFETY: the host's promises.
        let (shape, strides) = unsafe {
            (from_raw_parts(view.shape, view.n_dims), from_raw_parts(view.strides, view.n_dims))
        };
        format!("{shape:?}{strides:?}")
    });
    described.collect::<Vec<_>>().join(" ")
}

unsafe extern "C" fn process(
    _task: *mut c_void,
    tile: *const raw::Tile,
    given: *const View,
    n: usize,
    _host: *const Host,
) -> i32 {
    // SAFETY: the host's promises.
    unsafe {
        let tile = &*tile;
        SEEN.lock().unwrap().push(format!(
            "tile {} of {}+{} ({}) at {:?} {:?} first {}: {}",
            tile.slice_index,
            tile.first_frame,
            tile.depth,
            tile.first_in_partition,
            slice(tile.sig_origin, tile.n_sig),
            slice(tile.sig_shape, tile.n_sig),
            *tile.data.cast::<f64>(),
            views(given, n)
        ));
    }
    raw::OK
}

unsafe extern "C" fn process_csr(
    _task: *mut c_void,
    rows: *const Rows,
    given: *const View,
    n: usize,
    _host: *const Host,
) -> i32 {
    // SAFETY: the host's promises.
    unsafe {
        let rows = &*rows;
        let starts = slice(rows.starts, rows.depth + 1);
        SEEN.lock().unwrap().push(format!(
            "rows {starts:?} columns {:?} of {}+{} ({}) at {:?} {:?}: {}",
            from_raw_parts(rows.columns, starts[rows.depth]),
            rows.first_frame,
            rows.depth,
            rows.first_in_partition,
            slice(rows.sig_origin, rows.n_sig),
            slice(rows.sig_shape, rows.n_sig),
            views(given, n)
        ));
    }
    raw::OK
}

unsafe extern "C" fn end(
    _task: *mut c_void,
    given: *const View,
    n: usize,
    _host: *const Host,
) -> i32 {
    // SAFETY: the host's promises.
    SEEN.lock().unwrap().push(format!("end {}", unsafe { views(given, n) }));
    raw::OK
}

/// Six frames of 2 × 4, of which four are selected, in two partitions, cut in columns.
fn seen(format: ArrayFormat, contiguous: u64) -> Vec<String> {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap();
    let frames = NativeArray::try_new(&[6, 2, 4], (0..48u16).collect::<Vec<_>>()).unwrap();
    let source = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
    let dataset = Dataset::try_new(Arc::new(source), Some(&[2, 3]), 0).unwrap();
    let roi = Arc::new(Roi::try_new(vec![false, true, true, false, true, true]).unwrap());
    let tiling = Arc::new(TilingScheme::try_new(&[2, 4], &[2, 3], 2).unwrap());
    let mut sums = Sums::default();
    sums.requirements.contiguous = contiguous;
    let (table, _) = sums.table(|table| {
        table.begin = Some(begin);
        table.drop_task = Some(drop_task);
        table.process = Some(process);
        table.process_csr = Some(process_csr);
        table.end = Some(end);
    });
    let udf = PluginUdf::new(Arc::new(checked(&table).unwrap()));
    SEEN.lock().unwrap().clear();
    let partitions = cut(std::slice::from_ref(&(0..4)), &[3, 1]);
    evaluate_in(format, &udf, &dataset, Some(&roi), &tiling, &partitions).unwrap();
    std::mem::take(&mut SEEN.lock().unwrap())
}

#[test]
fn dense_tiles_in_their_place() {
    let found = seen(ArrayFormat::Dense, 0);
    let expected = [
        "partition 0/2 format 1 frames 0+3 of 4 nav [2, 3] sig [2, 4] at [1, 2, 4, 5] 7502 6608",
        "tile 0 of 0+2 (0) at [0, 0] [2, 3] first 8: [2][8] [2, 3, 2][64, 16, 8] [1][8]",
        "tile 1 of 0+2 (0) at [0, 3] [2, 1] first 11: [2][8] [2, 1, 2][64, 16, 8] [1][8]",
        "tile 0 of 2+1 (2) at [0, 0] [2, 3] first 32: [1][8] [2, 3, 2][64, 16, 8] [1][8]",
        "tile 1 of 2+1 (2) at [0, 3] [2, 1] first 35: [1][8] [2, 1, 2][64, 16, 8] [1][8]",
        "end [3][8] [2, 4, 2][64, 16, 8] [1][8]",
        "dropped",
        "partition 1/2 format 1 frames 3+1 of 4 nav [2, 3] sig [2, 4] at [1, 2, 4, 5] 7502 6608",
        "tile 0 of 3+1 (0) at [0, 0] [2, 3] first 40: [1][8] [2, 3, 2][64, 16, 8] [1][8]",
        "tile 1 of 3+1 (0) at [0, 3] [2, 1] first 43: [1][8] [2, 1, 2][64, 16, 8] [1][8]",
        "end [1][8] [2, 4, 2][64, 16, 8] [1][8]",
        "dropped",
    ];
    assert_eq!(found, expected);
}

#[test]
fn views_without_gaps_for_those_who_ask() {
    let found = seen(ArrayFormat::Dense, 1);
    assert!(found[1].contains("[2, 3, 2][48, 16, 8]"), "{}", found[1]);
    assert!(found[2].contains("[2, 1, 2][16, 16, 8]"), "{}", found[2]);
    assert!(found[5].contains("[2, 4, 2][64, 16, 8]"), "{}", found[5]);
}

#[test]
fn sparse_tiles_in_their_place() {
    let found = seen(ArrayFormat::Csr, 0);
    let expected = "rows [0, 6, 12] columns [0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5] of 0+2 (0) at [0, 0] \
                    [2, 3]: [2][8] [2, 3, 2][64, 16, 8] [1][8]";
    assert_eq!(found[1], expected);
    assert!(found[0].contains("format 2"), "{}", found[0]);
}

/// Where columns are that a function gets.
static COLUMNS: AtomicPtr<u32> = AtomicPtr::new(null_mut());

unsafe extern "C" fn note_columns(
    _task: *mut c_void,
    rows: *const Rows,
    _given: *const View,
    _n: usize,
    _host: *const Host,
) -> i32 {
    // SAFETY: the host's promises.
    COLUMNS.store(unsafe { (*rows).columns.cast_mut() }, Relaxed);
    raw::OK
}

/// A worker for two frames of 2 × 2 cells.
fn begun(udf: &PluginUdf) -> PluginAccumulator {
    let tiling = Arc::new(TilingScheme::try_new(&[2, 2], &[2, 2], 2).unwrap());
    let partition = Partition { index: 0, frames: 0..2 };
    let job = JobMeta {
        shape: Shape::try_new(&[2], &[2, 2]).unwrap(),
        native_dtype: DType::F64,
        input_dtype: DType::F64,
        roi: None,
    };
    let run = RunMeta {
        job: job.clone(),
        tiling: tiling.clone(),
        partitions: [partition.clone()].into(),
        format: ArrayFormat::Csr,
        may_wait: false,
        to_sink: Arc::from([]),
    };
    let decls = Arc::from(udf.buffers(&job).unwrap());
    let table = udf.table().clone();
    // SAFETY: the function has declared them.
    unsafe { PluginAccumulator::begin(table, decls, true, &run, &partition, None) }.unwrap()
}

#[test]
fn tiles_that_are_none_of_the_partition_are_refused() {
    let mut begun = begun(&Sums::default().udf(|_| ()));
    let cells = [1.0; 12];
    let slice_of = |shape: &[usize]| SigSlice::try_within(vec![0; 2], shape.into(), shape).unwrap();
    let mut process = |in_partition: Range<usize>, shape: &[usize], given: [usize; 2]| {
        let sig = &slice_of(shape);
        let view = FramesView::try_new(&cells, given[0], given[1], given[1]).unwrap();
        let position = TilePosition { frames: 0..2, in_partition, sig };
        let data = DenseTile::borrowed(TileFrames::F64(view));
        begun.process(&Tile { position, data }).map_err(|error| error.to_string())
    };
    process(0..2, &[2, 2], [2, 4]).unwrap();
    for (in_partition, shape, given, words) in [
        (0..2, [2, 2], [1, 4], "the source gave 1 frames of 4 cells of float64 for 2 frames"),
        (0..2, [2, 2], [2, 3], "the source gave 2 frames of 3 cells of float64 for 2 frames of 4"),
        (1..3, [2, 2], [2, 4], "frames 1..3 of a partition of 2"),
        (0..2, [2, 3], [2, 6], "a slice of [2, 3] at [0, 0] of [2, 2]"),
        (0..2, [1, 4], [2, 4], "a slice of [1, 4] at [0, 0] of [2, 2]"),
    ] {
        let error = process(in_partition, &shape, given).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn buffers_begin_with_what_is_written_to_them() {
    let mut begun = begun(&Sums::default().udf(|_| ()));
    for bytes in begun.bytes_mut() {
        for cell in bytes.as_chunks_mut::<8>().0 {
            *cell = 100f64.to_ne_bytes();
        }
    }
    let sig = &SigSlice::try_within(vec![0; 2], vec![2, 2], &[2, 2]).unwrap();
    let view = FramesView::try_new(&[1.0; 8], 2, 4, 4).unwrap();
    let position = TilePosition { frames: 0..2, in_partition: 0..2, sig };
    let data = DenseTile::borrowed(TileFrames::F64(view));
    begun.process(&Tile { position, data }).unwrap();
    let partial = Box::new(begun).finish().unwrap();
    for (_, array) in partial.arrays() {
        let Array::Native(array) = array else { panic!("{array:?}") };
        assert!(array.as_slice::<f64>().unwrap().iter().all(|&cell| cell > 100.0), "{array:?}");
    }
}

#[test]
fn columns_of_sparse_tiles_are_copies() {
    let mut begun = begun(&Sums::default().udf(|table| table.process_csr = Some(note_columns)));
    let tiling = TilingScheme::try_new(&[2, 2], &[2, 2], 2).unwrap();
    let position = TilePosition { frames: 0..2, in_partition: 0..2, sig: &tiling.slices()[0] };
    let (columns, values) = ([0, 3, 1], [1.0, 2.0, 3.0]);
    let tile = CsrTile::try_new(&[0, 2, 3], &columns, TypedSlice::F64(&values), 4).unwrap();
    begun.process_csr(&position, &tile).unwrap();
    let found = COLUMNS.load(Relaxed).cast_const();
    assert!(!found.is_null() && found != columns.as_ptr(), "those of a mapped file may change");
}
