//! NumPy's rules for the common dtype of two arrays.

use crate::DType::{self, Bool, C64, C128, F16, F32, F64, I8, I16, I32, I64, U8, U16, U32};

/// The smallest dtype that both convert to safely, as `numpy.result_type(a, b)`.
pub(crate) fn promote(a: DType, b: DType) -> DType {
    if a == b || b == Bool {
        return a;
    }
    if a == Bool {
        return b;
    }
    if a.is_complex() || b.is_complex() {
        let wide = |dtype: DType| dtype == C128 || real_part(dtype) == F64;
        return if wide(a) || wide(b) { C128 } else { C64 };
    }
    if a.is_float() || b.is_float() {
        return wider_float(float_for(a), float_for(b));
    }
    match (is_signed(a), is_signed(b)) {
        (true, true) | (false, false) => {
            if a.size() >= b.size() {
                a
            } else {
                b
            }
        }
        (true, false) => mixed(a, b),
        (false, true) => mixed(b, a),
    }
}

fn is_signed(dtype: DType) -> bool {
    matches!(dtype, I8 | I16 | I32 | I64)
}

/// The integer, or for 64-bit unsigned the float, that holds both.
fn mixed(signed: DType, unsigned: DType) -> DType {
    if signed.size() > unsigned.size() {
        return signed;
    }
    match unsigned {
        U8 => I16,
        U16 => I32,
        U32 => I64,
        _ => F64,
    }
}

/// The float type that holds this real dtype by NumPy's rules.
fn float_for(dtype: DType) -> DType {
    match dtype {
        Bool | U8 | I8 | F16 => F16,
        U16 | I16 | F32 => F32,
        _ => F64,
    }
}

/// The float type of the real part after promotion to complex.
fn real_part(dtype: DType) -> DType {
    match dtype {
        C64 => F32,
        C128 => F64,
        other => float_for(other),
    }
}

fn wider_float(a: DType, b: DType) -> DType {
    if a.size() >= b.size() { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DType::U64;

    /// Rows and columns in the order of `DType::all()`, as printed by NumPy 2.
    const NUMPY: [[DType; 14]; 14] = [
        [Bool, U8, U16, U32, U64, I8, I16, I32, I64, F16, F32, F64, C64, C128],
        [U8, U8, U16, U32, U64, I16, I16, I32, I64, F16, F32, F64, C64, C128],
        [U16, U16, U16, U32, U64, I32, I32, I32, I64, F32, F32, F64, C64, C128],
        [U32, U32, U32, U32, U64, I64, I64, I64, I64, F64, F64, F64, C128, C128],
        [U64, U64, U64, U64, U64, F64, F64, F64, F64, F64, F64, F64, C128, C128],
        [I8, I16, I32, I64, F64, I8, I16, I32, I64, F16, F32, F64, C64, C128],
        [I16, I16, I32, I64, F64, I16, I16, I32, I64, F32, F32, F64, C64, C128],
        [I32, I32, I32, I64, F64, I32, I32, I32, I64, F64, F64, F64, C128, C128],
        [I64, I64, I64, I64, F64, I64, I64, I64, I64, F64, F64, F64, C128, C128],
        [F16, F16, F32, F64, F64, F16, F32, F64, F64, F16, F32, F64, C64, C128],
        [F32, F32, F32, F64, F64, F32, F32, F64, F64, F32, F32, F64, C64, C128],
        [F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, C128, C128],
        [C64, C64, C64, C128, C128, C64, C64, C128, C128, C64, C64, C128, C64, C128],
        [C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128],
    ];

    #[test]
    fn equals_numpy_result_type() {
        for (i, a) in DType::all().enumerate() {
            for (j, b) in DType::all().enumerate() {
                assert_eq!(promote(a, b), NUMPY[i][j], "{a} with {b}");
            }
        }
    }
}
