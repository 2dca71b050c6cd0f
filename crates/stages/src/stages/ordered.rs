//! Pixels compared with numbers.

use framefold_core::{Bool8, Element, F16};

/// Which pixels are meant: those from `low` to `high`.
pub(super) struct Bounds<T: Ordered> {
    low: T::Key,
    pub(super) high: T::Key,
}

impl<T: Ordered> Bounds<T> {
    /// Those from `minimum` on, up to `maximum`; `None` if no pixel can be one.
    pub(super) fn from(minimum: f64, maximum: Option<f64>) -> Option<Self> {
        Bounds::up_to(T::at_least(minimum), maximum)
    }

    /// Those above `threshold`, up to `maximum`; `None` if no pixel can be one.
    pub(super) fn above(threshold: f64, maximum: Option<f64>) -> Option<Self> {
        Bounds::up_to(T::above(threshold), maximum)
    }

    fn up_to(low: Option<T::Key>, maximum: Option<f64>) -> Option<Self> {
        let high = maximum.map_or(Some(T::MOST), T::at_most)?;
        low.map(|low| Bounds { low, high })
    }

    /// Whether the pixel is one of them; NaN never is.
    #[inline(always)]
    pub(super) fn hold(&self, cell: T) -> bool {
        let key = cell.key();
        // Without a branch, so that loops over pixels become vector instructions.
        (key >= self.low) & (key <= self.high)
    }
}

/// A real pixel, compared without loss.
pub(super) trait Ordered: Element {
    type Key: PartialOrd + Copy;
    /// No pixel is above it.
    const MOST: Self::Key;

    fn key(self) -> Self::Key;
    /// The smallest key that is not below `bound`; `None` if all keys are.
    fn at_least(bound: f64) -> Option<Self::Key>;
    /// The smallest key that is above `bound`; `None` if no key is.
    fn above(bound: f64) -> Option<Self::Key>;
    /// The largest key that is not above `bound`; `None` if all keys are.
    fn at_most(bound: f64) -> Option<Self::Key>;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Ordered for $type {
            type Key = $type;
            const MOST: $type = <$type>::MAX;

            #[inline(always)]
            fn key(self) -> $type {
                self
            }

            fn at_least(bound: f64) -> Option<$type> {
                // 2^n for unsigned integers of n bits: beyond the last one.
                let beyond = (<$type>::MAX / 2 + 1) as f64 * 2.0;
                (bound.ceil() < beyond).then_some(bound.ceil() as $type)
            }

            fn above(bound: f64) -> Option<$type> {
                if bound < <$type>::MIN as f64 {
                    return Some(<$type>::MIN);
                }
                let beyond = (<$type>::MAX / 2 + 1) as f64 * 2.0;
                (bound.floor() < beyond).then_some(bound.floor() as $type)?.checked_add(1)
            }

            fn at_most(bound: f64) -> Option<$type> {
                (bound.floor() >= <$type>::MIN as f64).then_some(bound.floor() as $type)
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, i8, i16, i32, i64);

macro_rules! floats {
    ($($type:ty, |$cell:ident| $key:expr);*) => {$(
        impl Ordered for $type {
            type Key = f64;
            const MOST: f64 = f64::INFINITY;

            #[inline(always)]
            fn key(self) -> f64 {
                let $cell = self;
                $key
            }

            fn at_least(bound: f64) -> Option<f64> {
                Some(bound)
            }

            fn above(bound: f64) -> Option<f64> {
                Some(bound.next_up())
            }

            fn at_most(bound: f64) -> Option<f64> {
                Some(bound)
            }
        }
    )*};
}
floats!(
    Bool8, |cell| f64::from(u8::from(cell.get()));
    F16, |cell| f64::from(framefold_core::widen_f16(cell));
    f32, |cell| f64::from(cell);
    f64, |cell| cell
);
