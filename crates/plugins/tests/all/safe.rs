//! Functions in safe Rust.

use framefold_abi::{
    Buffer, DType, Failure, Formats, Function, Job, Method, Requirements, Rows, Run, Tile, Views,
};
use framefold_core::{
    ArrayFormat, DataSource, Dataset, Error, ErrorKind, JobMeta, NativeArray, Partition, Result,
    RunMeta, Shape, TilingScheme, Udf,
};
use framefold_testkit::oracle::Frames;
use framefold_testkit::{
    Agreement, Case, MemoryOptions, MemorySource, Results, Values, cases, check_udf, cut, evaluate,
};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The sum of each pixel, and the number of the last frame.
struct Image {
    contiguous: bool,
}

impl Function for Image {
    type Task = u64;

    fn name(&self) -> &str {
        "image"
    }

    fn requirements(&self, job: &Job<'_>) -> Result<Requirements, Failure> {
        assert!(job.n_selected() > 0 && job.positions().is_none());
        assert_eq!(job.input_dtype(), DType::NATIVE);
        let (input, formats) = (DType::of::<f64>(), Formats::Both);
        Ok(Requirements { input, formats, contiguous: self.contiguous, ..Default::default() })
    }

    fn buffers(&self, job: &Job<'_>) -> Result<Vec<Buffer>, Failure> {
        assert_eq!(job.input_dtype(), DType::of::<f64>());
        let last = Buffer::single::<u64>("last").private();
        Ok(vec![Buffer::sig::<f64>("image").with_extra_shape(&[2]), last])
    }

    fn process(
        &self,
        last: &mut u64,
        tile: &Tile<'_>,
        views: &mut Views<'_>,
    ) -> Result<(), Failure> {
        let [image, _] = views.take()?;
        let mut image = image.of::<f64>()?;
        assert_eq!(image.shape(), [tile.shape(), &[2]].concat());
        for (i, frame) in tile.frames::<f64>()?.enumerate() {
            let parity = (tile.first_frame() + i) % 2;
            *last = (*last).max((tile.first_frame() + i) as u64);
            if self.contiguous {
                let pairs = image.as_mut_slice()?.chunks_exact_mut(2);
                pairs.zip(frame).for_each(|(pair, value)| pair[parity] += value);
            } else {
                let mut cells = frame.iter();
                for piece in image.pieces_mut() {
                    let pairs = piece.chunks_exact_mut(2);
                    pairs.zip(&mut cells).for_each(|(pair, value)| pair[parity] += value);
                }
                assert!(cells.next().is_none());
            }
        }
        Ok(())
    }

    fn process_rows(
        &self,
        _last: &mut u64,
        rows: &Rows<'_>,
        views: &mut Views<'_>,
    ) -> Result<(), Failure> {
        let [image, _] = views.take()?;
        let mut image = image.of::<f64>()?;
        let mut cells: Vec<&mut f64> = image.pieces_mut().flatten().collect();
        for (i, (columns, values)) in rows.frames::<f64>()?.enumerate() {
            for (&column, value) in columns.iter().zip(values) {
                *cells[column as usize * 2 + (rows.first_frame() + i) % 2] += value;
            }
        }
        Ok(())
    }

    fn end(&self, last: &mut u64, views: &mut Views<'_>) -> Result<(), Failure> {
        let [_, buffer] = views.take()?;
        buffer.of::<u64>()?.as_mut_slice()?[0] = *last;
        Ok(())
    }

    fn merge(&self, dest: &mut Views<'_>, src: &Views<'_>) -> Result<(), Failure> {
        let (new, new_last) = (src.read::<f64>(0)?, src.read::<u64>(1)?);
        let [image, last] = dest.take()?;
        let mut image = image.of::<f64>()?;
        image.as_mut_slice()?.iter_mut().zip(new).for_each(|(sum, new)| *sum += new);
        let mut last = last.of::<u64>()?;
        let last = &mut last.as_mut_slice()?[0];
        *last = (*last).max(new_last[0]);
        Ok(())
    }

    fn results(
        &self,
        _job: &Job<'_>,
        merged: &Views<'_>,
        results: &mut Views<'_>,
    ) -> Result<(), Failure> {
        assert_eq!((merged.len(), results.len()), (2, 1));
        Ok(())
    }
}

fn small(case: Case) -> Case {
    Case { dtype: framefold_core::DType::U16, values: Values::Full, ..case }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn keeps_the_laws_of_udfs(case in cases().prop_map(small), contiguous in any::<bool>()) {
        let (dataset, roi) = (case.dataset().unwrap(), case.roi().unwrap());
        let udf = framefold_plugins::udf(Image { contiguous }).unwrap();
        check_udf(udf.as_ref(), &dataset, roi.as_ref(), Agreement::Exact, case.seed).unwrap();
        let frames = Frames::read(&dataset, roi.as_deref()).unwrap();
        let mut image = vec![0.0; frames.frame_len() * 2];
        for (index, frame) in &frames.frames {
            for (at, value) in frame.values.iter().enumerate() {
                image[at * 2 + index % 2] += value.re;
            }
        }
        let (tiling, partitions) = (case.tiling().unwrap(), case.partitions().unwrap());
        let run = evaluate(udf.as_ref(), &dataset, roi.as_ref(), &tiling, &partitions);
        let results = run.unwrap();
        prop_assert_eq!(results.get("image").unwrap().as_slice::<f64>().unwrap(), &image[..]);
    }
}

/// Panics or fails where it is said to.
#[derive(Clone)]
struct Faulty {
    place: &'static str,
    panics: bool,
    drops: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Dropped(Option<Faulty>);

impl Drop for Dropped {
    fn drop(&mut self) {
        if let Some(faulty) = &self.0 {
            faulty.drops.fetch_add(1, Relaxed);
            let _ = faulty.at("drop_task");
        }
    }
}

impl Drop for Faulty {
    fn drop(&mut self) {
        if self.place == "drop" && Arc::strong_count(&self.drops) == 2 {
            panic!("at the very end");
        }
    }
}

impl Faulty {
    fn at(&self, place: &str) -> Result<(), Failure> {
        match (self.place == place, self.panics) {
            (false, _) => Ok(()),
            (true, false) => Err(format!("failed in {place}").into()),
            (true, true) => panic!("panicked in {place}"),
        }
    }
}

impl Function for Faulty {
    type Task = Dropped;

    fn name(&self) -> &str {
        "faulty"
    }
    fn requirements(&self, _job: &Job<'_>) -> Result<Requirements, Failure> {
        self.at("requirements")?;
        Ok(Requirements { method: Method::Frames, ..Default::default() })
    }
    fn buffers(&self, _job: &Job<'_>) -> Result<Vec<Buffer>, Failure> {
        self.at("buffers")?;
        let kind = if self.place == "unmerged" { Buffer::sig::<u8> } else { Buffer::nav::<u8> };
        Ok(vec![kind("nothing".to_owned())])
    }
    fn begin(&self, run: &Run<'_>) -> Result<Dropped, Failure> {
        assert_eq!((run.partition(), run.frames(), run.job().sig_shape()), (0, 0..6, &[2, 2][..]));
        self.at("begin")?;
        Ok(Dropped(Some(self.clone())))
    }
    fn process(
        &self,
        _task: &mut Dropped,
        tile: &Tile<'_>,
        views: &mut Views<'_>,
    ) -> Result<(), Failure> {
        assert!(!tile.is_cancelled());
        match self.place {
            "wrong dtype" => assert_eq!(tile.frames::<f32>()?.count(), 6),
            "wrong buffer" => {
                let [view] = views.take()?;
                view.of::<f32>()?;
            }
            "wrong number" => {
                let [_, _, _] = views.take()?;
            }
            _ => {}
        }
        for frame in tile.frames::<u8>()? {
            if frame[0] == 8 {
                self.at("process")?;
            }
        }
        Ok(())
    }
    fn end(&self, _task: &mut Dropped, _views: &mut Views<'_>) -> Result<(), Failure> {
        self.at("end")
    }
    fn merge(&self, dest: &mut Views<'_>, src: &Views<'_>) -> Result<(), Failure> {
        self.at("merge")?;
        if self.place == "unmerged" {
            return Function::merge(&Least, dest, src);
        }
        Ok(())
    }
    fn results(&self, _: &Job<'_>, _: &Views<'_>, _: &mut Views<'_>) -> Result<(), Failure> {
        self.at("results")
    }
}

/// Overrides nothing.
struct Least;

impl Function for Least {
    type Task = ();
    fn name(&self) -> &str {
        "least"
    }
    fn buffers(&self, _job: &Job<'_>) -> Result<Vec<Buffer>, Failure> {
        Ok(vec![Buffer::nav::<u8>("first")])
    }
    fn process(&self, (): &mut (), tile: &Tile<'_>, views: &mut Views<'_>) -> Result<(), Failure> {
        let [first] = views.take()?;
        let mut first = first.of::<u8>()?;
        for (first, frame) in first.as_mut_slice()?.iter_mut().zip(tile.frames::<u8>()?) {
            *first = frame[0];
        }
        Ok(())
    }
}

/// The first pixel of each frame, or of all frames.
struct First {
    nav: bool,
}

impl Function for First {
    type Task = ();
    const FINAL_ROWS: bool = true;
    fn name(&self) -> &str {
        "first"
    }
    fn buffers(&self, _job: &Job<'_>) -> Result<Vec<Buffer>, Failure> {
        let kept = Buffer::nav::<u8>("kept").private();
        let first = if self.nav { Buffer::nav::<u8> } else { Buffer::single::<u8> };
        Ok(vec![kept, first("first")])
    }
    fn process(&self, (): &mut (), tile: &Tile<'_>, views: &mut Views<'_>) -> Result<(), Failure> {
        let [_, first] = views.take()?;
        let mut first = first.of::<u8>()?;
        for (first, frame) in first.as_mut_slice()?.iter_mut().zip(tile.frames::<u8>()?) {
            *first = frame[0];
        }
        Ok(())
    }
    fn merge(&self, _: &mut Views<'_>, _: &Views<'_>) -> Result<(), Failure> {
        Err("rows that are final are not merged".into())
    }
}

fn run(function: impl Function) -> Result<Results> {
    let frames = NativeArray::try_new(&[6, 2, 2], (0..24u8).collect::<Vec<_>>())?;
    let source = MemorySource::try_new(frames, MemoryOptions::default())?;
    let dataset = Dataset::try_new(Arc::new(source), Some(&[2, 3]), 0)?;
    let tiling = Arc::new(TilingScheme::try_new(&[2, 2], &[2, 2], 4)?);
    let partitions = cut(std::slice::from_ref(&(0..6)), &[]);
    evaluate(framefold_plugins::udf(function)?.as_ref(), &dataset, None, &tiling, &partitions)
}

fn failed(place: &'static str, panics: bool) -> (Option<Error>, usize) {
    let drops = Arc::default();
    let outcome = run(Faulty { place, panics, drops: Arc::clone(&drops) });
    (outcome.err(), drops.load(Relaxed))
}

#[test]
fn rows_need_no_merge() {
    let results = run(Least).unwrap();
    assert_eq!(results.get("first").unwrap().as_slice::<u8>().unwrap(), [0, 4, 8, 12, 16, 20]);
}

#[test]
fn final_rows_may_go_to_a_sink() {
    let results = run(First { nav: true }).unwrap();
    assert_eq!(results.get("first").unwrap().as_slice::<u8>().unwrap(), [0, 4, 8, 12, 16, 20]);
    assert!(results.get("kept").is_err());
    let text = run(First { nav: false }).err().unwrap().to_string();
    assert!(text.contains("FINAL_ROWS is for buffers of one row per frame that"), "{text}");
    let frames = NativeArray::try_new(&[1, 1, 1], vec![0u8]).unwrap();
    let source = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
    let by_rows = |udf: Arc<dyn Udf>| udf.requirements(source.info()).unwrap().by_rows;
    assert!(by_rows(framefold_plugins::udf(First { nav: true }).unwrap()));
    assert!(!by_rows(framefold_plugins::udf(Least).unwrap()));
}

#[test]
fn failures_and_panics_are_errors_wherever_they_are() {
    for place in ["requirements", "buffers", "begin", "process", "end", "merge", "results"] {
        for panics in [false, true] {
            let (error, drops) = failed(place, panics);
            let error = error.unwrap();
            let text = error.to_string();
            let expected =
                if panics { format!("panicked in {place}") } else { format!("failed in {place}") };
            assert!(text.contains(&expected), "{text}");
            assert_eq!(
                text.contains("it panicked: ") && text.contains("safe.rs:"),
                panics,
                "{text}"
            );
            assert_eq!(
                text.contains("frame at scan position [0, 2]"),
                place == "process",
                "{text}"
            );
            assert_eq!(error.kind(), ErrorKind::UserCode);
            let begun = !["requirements", "buffers", "begin"].contains(&place);
            assert_eq!(drops, usize::from(begun), "{place}");
        }
    }
    // There is nothing that could fail any more; the process lives.
    assert!(matches!(failed("drop_task", true), (None, 1)));
    assert!(matches!(failed("drop", true), (None, 1)));
}

#[test]
fn what_does_not_fit_is_said() {
    let text = |place| failed(place, false).0.unwrap().to_string();
    let found = text("wrong dtype");
    assert!(found.contains("the tile is of uint8, and was used as one of float32"), "{found}");
    let found = text("wrong buffer");
    assert!(found.contains("a buffer of uint8 was used as one of float32"), "{found}");
    assert!(text("wrong number").contains("3 buffers were expected, and there are 1"));
    let found = text("unmerged");
    assert!(found.contains("does not say how they merge"), "{found}");
}

/// Has no name.
struct Nameless;

impl Function for Nameless {
    type Task = ();
    fn name(&self) -> &str {
        ""
    }
    fn buffers(&self, _job: &Job<'_>) -> Result<Vec<Buffer>, Failure> {
        Ok(vec![])
    }
    fn process(&self, (): &mut (), _: &Tile<'_>, _: &mut Views<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

#[test]
fn functions_have_names() {
    assert!(framefold_plugins::udf(Nameless).err().unwrap().to_string().contains("has no name"));
}

/// Has an image of frames of one line, and of others a row for each.
struct Depends;

impl Function for Depends {
    type Task = ();
    fn name(&self) -> &str {
        "depends"
    }
    fn buffers(&self, job: &Job<'_>) -> Result<Vec<Buffer>, Failure> {
        let is_line = job.sig_shape()[0] == 1;
        Ok(vec![if is_line { Buffer::sig::<u8>("image") } else { Buffer::nav::<u8>("rows") }])
    }
    fn process(&self, (): &mut (), _: &Tile<'_>, _: &mut Views<'_>) -> Result<(), Failure> {
        Ok(())
    }
}

#[test]
fn another_run_does_not_change_how_buffers_merge() {
    let udf = framefold_plugins::udf(Depends).unwrap();
    let partition = Partition { index: 0, frames: 0..6 };
    let run = |sig: &[usize]| RunMeta {
        job: JobMeta {
            shape: Shape::try_new(&[6], sig).unwrap(),
            native_dtype: framefold_core::DType::U8,
            input_dtype: framefold_core::DType::U8,
            roi: None,
        },
        tiling: Arc::new(TilingScheme::try_new(sig, sig, 6).unwrap()),
        partitions: [partition.clone()].into(),
        format: ArrayFormat::Dense,
        may_wait: false,
        to_sink: Arc::from([]),
    };
    let lines = run(&[1, 4]);
    let mut merger = udf.merger(&lines).unwrap();
    let partial = udf.accumulator(&lines, &partition).unwrap().finish().unwrap();
    udf.merger(&run(&[2, 2])).unwrap();
    let error = merger.merge(&partition, partial).unwrap_err().to_string();
    assert!(error.contains("does not say how they merge"), "{error}");
}
