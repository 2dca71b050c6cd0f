//! The largest value of each pixel.

use crate::support::{check, dataset, run};
use framefold_core::{Complex64, DType, ErrorKind};
use framefold_kernels::Max;
use framefold_testkit::{cases_of, oracle};
use proptest::prelude::*;

fn real() -> Vec<DType> {
    DType::all().filter(|dtype| !dtype.is_complex()).collect()
}

proptest! {
    #[test]
    fn equals_its_definition(case in cases_of(real(), 1..4)) {
        check(&Max, &case, false, true, |frames| Ok(vec![oracle::max(frames)?])).unwrap();
    }
}

#[test]
fn nan_wins_over_infinity_in_any_order() {
    let inf = f64::INFINITY;
    for cells in [[f64::NAN, inf, 1.0], [inf, f64::NAN, 1.0], [1.0, inf, f64::NAN]] {
        let results = run(&Max, &dataset(&[3], &[1], cells.to_vec())).unwrap();
        assert!(results.arrays[0].as_slice::<f64>().unwrap()[0].is_nan(), "{cells:?}");
    }
    let results = run(&Max, &dataset(&[2], &[1], vec![-inf, -3.0])).unwrap();
    assert_eq!(results.arrays[0].as_slice::<f64>().unwrap(), [-3.0]);
}

#[test]
fn large_integers_keep_every_bit() {
    let cells = vec![u64::MAX - 1, u64::MAX - 2, 5];
    let results = run(&Max, &dataset(&[3], &[1], cells)).unwrap();
    assert_eq!(results.arrays[0].as_slice::<u64>().unwrap(), [u64::MAX - 1]);
}

#[test]
fn complex_data_are_refused() {
    let error = run(&Max, &dataset(&[1], &[1], vec![Complex64::new(1.0, 2.0)])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("magnitude"), "{error}");
}
