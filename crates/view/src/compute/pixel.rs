//! Pixels, and the loops over runs of them.
//!
//! Sums of integers are kept in integers: in blocks that are as narrow as can be, so that vectors hold many of
//! them, and from there in totals that no frame can exceed. Those of floating-point numbers are in double
//! precision, in a fixed order that leaves room for vectors.

use framefold::core::{Bool8, DType, Element, F16, FramesView, TileFrames, widen_f16};
use std::ops::{AddAssign, Neg};

/// A real pixel.
pub(crate) trait Pixel: Element + PartialOrd {
    /// What a block of pixels is summed in.
    type Block: Copy + Default + AddAssign;
    /// What blocks are summed in.
    type Total: Total;
    /// The number of pixels that a block takes.
    const BLOCK: usize;
    /// Whether they are integers that double precision need not hold.
    const IS_WIDE: bool = matches!(Self::DTYPE, DType::I64 | DType::U64);

    /// The cells of a tile, if they are of this type.
    fn view(frames: TileFrames<'_>) -> Option<FramesView<'_, Self>>;
    fn block(self) -> Self::Block;
    fn total(block: Self::Block) -> Self::Total;
    fn value(self) -> f64;
    /// NaN wins.
    fn larger(self, other: Self) -> Self;
}

/// A sum.
pub(crate) trait Total:
    Copy + Default + AddAssign + Neg<Output = Self> + Send + 'static
{
    /// Rounded once.
    fn value(self) -> f64;
    fn times(self, factor: i64) -> Self;
    /// As an integer of 64 bits, if it is one.
    fn whole(self) -> Option<i64>;
}

macro_rules! total {
    ($type:ty, |$total:ident| $to_whole:expr) => {
        impl Total for $type {
            #[inline(always)]
            fn value(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn times(self, factor: i64) -> Self {
                self * factor as $type
            }

            #[inline(always)]
            fn whole(self) -> Option<i64> {
                let $total = self;
                $to_whole
            }
        }
    };
}
total!(i64, |total| Some(total));
total!(i128, |total| i64::try_from(total).ok());
total!(f64, |_total| None);

macro_rules! pixel {
    ($variant:ident $type:ty, $block:ty, $total:ty, $most:expr, |$pixel:ident| $to_block:expr, $to_value:expr, $nan:expr) => {
        impl Pixel for $type {
            type Block = $block;
            type Total = $total;
            const BLOCK: usize = $most;

            fn view(frames: TileFrames<'_>) -> Option<FramesView<'_, Self>> {
                match frames {
                    TileFrames::$variant(view) => Some(view),
                    _ => None,
                }
            }

            #[inline(always)]
            fn block(self) -> $block {
                let $pixel = self;
                $to_block
            }

            #[inline(always)]
            fn total(block: $block) -> $total {
                block as $total
            }

            #[inline(always)]
            fn value(self) -> f64 {
                let $pixel = self;
                $to_value
            }

            #[inline(always)]
            fn larger(self, other: Self) -> Self {
                let $pixel = other;
                if (other > self) | $nan { other } else { self }
            }
        }
    };
}
macro_rules! integers {
    ($($variant:ident $type:ty, $block:ty, $total:ty, $most:expr;)*) => {$(
        pixel!($variant $type, $block, $total, $most, |pixel| pixel as $block, pixel as f64, {
            let _ = pixel;
            false
        });
    )*};
}
// Moments are totals times a row or a column: 2^32 pixels of 32 bits times 2^31 of them would not fit 64 bits.
integers! {
    U8 u8, u32, i64, 1 << 16;
    I8 i8, i32, i64, 1 << 16;
    U16 u16, u32, i64, 1 << 16;
    I16 i16, i32, i64, 1 << 15;
    U32 u32, i64, i128, 1 << 30;
    I32 i32, i64, i128, 1 << 30;
    U64 u64, i128, i128, 1 << 30;
    I64 i64, i128, i128, 1 << 30;
}
pixel!(Bool Bool8, u32, i64, 1 << 16, |pixel| u32::from(pixel.get()), f64::from(u8::from(pixel.get())), {
    let _ = pixel;
    false
});
pixel!(F16 F16, f64, f64, usize::MAX, |pixel| f64::from(widen_f16(pixel)), f64::from(widen_f16(pixel)), pixel.is_nan());
pixel!(F32 f32, f64, f64, usize::MAX, |pixel| f64::from(pixel), f64::from(pixel), pixel.is_nan());
pixel!(F64 f64, f64, f64, usize::MAX, |pixel| pixel, pixel, pixel.is_nan());

/// So many sums go on side by side.
const LANES: usize = 16;

/// The sum of a run.
#[inline(always)]
pub(crate) fn sum<T: Pixel>(run: &[T]) -> T::Total {
    let mut total = T::Total::default();
    for part in run.chunks(T::BLOCK) {
        let (groups, rest) = part.as_chunks::<LANES>();
        let mut lanes = [T::Block::default(); LANES];
        for group in groups {
            for (lane, pixel) in lanes.iter_mut().zip(group) {
                *lane += pixel.block();
            }
        }
        let mut block = T::Block::default();
        lanes.into_iter().for_each(|lane| block += lane);
        rest.iter().for_each(|pixel| block += pixel.block());
        total += T::total(block);
    }
    total
}

/// Adds each pixel of a run to a sum of its own.
#[inline(always)]
pub(crate) fn add_each<T: Pixel>(sums: &mut [T::Block], run: &[T]) {
    for (sum, pixel) in sums.iter_mut().zip(run) {
        *sum += pixel.block();
    }
}

/// `Σ term(pixel, weight)` over a run and as many weights.
#[inline(always)]
pub(crate) fn sum_of<T: Pixel>(run: &[T], weights: &[f32], term: impl Fn(f64, f32) -> f64) -> f64 {
    let ((groups, rest), (weight_groups, weights_left)) =
        (run.as_chunks::<LANES>(), weights.as_chunks::<LANES>());
    let mut lanes = [0.0; LANES];
    for (group, weights) in groups.iter().zip(weight_groups) {
        for ((lane, pixel), &weight) in lanes.iter_mut().zip(group).zip(weights) {
            *lane += term(pixel.value(), weight);
        }
    }
    let left = rest.iter().zip(weights_left);
    lanes.into_iter().sum::<f64>() + left.map(|(pixel, &w)| term(pixel.value(), w)).sum::<f64>()
}

/// The largest of those of a run, and `start`.
#[inline(always)]
pub(crate) fn largest<T: Pixel>(run: &[T], start: T) -> T {
    let (groups, rest) = run.as_chunks::<LANES>();
    let mut lanes = [start; LANES];
    for group in groups {
        for (lane, &pixel) in lanes.iter_mut().zip(group) {
            *lane = lane.larger(pixel);
        }
    }
    let all = lanes.into_iter().chain(rest.iter().copied());
    all.fold(start, |largest, pixel| largest.larger(pixel))
}

/// Runs `$body` with `$T` bound to the type of a real dtype; complex ones are an error.
macro_rules! dispatch_real {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::compute::pixel::dispatch_real!(@match $dtype, $T, $body;
            Bool ::framefold::core::Bool8, U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32,
            I64 i64, F16 ::framefold::core::F16, F32 f32, F64 f64)
    };
    (@match $dtype:expr, $T:ident, $body:expr; $($variant:ident $type:ty),*) => {
        match $dtype {
            $(::framefold::core::DType::$variant => {
                type $T = $type;
                $body
            })*
            other => return Err($crate::compute::pixel::refuse_complex(other)),
        }
    };
}
pub(crate) use dispatch_real;

/// Frames of complex numbers are not shown.
pub(crate) fn refuse_complex(dtype: framefold::core::DType) -> framefold::Error {
    framefold::Error::unsupported(format!(
        "frames of {dtype} are not shown: complex pixels have no brightness"
    ))
    .with_hint(
        "show their magnitude or phase: in Python, pipe the data through an ff.Transform with \
         out[:] = np.abs(frame), for ff.view, or to write a copy with ctx.convert",
    )
}
