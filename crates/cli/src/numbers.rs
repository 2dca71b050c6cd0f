//! Values of any dtype as numbers to print, sum up and draw.

use framefold::core::{Bool8, Complex64, Complex128, F16, TypedVec};
use serde_json::{Value, json};
use std::fmt;

/// One value of an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Number {
    Bool(bool),
    Int(i128),
    Real(f64),
    Complex(f64, f64),
}

impl Number {
    /// As JSON: complex numbers as `[re, im]`; what JSON cannot express (NaN, infinities) as null.
    pub(crate) fn to_json(self) -> Value {
        match self {
            Number::Bool(value) => json!(value),
            Number::Int(value) => match (u64::try_from(value), i64::try_from(value)) {
                (Ok(value), _) => json!(value),
                (_, Ok(value)) => json!(value),
                _ => json!(value as f64),
            },
            Number::Real(value) => json!(value),
            Number::Complex(re, im) => json!([re, im]),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Bool(value) => value.fmt(f),
            Number::Int(value) => value.fmt(f),
            Number::Real(value) => value.fmt(f),
            Number::Complex(re, im) => write!(f, "{re}{im:+}i"),
        }
    }
}

/// What each element type is as a [`Number`].
pub(crate) trait ToNumber: Copy {
    /// This value.
    fn number(self) -> Number;
}

macro_rules! to_number {
    ($($type:ty: $value:ident => $number:expr),* $(,)?) => {$(
        impl ToNumber for $type {
            fn number(self) -> Number {
                let $value = self;
                $number
            }
        }
    )*};
}
to_number! {
    Bool8: b => Number::Bool(b.get()),
    u8: n => Number::Int(n.into()),
    u16: n => Number::Int(n.into()),
    u32: n => Number::Int(n.into()),
    u64: n => Number::Int(n.into()),
    i8: n => Number::Int(n.into()),
    i16: n => Number::Int(n.into()),
    i32: n => Number::Int(n.into()),
    i64: n => Number::Int(n.into()),
    F16: x => Number::Real(x.to_f64()),
    f32: x => Number::Real(x.into()),
    f64: x => Number::Real(x),
    Complex64: z => Number::Complex(z.re.into(), z.im.into()),
    Complex128: z => Number::Complex(z.re, z.im),
}

/// Evaluates an expression for the vector inside of a [`TypedVec`], whatever its type.
macro_rules! with_values {
    ($typed:expr, $values:ident => $body:expr) => {
        match $typed {
            framefold::core::TypedVec::Bool($values) => $body,
            framefold::core::TypedVec::U8($values) => $body,
            framefold::core::TypedVec::U16($values) => $body,
            framefold::core::TypedVec::U32($values) => $body,
            framefold::core::TypedVec::U64($values) => $body,
            framefold::core::TypedVec::I8($values) => $body,
            framefold::core::TypedVec::I16($values) => $body,
            framefold::core::TypedVec::I32($values) => $body,
            framefold::core::TypedVec::I64($values) => $body,
            framefold::core::TypedVec::F16($values) => $body,
            framefold::core::TypedVec::F32($values) => $body,
            framefold::core::TypedVec::F64($values) => $body,
            framefold::core::TypedVec::C64($values) => $body,
            framefold::core::TypedVec::C128($values) => $body,
        }
    };
}
pub(crate) use with_values;

/// The value at flat index `index`.
pub(crate) fn number_at(values: &TypedVec, index: usize) -> Option<Number> {
    with_values!(values, values => values.get(index).map(|value| value.number()))
}

/// All values as floating-point numbers: real parts, and imaginary parts (0 for real dtypes).
/// Integers beyond 2^53 are rounded.
pub(crate) fn components(values: &TypedVec) -> (Vec<f64>, Vec<f64>) {
    let split = |number| match number {
        Number::Bool(value) => (f64::from(u8::from(value)), 0.0),
        Number::Int(value) => (value as f64, 0.0),
        Number::Real(value) => (value, 0.0),
        Number::Complex(re, im) => (re, im),
    };
    with_values!(values, values => values.iter().map(|value| split(value.number())).unzip())
}

/// All values as floating-point numbers; of complex numbers, the real part.
pub(crate) fn reals(values: &TypedVec) -> Vec<f64> {
    components(values).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_stay_exact_in_json() {
        for (number, text) in [
            (Number::Int(u64::MAX.into()), "18446744073709551615"),
            (Number::Int(i64::MIN.into()), "-9223372036854775808"),
            (Number::Bool(true), "true"),
            (Number::Real(0.5), "0.5"),
            (Number::Real(f64::NAN), "null"),
            (Number::Complex(1.0, -2.0), "[1.0,-2.0]"),
        ] {
            assert_eq!(number.to_json().to_string(), text);
        }
    }

    #[test]
    fn every_dtype_has_numbers() {
        for dtype in framefold::core::DType::all() {
            let zeros = TypedVec::zeros(dtype, 2);
            assert_eq!(components(&zeros), (vec![0.0; 2], vec![0.0; 2]));
            assert!(number_at(&zeros, 1).is_some() && number_at(&zeros, 2).is_none());
        }
    }
}
