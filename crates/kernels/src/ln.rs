//! The natural logarithm, as a loop over pixels can compute it.

use std::f64::consts::{FRAC_1_SQRT_2, LN_2};

/// The natural logarithm of a number from 1 up, within two units in the last place; of infinity and
/// NaN, itself.
///
/// There is no branch and no fused operation in it, so that it is fast, and the same to the bit, on
/// every instruction set. The library's `f64::ln` is neither.
#[inline(always)]
pub(crate) fn ln(x: f64) -> f64 {
    // x = m 2^k with m between the square roots of 1/2 and 2.
    const ROOT: u64 = FRAC_1_SQRT_2.to_bits();
    let k = (x.to_bits().wrapping_sub(ROOT)) >> 52;
    let m = f64::from_bits(x.to_bits().wrapping_sub(k << 52));
    // As the last bits of a number of fixed exponent, k is converted by a subtraction.
    const TWO_52: f64 = (1u64 << 52) as f64;
    let k = f64::from_bits(TWO_52.to_bits() | k) - TWO_52;
    // ln(1 + f) = 2 artanh(s) with s = f / (2 + f): a series in the square of s, which is below 0.03.
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let mut series = 0.0;
    for power in [21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0] {
        series = (series + 1.0 / power) * z;
    }
    // The first term 2 s is taken as f - s f, because f is exact.
    let mantissa = f - s * (f - 2.0 * series);
    // The logarithm of 2 in two parts, the first of which can be multiplied by k without rounding;
    // the second one contains what `LN_2` is short of it.
    const HIGH: f64 = f64::from_bits(LN_2.to_bits() & !0xffff);
    const LOW: f64 = (LN_2 - HIGH) + 2.319_046_813_846_3e-17;
    let logarithm = k * HIGH + (k * LOW + mantissa);
    if x < f64::INFINITY { logarithm } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_simd::{Simd, run};

    fn distance(x: f64) -> u64 {
        ln(x).to_bits().abs_diff(x.ln().to_bits())
    }

    #[test]
    fn it_is_within_two_units_in_the_last_place() {
        // The library's own result is off by less than one.
        let mut worst = 0;
        for k in 0..1024 {
            let mut x = 1.0f64;
            while x < 2.0 {
                worst = worst.max(distance(x * 2f64.powi(k)));
                x *= 1.000_37;
            }
        }
        // Where the exponent changes, and next to 1.
        for near in [1.0, 2f64.sqrt(), 2.0, 2.0 * 2f64.sqrt(), f64::MAX / 2.0] {
            for step in 0..1000u64 {
                worst = worst.max(distance(f64::from_bits(near.to_bits() + step)));
                worst = worst.max(distance(f64::from_bits(near.to_bits() - step).max(1.0)));
            }
        }
        for x in 1..200_000 {
            worst = worst.max(distance(f64::from(x)));
        }
        assert!(worst <= 2, "{worst} units in the last place");
    }

    #[test]
    fn special_values() {
        assert_eq!(ln(1.0).to_bits(), 0);
        assert_eq!(ln(f64::INFINITY), f64::INFINITY);
        assert!(ln(f64::NAN).is_nan() && ln(-f64::NAN).is_nan());
        assert!(ln(f64::MAX) < 709.8 && ln(f64::MAX) > 709.7);
    }

    #[test]
    fn every_level_gives_the_same_bits() {
        let numbers: Vec<f64> = (0..1000).map(|i| 1.0 + f64::from(i).powi(7)).collect();
        let all = |simd| -> Vec<u64> {
            let mut logs = numbers.clone();
            run!(simd, {
                for x in &mut logs {
                    *x = ln(*x);
                }
            });
            logs.into_iter().map(f64::to_bits).collect()
        };
        let plain = all(Simd::plain());
        assert!(Simd::all().into_iter().all(|simd| all(simd) == plain));
    }
}
