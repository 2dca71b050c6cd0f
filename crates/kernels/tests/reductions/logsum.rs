//! The sum of logarithmically scaled frames.

use crate::support::{check, dataset, run, run_frames};
use framefold_core::{Complex64, DType, ErrorKind};
use framefold_kernels::LogSum;
use framefold_testkit::{cases_of, oracle};
use proptest::prelude::*;

fn real() -> Vec<DType> {
    DType::all().filter(|dtype| !dtype.is_complex()).collect()
}

proptest! {
    #[test]
    fn equals_its_definition(case in cases_of(real(), 1..4)) {
        check(&LogSum, &case, true, false, |frames| Ok(vec![oracle::logsum(frames)?])).unwrap();
    }
}

#[test]
fn the_minimum_is_subtracted_exactly() {
    let cells = vec![i64::MAX, i64::MAX - 1, i64::MIN, i64::MIN + 3];
    let results = run_frames(&LogSum, &dataset(&[2], &[2], cells)).unwrap();
    let expected = [2f64.ln() as f32, 4f64.ln() as f32];
    assert_eq!(results.arrays[0].as_slice::<f32>().unwrap(), expected);
}

#[test]
fn parts_of_frames_and_complex_data_are_refused() {
    assert!(run(&LogSum, &dataset(&[2], &[4], vec![0u8; 8])).is_err());
    let error = run_frames(&LogSum, &dataset(&[1], &[1], vec![Complex64::new(1.0, 0.0)]));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unsupported);
}
