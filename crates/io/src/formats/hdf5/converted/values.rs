//! What the HDF5 library makes of single values.

use framefold_core::{Complex64, Complex128, DType, Element, Error, FramesView, Result};

/// Frame and value of the first one that is odd.
pub(super) type Written = std::result::Result<(), (usize, f64)>;

/// Writes the cells as integers of that dtype.
///
/// # Errors
/// As [`write`].
pub(super) fn to_integers<S>(
    view: FramesView<'_, S>,
    dtype: DType,
    clips: bool,
    out: &mut [u8],
) -> Result<Written>
where
    S: Element + Becomes<u8> + Becomes<u16> + Becomes<u32> + Becomes<u64>,
    S: Becomes<i8> + Becomes<i16> + Becomes<i32> + Becomes<i64>,
{
    match dtype {
        DType::U8 => write::<S, u8>(view, clips, out),
        DType::U16 => write::<S, u16>(view, clips, out),
        DType::U32 => write::<S, u32>(view, clips, out),
        DType::U64 => write::<S, u64>(view, clips, out),
        DType::I8 => write::<S, i8>(view, clips, out),
        DType::I16 => write::<S, i16>(view, clips, out),
        DType::I32 => write::<S, i32>(view, clips, out),
        DType::I64 => write::<S, i64>(view, clips, out),
        other => Err(Error::bug(format!("{other} was taken for an integer"))),
    }
}

/// Writes the cells one by one; unless values that do not fit may be clipped, they are odd.
///
/// # Errors
/// `Bug` if `out` is no memory for them.
pub(super) fn write<S: Element + Becomes<T>, T: Element>(
    view: FramesView<'_, S>,
    clips: bool,
    out: &mut [u8],
) -> Result<Written> {
    let out: &mut [T] = bytemuck::try_cast_slice_mut(out)
        .map_err(|error| Error::bug(format!("scratch as {}: {error}", T::DTYPE)))?;
    // What must not happen to any value.
    let odd = if clips { ODD } else { ODD | CLIPPED };
    for (number, (cells, out)) in
        view.frames().zip(out.chunks_exact_mut(view.frame_len())).enumerate()
    {
        let mut seen = 0;
        for (cell, out) in cells.iter().zip(out) {
            let (value, what) = cell.becomes();
            *out = value;
            seen |= what;
        }
        if seen & odd != 0 {
            let first = cells.iter().find(|cell| cell.becomes().1 & odd != 0);
            return Ok(Err((number, first.map_or(f64::NAN, |cell| cell.shown()))));
        }
    }
    Ok(Ok(()))
}

/// The value did not fit.
const CLIPPED: u8 = 1;
/// The library makes this or that of it.
const ODD: u8 = 2;

/// What the library makes of a value, and what is to be said about it.
pub(super) trait Becomes<T>: Copy {
    fn becomes(self) -> (T, u8);

    /// For messages.
    fn shown(self) -> f64;
}

macro_rules! integers {
    ($from:ty => $($to:ty),*) => {$(
        impl Becomes<$to> for $from {
            #[inline(always)]
            fn becomes(self) -> ($to, u8) {
                #[allow(unused_comparisons, reason = "one macro for numbers with and without sign")]
                let limit = if self < 0 { <$to>::MIN } else { <$to>::MAX };
                <$to>::try_from(self).map_or((limit, CLIPPED), |value| (value, 0))
            }

            fn shown(self) -> f64 {
                self as f64
            }
        }
    )*};
}
macro_rules! floats {
    ($from:ty => $($to:ty),*) => {$(
        impl Becomes<$to> for $from {
            #[inline(always)]
            fn becomes(self) -> ($to, u8) {
                /// The largest integer, rounded up where this float cannot hold it.
                const LARGEST: $from = <$to>::MAX as $from;
                // In the widest integer, rounding shows.
                const ROUNDED: bool = LARGEST as i128 != <$to>::MAX as i128;
                let odd = self.is_nan() || (ROUNDED && self == LARGEST);
                (self as $to, if odd { ODD } else { 0 })
            }

            fn shown(self) -> f64 {
                f64::from(self)
            }
        }
    )*};
}
macro_rules! to_all_integers {
    ($macro:ident: $($from:ty),*) => {
        $($macro!($from => u8, u16, u32, u64, i8, i16, i32, i64);)*
    };
}
to_all_integers!(integers: u8, u16, u32, u64, i8, i16, i32, i64);
to_all_integers!(floats: f32, f64);

/// What is beyond the largest number is infinite, however near it is.
impl Becomes<f32> for f64 {
    #[inline(always)]
    fn becomes(self) -> (f32, u8) {
        let value = match self {
            _ if self > f64::from(f32::MAX) => f32::INFINITY,
            _ if self < f64::from(f32::MIN) => f32::NEG_INFINITY,
            _ => self as f32,
        };
        (value, 0)
    }

    fn shown(self) -> f64 {
        self
    }
}

impl Becomes<Complex64> for Complex128 {
    #[inline(always)]
    fn becomes(self) -> (Complex64, u8) {
        let part = |part: f64| -> f32 { part.becomes().0 };
        (Complex64::new(part(self.re), part(self.im)), 0)
    }

    fn shown(self) -> f64 {
        self.re
    }
}
