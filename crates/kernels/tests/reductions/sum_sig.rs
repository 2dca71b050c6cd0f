//! The sum of each frame.

use crate::support::{check, dataset, run};
use framefold_kernels::SumSig;
use framefold_testkit::{cases, oracle};
use proptest::prelude::*;

proptest! {
    #[test]
    fn equals_its_definition(case in cases()) {
        check(&SumSig, &case, false, true, |frames| Ok(vec![oracle::sum_sig(frames)?])).unwrap();
    }
}

#[test]
fn frames_in_several_tiles_are_rounded_once() {
    // Rounded tile by tile, the ones would vanish next to 2^24.
    let cells = vec![1 << 14; 1 << 10].into_iter().chain([1u16, 1]).collect::<Vec<_>>();
    let n = cells.len();
    let results = run(&SumSig, &dataset(&[1], &[n], cells)).unwrap();
    assert_eq!(results.arrays[0].as_slice::<f32>().unwrap(), [16777218.0]);
}

#[test]
fn extreme_integers_are_exact() {
    let cells = vec![u64::MAX, 1, u64::MAX, u64::MAX, 0, 7];
    let results = run(&SumSig, &dataset(&[2], &[3], cells)).unwrap();
    let sums = [2 * u128::from(u64::MAX) + 1, u128::from(u64::MAX) + 7].map(|sum| sum as f64);
    assert_eq!(results.arrays[0].as_slice::<f64>().unwrap(), sums);
}
