//! The sum of all frames.

use crate::support::{check, dataset, run};
use framefold_core::{Bool8, Complex64, DType};
use framefold_kernels::Sum;
use framefold_testkit::{cases, oracle};
use proptest::prelude::*;

proptest! {
    #[test]
    fn equals_its_definition(
        case in cases(),
        dtype in prop::sample::select(vec![DType::F32, DType::F64, DType::C64]),
    ) {
        check(&Sum { dtype }, &case, false, true, |frames| Ok(vec![oracle::sum(frames, dtype)?])).unwrap();
    }
}

fn sum_of<T: framefold_core::Element>(cells: Vec<T>) -> framefold_core::NativeArray {
    let dataset = dataset(&[cells.len()], &[1], cells);
    run(&Sum::default(), &dataset).unwrap().arrays.remove(0)
}

#[test]
fn nothing_is_lost_on_the_way_to_a_small_sum() {
    // In any float type, the large terms would swallow the small one.
    assert_eq!(sum_of(vec![i64::MAX, 3, -i64::MAX]).as_slice::<f64>().unwrap(), [3.0]);
    assert_eq!(sum_of(vec![i64::MIN, -5, i64::MAX, 1]).as_slice::<f64>().unwrap(), [-5.0]);
    let odd: Vec<u32> = vec![1 << 31; 3].into_iter().chain([1]).collect();
    assert_eq!(sum_of(odd).as_slice::<f64>().unwrap(), [6442450945.0]);
}

#[test]
fn sums_near_the_end_of_uint64_do_not_wrap() {
    let sum = sum_of(vec![u64::MAX; 5]);
    assert_eq!(sum.as_slice::<f64>().unwrap(), [(5 * u128::from(u64::MAX)) as f64]);
}

#[test]
fn integers_stay_integers_where_the_caller_wants_them() {
    for (wanted, expected) in [(DType::U8, DType::U64), (DType::I64, DType::I64)] {
        let dataset = dataset(&[3], &[1], vec![200u8, 100, 50]);
        let sum = run(&Sum { dtype: wanted }, &dataset).unwrap().arrays.remove(0);
        assert_eq!(sum.dtype(), expected);
    }
    let large = vec![(1i64 << 53) + 1, 1, 1];
    let dataset = dataset(&[3], &[1], large);
    let sum = run(&Sum { dtype: DType::I64 }, &dataset).unwrap().arrays.remove(0);
    assert_eq!(sum.as_slice::<i64>().unwrap(), [(1 << 53) + 3]);
}

#[test]
fn truth_values_are_counted_whatever_byte_holds_them() {
    let sum = sum_of(vec![Bool8(1), Bool8(0), Bool8(200), Bool8(1), Bool8(0)]);
    assert_eq!(sum.as_slice::<f32>().unwrap(), [3.0]);
}

#[test]
fn small_floats_survive_next_to_large_ones() {
    let sum = sum_of(vec![1e8f32, 1.0, 1.0, -1e8]);
    assert_eq!(sum.as_slice::<f32>().unwrap(), [2.0]);
    assert!(sum_of(vec![1.0f32, f32::NAN]).as_slice::<f32>().unwrap()[0].is_nan());
    let sum = sum_of(vec![Complex64::new(1.0, -1.0), Complex64::new(0.5, 2.0)]);
    assert_eq!(sum.as_slice::<Complex64>().unwrap(), [Complex64::new(1.5, 1.0)]);
}
