//! The loops over pixels.

use crate::cells::cells_mut;
use framefold_core::{
    Bool8, Complex64, Complex128, DType, Element, Error, F16, FramesView, Result, Scratch,
    TileFrames, widen_f16,
};
use framefold_simd::{Simd, run};
use std::ops::AddAssign;

/// How the rows of a part of a frame make up rows of bins.
pub(super) struct Groups {
    /// Pixels in a row.
    width: usize,
    /// Rows that follow each other and belong to the same bins.
    rows: usize,
    /// Columns of a bin.
    columns: usize,
    /// For each such group of rows, the row of bins that it is added to.
    bins: Vec<usize>,
    n_bins: usize,
}

impl Groups {
    /// For a part of this shape, which is made of whole bins.
    pub(super) fn new(shape: &[usize], factors: &[usize]) -> Self {
        let n = shape.len();
        let (width, columns) = (shape[n - 1], factors[n - 1]);
        let rows = if n > 1 { factors[n - 2] } else { 1 };
        let n_bins = shape.iter().zip(factors).map(|(len, n)| len / n).product();
        let mut bins = vec![0];
        for axis in 0..n - 1 {
            // Of the last one of these axes, the rows of a bin are one group.
            let (len, per_bin) = match axis + 2 == n {
                true => (shape[axis] / factors[axis], 1),
                false => (shape[axis], factors[axis]),
            };
            let of_axis = shape[axis] / factors[axis];
            bins = bins
                .into_iter()
                .flat_map(|before| (0..len).map(move |at| before * of_axis + at / per_bin))
                .collect();
        }
        Groups { width, rows, columns, bins, n_bins }
    }
}

/// Runs `$body` with `$view` bound to the frames, and `$sum` to the type in which they are added.
macro_rules! dispatch_sums {
    ($frames:expr, $added:expr, |$view:ident, $sum:ident| $body:expr) => {
        dispatch_sums!(@ $frames, $added, $view, $sum, $body;
            (Bool U32 u32) (Bool U64 u64) (U8 U32 u32) (U8 U64 u64) (U16 U32 u32) (U16 U64 u64)
            (U32 U32 u32) (U32 U64 u64) (I8 I32 i32) (I8 I64 i64) (I16 I32 i32) (I16 I64 i64)
            (I32 I32 i32) (I32 I64 i64) (U64 F64 f64) (I64 F64 f64) (F16 F64 f64) (F32 F64 f64)
            (F64 F64 f64) (C64 C128 Complex128) (C128 C128 Complex128))
    };
    (@ $frames:expr, $added:expr, $view:ident, $sum:ident, $body:expr;
        $(($from:ident $to:ident $type:ty))*) => {
        match ($frames, $added) {
            $((TileFrames::$from($view), DType::$to) => {
                type $sum = $type;
                $body
            })*
            (frames, added) => {
                Err(Error::bug(format!("pixels of {} were to be added in {added}", frames.dtype())))
            }
        }
    };
}

/// Writes the sums of all bins of `frames` to `out`, in the dtype `added`.
///
/// # Errors
/// `too_large` for the frame of which a sum of integers of 64 bits does not fit.
pub(super) fn add_groups(
    frames: TileFrames<'_>,
    groups: &Groups,
    added: DType,
    wide: &mut Scratch,
    out: &mut [u8],
    too_large: &dyn Fn(usize) -> Error,
) -> Result<()> {
    match (frames, added) {
        (TileFrames::U64(view), DType::U64) => checked(view, groups, out, too_large),
        (TileFrames::I64(view), DType::I64) => checked(view, groups, out, too_large),
        _ => dispatch_sums!(frames, added, |view, Sum| add::<_, Sum>(view, groups, wide, out)),
    }
}

/// Adds the `i`-th of `frames` to `sums`, in the dtype `added`; of integers of 64 bits that are added as
/// such, in integers of 128 bits.
pub(in crate::stages) fn add_frame_to(
    frames: TileFrames<'_>,
    i: usize,
    added: DType,
    sums: &mut [u8],
) -> Result<()> {
    match (frames, added) {
        (TileFrames::U64(view), DType::U64) => add_each(view.frame(i), wider(sums)?, i128::from),
        (TileFrames::I64(view), DType::I64) => add_each(view.frame(i), wider(sums)?, i128::from),
        _ => dispatch_sums!(frames, added, |view, Sum| {
            let sums: &mut [Sum] = cells_mut(sums)?;
            run!(Simd::best(), add_each(view.frame(i), sums, Widened::<Sum>::widened))
        }),
    }
}

#[inline(always)]
fn add_each<T: Element, A: AddAssign>(
    frame: &[T],
    sums: &mut [A],
    widened: impl Fn(T) -> A,
) -> Result<()> {
    for (sum, &cell) in sums.iter_mut().zip(frame) {
        *sum += widened(cell);
    }
    Ok(())
}

/// Writes sums of integers of 64 bits; false if one does not fit.
pub(in crate::stages) fn narrowed(sums: &mut [u8], dtype: DType, out: &mut [u8]) -> Result<bool> {
    match dtype {
        DType::U64 => narrow::<u64>(wider(sums)?, out),
        DType::I64 => narrow::<i64>(wider(sums)?, out),
        other => Err(Error::bug(format!("sums of {other} in 128 bits"))),
    }
}

fn narrow<T: Element + TryFrom<i128>>(sums: &[i128], out: &mut [u8]) -> Result<bool> {
    for (out, &sum) in cells_mut::<T>(out)?.iter_mut().zip(sums) {
        let Ok(sum) = T::try_from(sum) else { return Ok(false) };
        *out = sum;
    }
    Ok(true)
}

fn wider(sums: &mut [u8]) -> Result<&mut [i128]> {
    bytemuck::try_cast_slice_mut(sums)
        .map_err(|e| Error::bug(format!("sums in integers of 128 bits: {e}")))
}

fn add<T, A>(
    view: FramesView<'_, T>,
    groups: &Groups,
    wide: &mut Scratch,
    out: &mut [u8],
) -> Result<()>
where
    T: Element + Widened<A>,
    A: Element + AddAssign,
{
    let wide = wide.prepare(groups.width * size_of::<A>())?;
    let (wide, out): (&mut [A], &mut [A]) = (cells_mut(wide)?, cells_mut(out)?);
    for (frame, out) in view.frames().zip(out.chunks_exact_mut(groups.n_bins)) {
        run!(Simd::best(), add_frame(frame, groups, wide, out));
    }
    Ok(())
}

#[inline(always)]
fn add_frame<T, A>(frame: &[T], groups: &Groups, wide: &mut [A], out: &mut [A])
where
    T: Element + Widened<A>,
    A: Element + AddAssign,
{
    out.fill(A::default());
    let (width, columns) = (groups.width, groups.columns);
    let n_columns = width / columns;
    for (group, &bins) in frame.chunks_exact(width * groups.rows).zip(&groups.bins) {
        let out = &mut out[bins * n_columns..(bins + 1) * n_columns];
        match columns {
            1 => add_rows::<T, A, 1>(group, width, out),
            2 => add_rows::<T, A, 2>(group, width, out),
            3 => add_rows::<T, A, 3>(group, width, out),
            4 => add_rows::<T, A, 4>(group, width, out),
            8 => add_rows::<T, A, 8>(group, width, out),
            _ => add_wide_rows(group, groups, wide, out),
        }
    }
}

/// Adds bins of `N` columns to `out`, row by row.
#[inline(always)]
fn add_rows<T, A, const N: usize>(rows: &[T], width: usize, out: &mut [A])
where
    T: Element + Widened<A>,
    A: Element + AddAssign,
{
    for row in rows.chunks_exact(width) {
        let (bins, _) = row.as_chunks::<N>();
        for (sum, cells) in out.iter_mut().zip(bins) {
            let mut all = cells[0].widened();
            for &cell in &cells[1..] {
                all += cell.widened();
            }
            *sum += all;
        }
    }
}

/// The same for any number of columns: the rows are added first, so that these are vectors.
#[inline(always)]
fn add_wide_rows<T, A>(rows: &[T], groups: &Groups, wide: &mut [A], out: &mut [A])
where
    T: Element + Widened<A>,
    A: Element + AddAssign,
{
    wide.fill(A::default());
    for row in rows.chunks_exact(groups.width) {
        for (sum, &cell) in wide.iter_mut().zip(row) {
            *sum += cell.widened();
        }
    }
    for (sum, cells) in out.iter_mut().zip(wide.chunks_exact(groups.columns)) {
        for &cell in cells {
            *sum += cell;
        }
    }
}

/// The sums of integers of 64 bits.
fn checked<T>(
    view: FramesView<'_, T>,
    groups: &Groups,
    out: &mut [u8],
    too_large: &dyn Fn(usize) -> Error,
) -> Result<()>
where
    T: Element + Into<i128> + TryFrom<i128>,
{
    let out: &mut [T] = cells_mut(out)?;
    let n_columns = groups.width / groups.columns;
    let mut sums = vec![0i128; groups.n_bins];
    for (n, (frame, out)) in view.frames().zip(out.chunks_exact_mut(groups.n_bins)).enumerate() {
        sums.fill(0);
        for (group, &bins) in frame.chunks_exact(groups.width * groups.rows).zip(&groups.bins) {
            let sums = &mut sums[bins * n_columns..(bins + 1) * n_columns];
            for row in group.chunks_exact(groups.width) {
                for (sum, cells) in sums.iter_mut().zip(row.chunks_exact(groups.columns)) {
                    *sum += cells.iter().map(|&cell| cell.into()).sum::<i128>();
                }
            }
        }
        for (out, &sum) in out.iter_mut().zip(&sums) {
            *out = T::try_from(sum).map_err(|_| too_large(n))?;
        }
    }
    Ok(())
}

/// A pixel in the dtype in which it is added.
trait Widened<A> {
    fn widened(self) -> A;
}

macro_rules! widened {
    ($($from:ty => $to:ty: |$cell:ident| $wide:expr);* $(;)?) => {$(
        impl Widened<$to> for $from {
            #[inline(always)]
            fn widened(self) -> $to {
                let $cell = self;
                $wide
            }
        }
    )*};
}
widened! {
    Bool8 => u32: |cell| u32::from(cell.get());
    Bool8 => u64: |cell| u64::from(cell.get());
    u8 => u32: |cell| u32::from(cell);
    u8 => u64: |cell| u64::from(cell);
    u16 => u32: |cell| u32::from(cell);
    u16 => u64: |cell| u64::from(cell);
    u32 => u32: |cell| cell;
    u32 => u64: |cell| u64::from(cell);
    i8 => i32: |cell| i32::from(cell);
    i8 => i64: |cell| i64::from(cell);
    i16 => i32: |cell| i32::from(cell);
    i16 => i64: |cell| i64::from(cell);
    i32 => i32: |cell| cell;
    i32 => i64: |cell| i64::from(cell);
    u64 => f64: |cell| cell as f64;
    i64 => f64: |cell| cell as f64;
    F16 => f64: |cell| f64::from(widen_f16(cell));
    f32 => f64: |cell| f64::from(cell);
    f64 => f64: |cell| cell;
    Complex64 => Complex128: |cell| Complex128::new(f64::from(cell.re), f64::from(cell.im));
    Complex128 => Complex128: |cell| cell;
}
