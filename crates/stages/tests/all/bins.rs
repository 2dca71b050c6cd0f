//! What bins give, and what they need for it.

use framefold_core::{DType, FrameKind};
use framefold_stages::make;

#[test]
fn sums_get_the_smallest_integer_that_holds_them() {
    use DType::*;
    for (dtype, n, expected) in [
        (U8, 1, U8),
        (U8, 2, U16),
        (U8, 257, U16),
        (U8, 258, U32),
        (U16, 4, U32),
        (U16, 65537, U32),
        (U16, 65538, U64),
        (U32, 2, U64),
        (Bool, 255, U8),
        (Bool, 256, U16),
        (I8, 1, I8),
        (I8, 256, I16),
        (I8, 257, I32),
        (I16, 4, I32),
        (I32, 4, I64),
        (U64, 4, U64),
        (F16, 4, F32),
        (F32, 4, F32),
        (F64, 4, F64),
        (C64, 4, C64),
    ] {
        let stage = make(&format!("bin {n}"), FrameKind { shape: vec![n], dtype }).unwrap();
        assert_eq!(stage.output().dtype, expected, "{n} of {dtype}");
    }
}

#[test]
fn bins_end_where_what_is_read_does() {
    let bin = |factors: &str, shape: &[usize], base: &[usize]| {
        let kind = FrameKind { shape: shape.to_vec(), dtype: DType::U8 };
        make(&format!("bin {factors}"), kind).unwrap().base_shape(base)
    };
    assert_eq!(bin("2", &[256, 256], &[1, 256]), [1, 128]);
    assert_eq!(bin("2", &[256, 256], &[32, 32]), [16, 16]);
    assert_eq!(bin("3", &[256, 256], &[32, 32]), [32, 32]);
    assert_eq!(bin("3", &[9, 9], &[32, 32]), [3, 3]);
}
