//! Which pixels become entries.

use super::tiles::AnyTile;
use framefold_core::{
    Bool8, Complex64, Complex128, DType, Element, Error, F16, Result, dispatch_csr,
    dispatch_frames, memory,
};
use framefold_simd::Simd;

/// Pixels that are looked at together: where none is kept, that is one comparison.
const GROUP: usize = 16;

/// Which pixels are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Threshold {
    /// All that are not 0.
    NotZero,
    /// Those above a number that is not negative, and NaN.
    Above(f64),
}

impl Threshold {
    pub(crate) fn try_new(threshold: Option<f64>, dtype: DType) -> Result<Self> {
        match threshold {
            None => Ok(Threshold::NotZero),
            Some(limit) if !(limit.is_finite() && limit >= 0.0) => Err(Error::invalid(format!(
                "the threshold is {limit}; it has to be finite and 0 or more, since pixels that \
                 are not kept become 0"
            ))),
            Some(_) if dtype.is_complex() => Err(Error::unsupported(format!(
                "pixels of {dtype} are not above or below a number"
            ))
            .with_hint("leave the threshold out: all pixels but zeros are kept")),
            Some(limit) => Ok(Threshold::Above(limit)),
        }
    }
}

/// The entries of one tile. Memory is used again from tile to tile.
#[derive(Default)]
pub(crate) struct Selected {
    row_lens: Vec<usize>,
    columns: Vec<i32>,
    values: Vec<u8>,
}

impl Selected {
    /// Replaces what was selected by the entries of `tile`, whose frames are whole and of no more
    /// pixels than `i32` can count.
    pub(crate) fn take(&mut self, tile: &AnyTile<'_>, threshold: Threshold) -> Result<()> {
        self.row_lens.clear();
        self.columns.clear();
        self.values.clear();
        match tile {
            AnyTile::Dense(tile) => dispatch_frames!(tile.frames(), view => {
                for frame in view.frames() {
                    self.row(threshold, frame, |i| i as u32)?;
                }
            }),
            AnyTile::Sparse(tile) => dispatch_csr!(tile, view => {
                for (columns, values) in view.frames() {
                    let column = |i| columns.get(i).copied().unwrap_or_default();
                    self.row(threshold, values, column)?;
                }
            }),
        }
        Ok(())
    }

    /// The number of entries of each frame.
    pub(crate) fn row_lens(&self) -> &[usize] {
        &self.row_lens
    }

    /// The pixel of each entry.
    pub(crate) fn columns(&self) -> &[i32] {
        &self.columns
    }

    /// The values, as bytes.
    pub(crate) fn values(&self) -> &[u8] {
        &self.values
    }

    /// Adds those of `pixels` that are kept; `column` says where the i-th one lies in its frame.
    fn row<T: Pixel>(
        &mut self,
        threshold: Threshold,
        pixels: &[T],
        column: impl Fn(usize) -> u32,
    ) -> Result<()> {
        let before = self.columns.len();
        match threshold {
            Threshold::NotZero => self.keep(pixels, column, NotZero)?,
            Threshold::Above(limit) => self.keep(pixels, column, Above(T::limit(limit)))?,
        }
        memory::push(&mut self.row_lens, self.columns.len() - before)
    }

    fn keep<T: Pixel>(
        &mut self,
        pixels: &[T],
        column: impl Fn(usize) -> u32,
        which: impl Which<T>,
    ) -> Result<()> {
        let simd = Simd::best();
        let mut first = 0;
        while let Some(next) = framefold_simd::run!(simd, next_hit(pixels, first, which)) {
            memory::grow(&mut self.columns, GROUP)?;
            memory::grow(&mut self.values, GROUP * size_of::<T>())?;
            let group = pixels.get(next..).unwrap_or_default().iter().take(GROUP);
            for (i, &pixel) in (next..).zip(group) {
                if which.keeps(pixel) {
                    self.columns.push(column(i).cast_signed());
                    self.values.extend_from_slice(bytemuck::bytes_of(&pixel));
                }
            }
            first = next + GROUP;
        }
        Ok(())
    }
}

/// The start of the next group, from `first` on, of which any pixel is kept.
#[inline(always)]
fn next_hit<T: Pixel>(pixels: &[T], first: usize, which: impl Which<T>) -> Option<usize> {
    let (groups, _) = pixels.get(first..)?.as_chunks::<GROUP>();
    for (i, group) in groups.iter().enumerate() {
        let mut any = false;
        for &pixel in group {
            any |= which.keeps(pixel);
        }
        if any {
            return Some(first + i * GROUP);
        }
    }
    let rest = first + groups.len() * GROUP;
    (rest < pixels.len()).then_some(rest)
}

/// Which elements are kept.
trait Which<T>: Copy {
    fn keeps(self, pixel: T) -> bool;
}

#[derive(Clone, Copy)]
struct NotZero;

impl<T: Pixel> Which<T> for NotZero {
    #[inline(always)]
    fn keeps(self, pixel: T) -> bool {
        pixel != T::default()
    }
}

#[derive(Clone, Copy)]
struct Above<L>(L);

impl<T: Pixel> Which<T> for Above<T::Limit> {
    #[inline(always)]
    fn keeps(self, pixel: T) -> bool {
        pixel.is_above(self.0)
    }
}

/// Elements that can be held against a number.
trait Pixel: Element {
    type Limit: Copy;

    /// What pixels are held against, for a number that is not negative.
    fn limit(number: f64) -> Self::Limit;

    fn is_above(self, limit: Self::Limit) -> bool;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Pixel for $type {
            type Limit = $type;

            /// Rounded down, and at most the largest of all, which nothing is above.
            fn limit(number: f64) -> $type {
                number.floor() as $type
            }

            #[inline(always)]
            fn is_above(self, limit: $type) -> bool {
                self > limit
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, i8, i16, i32, i64);

macro_rules! reals {
    ($($type:ty: $self:ident => $real:expr),* $(,)?) => {$(
        impl Pixel for $type {
            type Limit = f64;

            fn limit(number: f64) -> f64 {
                number
            }

            #[inline(always)]
            fn is_above(self, limit: f64) -> bool {
                let $self = self;
                let real: f64 = $real;
                real > limit || real.is_nan()
            }
        }
    )*};
}
reals!(
    Bool8: b => f64::from(u8::from(b.get())),
    F16: h => h.to_f64(),
    f32: x => f64::from(x),
    f64: x => x,
);

macro_rules! complex {
    ($($type:ty),*) => {$(
        // Never asked for: a threshold for complex pixels is refused.
        impl Pixel for $type {
            type Limit = ();

            fn limit(_: f64) {}

            fn is_above(self, (): ()) -> bool {
                true
            }
        }
    )*};
}
complex!(Complex64, Complex128);

#[cfg(test)]
mod tests {
    use super::*;

    fn kept<T: Pixel>(pixels: &[T], threshold: Option<f64>) -> Vec<i32> {
        let threshold = Threshold::try_new(threshold, T::DTYPE).unwrap();
        let mut selected = Selected::default();
        selected.row(threshold, pixels, |i| i as u32).unwrap();
        assert_eq!(selected.row_lens, [selected.columns.len()]);
        assert_eq!(selected.values.len(), selected.columns.len() * size_of::<T>());
        selected.columns
    }

    #[test]
    fn thresholds_of_integers_are_exact() {
        assert_eq!(kept(&[0u8, 1, 2, 255], None), [1, 2, 3]);
        assert_eq!(kept(&[0u8, 1, 2, 255], Some(0.0)), [1, 2, 3]);
        assert_eq!(kept(&[0u8, 1, 2, 255], Some(1.0)), [2, 3]);
        assert_eq!(kept(&[0u8, 1, 2, 255], Some(1.5)), [2, 3]);
        assert_eq!(kept(&[0u8, 1, 2, 255], Some(254.9)), [3]);
        assert_eq!(kept(&[255u8], Some(1e30)), [0; 0]);
        assert_eq!(kept(&[-5i16, 0, 5], None), [0, 2]);
        assert_eq!(kept(&[-5i16, 0, 5], Some(0.0)), [2]);
        let large = 1u64 << 53;
        assert_eq!(kept(&[large, large + 1, u64::MAX], Some(large as f64)), [1, 2]);
    }

    #[test]
    fn nan_is_always_kept_and_negative_zero_never() {
        let pixels = [f32::NAN, -0.0, 0.0, -1.0, 0.25, f32::INFINITY, f32::NEG_INFINITY];
        assert_eq!(kept(&pixels, None), [0, 3, 4, 5, 6]);
        assert_eq!(kept(&pixels, Some(0.25)), [0, 5]);
        assert_eq!(kept(&pixels.map(F16::from_f32), Some(0.2)), [0, 4, 5]);
        assert_eq!(kept(&[0.1f32], Some(0.1)), [0], "0.1f32 is above 0.1");
        assert_eq!(kept(&[Bool8(0), Bool8(1)], Some(0.5)), [1]);
        assert_eq!(kept(&[Complex64::new(0.0, -1.0), Complex64::default()], None), [0]);
    }

    #[test]
    fn thresholds_that_make_no_sense() {
        for limit in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(Threshold::try_new(Some(limit), DType::F32).is_err(), "{limit}");
        }
        assert!(Threshold::try_new(Some(1.0), DType::C64).is_err());
        assert!(Threshold::try_new(None, DType::C64).is_ok());
    }

    #[test]
    fn groups_at_every_place() {
        for len in [1, 15, 16, 17, 100] {
            for place in 0..len {
                let mut pixels = vec![0u16; len];
                pixels[place] = 7;
                assert_eq!(kept(&pixels, Some(6.0)), [place as i32]);
            }
        }
    }
}
