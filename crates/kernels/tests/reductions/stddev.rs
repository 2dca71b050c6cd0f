//! Mean, variance and standard deviation.

use crate::support::{check, dataset, run};
use framefold_core::{Complex128, DType, ErrorKind};
use framefold_kernels::StdDev;
use framefold_testkit::{cases, oracle};
use proptest::prelude::*;

proptest! {
    #[test]
    fn equals_its_definition(
        case in cases(),
        dtype in prop::sample::select(vec![
            None, Some(DType::F32), Some(DType::F64), Some(DType::C64), Some(DType::C128),
        ]),
    ) {
        let result = dtype.unwrap_or(DType::F64);
        // Sums of squares of up to 32 bits are exact, so that tiling does not show in the result.
        let exact = case.dtype.size() <= 4;
        check(&StdDev { dtype }, &case, false, exact, |frames| oracle::stddev(frames, result)).unwrap();
    }
}

#[test]
fn a_small_variance_on_a_large_mean_is_not_lost() {
    // Textbook formulas lose all digits here: 1e9 squared leaves none for 22.5.
    let cells = [4.0, 7.0, 13.0, 16.0].map(|x| 1e9 + x).to_vec();
    let results = run(&StdDev::default(), &dataset(&[4], &[1], cells)).unwrap();
    let get = |name| results.get(name).unwrap().as_slice::<f64>().unwrap()[0];
    assert_eq!(get("varsum"), 90.0);
    assert_eq!(get("var"), 22.5);
    assert_eq!(get("mean"), 1e9 + 10.0);
    assert_eq!(results.get("num_frames").unwrap().as_slice::<i64>().unwrap(), [4]);
}

#[test]
fn integers_that_double_precision_does_not_tell_apart_have_their_variance() {
    // More frames than are read side by side; doubles of this size are 1024 apart.
    let cells: Vec<i64> = (0..19).map(|i| i64::MAX - i).collect();
    let unsigned = cells.iter().map(|&x| u64::MAX - (i64::MAX - x).unsigned_abs()).collect();
    let negative = cells.iter().map(|&x| -x).collect();
    for dataset in [
        dataset(&[19], &[1], cells),
        dataset(&[19], &[1], negative),
        dataset::<u64>(&[19], &[1], unsigned),
    ] {
        let results = run(&StdDev::default(), &dataset).unwrap();
        let varsum = results.get("varsum").unwrap().as_slice::<f64>().unwrap()[0];
        assert!((varsum - 570.0).abs() < 1e-9, "{varsum}");
    }
}

#[test]
fn pixels_that_never_change_have_no_variance_at_all() {
    let cells: Vec<f64> = [0.1, 1e10 / 3.0, -7.7].repeat(7);
    let results = run(&StdDev::default(), &dataset(&[7], &[3], cells)).unwrap();
    let std = results.get("std").unwrap().as_slice::<f64>().unwrap().to_vec();
    assert!(std.iter().zip([0.1, 1e10 / 3.0, 7.7]).all(|(s, x)| *s <= 1e-15 * x), "{std:?}");
    let cells: Vec<u32> = [3, u32::MAX, 12345].repeat(7);
    let results = run(&StdDev::default(), &dataset(&[7], &[3], cells)).unwrap();
    assert_eq!(results.get("std").unwrap().as_slice::<f64>().unwrap(), [0.0; 3]);
}

#[test]
fn one_frame_has_no_variance() {
    let results = run(&StdDev::default(), &dataset(&[1], &[3], vec![5u16, 0, 65535])).unwrap();
    assert_eq!(results.get("std").unwrap().as_slice::<f64>().unwrap(), [0.0; 3]);
    assert_eq!(results.get("mean").unwrap().as_slice::<f64>().unwrap(), [5.0, 0.0, 65535.0]);
}

#[test]
fn complex_data_have_a_real_variance() {
    let cells = vec![Complex128::new(1.0, 1.0), Complex128::new(-1.0, 1.0)];
    let results = run(&StdDev::default(), &dataset(&[2], &[1], cells)).unwrap();
    assert_eq!(results.get("var").unwrap().as_slice::<f64>().unwrap(), [1.0]);
    let mean = results.get("mean").unwrap().as_slice::<Complex128>().unwrap().to_vec();
    assert_eq!(mean, [Complex128::new(0.0, 1.0)]);
}

#[test]
fn integer_results_are_refused() {
    let udf = StdDev { dtype: Some(DType::U16) };
    let error = run(&udf, &dataset(&[1], &[1], vec![1u8])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("uint16"), "{error}");
}
