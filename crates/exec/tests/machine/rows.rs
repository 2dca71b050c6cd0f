//! Rows of results that are final while a run goes on.

use crate::differential::{EXECUTORS, bits, native};
use framefold_core::{Dataset, Error, ErrorKind, NativeArray, Presence, Result, Roi, Udf};
use framefold_exec::{
    Cancel, Driver, Event, Observer, Plan, PlanOptions, Results, RunOptions, Silent, run,
};
use framefold_kernels::{Masks, Sum, SumSig};
use framefold_testkit::{MemoryOptions, MemorySource};
use std::ops::Range;
use std::sync::Arc;

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
    let options = PlanOptions { num_partitions: Some(7), ..PlanOptions::default() };
    Arc::new(Plan::try_new(&dataset, udfs, Some(roi), &options).unwrap())
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
fn earlier_results_can_be_told_later() {
    for executor in EXECUTORS {
        let plan = plan(false);
        let mut driver = Driver::try_new(&plan, executor, Cancel::new(), None).unwrap();
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
