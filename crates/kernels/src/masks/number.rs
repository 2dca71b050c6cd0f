//! The two precisions of a product.

use super::lanes::{Float, LANES, Lanes};

/// What is multiplied and summed within a block: `f32` or `f64`.
pub(super) trait Number: Float + Copy + Default + Send + Sync + 'static {
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

/// A mask's value, as it is kept, for sums of `S`.
pub(super) trait Weight<S>: Number {
    /// Takes values into registers.
    fn load<L: Lanes<S>>(lanes: L, values: &[Self; LANES]) -> L::Row;
}

impl Weight<f32> for f32 {
    #[inline(always)]
    fn load<L: Lanes<f32>>(lanes: L, values: &[f32; LANES]) -> L::Row {
        lanes.load(values)
    }
}

impl Weight<f64> for f32 {
    #[inline(always)]
    fn load<L: Lanes<f64>>(lanes: L, values: &[f32; LANES]) -> L::Row {
        lanes.load_single(values)
    }
}

impl Weight<f64> for f64 {
    #[inline(always)]
    fn load<L: Lanes<f64>>(lanes: L, values: &[f64; LANES]) -> L::Row {
        lanes.load(values)
    }
}
