//! What sums are kept in, from the first tile to the final rounding.

use framefold_core::{
    Complex64, Complex128, DType, Error, ErrorKind, NativeArray, Result, TypedVec, memory,
};
use std::ops::{AddAssign, Sub};

/// A running sum: `i64` or `i128` for integers (`u64` for their squares), in which nothing is ever
/// lost, `f64` or [`Complex128`] for floating-point numbers. Blocks of few terms are narrower.
pub(crate) trait Total: Copy + Default + AddAssign + Send + Sync + 'static {
    /// The same number for arithmetic other than sums.
    type Value: Value;

    /// A mean, from which distances are taken.
    type Mean: Copy + Send + Sync;

    /// Rounds to a value.
    fn value(self) -> Self::Value;

    /// `self * n - other * m`. Of 128 bits it is rounded once, with up to 2^32 terms in all:
    /// large sums whose means differ by little could be the same number once each is rounded.
    fn difference(self, n: usize, other: Self, m: usize) -> Self::Value;

    /// The mean of `n` terms with this sum: rounded, but of 128 bits.
    fn mean(self, n: usize) -> Self::Mean;

    /// The distance of a single term from a mean.
    fn distance(self, mean: Self::Mean) -> Self::Value;

    /// Sums as an array for a partial result.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it.
    fn pack(totals: Vec<Self>) -> Result<TypedVec>;

    /// The reverse of [`Total::pack`].
    ///
    /// # Errors
    /// `Bug` if the array was not made by it; `Limit` if there is no memory for them.
    fn unpack(array: NativeArray) -> Result<Vec<Self>>;

    /// Rounds to `f32`, once.
    fn to_f32(self) -> f32;

    /// The sum itself where it is of integers; None for floating-point numbers.
    fn whole(self) -> Option<i128>;
}

/// A real or complex number in double precision.
pub(crate) trait Value: Copy + Default + Sub<Output = Self> + Send + Sync + 'static {
    /// The square of its magnitude.
    fn norm_sqr(self) -> f64;

    /// Itself divided by a real number.
    fn over(self, divisor: f64) -> Self;

    /// Itself times a real number.
    fn times(self, factor: f64) -> Self;

    /// As a complex number.
    fn complex(self) -> Complex128;
}

impl Value for f64 {
    #[inline(always)]
    fn norm_sqr(self) -> f64 {
        self * self
    }

    #[inline(always)]
    fn over(self, divisor: f64) -> f64 {
        self / divisor
    }

    #[inline(always)]
    fn times(self, factor: f64) -> f64 {
        self * factor
    }

    #[inline(always)]
    fn complex(self) -> Complex128 {
        Complex128::new(self, 0.0)
    }
}

impl Value for Complex128 {
    #[inline(always)]
    fn norm_sqr(self) -> f64 {
        self.re * self.re + self.im * self.im
    }

    #[inline(always)]
    fn over(self, divisor: f64) -> Complex128 {
        Complex128::new(self.re / divisor, self.im / divisor)
    }

    #[inline(always)]
    fn times(self, factor: f64) -> Complex128 {
        Complex128::new(self.re * factor, self.im * factor)
    }

    #[inline(always)]
    fn complex(self) -> Complex128 {
        self
    }
}

macro_rules! total {
    ($type:ty, $value:ty, |$total:ident| $to_value:expr, |$narrow:ident| $to_f32:expr, |$sum:ident| $whole:expr) => {
        impl Total for $type {
            type Value = $value;
            type Mean = $value;

            #[inline(always)]
            fn value(self) -> $value {
                let $total = self;
                $to_value
            }

            #[inline(always)]
            fn difference(self, n: usize, other: Self, m: usize) -> $value {
                self.value().times(n as f64) - other.value().times(m as f64)
            }

            #[inline(always)]
            fn mean(self, n: usize) -> $value {
                self.value().times(1.0 / n as f64)
            }

            #[inline(always)]
            fn distance(self, mean: $value) -> $value {
                self.value() - mean
            }

            fn pack(totals: Vec<Self>) -> Result<TypedVec> {
                Ok(totals.into())
            }

            fn unpack(array: NativeArray) -> Result<Vec<Self>> {
                array.into_vec::<$type>()
            }

            fn to_f32(self) -> f32 {
                let $narrow = self;
                $to_f32
            }

            fn whole(self) -> Option<i128> {
                let $sum = self;
                $whole
            }
        }
    };
}
total!(u32, f64, |total| f64::from(total), |total| total as f32, |sum| Some(sum.into()));
total!(i32, f64, |total| f64::from(total), |total| total as f32, |sum| Some(sum.into()));
total!(i64, f64, |total| total as f64, |total| total as f32, |sum| Some(sum.into()));
total!(u64, f64, |total| total as f64, |total| total as f32, |sum| Some(sum.into()));
total!(f64, f64, |total| total, |total| total as f32, |_sum| None);
total!(Complex128, Complex128, |total| total, |total| total.re as f32, |_sum| None);

/// As `as f64`, which takes a function call for 128 bits.
#[inline(always)]
fn rounded(number: i128) -> f64 {
    i64::try_from(number).map_or_else(|_| number as f64, |narrow| narrow as f64)
}

impl Total for i128 {
    type Value = f64;
    /// The whole number below it, and the rest.
    type Mean = (i128, f64);

    #[inline(always)]
    fn value(self) -> f64 {
        self as f64
    }

    #[inline(always)]
    fn difference(self, n: usize, other: Self, m: usize) -> f64 {
        let (wide_n, wide_m) = (n as i128, m as i128);
        // To multiply 128 bits with checks takes a function call.
        if let (Ok(narrow), Ok(other)) = (i64::try_from(self), i64::try_from(other)) {
            return rounded(i128::from(narrow) * wide_n - i128::from(other) * wide_m);
        }
        let exact = || self.checked_mul(wide_n)?.checked_sub(other.checked_mul(wide_m)?);
        exact().map_or_else(|| self as f64 * n as f64 - other as f64 * m as f64, rounded)
    }

    #[inline(always)]
    fn mean(self, n: usize) -> (i128, f64) {
        let (whole, rest) = match i64::try_from(self) {
            // To divide 128 bits does, too.
            Ok(narrow) => {
                let n = n as i64;
                (i128::from(narrow.div_euclid(n)), narrow.rem_euclid(n))
            }
            Err(_) => (self.div_euclid(n as i128), self.rem_euclid(n as i128) as i64),
        };
        (whole, rest as f64 / n as f64)
    }

    #[inline(always)]
    fn distance(self, (whole, rest): (i128, f64)) -> f64 {
        let difference = self - whole;
        // No farther from each other than 64 bits reach, which takes no branch to round.
        let magnitude = difference.unsigned_abs() as u64 as f64;
        (if difference < 0 { -magnitude } else { magnitude }) - rest
    }

    // There is no 128-bit dtype: each sum travels as two 64-bit halves.
    fn pack(totals: Vec<Self>) -> Result<TypedVec> {
        let mut halves: Vec<u64> = memory::with_room(totals.len().saturating_mul(2))?;
        halves.extend(totals.into_iter().flat_map(|total| {
            let bits = total as u128;
            [bits as u64, (bits >> 64) as u64]
        }));
        Ok(halves.into())
    }

    fn unpack(array: NativeArray) -> Result<Vec<Self>> {
        let halves = array.as_slice::<u64>()?;
        let join = |pair: &[u64; 2]| (u128::from(pair[0]) | u128::from(pair[1]) << 64) as i128;
        let (pairs, rest) = halves.as_chunks::<2>();
        if rest.is_empty() {
            memory::collected(pairs.iter().map(join))
        } else {
            Err(Error::bug("half of a 128-bit sum is missing from a partial result"))
        }
    }

    fn to_f32(self) -> f32 {
        self as f32
    }

    fn whole(self) -> Option<i128> {
        Some(self)
    }
}

/// Sums as an array for a partial result, whatever its shape.
pub(crate) fn pack<T: Total>(totals: Vec<T>) -> Result<NativeArray> {
    let packed = T::pack(totals)?;
    NativeArray::try_new(&[packed.len()], packed)
}

/// Adds each of `others` to its counterpart.
pub(crate) fn add_all<T: Total>(totals: &mut [T], others: &[T]) -> Result<()> {
    if totals.len() != others.len() {
        return Err(Error::bug(format!(
            "a partial result of {} sums was merged into {}",
            others.len(),
            totals.len()
        )));
    }
    for (total, other) in totals.iter_mut().zip(others) {
        *total += *other;
    }
    Ok(())
}

/// Sums as values of a result buffer of `dtype`, each rounded once, or not at all for integers.
///
/// # Errors
/// `InvalidArgument` if an integer does not fit into the dtype. `Bug` if the dtype cannot hold sums: buffers
/// are declared as integers of 64 bits, float or complex.
pub(crate) fn round<T: Total>(totals: &[T], dtype: DType) -> Result<TypedVec> {
    match dtype {
        DType::F32 => Ok(memory::collected(totals.iter().map(|total| total.to_f32()))?.into()),
        DType::C64 => {
            let narrow =
                |total: &T| Complex64::new(total.to_f32(), total.value().complex().im as f32);
            Ok(memory::collected(totals.iter().map(narrow))?.into())
        }
        DType::I64 => Ok(integers::<T, i64>(totals, dtype)?.into()),
        DType::U64 => Ok(integers::<T, u64>(totals, dtype)?.into()),
        _ => {
            let values = memory::collected(totals.iter().map(|total| total.value()))?;
            convert(&values, dtype)
        }
    }
}

fn integers<T: Total, I: TryFrom<i128>>(totals: &[T], dtype: DType) -> Result<Vec<I>> {
    let integer = |total: &T| {
        let sum = total.whole().ok_or_else(|| {
            Error::bug(format!("a result buffer of {dtype} was to hold floating-point numbers"))
        })?;
        I::try_from(sum).map_err(|_| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("a sum is {sum}, which {dtype} cannot hold"),
            )
            .with_hint("sum with dtype float64")
        })
    };
    let mut integers = memory::with_room(totals.len())?;
    for total in totals {
        integers.push(integer(total)?);
    }
    Ok(integers)
}

/// Values of double precision as values of a result buffer of `dtype`.
///
/// # Errors
/// `Bug` if the dtype is neither float nor complex; `Limit` if there is no memory for them.
pub(crate) fn convert<V: Value>(values: &[V], dtype: DType) -> Result<TypedVec> {
    let values = values.iter().map(|value| value.complex());
    Ok(match dtype {
        DType::F32 => memory::collected(values.map(|z| z.re as f32))?.into(),
        DType::F64 => memory::collected(values.map(|z| z.re))?.into(),
        DType::C64 => {
            memory::collected(values.map(|z| Complex64::new(z.re as f32, z.im as f32)))?.into()
        }
        DType::C128 => memory::collected(values)?.into(),
        other => return Err(Error::bug(format!("a result buffer of {other} was to hold sums"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_sums_survive_packing() {
        let totals = vec![0, 1, -1, i128::MAX, i128::MIN, 1 << 64, -(1 << 64)];
        assert_eq!(i128::unpack(pack(totals.clone()).unwrap()).unwrap(), totals);
    }

    #[test]
    fn differences_of_wide_sums_are_rounded_once() {
        let (large, n) = (i128::from(u64::MAX) << 31, 1 << 31);
        assert_eq!(large.difference(n, large - 1, n), 2f64.powi(31));
        let (largest, n) = (i128::from(i64::MAX), 1 << 32);
        assert_eq!(largest.difference(n, largest - 1, n), 2f64.powi(32));
        // Products beyond 128 bits.
        assert_eq!(i128::MAX.difference(2, i128::MAX, 2), 0.0);
        assert_eq!(i128::MIN.difference(1, i128::MAX, 1), -(2f64.powi(128)));
    }

    #[test]
    fn distances_are_those_from_the_mean_itself() {
        let (low, high) = (i128::from(i64::MIN), i128::from(u64::MAX));
        for (terms, n) in [(vec![0, 1, 1], 3), (vec![-2, -1, -1], 3), (vec![high, high - 1], 2)] {
            let sum: i128 = terms.iter().sum();
            for term in terms {
                let expected = (term * n - sum) as f64 / n as f64;
                assert!((term.distance(sum.mean(n as usize)) - expected).abs() < 1e-15);
            }
        }
        // From end to end.
        assert_eq!(low.distance(i128::from(i64::MAX).mean(1)), -(2f64.powi(64)));
        assert_eq!(high.distance(0_i128.mean(1)), 2f64.powi(64));
        assert_eq!((low * 3 + 1).mean(3), (low, 1.0 / 3.0));
    }

    #[test]
    fn integers_are_rounded_once() {
        // By way of f64 this would first become 2^60 + 2^36, a tie, and then 2^60.
        let total = (1i64 << 60) + (1 << 36) + 1;
        assert_ne!(total as f32, total as f64 as f32);
        assert_eq!(round(&[total], DType::F32).unwrap(), TypedVec::F32(vec![total as f32]));
        assert_eq!(round(&[total], DType::I64).unwrap(), TypedVec::I64(vec![total]));
        let wide = round(&[i128::from(total)], DType::C64).unwrap();
        assert_eq!(wide, TypedVec::C64(vec![Complex64::new(total as f32, 0.0)]));
    }

    #[test]
    fn integers_that_do_not_fit_are_named() {
        let error = round(&[i128::from(i64::MAX) + 1], DType::I64).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.message(), "a sum is 9223372036854775808, which int64 cannot hold");
        assert_eq!(round(&[-1i64], DType::U64).unwrap_err().kind(), ErrorKind::InvalidArgument);
        assert_eq!(round(&[1.0f64], DType::I64).unwrap_err().kind(), ErrorKind::Bug);
    }
}
