//! Products with masks.

use crate::support::{check, dataset, run};
use framefold_core::{Complex64, DType, ErrorKind, NativeArray};
use framefold_kernels::{Masks, Shifts, disk};
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

proptest! {
    /// Where they lie is compared with NumPy and SciPy in `tests/test_shifts.py`.
    #[test]
    fn masks_that_are_shifted_by_nothing_are_those_that_are_not(
        case in cases(),
        n_masks in prop_oneof![1usize..7, 7usize..20],
        dtype in prop::sample::select(DType::all().collect::<Vec<_>>()),
        seed in any::<u64>(),
        each in any::<bool>(),
    ) {
        let shape = [&[n_masks], &case.sig[..]].concat();
        let cells = random_values(dtype, shape.iter().product(), Values::Counts, seed);
        let masks = NativeArray::try_new(&shape, cells).unwrap();
        let n_axes = case.sig.len();
        let n_frames = case.dataset().unwrap().shape().n_frames();
        let shape = if each { vec![n_frames, n_axes] } else { vec![n_axes] };
        let shifts = Shifts::try_new(NativeArray::zeros(DType::I64, &shape)).unwrap();
        let udf = Masks::try_new(masks.clone()).unwrap().with_shifts(shifts);
        check(&udf, &case, true, false, |frames| Ok(vec![oracle::masks(frames, &masks)?])).unwrap();
    }
}

proptest! {
    #[test]
    fn sparse_masks_equal_dense_ones(
        case in cases(),
        n_masks in 1usize..7,
        dtype in prop::sample::select(DType::all().collect::<Vec<_>>()),
        seed in any::<u64>(),
        density in 0u64..=8,
    ) {
        // There, what is not stored differs from zero.
        prop_assume!(!matches!(case.values, Values::NonFinite | Values::Rare));
        let shape = [&[n_masks], &case.sig[..]].concat();
        let n_pixels: usize = case.sig.iter().product();
        let cells = random_values(dtype, shape.iter().product(), Values::Counts, seed);
        let (mut starts, mut pixels, mut bytes) = (vec![0], vec![], vec![]);
        let (mut dense, size) = (cells.as_bytes().to_vec(), dtype.size());
        for m in 0..n_masks {
            for pixel in 0..n_pixels {
                // Runs of several lengths.
                let stored = (seed ^ (pixel as u64 / 5 + 3 * m as u64)).wrapping_mul(0x9e37) % 8;
                let place = (m * n_pixels + pixel) * size..(m * n_pixels + pixel + 1) * size;
                if stored < density {
                    pixels.push(pixel);
                    bytes.extend_from_slice(&dense[place]);
                } else {
                    dense[place].fill(0);
                }
            }
            starts.push(pixels.len());
        }
        let array = |shape: &[usize], bytes: &[u8]| {
            let mut array = NativeArray::zeros(dtype, shape);
            array.values_mut().as_bytes_mut().copy_from_slice(bytes);
            array
        };
        let masks = array(&shape, &dense);
        let values = array(&[pixels.len()], &bytes);
        let udf = Masks::try_new_sparse(&case.sig, &starts, &pixels, values).unwrap();
        check(&udf, &case, false, false, |frames| Ok(vec![oracle::masks(frames, &masks)?])).unwrap();
    }
}

#[test]
fn what_a_sparse_mask_does_not_store_does_not_matter() {
    let values = || NativeArray::try_new(&[2], vec![2.0f32, 3.0]).unwrap();
    let masks = Masks::try_new_sparse(&[3], &[0, 1, 2], &[0, 2], values()).unwrap();
    let cells = vec![1.0f32, f32::NAN, 5.0];
    let results = run(&masks, &dataset(&[1], &[3], cells)).unwrap();
    assert_eq!(results.arrays[0].as_slice::<f32>().unwrap(), [2.0, 15.0]);
    for (starts, pixels) in
        [([0, 1, 1], [0, 2]), ([0, 2, 2], [2, 0]), ([0, 1, 2], [0, 3]), ([1, 1, 2], [0, 2])]
    {
        assert!(Masks::try_new_sparse(&[3], &starts, &pixels, values()).is_err());
    }
    assert!(Masks::try_new_sparse(&[3], &[0], &[], NativeArray::zeros(DType::F32, &[0])).is_err());
    for (shape, ends) in [([8, usize::MAX], 2), ([3, 1], usize::MAX)] {
        let values = NativeArray::zeros(DType::C64, &[2]);
        let masks = Masks::try_new_sparse(&shape, &[0, ends], &[0, 2], values);
        assert_eq!(masks.unwrap_err().kind(), ErrorKind::InvalidArgument);
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
