//! Frames that arrive while a run goes on, or never.

use crate::differential::native;
use framefold_core::{
    Arrival, DType, DataSource, Dataset, DenseTile, Error, ErrorKind, FrameIndices, FrameReader,
    NativeArray, Result, Roi, SigSlice, SourceInfo, Udf,
};
use framefold_exec::{
    Cancel, Crew, Driver, Event, Executor, Host, Observer, Plan, PlanOptions, Results, RunOptions,
    Silent, Worker, run,
};
use framefold_kernels::{Sum, SumSig};
use framefold_testkit::{MemoryOptions, MemorySource};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

const N_FRAMES: usize = 24;

/// Frames that come one after the other, as a test says.
#[derive(Debug)]
struct Arriving {
    frames: MemorySource,
    /// How many have arrived.
    arrived: Mutex<u64>,
    news: Condvar,
    lost: Range<u64>,
    /// How many more arrive at each call of `wait`.
    with_each_wait: u64,
}

impl Arriving {
    fn new(lost: Range<u64>) -> Arc<Self> {
        Arriving::that_send(0, lost)
    }

    fn that_send(with_each_wait: u64, lost: Range<u64>) -> Arc<Self> {
        let cells: Vec<f32> = (0..N_FRAMES).flat_map(|i| [i as f32, 1.0]).collect();
        let frames = NativeArray::try_new(&[N_FRAMES, 1, 2], cells).unwrap();
        let frames = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
        let (arrived, news) = (Mutex::new(0), Condvar::new());
        Arc::new(Arriving { frames, arrived, news, lost, with_each_wait })
    }

    fn send(&self, n: u64) {
        *self.arrived.lock().unwrap() += n;
        self.news.notify_all();
    }
}

impl DataSource for Arriving {
    fn info(&self) -> &SourceInfo {
        self.frames.info()
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Ok(Box::new(Strict { reader: self.frames.reader()?, source: self }))
    }

    fn arrival(&self, frames: Range<u64>) -> Arrival {
        if frames.start < self.lost.end && frames.end > self.lost.start {
            Arrival::Never
        } else if frames.end <= *self.arrived.lock().unwrap() {
            Arrival::Here
        } else {
            Arrival::NotYet
        }
    }

    fn wait(&self, most: Duration) {
        if self.with_each_wait > 0 {
            return self.send(self.with_each_wait);
        }
        drop(self.news.wait_timeout(self.arrived.lock().unwrap(), most).unwrap());
    }

    fn may_wait(&self) -> bool {
        true
    }
}

/// Reads nothing that has not arrived.
struct Strict<'s> {
    reader: Box<dyn FrameReader + 's>,
    source: &'s Arriving,
}

impl FrameReader for Strict<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        for frame in frames.iter() {
            let arrival = self.source.arrival(frame..frame + 1);
            if arrival != Arrival::Here {
                return Err(Error::bug(format!("frame {frame} was read, but is {arrival:?}")));
            }
        }
        self.reader.read(frames, sig)
    }

    fn verify(&mut self) -> Result<()> {
        self.reader.verify()
    }
}

fn plan(source: &Arc<Arriving>) -> Arc<Plan> {
    let source: Arc<dyn DataSource> = source.clone();
    let dataset = Dataset::try_new(source, None, 0).unwrap();
    let udfs: Vec<Arc<dyn Udf>> = vec![Arc::new(Sum::default()), Arc::new(SumSig)];
    let options = PlanOptions { num_partitions: Some(8), ..PlanOptions::default() };
    Arc::new(Plan::try_new(&dataset, udfs, None, &options).unwrap())
}

fn executors() -> [Executor; 2] {
    [Executor::Inline, Executor::Threads(NonZeroUsize::new(3))]
}

fn sums(results: &Results) -> (Vec<f64>, Vec<bool>) {
    let mut results = results.snapshot().unwrap();
    let array = results.udfs.remove(0).buffers.remove(0).array.try_native().unwrap();
    assert_eq!(array.dtype(), DType::F32);
    let sums = array.as_slice::<f32>().unwrap().iter().map(|&sum| f64::from(sum)).collect();
    (sums, results.valid)
}

/// The frames whose row is NaN.
fn without_a_row(results: &Results, udf: usize) -> Vec<usize> {
    let results = results.snapshot().unwrap();
    let rows = native(&results.udfs[udf].buffers[0].array).unwrap().as_slice::<f32>().unwrap();
    (0..rows.len()).filter(|&i| rows[i].is_nan()).collect()
}

#[test]
fn a_run_waits_for_frames_that_arrive() {
    for executor in executors() {
        let source = Arriving::new(0..0);
        let (detector, plan) = (source.clone(), plan(&source));
        let sending = std::thread::spawn(move || {
            for _ in 0..N_FRAMES {
                std::thread::sleep(Duration::from_millis(2));
                detector.send(1);
            }
        });
        let options = RunOptions { executor, cancel: Cancel::new(), observer: &mut Silent };
        let results = run(&plan, options).unwrap();
        sending.join().unwrap();
        let (sums, valid) = sums(&results);
        assert_eq!(sums, [(0..N_FRAMES).sum::<usize>() as f64, N_FRAMES as f64]);
        assert!(valid.iter().all(|&valid| valid));
    }
}

#[test]
fn results_so_far_are_those_of_what_has_arrived() {
    for executor in executors() {
        // Frames arrive during calls of `wait` alone.
        let source = Arriving::that_send(1, 0..0);
        let plan = plan(&source);
        let mut driver = Driver::try_new(&plan, executor, Cancel::new(), None, None).unwrap();
        assert!(driver.step(&mut Silent).unwrap());
        let (so_far, valid) = sums(driver.results());
        assert_eq!(so_far, [3.0, 3.0]);
        assert_eq!(valid.iter().filter(|&&valid| valid).count(), 3);
        driver.run(&mut Silent).unwrap();
        assert_eq!(driver.results().n_merged(), 8);
    }
}

#[test]
fn what_never_comes_is_missing_in_the_results() {
    for executor in executors() {
        // In the third partition of three frames.
        let source = Arriving::new(7..8);
        source.send(N_FRAMES as u64);
        let options = RunOptions { executor, cancel: Cancel::new(), observer: &mut Silent };
        let results = run(&plan(&source), options).unwrap();
        let (sums, valid) = sums(&results);
        let expected: Vec<bool> = (0..N_FRAMES).map(|i| !(6..9).contains(&i)).collect();
        assert_eq!(valid, expected);
        let there = (0..N_FRAMES).filter(|i| !(6..9).contains(i));
        assert_eq!(sums, [there.clone().sum::<usize>() as f64, there.count() as f64]);
        assert_eq!(without_a_row(&results, 1), [6, 7, 8], "none was measured");
    }
}

#[test]
fn frames_that_are_not_selected_need_not_come() {
    for executor in executors() {
        let source = Arriving::new(7..9);
        source.send(N_FRAMES as u64);
        let dataset = Dataset::try_new(source, None, 0).unwrap();
        let roi = Roi::try_new((0..N_FRAMES).map(|i| i % 3 == 0).collect()).unwrap();
        let options = PlanOptions { num_partitions: Some(2), ..PlanOptions::default() };
        let udfs: Vec<Arc<dyn Udf>> = vec![Arc::new(Sum::default()), Arc::new(SumSig)];
        let plan = Arc::new(Plan::try_new(&dataset, udfs, Some(Arc::new(roi)), &options).unwrap());
        plan.check_arrived().unwrap();
        let options = RunOptions { executor, cancel: Cancel::new(), observer: &mut Silent };
        let (sums, valid) = sums(&run(&plan, options).unwrap());
        assert_eq!((sums, valid), (vec![84.0, 8.0], vec![true; 8]));
    }
}

/// A run of one function, of which each row follows from its frame alone.
fn framewise_plan(source: &Arc<Arriving>) -> Arc<Plan> {
    let source: Arc<dyn DataSource> = source.clone();
    let dataset = Dataset::try_new(source, None, 0).unwrap();
    let options = PlanOptions { num_partitions: Some(2), ..PlanOptions::default() };
    Arc::new(Plan::try_new(&dataset, vec![Arc::new(SumSig)], None, &options).unwrap())
}

/// The sum of each frame that is valid.
fn valid_sums(results: &Results) -> Vec<Option<f32>> {
    let results = results.snapshot().unwrap();
    let sums = native(&results.udfs[0].buffers[0].array).unwrap().as_slice::<f32>().unwrap();
    let known = |(&sum, &valid): (&f32, &bool)| valid.then_some(sum);
    sums.iter().zip(&results.valid).map(known).collect()
}

#[test]
fn partitions_are_merged_in_pieces_where_rows_follow_from_frames() {
    for executor in executors() {
        // Five frames arrive whenever everything else is done; partitions have twelve.
        let source = Arriving::that_send(5, 0..0);
        let plan = framewise_plan(&source);
        let mut driver = Driver::try_new(&plan, executor, Cancel::new(), None, None).unwrap();
        let mut pieces = Pieces::default();
        assert!(driver.step(&mut pieces).unwrap());
        assert_eq!(driver.results().n_merged(), 1, "a step is a whole partition");
        driver.run(&mut pieces).unwrap();
        let sum = |i: usize| Some(i as f32 + 1.0);
        assert_eq!(valid_sums(driver.results()), (0..N_FRAMES).map(sum).collect::<Vec<_>>());
        let rows: Vec<usize> = pieces.rows.iter().cloned().flatten().collect();
        assert_eq!(rows, (0..N_FRAMES).collect::<Vec<_>>());
        // They end where frames had arrived, or where partitions do.
        assert!((3..=6).contains(&pieces.rows.len()), "{:?} are merged at a time", pieces.rows);
        let ends = pieces.rows.iter().map(|rows| rows.end).collect::<Vec<_>>();
        assert_eq!(pieces.valid, ends, "what is merged is valid, and nothing else");
        assert_eq!(pieces.lasting, ends);
    }
}

/// What each merge has made final, and how many frames are valid then.
#[derive(Default)]
struct Pieces {
    rows: Vec<Range<usize>>,
    valid: Vec<usize>,
    /// The same of the results that stay as they are.
    lasting: Vec<usize>,
}

impl Observer for Pieces {
    fn event(&mut self, event: &Event, results: &Results) -> Result<()> {
        let Event::Merged { frames, .. } = *event else { return Ok(()) };
        let first = |valid: Vec<bool>| {
            let n = valid.iter().position(|&valid| !valid).unwrap_or(N_FRAMES);
            assert!(valid[n..].iter().all(|&valid| !valid));
            n
        };
        self.valid.push(first(results.valid()?));
        assert_eq!(frames, results.n_frames());
        let lasting = results.lasting().unwrap().snapshot()?;
        assert_eq!(first(lasting.valid.clone()), first(results.valid()?));
        let sums = native(&lasting.udfs[0].buffers[0].array)?.as_slice::<f32>()?;
        self.lasting.push(sums.iter().take_while(|sum| !sum.is_nan()).count());
        results.merged_rows(&mut |rows| {
            self.rows.push(rows.frames);
            Ok(())
        })
    }

    fn poll(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn only_what_never_comes_is_missing_where_rows_follow_from_frames() {
    for executor in executors() {
        for with_each_wait in [1, 24] {
            let source = Arriving::that_send(with_each_wait, 7..9);
            let options = RunOptions { executor, cancel: Cancel::new(), observer: &mut Silent };
            let results = run(&framewise_plan(&source), options).unwrap();
            let sum = |i: usize| (!(7..9).contains(&i)).then_some(i as f32 + 1.0);
            assert_eq!(valid_sums(&results), (0..N_FRAMES).map(sum).collect::<Vec<_>>());
            assert_eq!(results.n_frames(), N_FRAMES, "they are waited for no more");
            assert_eq!(without_a_row(&results, 0), [7, 8], "none was measured");
        }
    }
}

/// Takes note of the rows that merges make final.
#[derive(Default)]
struct Rows(Vec<Range<usize>>);

impl Observer for Rows {
    fn event(&mut self, event: &Event, results: &Results) -> Result<()> {
        if let Event::Merged { .. } = event {
            results.merged_rows(&mut |rows| {
                self.0.push(rows.frames);
                Ok(())
            })?;
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn rows_of_what_never_comes_are_not_passed_on() {
    for executor in executors() {
        let source = Arriving::new(7..8);
        source.send(N_FRAMES as u64);
        let mut rows = Rows::default();
        let options = RunOptions { executor, cancel: Cancel::new(), observer: &mut rows };
        run(&plan(&source), options).unwrap();
        let expected = (0..8).filter(|&i| i != 2).map(|i| 3 * i..3 * i + 3);
        assert_eq!(rows.0, expected.collect::<Vec<_>>());
    }
}

/// Processes whole partitions, one after the other, as worker processes do.
struct Impatient(Arc<Plan>);

impl Crew for Impatient {
    fn work(&mut self, host: &mut dyn Host) -> Result<()> {
        let mut worker = Worker::try_new(&self.0)?;
        for index in 0..self.0.n_partitions() {
            host.merge(worker.run_partition(index, &mut || Ok(()))?, 0)?;
        }
        Ok(())
    }

    fn close(&mut self, _: bool, _: &mut dyn FnMut() -> Result<()>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn workers_that_do_not_wait_get_no_run_that_needs_it() {
    for (n_arrived, lost, what) in [
        (0, 0..0, "some of the frames 0 to 2 arrive while the run goes on"),
        (23, 0..0, "some of the frames 21 to 23 arrive while"),
        (24, 7..8, "some of the frames 6 to 8 never came"),
    ] {
        let source = Arriving::new(lost);
        source.send(n_arrived);
        let plan = plan(&source);
        let drive =
            || Driver::with_crew(&plan, Box::new(Impatient(plan.clone())), Cancel::new(), None);
        // The driver refuses before the run begins, and so does a worker that is given a partition.
        let refused = drive().map(drop).unwrap_err();
        let mut worker = Worker::try_new(&plan).unwrap();
        let mut run = |index| worker.run_partition(index, &mut || Ok(()));
        let by_worker = (0..8).find_map(|index| run(index).err()).unwrap();
        for error in [refused, by_worker] {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert!(error.message().starts_with(what), "{error}");
        }
        if source.lost.is_empty() {
            source.send(N_FRAMES as u64 - n_arrived);
            let mut driver = drive().unwrap();
            driver.run(&mut Silent).unwrap();
            assert!(driver.results().valid().unwrap().iter().all(|&valid| valid));
        }
    }
}

#[test]
fn a_run_that_waits_can_be_stopped() {
    for executor in executors() {
        let source = Arriving::new(0..0);
        source.send(4);
        let (cancel, plan) = (Cancel::new(), plan(&source));
        let flag = cancel.clone();
        let stopping = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            flag.cancel();
        });
        let options = RunOptions { executor, cancel, observer: &mut Silent };
        let error = run(&plan, options).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        stopping.join().unwrap();
    }
}
