//! Panics and false claims of what users write: a function, a source, a sink and a stage are named.

use crate::differential::EXECUTORS;
use crate::failures::dataset;
use framefold_core::{
    Accumulator, Array, Arrival, BufferDecl, BufferKind, DType, DataSource, Dataset, DenseTile,
    ErrorKind, FinalRows, Foreign, FrameIndices, FrameKind, FrameReader, FramesView, JobMeta,
    Merger, NativeArray, NewRows, Partial, Partition, Requirements, Result, RunMeta, SigSlice,
    Sink, SinkJob, SourceInfo, Stage, StagePart, Tile, TileFrames, Udf,
};
use framefold_exec::{
    Cancel, Crew, Driver, Event, Executor, Host, Observer, Plan, PlanOptions, Results, Silent,
};
use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A function, a source, a sink and a stage; panics at the place of this name, or at two, or claims there what
/// is not so.
#[derive(Clone, Copy, Debug)]
struct Panics(&'static str);

impl Panics {
    fn at(&self, place: &str) {
        assert!(self.0.split(" and ").all(|each| each != place), "at {place}");
    }
}

impl Udf for Panics {
    fn name(&self) -> &str {
        self.at("name");
        "mine"
    }

    fn requirements(&self, _: &SourceInfo) -> Result<Requirements> {
        self.at("requirements");
        Ok(Requirements { by_rows: true, ..Requirements::native_tiles() })
    }

    fn buffers(&self, _: &JobMeta) -> Result<Vec<BufferDecl>> {
        self.at("buffers");
        Ok(vec![BufferDecl::new("n", BufferKind::Nav, DType::F64)])
    }

    fn accumulator(&self, _: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        self.at("accumulator");
        Ok(Box::new(One(*self, partition.n_frames())))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        self.at("merger");
        Ok(Box::new(All(*self, FinalRows::of_run(run, "n", DType::F64, &[])?)))
    }
}

/// The function at work on one partition, of so many frames.
struct One(Panics, usize);

impl Drop for One {
    fn drop(&mut self) {
        self.0.at("drop");
    }
}

impl Accumulator for One {
    fn process(&mut self, _: &Tile<'_>) -> Result<()> {
        self.0.at("process");
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        self.0.at("finish");
        let rows = NativeArray::try_new(&[self.1], vec![1.0; self.1])?;
        Ok(Partial::new().with("n", rows).with("other", Array::Foreign(Box::new(self.0))))
    }
}

impl Foreign for Panics {
    fn len_bytes(&self) -> usize {
        self.at("size");
        0
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

struct All(Panics, FinalRows);

impl Merger for All {
    fn merge(&mut self, partition: &Partition, mut partial: Partial) -> Result<()> {
        self.0.at("merge");
        self.1.put(partition.frames.clone(), partial.take_native("n")?)
    }

    fn results(&self) -> Result<Vec<Array>> {
        self.0.at("results");
        match self.0.0 {
            "other shape" => Ok(vec![NativeArray::zeros(DType::F64, &[7]).into()]),
            "other dtype" => Ok(vec![NativeArray::zeros(DType::F32, &[12]).into()]),
            _ => Ok(vec![self.1.first(usize::MAX)?.into()]),
        }
    }

    fn final_rows(&self) -> Option<Vec<FinalRows>> {
        match self.0.0 {
            "other rows" => Some(vec![FinalRows::try_new(DType::F64, 7, &[]).unwrap()]),
            other if other.starts_with("other") => None,
            _ => Some(vec![self.1.clone()]),
        }
    }
}

/// The frames of another source.
#[derive(Debug)]
struct Source(Panics, Arc<dyn DataSource>);

impl DataSource for Source {
    fn info(&self) -> &SourceInfo {
        self.1.info()
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        self.0.at("reader");
        Ok(Box::new(Reader(self.0, self.1.reader()?)))
    }

    fn pieces(&self) -> Option<&[u64]> {
        self.0.at("pieces");
        None
    }

    fn contends(&self) -> bool {
        self.0.at("contends");
        false
    }

    fn arrival(&self, _: Range<u64>) -> Arrival {
        self.0.at("arrival");
        if self.0.0 == "wait" { Arrival::NotYet } else { Arrival::Here }
    }

    fn wait(&self, _: Duration) {
        self.0.at("wait");
    }
}

struct Reader<'s>(Panics, Box<dyn FrameReader + 's>);

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        self.0.at("drop of the reader");
    }
}

impl FrameReader for Reader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        self.0.at("read");
        match self.0.0 {
            "words" => {
                let (depth, len) = (frames.len(), sig.len());
                let words = FramesView::try_new(&[0; 256], depth, len, len)?;
                Ok(DenseTile::borrowed(TileFrames::U16(words)))
            }
            _ => self.1.read(frames, sig),
        }
    }

    fn verify(&mut self) -> Result<()> {
        self.0.at("verify");
        self.1.verify()
    }
}

impl Sink for Panics {
    fn begin(&mut self, _: &SinkJob<'_>) -> Result<usize> {
        self.at("begin");
        Ok(if self.0 == "many" { usize::MAX } else { 0 })
    }

    fn merged(&mut self, _: &NewRows<'_>) -> Result<()> {
        self.at("merged");
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.at("finish of the sink");
        Ok(())
    }
}

impl Observer for Panics {
    fn event(&mut self, event: &Event, _: &Results) -> Result<()> {
        self.at(match event {
            Event::Started { .. } => "started",
            Event::Finished => "finished",
            _ => "event",
        });
        Ok(())
    }

    fn poll(&mut self) -> Result<()> {
        self.at("poll");
        Ok(())
    }

    fn whole(&mut self, merge: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        self.at("whole");
        merge()
    }
}

#[derive(Debug)]
struct Staged(Panics, FrameKind);

impl fmt::Display for Staged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mine")
    }
}

impl Stage for Staged {
    fn input(&self) -> &FrameKind {
        &self.1
    }

    fn output(&self) -> &FrameKind {
        &self.1
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        self.0.at("part");
        Ok(Box::new(Part(self.0, sig.clone())))
    }
}

struct Part(Panics, SigSlice);

impl StagePart for Part {
    fn read(&self) -> &SigSlice {
        &self.1
    }

    fn apply(&mut self, _: &DenseTile<'_>, _: &FrameIndices<'_>, out: &mut [u8]) -> Result<()> {
        self.0.at("apply");
        out.fill(1);
        Ok(())
    }
}

fn ran(panics: Panics, executor: Executor) -> Result<()> {
    let stage = |kind| Ok(Arc::new(Staged(panics, kind)) as Arc<dyn Stage>);
    let source = Source(panics, dataset(12).source().clone());
    let dataset = framefold_io::pipe(Dataset::try_new(Arc::new(source), None, 0)?, stage)?;
    // Results of other shapes than declared are none that a sink could take.
    let sink = (!panics.0.starts_with("other")).then(|| Box::new(panics) as Box<dyn Sink>);
    let to_sink = sink.iter().map(|_| None).collect();
    let options = PlanOptions { to_sink, ..PlanOptions::default() };
    let plan = Arc::new(Plan::try_new(&dataset, vec![Arc::new(panics)], None, &options)?);
    let mut driver = Driver::try_new(&plan, executor, Cancel::new(), None, sink)?;
    driver.run(&mut { panics }).inspect_err(|error| {
        let again = [driver.run(&mut Silent), driver.step(&mut Silent).map(drop)];
        assert!(again.iter().all(Result::is_err), "it goes on after {error}");
    })?;
    let mut results = driver.into_results();
    results.snapshot()?;
    results.take().map(drop)
}

#[test]
fn what_panics_is_named() {
    for executor in EXECUTORS {
        ran(Panics("nowhere"), executor).unwrap();
        let calls = ["requirements", "buffers", "accumulator", "process", "finish", "merger"];
        for (what, places) in [
            ("mine: the function", &calls[..]),
            ("mine: the function", &["merge", "results"]),
            ("the sink", &["begin", "merged", "finish of the sink"]),
            ("the stage", &["part", "apply"]),
            ("the source of the frames", &["reader", "read", "verify", "arrival", "wait"]),
            ("the source of the frames", &["pieces", "contends"]),
            ("the name of a function", &["name"]),
            ("mine: the function", &["drop"]),
            ("the observer", &["started", "poll", "whole", "event", "finished"]),
        ] {
            for place in places {
                let error = ran(Panics(place), executor).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Bug, "{error}");
                let words = format!("{what} panicked: at {place}");
                let found = error.to_string();
                assert!(found.contains(&words) && found.contains("; mend it there"), "{found}");
            }
        }
    }
}

/// All functions of a partition are dropped when one of them fails.
#[test]
fn functions_that_panic_where_they_are_dropped_do_not_hide_the_error() {
    for executor in EXECUTORS {
        for (places, words) in [
            ("process and drop", "mine: the function panicked: at process"),
            ("drop", "mine: the function panicked: at drop"),
        ] {
            let mine: Vec<Arc<dyn Udf>> = vec![Arc::new(Panics(places)), Arc::new(Panics(places))];
            let plan = Plan::try_new(&dataset(12), mine, None, &PlanOptions::default()).unwrap();
            let plan = Arc::new(plan);
            let mut driver = Driver::try_new(&plan, executor, Cancel::new(), None, None).unwrap();
            let error = driver.run(&mut Silent).unwrap_err().to_string();
            assert!(error.starts_with(words), "{error}");
        }
    }
}

#[test]
fn readers_that_panic_where_they_are_dropped_end_the_run_with_an_error() {
    for executor in EXECUTORS {
        let error = ran(Panics("drop of the reader"), executor).unwrap_err();
        let inline = executor == Executor::Inline;
        let who = if inline { "the crew" } else { "the source of the frames" };
        assert_eq!(error.message(), format!("{who} panicked: at drop of the reader"));
    }
}

/// Results are measured on threads alone, where some wait for others.
#[test]
fn sizes_of_results_that_panic_end_the_run_with_an_error() {
    for executor in EXECUTORS.into_iter().filter(|&executor| executor != Executor::Inline) {
        let error = ran(Panics("size"), executor).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Bug);
        assert_eq!(error.message(), "the size of a result panicked: at size");
    }
}

#[test]
fn false_claims_are_refused() {
    for executor in EXECUTORS {
        for (place, words) in [
            ("many", "partitions were merged before, of "),
            ("other shape", "mine: the result 'n' is float64 [7], declared as float64 [12]"),
            ("other dtype", "mine: the result 'n' is float32 [12], declared as float64 [12]"),
            ("other rows", "mine: the result 'n' is float64 [7], declared as float64 [12]"),
            ("words", "cells of uint16 for "),
        ] {
            let error = ran(Panics(place), executor).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Bug, "{error}");
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}

#[test]
fn sources_that_give_other_frames_than_were_asked_for_are_named() {
    let source = Source(Panics("words"), dataset(12).source().clone());
    let dataset = Dataset::try_new(Arc::new(source), None, 0).unwrap();
    let mine: Arc<dyn Udf> = Arc::new(Panics("nowhere"));
    let plan = Plan::try_new(&dataset, vec![mine], None, &PlanOptions::default()).unwrap();
    let mut driver =
        Driver::try_new(&Arc::new(plan), Executor::Inline, Cancel::new(), None, None).unwrap();
    let error = driver.run(&mut Silent).unwrap_err().to_string();
    assert!(
        error.contains("the source gave ") && error.contains("cells of uint16 for "),
        "{error}"
    );
}

/// Merges nothing, as an observer and as a crew.
struct Idle;

impl Observer for Idle {
    fn event(&mut self, _: &Event, _: &Results) -> Result<()> {
        Ok(())
    }

    fn poll(&mut self) -> Result<()> {
        Ok(())
    }

    fn whole(&mut self, _: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        Ok(())
    }
}

impl Crew for Idle {
    fn work(&mut self, _: &mut dyn Host) -> Result<()> {
        Ok(())
    }

    fn close(&mut self, _: bool, _: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn runs_of_which_nothing_was_merged_do_not_succeed() {
    let mine: Arc<dyn Udf> = Arc::new(Panics("nowhere"));
    let plan = Plan::try_new(&dataset(12), vec![mine], None, &PlanOptions::default()).unwrap();
    let plan = Arc::new(plan);
    for executor in EXECUTORS {
        let mut driver = Driver::try_new(&plan, executor, Cancel::new(), None, None).unwrap();
        let error = driver.run(&mut Idle).unwrap_err();
        assert_eq!(error.message(), "the observer did not merge partition 0");
    }
    for run in [
        |driver: &mut Driver| driver.run(&mut Silent),
        |driver: &mut Driver| driver.step(&mut Silent).map(drop),
    ] {
        let mut driver = Driver::with_crew(&plan, Box::new(Idle), Cancel::new(), None).unwrap();
        let error = run(&mut driver).unwrap_err();
        assert!(error.message().starts_with("the crew ended after 0 of "), "{error}");
    }
}
