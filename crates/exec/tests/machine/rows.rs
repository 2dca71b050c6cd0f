//! Rows of results that are final while a run goes on.

use crate::differential::{EXECUTORS, bits, native};
use framefold_core::{
    Dataset, Error, ErrorKind, NativeArray, NewRows, Presence, Result, Roi, Sink, SinkJob, Udf,
};
use framefold_exec::{
    Cancel, Driver, Event, Executor, Observer, Plan, PlanOptions, Results, RunOptions, RunResults,
    Silent, run,
};
use framefold_kernels::{Masks, Sum, SumSig};
use framefold_testkit::{MemoryOptions, MemorySource};
use std::ops::Range;
use std::sync::{Arc, Mutex};

const N_FRAMES: usize = 60;

/// Takes the rows that each merge makes final, until it fails.
#[derive(Default)]
struct Taken {
    frames: Vec<(usize, String, Range<usize>)>,
    /// Of the masks' buffer.
    bytes: Vec<u8>,
    fails_at: Option<usize>,
}

impl Observer for Taken {
    fn event(&mut self, event: &Event, results: &Results) -> Result<()> {
        let Event::Merged { partition, .. } = *event else { return Ok(()) };
        results.merged_rows(&mut |rows| {
            if self.fails_at == Some(partition) {
                return Err(Error::io("write rows", std::io::Error::other("no space left")));
            }
            if rows.udf == 2 {
                assert_eq!(rows.buffer.extra_shape, [2]);
                assert_eq!(rows.bytes.len(), rows.frames.len() * 2 * rows.buffer.dtype.size());
                self.bytes.extend(rows.bytes);
            }
            self.frames.push((rows.udf, rows.buffer.name.clone(), rows.frames));
            Ok(())
        })
    }

    fn poll(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Three functions, of which the second has no rows; the data have a gap, and the ROI leaves every
/// fifth frame out.
fn plan(with_sum: bool) -> Arc<Plan> {
    plan_with(with_sum, PlanOptions::default())
}

fn plan_with(with_sum: bool, options: PlanOptions) -> Arc<Plan> {
    let partitions = PlanOptions { num_partitions: Some(7), ..options };
    let cells: Vec<f32> = (0..N_FRAMES * 6).map(|i| (i % 97) as f32 / 7.0).collect();
    let frames = NativeArray::try_new(&[N_FRAMES, 2, 3], cells).unwrap();
    let presence = Presence::Ranges(vec![0..31, 40..N_FRAMES as u64]);
    let options = MemoryOptions { presence, ..MemoryOptions::default() };
    let source = Arc::new(MemorySource::try_new(frames, options).unwrap());
    let dataset = Dataset::try_new(source, None, 0).unwrap();
    let masks: Vec<f32> = (0..12).map(|i| i as f32).collect();
    let masks = Masks::try_new(NativeArray::try_new(&[2, 2, 3], masks).unwrap()).unwrap();
    let mut udfs: Vec<Arc<dyn Udf>> = vec![Arc::new(SumSig)];
    if with_sum {
        udfs.push(Arc::new(Sum::default()));
    }
    udfs.push(Arc::new(masks));
    let roi = Arc::new(Roi::try_new((0..N_FRAMES).map(|i| i % 5 != 2).collect()).unwrap());
    Arc::new(Plan::try_new(&dataset, udfs, Some(roi), &partitions).unwrap())
}

#[test]
fn each_merge_passes_its_rows_on() {
    for executor in EXECUTORS {
        let (plan, mut taken) = (plan(true), Taken::default());
        let options = RunOptions { executor, cancel: Cancel::new(), observer: &mut taken };
        let results = run(&plan, options).unwrap().snapshot().unwrap();
        let expected: Vec<_> = (0..plan.n_partitions())
            .flat_map(|i| [(0, plan.completed_by(i)), (2, plan.completed_by(i))])
            .map(|(udf, frames)| (udf, "intensity".to_owned(), frames))
            .collect();
        assert_eq!(taken.frames, expected);
        let valid = results.valid.iter();
        let whole = native(&results.udfs[2].buffers[0].array).unwrap().values().as_bytes();
        let there = whole.chunks(whole.len() / results.valid.len()).zip(valid);
        let there = there.filter(|(_, valid)| **valid).flat_map(|(row, _)| row).copied();
        assert_eq!(taken.bytes, there.collect::<Vec<u8>>());
    }
}

#[test]
fn what_goes_wrong_with_rows_ends_the_run() {
    for executor in EXECUTORS {
        let mut taken = Taken { fails_at: Some(3), ..Taken::default() };
        let plan = plan(true);
        let options = RunOptions { executor, cancel: Cancel::new(), observer: &mut taken };
        let error = run(&plan, options).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        let last = taken.frames.last().map(|(_, _, frames)| frames.clone());
        assert_eq!(last, Some(plan.completed_by(2)));
    }
}

#[test]
fn earlier_results_can_be_given_later() {
    for executor in EXECUTORS {
        let plan = plan(false);
        let mut driver = Driver::try_new(&plan, executor, Cancel::new(), None, None).unwrap();
        let (mut at_once, mut lasting) = (vec![], vec![]);
        let mut more = true;
        while more {
            at_once.push(driver.results().snapshot().unwrap());
            lasting.push(driver.results().lasting().unwrap());
            more = driver.step(&mut Silent).unwrap();
        }
        assert_eq!(lasting.len(), plan.n_partitions() + 1);
        drop(driver);
        for (lasting, at_once) in lasting.iter().zip(&at_once) {
            let lasting = lasting.snapshot().unwrap();
            assert_eq!(bits(&lasting).unwrap(), bits(at_once).unwrap());
            assert_eq!(lasting.valid, at_once.valid);
            assert_eq!(lasting.shape, at_once.shape);
        }
    }
}

#[test]
fn results_that_change_do_not_last() {
    let results = Results::try_new(plan(true)).unwrap();
    assert!(results.lasting().is_none());
}

#[test]
fn results_that_are_taken_are_all_and_leave_none() {
    let cases = [(false, false), (false, true), (true, false)];
    for (with_sum, is_shown_elsewhere) in cases {
        let plan = plan(with_sum);
        let mut driver =
            Driver::try_new(&plan, Executor::Inline, Cancel::new(), None, None).unwrap();
        driver.run(&mut Silent).unwrap();
        let lasting = driver.results().lasting().filter(|_| is_shown_elsewhere);
        let expected = driver.results().snapshot().unwrap();
        let taken = driver.take_results().unwrap();
        assert_eq!(bits(&taken).unwrap(), bits(&expected).unwrap());
        assert_eq!(taken.valid, expected.valid);
        if let Some(lasting) = lasting {
            assert_eq!(bits(&lasting.snapshot().unwrap()).unwrap(), bits(&expected).unwrap());
        }
        assert!(driver.results().lasting().is_none());
        assert_eq!(driver.results().valid().unwrap(), expected.valid);
        let refused = [driver.results().snapshot(), driver.take_results()];
        assert!(refused.into_iter().all(|again| again.unwrap_err().to_string().contains("taken")));
    }
}

/// What a sink was given, shared with the test.
#[derive(Default)]
struct Given {
    /// The number of the UDF and the name of each buffer.
    buffers: Vec<(usize, String)>,
    /// Frames and rows of the second buffer, and how many partitions were merged by then.
    rows: Vec<(Range<usize>, Vec<u8>, usize)>,
    finished: bool,
}

/// Goes on after so many partitions, and fails after so many more.
struct Keeper(Arc<Mutex<Given>>, usize, usize);

impl Sink for Keeper {
    fn begin(&mut self, job: &SinkJob<'_>) -> Result<usize> {
        assert_eq!((job.shape.nav(), job.roi.unwrap().n_selected()), (&[N_FRAMES][..], 48));
        let names = job.buffers.iter().map(|&(udf, decl)| (udf, decl.name.clone()));
        self.0.lock().unwrap().buffers = names.collect();
        Ok(self.1)
    }

    fn merged(&mut self, rows: &NewRows<'_>) -> Result<()> {
        if self.2 == 0 {
            return Err(Error::io("write rows", std::io::Error::other("no space left")));
        }
        self.2 -= 1;
        let bytes = rows.rows.last().unwrap().to_vec();
        self.0.lock().unwrap().rows.push((rows.frames.clone(), bytes, rows.n_merged));
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.0.lock().unwrap().finished = true;
        Ok(())
    }
}

fn to_sink(executor: Executor, first: usize, fails_after: usize) -> (Given, Result<RunResults>) {
    let all = PlanOptions { to_sink: vec![None, None, None], ..PlanOptions::default() };
    let plan = plan_with(first == 0, all);
    let given = Arc::new(Mutex::new(Given::default()));
    let sink = Box::new(Keeper(given.clone(), first, fails_after));
    let mut driver = Driver::try_new(&plan, executor, Cancel::new(), None, Some(sink)).unwrap();
    assert_eq!(driver.results().n_merged(), first);
    let ran = driver.run(&mut Silent).and_then(|()| driver.results().snapshot());
    // What went to the sink is kept nowhere else.
    let taken = driver.into_results().take().unwrap();
    assert_eq!(native(&taken.udfs[0].buffers[0].array).unwrap().shape(), [0]);
    (Arc::into_inner(given).unwrap().into_inner().unwrap(), ran)
}

#[test]
fn a_sink_gets_all_rows_once_and_nothing_keeps_them() {
    let plan = plan(true);
    let kept = run_silently(&plan);
    let whole = native(&kept.udfs[2].buffers[0].array).unwrap();
    let row = whole.values().as_bytes().len() / whole.shape()[0];
    for executor in EXECUTORS {
        let (given, results) = to_sink(executor, 0, usize::MAX);
        assert_eq!(given.buffers, [(0, "intensity".to_owned()), (2, "intensity".to_owned())]);
        assert!(given.finished);
        for (i, (frames, bytes, n_merged)) in given.rows.iter().enumerate() {
            assert_eq!((frames, *n_merged), (&plan.completed_by(i), i + 1));
            assert_eq!(bytes, &whole.values().as_bytes()[frames.start * row..frames.end * row]);
        }
        assert_eq!(given.rows.len(), plan.n_partitions());
        let results = results.unwrap();
        assert_eq!(results.valid, kept.valid);
        assert_eq!(native(&results.udfs[0].buffers[0].array).unwrap().shape(), [0]);
        assert_eq!(native(&results.udfs[2].buffers[0].array).unwrap().shape(), [0, 2]);
        let sum = |results: &RunResults| native(&results.udfs[1].buffers[0].array).unwrap().clone();
        assert_eq!(sum(&results), sum(&kept));
    }
}

#[test]
fn a_sink_says_where_to_go_on() {
    for executor in EXECUTORS {
        let (whole, _) = to_sink(executor, 0, usize::MAX);
        for first in [1, 4, 7] {
            let (given, results) = to_sink(executor, first, usize::MAX);
            assert!(given.finished);
            assert_eq!(given.rows, whole.rows[first..]);
            assert_eq!(results.unwrap().valid, plan_valid());
        }
    }
}

#[test]
fn results_that_lack_the_first_partitions_are_refused() {
    let all = PlanOptions { to_sink: vec![None, None, None], ..PlanOptions::default() };
    let sink = Box::new(Keeper(Arc::default(), 4, usize::MAX));
    let executor = Executor::Inline;
    let made =
        Driver::try_new(&plan_with(true, all), executor, Cancel::new(), None, Some(sink)).map(drop);
    let error = made.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let words = "'intensity' does not go to it: it would lack the first 4 partitions";
    assert!(error.message().contains(words), "{error}");
}

#[test]
fn what_goes_wrong_in_a_sink_ends_the_run() {
    for executor in EXECUTORS {
        let (given, results) = to_sink(executor, 0, 3);
        assert_eq!(results.unwrap_err().kind(), ErrorKind::Io);
        assert_eq!((given.rows.len(), given.finished), (3, false));
    }
}

#[test]
fn rows_for_a_sink_need_one() {
    let all = PlanOptions { to_sink: vec![None], ..PlanOptions::default() };
    let made = Driver::try_new(&plan_with(true, all), Executor::Inline, Cancel::new(), None, None);
    assert_eq!(made.map(drop).unwrap_err().kind(), ErrorKind::Bug);
    let other = PlanOptions { to_sink: vec![Some(vec!["other".into()])], ..PlanOptions::default() };
    assert!(plan_with(true, other).to_sink().is_empty());
}

fn run_silently(plan: &Arc<Plan>) -> RunResults {
    let (executor, cancel) = (Executor::Inline, Cancel::new());
    run(plan, RunOptions { executor, cancel, observer: &mut Silent }).unwrap().snapshot().unwrap()
}

fn plan_valid() -> Vec<bool> {
    run_silently(&plan(true)).valid
}
