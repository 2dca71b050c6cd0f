//! Products with masks.

use crate::support::{check, dataset, run};
use framefold_core::{Complex64, DType, ErrorKind, NativeArray};
use framefold_kernels::{Masks, disk};
use framefold_testkit::{Values, cases, oracle, random_values};
use proptest::prelude::*;

proptest! {
    #[test]
    fn equals_its_definition(
        case in cases(),
        n_masks in prop_oneof![1usize..7, 7usize..40],
        dtype in prop::sample::select(DType::all().collect::<Vec<_>>()),
        seed in any::<u64>(),
        counts in any::<bool>(),
    ) {
        let shape = [&[n_masks], &case.sig[..]].concat();
        let values = if counts { Values::Counts } else { Values::Full };
        let cells = random_values(dtype, shape.iter().product(), values, seed);
        let masks = NativeArray::try_new(&shape, cells).unwrap();
        let udf = Masks::try_new(masks.clone()).unwrap();
        check(&udf, &case, false, false, |frames| Ok(vec![oracle::masks(frames, &masks)?])).unwrap();
    }
}

#[test]
fn a_virtual_detector_counts_exactly() {
    // 40 million counts of 65535: single precision would lose the last digits.
    let sig = [64, 64];
    let mask = disk(&sig, 32.0, 32.0, 20.0).unwrap();
    let inside = mask.as_slice::<f32>().unwrap().iter().filter(|&&m| m == 1.0).count();
    let masks = NativeArray::try_new(&[1, 64, 64], mask.into_values()).unwrap();
    let cells = vec![u32::MAX; 64 * 64 * 3];
    let results = run(&Masks::try_new(masks).unwrap(), &dataset(&[3], &sig, cells)).unwrap();
    let expected = inside as f64 * f64::from(u32::MAX);
    assert_eq!(results.arrays[0].as_slice::<f64>().unwrap(), [expected; 3]);
}

#[test]
fn complex_masks_multiply_complex_data() {
    let i = Complex64::new(0.0, 1.0);
    let masks = NativeArray::try_new(&[2, 2], vec![i, i, i * i, Complex64::new(0.0, 0.0)]).unwrap();
    let cells = vec![Complex64::new(1.0, 2.0), Complex64::new(3.0, -1.0)];
    let results = run(&Masks::try_new(masks).unwrap(), &dataset(&[1], &[2], cells)).unwrap();
    let expected = [Complex64::new(-1.0, 4.0), Complex64::new(-1.0, -2.0)];
    assert_eq!(results.arrays[0].as_slice::<Complex64>().unwrap(), expected);
}

#[test]
fn masks_of_another_shape_are_refused_with_both_shapes() {
    let masks = Masks::try_new(NativeArray::zeros(DType::F32, &[3, 5, 4])).unwrap();
    assert_eq!(masks.n_masks(), 3);
    let error = run(&masks, &dataset(&[1], &[4, 5], vec![0u8; 20])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    let text = error.to_string();
    assert!(
        text.contains("[5, 4]") && text.contains("[4, 5]") && text.contains("(3, 4, 5)"),
        "{text}"
    );
    assert!(Masks::try_new(NativeArray::zeros(DType::F32, &[0, 4, 5])).is_err());
}
