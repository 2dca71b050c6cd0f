//! Small pixels become 0.

use crate::cells::{cells_mut, refuse_dtype, same};
use crate::row::{StageOption, StageRow};
use framefold_core::{
    Bool8, DenseTile, Element, Error, F16, FrameIndices, FrameKind, FramesView, Result, SigSlice,
    Stage, StagePart, TileFrames,
};
use framefold_simd::{Simd, run};
use std::fmt;
use std::sync::Arc;

pub(super) const ROW: StageRow = StageRow {
    name: "threshold",
    summary: "pixels below a value, above a maximum, and NaN become 0",
    value: "MINIMUM",
    options: &[StageOption {
        name: "maximum",
        help: "pixels above this become 0, too [default: none do]",
    }],
    example: "5",
    make: |arguments, input| {
        let (minimum, maximum) = (arguments.number()?, arguments.number_of("maximum")?);
        if maximum.is_some_and(|maximum| maximum < minimum) {
            return Err(arguments.refuse("the maximum is below the minimum"));
        }
        if input.dtype.is_complex() {
            return Err(refuse_dtype("threshold", input.dtype, "complex numbers have no order"));
        }
        Ok(Arc::new(Threshold { minimum, maximum, kind: input }))
    },
};

#[derive(Debug)]
struct Threshold {
    minimum: f64,
    maximum: Option<f64>,
    kind: FrameKind,
}

impl Stage for Threshold {
    fn input(&self) -> &FrameKind {
        &self.kind
    }

    fn output(&self) -> &FrameKind {
        &self.kind
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        Ok(Box::new(Part { read: same(sig, &self.kind.shape)?, stage: self }))
    }
}

struct Part<'s> {
    read: SigSlice,
    stage: &'s Threshold,
}

impl StagePart for Part<'_> {
    fn read(&self) -> &SigSlice {
        &self.read
    }

    fn apply(
        &mut self,
        tile: &DenseTile<'_>,
        _frames: &FrameIndices<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        let (min, max) = (self.stage.minimum, self.stage.maximum);
        match tile.frames() {
            TileFrames::Bool(view) => keep(view, min, max, out),
            TileFrames::U8(view) => keep(view, min, max, out),
            TileFrames::U16(view) => keep(view, min, max, out),
            TileFrames::U32(view) => keep(view, min, max, out),
            TileFrames::U64(view) => keep(view, min, max, out),
            TileFrames::I8(view) => keep(view, min, max, out),
            TileFrames::I16(view) => keep(view, min, max, out),
            TileFrames::I32(view) => keep(view, min, max, out),
            TileFrames::I64(view) => keep(view, min, max, out),
            TileFrames::F16(view) => keep(view, min, max, out),
            TileFrames::F32(view) => keep(view, min, max, out),
            TileFrames::F64(view) => keep(view, min, max, out),
            TileFrames::C64(_) | TileFrames::C128(_) => {
                Err(Error::bug("complex pixels were compared"))
            }
        }
    }
}

/// Writes the cells that are within the bounds, and 0 for the others.
fn keep<T: Ordered>(
    view: FramesView<'_, T>,
    minimum: f64,
    maximum: Option<f64>,
    out: &mut [u8],
) -> Result<()> {
    let out: &mut [T] = cells_mut(out)?;
    let bounds = T::at_least(minimum).zip(maximum.map_or(Some(T::MOST), T::at_most));
    let Some((low, high)) = bounds else {
        out.fill(T::default());
        return Ok(());
    };
    for (frame, out) in view.frames().zip(out.chunks_exact_mut(view.frame_len())) {
        run!(Simd::best(), keep_each(frame, low, high, out));
    }
    Ok(())
}

#[inline(always)]
fn keep_each<T: Ordered>(cells: &[T], low: T::Key, high: T::Key, out: &mut [T]) {
    for (&cell, out) in cells.iter().zip(out) {
        let key = cell.key();
        *out = if key >= low && key <= high { cell } else { T::default() };
    }
}

/// A real pixel, compared without loss.
trait Ordered: Element {
    type Key: PartialOrd + Copy;
    /// No pixel is above it.
    const MOST: Self::Key;

    fn key(self) -> Self::Key;
    /// The smallest key that is not below `bound`; `None` if all keys are.
    fn at_least(bound: f64) -> Option<Self::Key>;
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

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "threshold {}", self.minimum)?;
        self.maximum.map_or(Ok(()), |maximum| write!(f, " maximum={maximum}"))
    }
}
