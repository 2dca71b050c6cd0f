//! What a table may get wrong.

use crate::sums::{Sums, checked, text};
use framefold_abi::raw::{self, UdfV1};
use framefold_core::{
    DType, Dataset, Error, ErrorKind, NativeArray, Result, TilingScheme, Udf, interrupt,
};
use framefold_plugins::{Explain, FailedFrame, FailedTile, PluginAccumulator, PluginUdf, Table};
use framefold_testkit::{MemoryOptions, MemorySource, Results, cut, evaluate};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

fn dataset() -> Dataset {
    let frames = NativeArray::try_new(&[12, 4, 5], (0..240u16).collect::<Vec<_>>()).unwrap();
    let source = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
    Dataset::try_new(Arc::new(source), Some(&[3, 4]), 0).unwrap()
}

fn run(udf: &dyn Udf) -> Result<Results> {
    let tiling = Arc::new(TilingScheme::try_new(&[4, 5], &[2, 5], 3)?);
    evaluate(udf, &dataset(), None, &tiling, &cut(std::slice::from_ref(&(0..12)), &[5]))
}

/// The message of a refused table.
fn refused(change: impl FnOnce(&mut UdfV1)) -> String {
    let error = checked(&Sums::default().table(change).0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    error.to_string()
}

#[test]
fn tables_that_cannot_be_used_are_refused() {
    let found = refused(|table| table.major = 2);
    assert!(found.contains("major version 2") && found.contains("knows 1"), "{found}");
    assert!(found.contains("update framefold"), "{found}");
    assert!(refused(|table| table.major = 0).contains("build the function against"));
    for size in [0, 8, 16, 40, size_of::<UdfV1>() - 1, 1 << 20, usize::MAX] {
        let found = refused(|table| table.size = size);
        assert!(found.contains(&format!("size is {size} bytes, expected ")), "{found}");
        assert!(found.contains(" to 65536: set it to sizeof(ff_udf_v1)"), "{found}");
    }
    assert!(refused(|table| table.requirements = None).contains("no function 'requirements'"));
    assert!(refused(|table| table.buffers = None).contains("sums: its table has no function"));
    let found = refused(|table| (table.process, table.process_csr) = (None, None));
    assert!(found.contains("no function 'process'"), "{found}");
    assert!(refused(|table| table.drop_task = None).contains("no function 'drop_task'"));
    assert!(refused(|table| table.begin = None).contains("no function 'begin'"));
    assert!(refused(|table| table.name = text(b"")).contains("has no name"));
    assert!(refused(|table| table.name = text(b"a\xff")).contains("not UTF-8: 'a\u{fffd}'"));
    let null = raw::Text { data: std::ptr::null(), len: 3 };
    assert!(refused(|table| table.name = null).contains("has no name"));
    // SAFETY: null is allowed, and what is not aligned is not read.
    let (null, odd) = unsafe {
        let odd = std::ptr::without_provenance(9);
        (Table::try_new(std::ptr::null(), Arc::new(())), Table::try_new(odd, Arc::new(())))
    };
    assert!(null.unwrap_err().to_string().contains("pointer to it is null"));
    assert!(odd.unwrap_err().to_string().contains("not aligned"));
}

#[test]
fn larger_tables_of_later_versions_are_taken() {
    #[repr(C)]
    struct Later(UdfV1, [usize; 3]);
    let (table, _) = Sums::default().table(|table| {
        table.minor = 7;
        table.size = size_of::<Later>();
    });
    let later = Later(table, [0x5555; 3]);
    let udf = PluginUdf::new(Arc::new(checked(&later.0).unwrap()));
    assert_eq!(run(&udf).unwrap().arrays.len(), 3);
    assert_eq!(later.1, [0x5555; 3]);
}

#[test]
fn odd_declarations_are_refused() {
    let failing = |change: &dyn Fn(&mut Sums)| {
        let mut sums = Sums::default();
        change(&mut sums);
        run(&sums.udf(|_| ())).unwrap_err().to_string()
    };
    for (change, words) in [
        (&(|s: &mut Sums| s.requirements.method = 3) as &dyn Fn(&mut Sums), "unknown method 3"),
        (
            &|s: &mut Sums| s.requirements.input = raw::dtype(b'u', 3),
            "unknown dtype 0x7503 (kind 'u', 3",
        ),
        (&|s: &mut Sums| s.requirements.formats = 0, "unknown formats 0"),
        (&|s: &mut Sums| s.requirements.formats = 4, "unknown formats 4"),
        (&|s: &mut Sums| s.buffers[0].0 = "", "has no name"),
        (&|s: &mut Sums| s.buffers[1].0 = "of_frames", "two buffers are called 'of_frames'"),
        (&|s: &mut Sums| s.buffers[1].1 = 3, "'of_pixels' is of unknown kind 3"),
        (
            &|s: &mut Sums| s.buffers[1].2 = raw::dtype(b'O', 8),
            "'of_pixels' has the unknown dtype 0x4f08",
        ),
        (&|s: &mut Sums| s.buffers[1].3 = vec![1; 65], "'of_pixels' has 65 extra axes"),
        (&|s: &mut Sums| s.buffers[1].4 = 9, "'of_pixels' has the unknown use 9"),
    ] {
        let found = failing(change);
        assert!(found.contains(words), "{words}: {found}");
    }
    let failing =
        |change: fn(&mut UdfV1)| run(&Sums::default().udf(change)).unwrap_err().to_string();
    let found = failing(|table| table.merge = None);
    assert!(found.contains("no function 'merge', but the buffer 'of_pixels'"), "{found}");
    let found = failing(|table| table.results = None);
    assert!(found.contains("no function 'results', but the buffer 'mean'"), "{found}");
    let found = failing(|table| table.process_csr = None);
    assert!(found.contains("asks for csr tiles") && found.contains("'process_csr'"), "{found}");
}

#[test]
fn failures_name_the_function_the_place_and_what_it_said() {
    let outcome = |status, said| {
        let sums = Sums { status: (status, said, 2), ..Sums::default() };
        let (table, sums) = sums.table(|_| ());
        let udf = PluginUdf::new(Arc::new(checked(&table).unwrap()));
        let error = run(&udf).unwrap_err();
        assert_eq!(sums.begun.load(Relaxed), sums.dropped.load(Relaxed), "tasks are dropped once");
        assert_eq!(sums.begun.load(Relaxed), 1);
        assert_eq!(sums.tables_dropped.load(Relaxed), 0, "the owner's affair");
        assert_eq!((error.kind(), error.udf()), (ErrorKind::UserCode, Some("sums")));
        error.to_string()
    };
    assert_eq!(
        outcome(raw::FAILED, Some(b"the beam was off")),
        "sums: frame at scan position [0, 2]: the beam was off (partition 0)"
    );
    assert!(outcome(raw::FAILED, None).contains("it failed and did not say why"));
    assert!(outcome(raw::FAILED, Some(b"\xff!")).contains("]: \u{fffd}!"));
    assert!(outcome(raw::PANICKED, Some(b"oh")).contains("it panicked: oh"));
    assert!(outcome(raw::PANICKED, None).contains("panicked and did not say why"));
    assert!(outcome(7, None).contains("unknown status 7"));
    assert!(outcome(-1, Some(b"x")).contains("unknown status -1: x"));
    assert!(outcome(raw::CANCELLED, None).contains("but the run was not cancelled"));
}

#[test]
fn functions_end_early_when_the_run_is_cancelled() {
    let sums = Sums { status: (raw::CANCELLED, None, 0), ..Sums::default() };
    let udf = sums.udf(|_| ());
    let error = interrupt::watched(|| Err(Error::cancelled()), || run(&udf)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

/// Keeps what it was asked.
#[derive(Default)]
struct Asked(AtomicUsize);

impl Explain for Asked {
    fn explain(&self, failed: FailedFrame<'_>) -> Error {
        self.0.fetch_add(1, Relaxed);
        let FailedTile::Dense(tile) = failed.tile else { return Error::bug("not a dense tile") };
        assert_eq!((tile.frames().depth(), failed.frame), (3, Some(1)));
        assert_eq!((failed.status, failed.partition.frames.clone()), (raw::FAILED, 4..9));
        // What it did before, also to views that were copies.
        let (name, image) = failed.arrays[1];
        assert_eq!((name, image.shape()), ("of_pixels", &[4, 5, 2][..]));
        assert!(image.as_slice::<f64>().unwrap().iter().any(|&sum| sum != 0.0));
        Error::user_code(format!("explained: {}", failed.text))
    }
}

#[test]
fn others_may_explain_what_failed() {
    use framefold_core::{Accumulator, ArrayFormat, DenseTile, JobMeta, Partition, RunMeta, Tile};
    use framefold_core::{Element, FramesView, TilePosition};
    let data = dataset();
    let sums = Sums { status: (raw::FAILED, Some(b"no"), 1), ..Sums::default() };
    let udf = sums.udf(|_| ());
    let tiling = Arc::new(TilingScheme::try_new(&[4, 5], &[4, 2], 3).unwrap());
    let partition = Partition { index: 0, frames: 4..9 };
    let job = JobMeta {
        shape: data.shape().clone(),
        native_dtype: DType::U16,
        input_dtype: DType::F64,
        roi: None,
    };
    let run = RunMeta {
        job: job.clone(),
        tiling: tiling.clone(),
        partitions: [partition.clone()].into(),
        format: ArrayFormat::Dense,
        may_wait: false,
        to_sink: Arc::from([]),
    };
    let decls = Arc::from(udf.buffers(&job).unwrap());
    let asked = Arc::new(Asked::default());
    let explain: Option<Arc<dyn Explain>> = Some(asked.clone());
    let table = udf.table().clone();
    // SAFETY: the function has declared them.
    let begun = unsafe { PluginAccumulator::begin(table, decls, true, &run, &partition, explain) };
    let mut begun = begun.unwrap();
    let cells = vec![1.0; 24];
    let frames = f64::wrap_frames(FramesView::try_new(&cells, 3, 8, 8).unwrap());
    let position = TilePosition { frames: 4..7, in_partition: 0..3, sig: &tiling.slices()[0] };
    let error = begun.process(&Tile { position, data: DenseTile::borrowed(frames) }).unwrap_err();
    assert_eq!(error.to_string(), "sums: explained: no (partition 0)");
    assert_eq!(asked.0.load(Relaxed), 1);
}

#[test]
fn the_dtype_of_the_data_set_can_be_asked_for() {
    let mut sums = Sums::default();
    sums.buffers[0].2 = 0;
    let udf = sums.udf(|_| ());
    let data = dataset();
    let job = framefold_core::JobMeta {
        shape: data.shape().clone(),
        native_dtype: DType::U16,
        input_dtype: DType::F64,
        roi: None,
    };
    assert_eq!(udf.buffers(&job).unwrap()[0].dtype, DType::U16.into());
    assert_eq!(udf.buffers(&job).unwrap()[1].dtype, DType::F64.into());
}
