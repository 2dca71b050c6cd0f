//! Shifted masks against one pixel at a time.

use framefold_core::{Complex64, Complex128, NativeArray};
use framefold_kernels::{FrameCells, Masks, ShiftedMasks};

const SIG: [usize; 3] = [3, 5, 70];
const LEN: usize = 3 * 5 * 70;
const SHIFTS: [[f64; 3]; 7] = [
    [0.0, 0.0, 0.0],
    [1.0, 0.0, 0.0],
    [0.0, -2.0, 0.0],
    [-1.0, 3.0, 17.0],
    [0.0, 0.0, -69.0],
    [3.0, 0.0, 0.0],
    [-1e300, 0.0, 1e300],
];

/// Integers, so that every order of additions gives the same.
fn values(seed: usize, n: usize) -> Vec<f64> {
    (0..n).map(|i| ((i * 7919 + seed * 104_729) % 60_013) as f64 - 20_000.0).collect()
}

fn expected(frame: &[f64], masks: &[f64], shifts: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; masks.len() / LEN];
    for (pixel, value) in frame.iter().enumerate() {
        let place = [pixel / 350, pixel / 70 % 5, pixel % 70];
        let mut cell = Some(0);
        for axis in 0..3 {
            let at = i128::from(place[axis] as u64) - i128::from(shifts[axis] as i64);
            let inside = at >= 0 && at < SIG[axis] as i128;
            cell = cell.filter(|_| inside).map(|cell| cell * SIG[axis] + at as usize);
        }
        for (m, sum) in sums.iter_mut().enumerate() {
            *sum += cell.map_or(0.0, |cell| value * masks[m * LEN + cell]);
        }
    }
    sums
}

#[test]
fn masks_of_all_kinds_on_frames_of_all_kinds() {
    let frame = values(1, LEN);
    let columns: Vec<u32> = (0..LEN as u32).filter(|i| i % 3 != 1).collect();
    let entries: Vec<f64> = columns.iter().map(|&i| frame[i as usize]).collect();
    let mut holes = frame.clone();
    holes.iter_mut().skip(1).step_by(3).for_each(|cell| *cell = 0.0);
    let pairs = frame.iter().zip(&holes);
    let complex: Vec<Complex128> = pairs.map(|(&a, &b)| Complex128::new(a, b)).collect();
    for n in [1, 3, 40] {
        let weights = values(2, n * LEN);
        let stack = NativeArray::try_new(&[n, 3, 5, 70], weights.clone()).unwrap();
        let starts: Vec<usize> = (0..=n).map(|m| m * LEN).collect();
        let pixels: Vec<usize> = (0..n).flat_map(|_| 0..LEN).collect();
        let rows = NativeArray::try_new(&[n * LEN], weights.clone()).unwrap();
        let sparse = Masks::try_new_sparse(&SIG, &starts, &pixels, rows).unwrap();
        for masks in [Masks::try_new(stack).unwrap(), sparse].map(ShiftedMasks::new) {
            for shifts in SHIFTS {
                let of = |cells| masks.products(cells, &shifts).unwrap();
                let real = |cells| of(cells).iter().map(|z| z.re).collect::<Vec<f64>>();
                let with_holes = expected(&holes, &weights, &shifts);
                assert_eq!(real(FrameCells::Double(&frame)), expected(&frame, &weights, &shifts));
                assert_eq!(real(FrameCells::Entries(&columns, &entries)), with_holes);
                let found = of(FrameCells::DoubleComplex(&complex));
                assert_eq!(found.iter().map(|z| z.im).collect::<Vec<f64>>(), with_holes);
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let stack = NativeArray::try_new(&[1, 2, 3], vec![1.0f64; 6]).unwrap();
    let masks = ShiftedMasks::new(Masks::try_new(stack).unwrap());
    assert!(masks.products(FrameCells::Double(&[1.0; 6]), &[1.0]).is_err());
    assert!(masks.products(FrameCells::Double(&[1.0; 5]), &[1.0, 0.0]).is_err());
    assert!(masks.products(FrameCells::Double(&[1.0; 12]), &[1.0, 0.0]).is_err());
    for column in [6, u32::MAX] {
        assert!(masks.products(FrameCells::Entries(&[column], &[1.0]), &[0.0, 0.0]).is_err());
    }
    assert!(masks.products(FrameCells::Entries(&[1], &[]), &[0.0, 0.0]).is_err());
}

#[test]
fn single_precision_is_widened_and_infinity_outside_does_not_count() {
    let weights = vec![f64::INFINITY, 1.0, 1.0, 2.0];
    let stack = NativeArray::try_new(&[1, 2, 2], weights).unwrap();
    let masks = ShiftedMasks::new(Masks::try_new(stack).unwrap());
    let frame = [16_777_217.0f64, 3.0, 5.0, 7.0].map(|x| x as f32);
    let of = |cells, shifts: [f64; 2]| masks.products(cells, &shifts).unwrap()[0];
    assert_eq!(of(FrameCells::Single(&frame), [-1.0, 0.0]).re, 16_777_216.0 + 6.0);
    let complex = frame.map(|x| Complex64::new(1.0, x));
    assert_eq!(
        of(FrameCells::SingleComplex(&complex), [0.0, -1.0]),
        Complex128::new(3.0, 16_777_226.0)
    );
    assert_eq!(of(FrameCells::Single(&frame), [0.0, 0.0]).re, f64::INFINITY);
}
