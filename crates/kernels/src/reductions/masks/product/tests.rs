//! Every instruction set gives the same bits, integers are exact, and the rest is within bounds.

use super::{EXACT, Product, TERMS, in_single};
use crate::reductions::masks::rows::Pixel;
use crate::reductions::masks::stack::MaskStack;
use framefold_core::{Complex64, DType, FramesView, NativeArray, TypedVec};
use framefold_simd::Simd;

/// Frames as deep as no group of rows, and pixels that fill no block.
const DEPTHS: &[usize] = if cfg!(miri) { &[7] } else { &[1, 7, 23, 130] };
const LENGTHS: &[usize] = if cfg!(miri) { &[37] } else { &[1, 37, 1029, 2100] };
/// Few masks in groups and beyond them, and panels that are full, not full and left over.
const MASKS: &[usize] = if cfg!(miri) { &[1, 12, 33] } else { &[1, 3, 5, 11, 12, 33, 64] };

/// Numbers between -1 and 1.
fn noise(n: usize, seed: u64) -> impl Iterator<Item = f64> {
    let mut state = seed;
    (0..n).map(move |_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    })
}

fn stack(n_masks: usize, len: usize, values: impl Into<TypedVec>) -> MaskStack {
    MaskStack::try_new(NativeArray::try_new(&[n_masks, len], values).unwrap()).unwrap()
}

/// Row by row, without the columns that panels are filled up with.
fn products<T: Pixel>(simd: Simd, cells: &[T], depth: usize, stack: &MaskStack) -> Vec<f64> {
    let len = cells.len() / depth;
    let frames = FramesView::try_new(cells, depth, len, len).unwrap();
    let mut product = Product::try_new::<T>(simd, stack, depth).unwrap();
    product.add(frames, 0, 0..len, stack, 0..len);
    let n_columns = stack.n_masks() * if stack.dtype().is_complex() { 2 } else { 1 };
    let (totals, n) = product.totals();
    totals.chunks_exact(n).flat_map(|row| &row[..n_columns]).copied().collect()
}

fn same_bits<T: Pixel>(make: impl Fn(f64) -> T, mask: impl Fn(Vec<f64>) -> TypedVec) {
    // The plain loops take long where the processor's own multiplication is not used.
    for (&depth, &len) in DEPTHS.iter().zip(LENGTHS.iter().rev()) {
        for &n_masks in MASKS {
            let cells: Vec<T> = noise(depth * len, 1).map(&make).collect();
            let stack = stack(n_masks, len, mask(noise(n_masks * len, 2).collect()));
            let plain = products(Simd::plain(), &cells, depth, &stack);
            assert!(plain.iter().any(|&product| product != 0.0));
            for simd in Simd::all() {
                let found = products(simd, &cells, depth, &stack);
                let differ = plain.iter().zip(&found).filter(|(a, b)| a.to_bits() != b.to_bits());
                assert_eq!(differ.count(), 0, "{simd:?}, {depth} frames, {n_masks} masks");
            }
        }
    }
}

fn single(values: Vec<f64>) -> TypedVec {
    values.into_iter().map(|x| x as f32).collect::<Vec<_>>().into()
}

#[test]
fn instruction_sets_agree_in_single_precision() {
    same_bits(|x| (x.abs() * 65535.0) as u16, single);
    same_bits(|x| (x * 32768.0) as i16, single);
    same_bits(|x| (x.abs() * 255.0) as u8, single);
    same_bits(|x| (x * 128.0) as i8, single);
    same_bits(|x| x as f32, single);
}

#[test]
fn instruction_sets_agree_in_double_precision() {
    same_bits(|x| (x.abs() * 4e9) as u32, single);
    same_bits(|x| (x * 100.0) as i8, TypedVec::from);
    same_bits(|x| (x.abs() * 255.0) as u8, TypedVec::from);
    same_bits(|x| (x.abs() * 65535.0) as u16, TypedVec::from);
    same_bits(|x| (x * 32768.0) as i16, TypedVec::from);
    same_bits(|x| x as f32, TypedVec::from);
}

#[test]
fn instruction_sets_agree_on_complex_numbers() {
    same_bits(
        |x| Complex64::new(x as f32, 1.0 - x as f32),
        |values| {
            let complex = values.iter().map(|&x| Complex64::new(x as f32, 0.5 - x as f32));
            complex.collect::<Vec<_>>().into()
        },
    );
}

/// The products in double precision, and the sum of their magnitudes.
fn oracle(cells: &[f64], mask: &[f32]) -> (f64, f64) {
    let products = || cells.iter().zip(mask).map(|(&x, &m)| x * f64::from(m));
    (products().sum(), products().map(f64::abs).sum())
}

#[test]
fn virtual_detectors_count_the_largest_pixels_exactly() {
    let (depth, len) = (5, 9000);
    let cells = vec![u16::MAX; depth * len];
    for n_masks in [1, 11, 40] {
        let masks: Vec<f32> = (0..n_masks * len).map(|i| f32::from((i * i) % 7 < 5)).collect();
        let stack = stack(n_masks, len, masks.clone());
        assert!(in_single(DType::U16, &stack));
        for simd in Simd::all() {
            let found = products(simd, &cells, depth, &stack);
            for (m, mask) in masks.chunks(len).enumerate() {
                let expected = 65535.0 * mask.iter().map(|&x| f64::from(x)).sum::<f64>();
                assert!((0..depth).all(|f| found[f * n_masks + m] == expected), "{simd:?}");
            }
        }
    }
}

#[test]
fn integer_masks_are_exact_whatever_their_size() {
    let len = 3000;
    let cells: Vec<u16> = (0..len).map(|i| 65535 - (i % 3) as u16).collect();
    for largest in [1, 2, 300, 16_000_001] {
        let mask: Vec<f32> = (0..len).map(|i| (largest - i % 2) as f32).collect();
        let stack = stack(1, len, mask.clone());
        assert_eq!(in_single(DType::U16, &stack), largest == 1);
        let wide: Vec<f64> = cells.iter().map(|&x| f64::from(x)).collect();
        assert_eq!(products(Simd::best(), &cells, 1, &stack), [oracle(&wide, &mask).0]);
    }
}

#[test]
fn masks_of_integers_are_exact_beside_those_of_fractions() {
    let len = 3000;
    let cells: Vec<u16> = (0..len).map(|i| 65535 - (i % 3) as u16).collect();
    let wide: Vec<f64> = cells.iter().map(|&x| f64::from(x)).collect();
    for n_masks in [2, 20] {
        let integers = (0..len).map(|i| (300 - i % 7) as f32);
        let masks: Vec<f32> = integers.chain((len..n_masks * len).map(|_| 0.3)).collect();
        let sum = oracle(&wide, &masks[..len]).0;
        let beside = stack(n_masks, len, masks.clone());
        assert_eq!(products(Simd::best(), &cells, 1, &beside)[0], sum);
        let fractions = stack(n_masks - 1, len, masks[len..].to_vec());
        assert!(!in_single(DType::U16, &beside) && in_single(DType::U16, &fractions));
    }
}

#[test]
fn a_sum_of_single_precision_stays_within_its_bound() {
    let (depth, len) = (3, 5000);
    let bound = TERMS as f64 / EXACT;
    for n_masks in [2, 20] {
        let cells: Vec<f32> = noise(depth * len, 3).map(|x| x as f32 * 1e6).collect();
        let masks: Vec<f32> = noise(n_masks * len, 4).map(|x| x as f32).collect();
        let stack = stack(n_masks, len, masks.clone());
        let found = products(Simd::best(), &cells, depth, &stack);
        for (f, cells) in cells.chunks(len).enumerate() {
            let cells: Vec<f64> = cells.iter().map(|&x| f64::from(x)).collect();
            for (m, mask) in masks.chunks(len).enumerate() {
                let (sum, size) = oracle(&cells, mask);
                let error = (found[f * n_masks + m] - sum).abs();
                assert!(error <= bound * size, "{error} of {size}");
            }
        }
    }
}

#[test]
fn what_single_precision_cannot_hold_is_summed_in_double() {
    let single = stack(1, 2, vec![0.5f32, 0.25]);
    let double = stack(1, 2, vec![0.5f64, 0.25]);
    for dtype in [DType::U16, DType::F32, DType::C64, DType::F16, DType::Bool] {
        assert!(in_single(dtype, &single) && !in_single(dtype, &double), "{dtype}");
    }
    for dtype in [DType::U32, DType::I64, DType::F64, DType::C128] {
        assert!(!in_single(dtype, &single), "{dtype}");
    }
}
