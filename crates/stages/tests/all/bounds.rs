//! Pixels compared with numbers.

use crate::ordered::{Bounds, Ordered};

#[test]
fn pixels_above_a_number_are_larger_than_it() {
    assert_eq!(u8::above(10.0), Some(11));
    assert_eq!(u8::above(10.5), Some(11));
    assert_eq!(u8::above(-0.5), Some(0));
    assert_eq!(u8::above(-7.0), Some(0));
    assert_eq!(u8::above(254.5), Some(255));
    assert_eq!((u8::above(255.0), u8::above(300.0)), (None, None));
    assert_eq!(i8::above(-128.5), Some(-128));
    assert_eq!(i8::above(-128.0), Some(-127));
    let large = 2_f64.powi(53);
    assert_eq!(u64::above(large), Some((1 << 53) + 1));
    assert_eq!((u64::above(2_f64.powi(64)), i64::above(2_f64.powi(63))), (None, None));
    let bounds = Bounds::<f32>::above(1.0, Some(3.0)).unwrap();
    let held = [0.5, 1.0, 1.0 + f32::EPSILON, 3.0, 3.5, f32::NAN].map(|cell| bounds.hold(cell));
    assert_eq!(held, [false, false, true, true, false, false]);
}
