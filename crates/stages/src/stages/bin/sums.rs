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
        (TileFrames::Bool(view), DType::U32) => add::<_, u32>(view, groups, wide, out),
        (TileFrames::Bool(view), DType::U64) => add::<_, u64>(view, groups, wide, out),
        (TileFrames::U8(view), DType::U32) => add::<_, u32>(view, groups, wide, out),
        (TileFrames::U8(view), DType::U64) => add::<_, u64>(view, groups, wide, out),
        (TileFrames::U16(view), DType::U32) => add::<_, u32>(view, groups, wide, out),
        (TileFrames::U16(view), DType::U64) => add::<_, u64>(view, groups, wide, out),
        (TileFrames::U32(view), DType::U32) => add::<_, u32>(view, groups, wide, out),
        (TileFrames::U32(view), DType::U64) => add::<_, u64>(view, groups, wide, out),
        (TileFrames::I8(view), DType::I32) => add::<_, i32>(view, groups, wide, out),
        (TileFrames::I8(view), DType::I64) => add::<_, i64>(view, groups, wide, out),
        (TileFrames::I16(view), DType::I32) => add::<_, i32>(view, groups, wide, out),
        (TileFrames::I16(view), DType::I64) => add::<_, i64>(view, groups, wide, out),
        (TileFrames::I32(view), DType::I32) => add::<_, i32>(view, groups, wide, out),
        (TileFrames::I32(view), DType::I64) => add::<_, i64>(view, groups, wide, out),
        (TileFrames::U64(view), DType::U64) => checked(view, groups, out, too_large),
        (TileFrames::I64(view), DType::I64) => checked(view, groups, out, too_large),
        (TileFrames::U64(view), DType::F64) => add::<_, f64>(view, groups, wide, out),
        (TileFrames::I64(view), DType::F64) => add::<_, f64>(view, groups, wide, out),
        (TileFrames::F16(view), DType::F64) => add::<_, f64>(view, groups, wide, out),
        (TileFrames::F32(view), DType::F64) => add::<_, f64>(view, groups, wide, out),
        (TileFrames::F64(view), DType::F64) => add::<_, f64>(view, groups, wide, out),
        (TileFrames::C64(view), DType::C128) => add::<_, Complex128>(view, groups, wide, out),
        (TileFrames::C128(view), DType::C128) => add::<_, Complex128>(view, groups, wide, out),
        (frames, added) => {
            Err(Error::bug(format!("pixels of {} were to be added in {added}", frames.dtype())))
        }
    }
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
