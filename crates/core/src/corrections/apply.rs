//! Correction of a tile, in the one pass that also converts it.

use super::{CorrectedSlice, Corrections};
use crate::cast::CastTo;
use crate::element::for_each_element;
use crate::{
    Complex64, Complex128, DType, DenseTile, Element, Error, FramesView, Result, Scratch,
    TileFrames, TypedVec, dispatch_frames,
};
use std::ops::{AddAssign, Range, Sub};

/// Dark frame and gain map in the dtype of the corrected tiles.
pub struct CorrectionPlanes {
    sig_shape: Vec<usize>,
    planes: Planes,
}

enum Planes {
    F32(Typed<f32>),
    F64(Typed<f64>),
    C64(Typed<Complex64>),
    C128(Typed<Complex128>),
}

struct Typed<T: Corrected> {
    dark: Option<Vec<T>>,
    gain: Option<Gain<T>>,
}

enum Gain<T: Corrected> {
    Real(Vec<T::Real>),
    Full(Vec<T>),
}

impl CorrectionPlanes {
    /// Converts dark frame and gain map to `dtype`, in which tiles are to come out.
    ///
    /// # Errors
    /// `Bug` if that is no dtype of corrected tiles: see [`Corrections::output_dtype`].
    pub fn try_new(corrections: &Corrections, dtype: DType) -> Result<Self> {
        let planes = match dtype {
            DType::F32 => Planes::F32(Typed::new(corrections)),
            DType::F64 => Planes::F64(Typed::new(corrections)),
            DType::C64 => Planes::C64(Typed::new(corrections)),
            DType::C128 => Planes::C128(Typed::new(corrections)),
            other => return Err(Error::bug(format!("a tile of {other} was to be corrected"))),
        };
        Ok(CorrectionPlanes { sig_shape: corrections.sig_shape().to_vec(), planes })
    }

    fn dtype(&self) -> DType {
        match self.planes {
            Planes::F32(_) => DType::F32,
            Planes::F64(_) => DType::F64,
            Planes::C64(_) => DType::C64,
            Planes::C128(_) => DType::C128,
        }
    }
}

/// The corrected cells of a slice, written to `scratch`, where frames lie without gaps.
///
/// `tile` holds the cells of [`CorrectedSlice::read`] as they were read. They are converted to
/// the dtype of `planes` first, and corrected in its precision; only the mean of neighbours is
/// taken in double precision.
///
/// # Errors
/// `Bug` if the tile is complex and is to become real, or has another size.
pub fn correct_tile<'t>(
    tile: &DenseTile<'_>,
    slice: &CorrectedSlice,
    planes: &CorrectionPlanes,
    scratch: &'t mut Scratch,
) -> Result<DenseTile<'t>> {
    let (frames, dtype) = (tile.frames(), planes.dtype());
    let (depth, len) = (frames.depth(), frames.frame_len());
    if len != slice.read().len() || (frames.dtype().is_complex() && !dtype.is_complex()) {
        return Err(Error::bug(format!(
            "a tile of {len} cells of {} was to be corrected as {} cells of {dtype}",
            frames.dtype(),
            slice.read().len()
        )));
    }
    let len_bytes = depth
        .checked_mul(len)
        .and_then(|cells| cells.checked_mul(dtype.size()))
        .ok_or_else(|| Error::limit("a tile does not fit in memory"))?;
    let out = scratch.prepare(len_bytes)?;
    let runs: Vec<Range<usize>> = slice.read().runs(&planes.sig_shape).collect();
    match &planes.planes {
        Planes::F32(planes) => planes.correct(frames, &runs, slice, out)?,
        Planes::F64(planes) => planes.correct(frames, &runs, slice, out)?,
        Planes::C64(planes) => planes.correct(frames, &runs, slice, out)?,
        Planes::C128(planes) => planes.correct(frames, &runs, slice, out)?,
    }
    let scratch: &Scratch = scratch;
    let kept = slice.kept().map_or(len, |kept| kept.iter().map(ExactSizeIterator::len).sum());
    let bytes = &scratch.bytes()[..depth * kept * dtype.size()];
    let frames = TileFrames::from_bytes(dtype, bytes, depth, kept, kept)?;
    DenseTile::lent(frames, scratch.owner())
}

impl<T: Corrected> Typed<T> {
    fn new(corrections: &Corrections) -> Self {
        Typed {
            dark: corrections.dark.as_ref().map(T::from_values),
            gain: corrections.gain.as_ref().map(|gain| {
                if gain.dtype().is_complex() {
                    Gain::Full(T::from_values(gain))
                } else {
                    Gain::Real(T::reals_from_values(gain))
                }
            }),
        }
    }

    fn correct(
        &self,
        frames: TileFrames<'_>,
        runs: &[Range<usize>],
        slice: &CorrectedSlice,
        out: &mut [u8],
    ) -> Result<()> {
        let out: &mut [T] = bytemuck::try_cast_slice_mut(out)
            .map_err(|e| Error::bug(format!("scratch as {}: {e}", T::DTYPE)))?;
        T::fill(frames, self, runs, out);
        let len = frames.frame_len();
        for frame in out.chunks_exact_mut(len) {
            for (cell, neighbours) in slice.repairs() {
                let mut sum = T::Sum::default();
                for &neighbour in neighbours {
                    sum += frame[neighbour as usize].widened();
                }
                frame[cell] = T::mean(sum, neighbours.len());
            }
        }
        if let Some(kept) = slice.kept() {
            // Cells only ever move towards the start, and in order: none is lost.
            let mut end = 0;
            for frame in 0..frames.depth() {
                for run in kept {
                    out.copy_within(frame * len + run.start..frame * len + run.end, end);
                    end += run.len();
                }
            }
        }
        Ok(())
    }

    /// Converts and corrects the frames, run by run.
    fn fill_from<S: CastTo<T> + Element>(
        &self,
        view: FramesView<'_, S>,
        runs: &[Range<usize>],
        out: &mut [T],
    ) {
        for (frame, out) in view.frames().zip(out.chunks_exact_mut(view.frame_len())) {
            let mut start = 0;
            for run in runs {
                let part = start..start + run.len();
                start = part.end;
                self.fill_run(&frame[part.clone()], run.clone(), &mut out[part]);
            }
        }
    }

    fn fill_run<S: CastTo<T> + Copy>(&self, cells: &[S], run: Range<usize>, out: &mut [T]) {
        let cells = cells.iter().zip(out);
        let dark = self.dark.as_ref().map(|dark| &dark[run.clone()]);
        match (dark, &self.gain) {
            (None, None) => cells.for_each(|(cell, out)| *out = cell.cast()),
            (Some(dark), None) => {
                cells.zip(dark).for_each(|((cell, out), &dark)| *out = cell.cast() - dark);
            }
            (None, Some(Gain::Real(gain))) => {
                let cells = cells.zip(&gain[run]);
                cells.for_each(|((cell, out), &gain)| *out = cell.cast().scaled(gain));
            }
            (Some(dark), Some(Gain::Real(gain))) => {
                let cells = cells.zip(dark.iter().zip(&gain[run]));
                cells.for_each(|((cell, out), (&dark, &gain))| {
                    *out = (cell.cast() - dark).scaled(gain);
                });
            }
            (None, Some(Gain::Full(gain))) => {
                let cells = cells.zip(&gain[run]);
                cells.for_each(|((cell, out), &gain)| *out = cell.cast().times(gain));
            }
            (Some(dark), Some(Gain::Full(gain))) => {
                let cells = cells.zip(dark.iter().zip(&gain[run]));
                cells.for_each(|((cell, out), (&dark, &gain))| {
                    *out = (cell.cast() - dark).times(gain);
                });
            }
        }
    }
}

/// What corrected pixels are made of.
trait Corrected: Element + Sub<Output = Self> {
    type Real: Copy;
    /// Double precision, for means.
    type Sum: Default + AddAssign;

    fn from_values(values: &TypedVec) -> Vec<Self>;
    fn reals_from_values(values: &TypedVec) -> Vec<Self::Real>;
    fn fill(frames: TileFrames<'_>, planes: &Typed<Self>, runs: &[Range<usize>], out: &mut [Self]);
    fn scaled(self, gain: Self::Real) -> Self;
    fn times(self, gain: Self) -> Self;
    fn widened(self) -> Self::Sum;
    fn mean(sum: Self::Sum, n: usize) -> Self;
}

/// `values` as `T`.
fn converted<T>(values: &TypedVec) -> Vec<T>
where
    T: Copy,
    Every: ToAll<T>,
{
    Every::to_all(values)
}

/// Carries the conversion from any dtype to one.
struct Every;

trait ToAll<T> {
    fn to_all(values: &TypedVec) -> Vec<T>;
}

macro_rules! conversions {
    ($(($variant:ident, $type:ty)),* $(,)?) => {
        impl<T> ToAll<T> for Every
        where
            $($type: CastTo<T>,)*
        {
            fn to_all(values: &TypedVec) -> Vec<T> {
                match values {
                    $(TypedVec::$variant(values) => {
                        values.iter().map(|&value| CastTo::<T>::cast(value)).collect()
                    })*
                }
            }
        }
    };
}
for_each_element!(conversions);

macro_rules! corrected {
    ($($type:ty, $real:ty, $sum:ty, |$cell:ident| $widened:expr, |$mean:ident| $narrowed:expr);*
        $(;)?) => {$(
        impl Corrected for $type {
            type Real = $real;
            type Sum = $sum;

            fn from_values(values: &TypedVec) -> Vec<Self> {
                converted(values)
            }

            fn reals_from_values(values: &TypedVec) -> Vec<$real> {
                converted(values)
            }

            fn fill(
                frames: TileFrames<'_>,
                planes: &Typed<Self>,
                runs: &[Range<usize>],
                out: &mut [Self],
            ) {
                dispatch_frames!(frames, view => planes.fill_from(view, runs, out));
            }

            #[inline(always)]
            fn scaled(self, gain: $real) -> Self {
                self * gain
            }

            #[inline(always)]
            fn times(self, gain: Self) -> Self {
                self * gain
            }

            #[inline(always)]
            fn widened(self) -> $sum {
                let $cell = self;
                $widened
            }

            #[inline(always)]
            fn mean(sum: $sum, n: usize) -> Self {
                let $mean = sum / n as f64;
                $narrowed
            }
        }
    )*};
}
corrected! {
    f32, f32, f64, |cell| f64::from(cell), |mean| mean as f32;
    f64, f64, f64, |cell| cell, |mean| mean;
    Complex64, f32, Complex128,
        |cell| Complex128::new(f64::from(cell.re), f64::from(cell.im)),
        |mean| Complex64::new(mean.re as f32, mean.im as f32);
    Complex128, f64, Complex128, |cell| cell, |mean| mean;
}
