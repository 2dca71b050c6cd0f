//! Comparison of results with what they should be.

use framefold_core::{Complex128, DType, Error, NativeArray, Result, TypedVec};

/// What a result should be.
#[derive(Clone, Debug)]
pub enum Expected {
    /// Exactly this; NaN equals NaN.
    Same(NativeArray),
    /// These values in this dtype, each up to its own tolerance.
    Near {
        /// The shape of the result.
        shape: Vec<usize>,
        /// The dtype of the result.
        dtype: DType,
        /// The values in double precision.
        values: Vec<Complex128>,
        /// The largest allowed distance, cell by cell; the rounding to `dtype` comes on top.
        tolerances: Vec<f64>,
    },
}

impl Expected {
    /// Compares `found` with what it should be.
    ///
    /// # Errors
    /// `Bug` that names the first cell that differs.
    pub fn check(&self, found: &NativeArray) -> Result<()> {
        match self {
            Expected::Same(expected) => assert_same(found, expected),
            Expected::Near { shape, dtype, values, tolerances } => {
                if found.shape() != shape || found.dtype() != *dtype {
                    return Err(Error::bug(format!(
                        "found {} {:?}, expected {dtype} {shape:?}",
                        found.dtype(),
                        found.shape()
                    )));
                }
                let rounding = match dtype {
                    DType::F32 | DType::C64 => f64::from(f32::EPSILON),
                    _ => f64::EPSILON,
                };
                let found = numbers(found.values());
                let cells = found.iter().zip(values).zip(tolerances);
                for (cell, ((&found, &value), &tolerance)) in cells.enumerate() {
                    let tolerance = tolerance + 2.0 * rounding * magnitude(value);
                    let near = |a, b| near(a, b, tolerance, *dtype);
                    if !near(found.re, value.re) || !near(found.im, value.im) {
                        return Err(Error::bug(format!(
                            "cell {cell} is {found}, expected {value} ± {tolerance:e}"
                        )));
                    }
                }
                Ok(())
            }
        }
    }
}

fn near(found: f64, expected: f64, tolerance: f64, dtype: DType) -> bool {
    let rounded = match dtype {
        DType::F32 | DType::C64 => f64::from(expected as f32),
        _ => expected,
    };
    if tolerance == f64::INFINITY {
        return true;
    }
    found == rounded
        || (found.is_nan() && rounded.is_nan())
        || (found - expected).abs() <= tolerance
}

/// A bound for the magnitude of the finite parts of a number: NaN and infinities have no rounding
/// errors.
pub(crate) fn magnitude(z: Complex128) -> f64 {
    [z.re, z.im].into_iter().filter(|part| part.is_finite()).map(f64::abs).sum()
}

/// Compares two arrays cell by cell; NaN equals NaN, and 0 equals -0.
///
/// # Errors
/// `Bug` that names the first cell that differs.
pub fn assert_same(found: &NativeArray, expected: &NativeArray) -> Result<()> {
    if found.shape() != expected.shape() || found.dtype() != expected.dtype() {
        return Err(Error::bug(format!(
            "found {} {:?}, expected {} {:?}",
            found.dtype(),
            found.shape(),
            expected.dtype(),
            expected.shape()
        )));
    }
    if found.values() == expected.values() {
        return Ok(());
    }
    // Values differ or there is NaN; integers beyond 2^53 must be compared as what they are.
    if !found.dtype().is_float() && !found.dtype().is_complex() {
        let size = found.dtype().size();
        let bytes = |array: &NativeArray| array.values().as_bytes().to_vec();
        let (found, expected) = (bytes(found), bytes(expected));
        let cells = found.chunks(size).zip(expected.chunks(size));
        let cell = cells.enumerate().find(|(_, (a, b))| a != b).map_or(0, |(cell, _)| cell);
        return Err(Error::bug(format!("cell {cell} differs")));
    }
    let (found, expected) = (numbers(found.values()), numbers(expected.values()));
    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    for (cell, (a, b)) in found.iter().zip(&expected).enumerate() {
        if !same(a.re, b.re) || !same(a.im, b.im) {
            return Err(Error::bug(format!("cell {cell} is {a}, expected {b}")));
        }
    }
    Ok(())
}

/// All values as complex numbers in double precision.
pub(crate) fn numbers(values: &TypedVec) -> Vec<Complex128> {
    fn real<T: Copy>(values: &[T], convert: impl Fn(T) -> f64) -> Vec<Complex128> {
        values.iter().map(|&value| Complex128::new(convert(value), 0.0)).collect()
    }
    match values {
        TypedVec::Bool(v) => real(v, |x| f64::from(u8::from(x.get()))),
        TypedVec::U8(v) => real(v, f64::from),
        TypedVec::U16(v) => real(v, f64::from),
        TypedVec::U32(v) => real(v, f64::from),
        TypedVec::U64(v) => real(v, |x| x as f64),
        TypedVec::I8(v) => real(v, f64::from),
        TypedVec::I16(v) => real(v, f64::from),
        TypedVec::I32(v) => real(v, f64::from),
        TypedVec::I64(v) => real(v, |x| x as f64),
        TypedVec::F16(v) => real(v, f64::from),
        TypedVec::F32(v) => real(v, f64::from),
        TypedVec::F64(v) => real(v, |x| x),
        TypedVec::C64(v) => {
            v.iter().map(|z| Complex128::new(f64::from(z.re), f64::from(z.im))).collect()
        }
        TypedVec::C128(v) => v.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(values: &[f32]) -> NativeArray {
        NativeArray::try_new(&[values.len()], values.to_vec()).unwrap()
    }

    #[test]
    fn nan_equals_nan_and_nothing_else() {
        assert!(assert_same(&array(&[1.0, f32::NAN]), &array(&[1.0, f32::NAN])).is_ok());
        assert!(assert_same(&array(&[f32::NAN, 1.0]), &array(&[1.0, f32::NAN])).is_err());
        assert!(assert_same(&array(&[1.0]), &array(&[1.0, 1.0])).is_err());
    }

    #[test]
    fn large_integers_are_not_compared_as_floats() {
        let array = |value: u64| NativeArray::try_new(&[1], vec![value]).unwrap();
        assert!(assert_same(&array(u64::MAX), &array(u64::MAX - 1)).is_err());
    }

    #[test]
    fn parts_of_a_complex_number_are_compared_one_by_one() {
        let value = Complex128::new(f64::NAN, 3.0);
        let expected = Expected::Near {
            shape: vec![1],
            dtype: DType::C128,
            values: vec![value],
            tolerances: vec![0.1],
        };
        let array = |z| NativeArray::try_new(&[1], vec![z]).unwrap();
        assert!(expected.check(&array(Complex128::new(f64::NAN, 3.05))).is_ok());
        assert!(expected.check(&array(Complex128::new(f64::NAN, 3.15))).is_err());
        assert!(expected.check(&array(Complex128::new(1.0, 3.0))).is_err());
    }

    #[test]
    fn tolerance_is_per_cell() {
        let expected = Expected::Near {
            shape: vec![2],
            dtype: DType::F32,
            values: vec![Complex128::new(1.0, 0.0), Complex128::new(f64::INFINITY, 0.0)],
            tolerances: vec![0.1, 0.0],
        };
        assert!(expected.check(&array(&[1.05, f32::INFINITY])).is_ok());
        assert!(expected.check(&array(&[1.15, f32::INFINITY])).is_err());
        assert!(expected.check(&array(&[1.05, f32::NAN])).is_err());
        assert!(expected.check(&array(&[1.05, 1e30])).is_err());
    }
}
