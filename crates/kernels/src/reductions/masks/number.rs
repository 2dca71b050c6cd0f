//! The two precisions of a product, and what is multiplied in them.

use super::lanes::{Float, LANES, Lanes, Load, Loads};

/// What is multiplied and summed within a block: `f32` or `f64`.
pub(super) trait Number: Float + Operand<Self> + Send + Sync + 'static {
    /// Rounded from double precision; nothing is lost where the precision was chosen well.
    fn narrow(value: f64) -> Self;

    /// In double precision.
    fn wide(self) -> f64;
}

impl Number for f32 {
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value as f32
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

impl Number for f64 {
    #[inline(always)]
    fn narrow(value: f64) -> Self {
        value
    }

    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
}

/// A pixel or a mask's value, as it is kept, for sums of `S`.
pub(super) trait Operand<S>: Copy + Default {
    /// Takes values into registers.
    fn load<L: Loads<S>>(lanes: L, values: &[Self; LANES]) -> <L as Lanes<S>>::Row;
}

macro_rules! operands {
    ($($number:ty: $($cell:ty),*);*) => {$($(
        impl Operand<$number> for $cell {
            #[inline(always)]
            fn load<L: Loads<$number>>(
                lanes: L,
                values: &[$cell; LANES],
            ) -> <L as Lanes<$number>>::Row {
                <L as Load<$cell, $number>>::load(lanes, values)
            }
        }
    )*)*};
}
operands!(f32: u8, i8, u16, i16, f32; f64: f32, f64);
