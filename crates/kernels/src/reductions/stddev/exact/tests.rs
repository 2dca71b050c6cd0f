//! Against sums in 128 bits, and against roundings checked in integers.

use super::squares::SMALL;
use super::*;
use framefold_core::FramesView;
use proptest::prelude::*;

/// Sums and sums of squares, one pixel after the other.
fn naive<T: Copy + Into<i128>>(frames: &[Vec<T>]) -> Vec<(i128, i128)> {
    let pixel = |p: usize| frames.iter().map(move |frame| Into::<i128>::into(frame[p]));
    (0..frames[0].len()).map(|p| (pixel(p).sum(), pixel(p).map(|x| x * x).sum())).collect()
}

fn check<T: Exact + Into<i128>>(frames: &[Vec<T>])
where
    T::Block: Into<i128>,
{
    let len = frames[0].len();
    let cells = frames.concat();
    let view = FramesView::try_new(&cells, frames.len(), len, len).unwrap();
    for simd in Simd::all() {
        let mut sums = vec![T::Block::default(); len];
        let mut squares = Squares::zeros::<T>(len).unwrap();
        add_frames(simd, view, 0..frames.len(), &mut sums, squares.of(0..len));
        let found: Vec<(i128, i128)> =
            sums.into_iter().map(Into::into).zip(squares.wholes()).collect();
        assert_eq!(found, naive(frames), "{simd:?}");
    }
}

macro_rules! squares_are_exact {
    ($($name:ident: $type:ty),*) => {$(
        proptest! {
            #[test]
            fn $name(
                len in 1usize..80,
                depth in 1usize..20,
                small in any::<bool>(),
                seed in any::<u64>(),
            ) {
                let mut state = seed | 1;
                let mut next = || {
                    state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                    // Mostly small, sometimes an extreme: both ways of summing meet in one tile.
                    match state >> 60 {
                        0 if !small => <$type>::MAX,
                        1 if !small => <$type>::MIN,
                        2 if !small => (state >> 20) as $type,
                        _ => (state >> 50 & 0x7f) as $type,
                    }
                };
                let frames: Vec<Vec<$type>> =
                    (0..depth).map(|_| (0..len).map(|_| next()).collect()).collect();
                check(&frames);
            }
        }
    )*};
}
squares_are_exact!(u8_squares: u8, i8_squares: i8, u16_squares: u16, i16_squares: i16,
    u32_squares: u32, i32_squares: i32);

#[test]
fn extremes_do_not_wrap() {
    fn extremes<T: Exact + Into<i128>>(low: T, high: T)
    where
        T::Block: Into<i128>,
    {
        for value in [low, high] {
            check(&vec![vec![value; 33]; 17]);
        }
    }
    extremes(u8::MIN, u8::MAX);
    extremes(i8::MIN, i8::MAX);
    extremes(u16::MIN, u16::MAX);
    extremes(i16::MIN, i16::MAX);
    extremes(u32::MIN, u32::MAX);
    extremes(i32::MIN, i32::MAX);
    // On both sides of the bound up to which squares are summed in 32 bits.
    extremes(SMALL as u16 - 1, SMALL as u16);
}

/// Whether `value` is the double next to `numerator / denominator`, in integers alone: doubles of
/// this size are multiples of `2^-scale`.
fn is_nearest(value: f64, numerator: i128, denominator: i128, scale: u32) -> bool {
    let (below, above) = (value.next_down(), value.next_up());
    let exact = |x: f64| (x * 2f64.powi(scale.cast_signed())) as i128;
    let twice = 2 * (numerator << scale);
    twice >= (exact(below) + exact(value)) * denominator
        && twice <= (exact(value) + exact(above)) * denominator
}

proptest! {
    #[test]
    fn variances_are_rounded_once(cells in prop::collection::vec(any::<u16>(), 20..200)) {
        let n = cells.len() as i128;
        let sum: i128 = cells.iter().map(|&x| i128::from(x)).sum();
        let squares: i128 = cells.iter().map(|&x| i128::from(x).pow(2)).sum();
        let found = varsum(cells.len(), sum, squares);
        prop_assert!(is_nearest(found, n * squares - sum * sum, n, 50));
    }

    #[test]
    fn large_variances_are_rounded_once(times_n in (1i128 << 54)..(1 << 80), n in 1usize..100_000) {
        // Any sum of squares that is a multiple of n gives n times the quotient.
        let found = varsum(n, 0, times_n);
        prop_assert!(is_nearest(found, times_n * n as i128, n as i128, 4));
        let found = varsum(n, 1, times_n);
        prop_assert!(is_nearest(found, times_n * n as i128 - 1, n as i128, 4));
    }
}

#[test]
fn the_largest_variance_fits() {
    // Half of all frames dark, half of them at the end of the range.
    let n = MOST_FRAMES;
    let half = (n / 2) as i128;
    let top = i128::from(u32::MAX);
    let found = varsum(n, half * top, half * top * top);
    let expected = n as f64 / 4.0 * (u32::MAX as f64).powi(2);
    assert!((found - expected).abs() <= expected * f64::EPSILON);
    assert_eq!(varsum(n, n as i128 * top, n as i128 * top * top), 0.0);
    assert_eq!(varsum(0, 0, 0), 0.0);
}
