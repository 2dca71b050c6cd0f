//! Panics in what users write: a function, a sink and a stage are named, wherever they panic.

use crate::differential::EXECUTORS;
use crate::failures::dataset;
use framefold_core::{
    Accumulator, Array, BufferDecl, BufferKind, DType, DenseTile, ErrorKind, FinalRows,
    FrameIndices, FrameKind, JobMeta, Merger, NativeArray, NewRows, Partial, Partition,
    Requirements, Result, RunMeta, SigSlice, Sink, SinkJob, SourceInfo, Stage, StagePart, Tile,
    Udf,
};
use framefold_exec::{Cancel, Driver, Executor, Plan, PlanOptions, Silent};
use std::fmt;
use std::sync::Arc;

/// A function, a sink and a stage; panics at the place of this name.
#[derive(Clone, Copy, Debug)]
struct Panics(&'static str);

impl Panics {
    fn at(&self, place: &str) {
        assert!(self.0 != place, "at {place}");
    }
}

impl Udf for Panics {
    fn name(&self) -> &str {
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

impl Accumulator for One {
    fn process(&mut self, _: &Tile<'_>) -> Result<()> {
        self.0.at("process");
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        self.0.at("finish");
        Ok(Partial::new().with("n", NativeArray::try_new(&[self.1], vec![1.0; self.1])?))
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
        Ok(vec![self.1.first(usize::MAX)?.into()])
    }

    fn final_rows(&self) -> Option<Vec<FinalRows>> {
        Some(vec![self.1.clone()])
    }
}

impl Sink for Panics {
    fn begin(&mut self, _: &SinkJob<'_>) -> Result<usize> {
        self.at("begin");
        Ok(0)
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
    let dataset = framefold_io::pipe(dataset(12), stage)?;
    let options = PlanOptions { to_sink: vec![None], ..PlanOptions::default() };
    let plan = Arc::new(Plan::try_new(&dataset, vec![Arc::new(panics)], None, &options)?);
    let sink = Box::new(panics) as Box<dyn Sink>;
    let mut driver = Driver::try_new(&plan, executor, Cancel::new(), None, Some(sink))?;
    driver.run(&mut Silent)?;
    driver.into_results().snapshot().map(drop)
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
