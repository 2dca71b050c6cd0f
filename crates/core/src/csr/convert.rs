//! From sparse to dense tiles and back, and from one dtype to another.

use super::{CsrScratch, CsrTile, CsrView, TypedSlice, stray_column};
use crate::cast::CastTo;
use crate::element::for_each_element;
use crate::{
    DType, DenseTile, Element, Error, FramesView, Result, Scratch, TileFrames, dispatch_csr,
    dispatch_frames,
};

/// The tile with its zeros written out, in the same dtype, into `scratch`.
///
/// # Errors
/// `LimitExceeded` if it does not fit in memory.
pub fn densify<'t>(tile: &CsrTile<'_>, scratch: &'t mut Scratch) -> Result<DenseTile<'t>> {
    let (depth, len, dtype) = (tile.depth(), tile.frame_len(), tile.dtype());
    let len_bytes = depth
        .checked_mul(len)
        .and_then(|cells| cells.checked_mul(dtype.size()))
        .ok_or_else(|| Error::limit("a tile does not fit in memory"))?;
    let out = scratch.prepare(len_bytes)?;
    out.fill(0);
    dispatch_csr!(tile, view => spread(view, out))?;
    let scratch: &Scratch = scratch;
    let frames = TileFrames::from_bytes(dtype, &scratch.bytes()[..len_bytes], depth, len, len)?;
    DenseTile::lent(frames, scratch.owner())
}

fn spread<T: Element>(view: CsrView<'_, T>, out: &mut [u8]) -> Result<()> {
    let out: &mut [T] = bytemuck::try_cast_slice_mut(out)
        .map_err(|e| Error::bug(format!("scratch as {}: {e}", T::DTYPE)))?;
    for ((columns, values), out) in view.frames().zip(out.chunks_exact_mut(view.frame_len())) {
        for (&column, &value) in columns.iter().zip(values) {
            match out.get_mut(column as usize) {
                Some(cell) => *cell = value,
                None => return Err(stray_column(column, out.len())),
            }
        }
    }
    Ok(())
}

/// The pixels of a dense tile that are not zero, in the same dtype, written into `scratch`.
///
/// NaN is not zero; negative zero is.
///
/// # Errors
/// `LimitExceeded` for frames of more pixels than columns can count.
pub fn sparsify<'t>(tile: &DenseTile<'_>, scratch: &'t mut CsrScratch) -> Result<CsrTile<'t>> {
    let frames = tile.frames();
    let (depth, len, dtype) = (frames.depth(), frames.frame_len(), frames.dtype());
    if u32::try_from(len).is_err() {
        return Err(Error::limit(format!(
            "frames of {len} pixels are too large for a sparse tile"
        ))
        .with_hint("run the UDF on dense tiles"));
    }
    let entries: usize = dispatch_frames!(frames, view => view.frames().map(count).sum());
    let (starts, columns, values) = scratch.prepare(depth, entries, dtype)?;
    dispatch_frames!(frames, view => gather(view, starts, columns, values))?;
    scratch.tile(depth, entries, dtype, len)
}

/// How many cells are not zero.
fn count<T: Element>(cells: &[T]) -> usize {
    // So few that a byte counts them: no addition needs to be looked at for an overflow, as those of
    // this crate are in releases, too, one by one.
    const CHUNK: usize = 128;
    let zero = T::default();
    let count = |n: u8, &cell: &T| n.wrapping_add(u8::from(cell != zero));
    cells.chunks(CHUNK).map(|cells| usize::from(cells.iter().fold(0, count))).sum()
}

/// So many cells are skipped at a time where all of them are zero.
const SKIPPED: usize = 16;

fn gather<T: Element>(
    view: FramesView<'_, T>,
    starts: &mut [usize],
    columns: &mut [u32],
    values: &mut [u8],
) -> Result<()> {
    let values: &mut [T] = bytemuck::try_cast_slice_mut(values)
        .map_err(|e| Error::bug(format!("scratch as {}: {e}", T::DTYPE)))?;
    let zero = T::default();
    let mut places = columns.iter_mut().zip(values);
    let mut n = 0;
    starts[0] = 0;
    for (frame, end) in view.frames().zip(&mut starts[1..]) {
        // Cells first: no column is counted behind the last one, which may be the last that there is.
        for (cells, first) in frame.chunks(SKIPPED).zip((0u32..).step_by(SKIPPED)) {
            if !cells.iter().fold(false, |any, &cell| any | (cell != zero)) {
                continue;
            }
            for (&cell, column) in cells.iter().zip(first..) {
                if cell != zero
                    && let Some((place, value)) = places.next()
                {
                    (*place, *value) = (column, cell);
                    n += 1;
                }
            }
        }
        *end = n;
    }
    Ok(())
}

/// The tile with its values in `dtype`: as it is if it has that dtype, otherwise with converted
/// values in `scratch`.
///
/// # Errors
/// `Bug` if a complex tile is to become real: the planner only ever widens.
pub fn convert_csr<'t>(
    tile: &CsrTile<'t>,
    dtype: DType,
    scratch: &'t mut Scratch,
) -> Result<CsrTile<'t>> {
    if tile.dtype() == dtype {
        return Ok(tile.clone());
    }
    if tile.dtype().is_complex() && !dtype.is_complex() {
        return Err(Error::bug(format!("a tile of {} was to become {dtype}", tile.dtype())));
    }
    let len_bytes = tile
        .n_entries()
        .checked_mul(dtype.size())
        .ok_or_else(|| Error::limit("a sparse tile does not fit in memory"))?;
    let out = scratch.prepare(len_bytes)?;
    dispatch_csr!(tile, view => write_as(view.entries().1, dtype, out))?;
    let scratch: &Scratch = scratch;
    let values = TypedSlice::from_bytes(dtype, &scratch.bytes()[..len_bytes])?;
    // Entries without an owner are valid during this call alone, and so is the tile.
    CsrTile { values, ..tile.clone() }.with_owner(scratch.owner())
}

macro_rules! define {
    ($(($variant:ident, $type:ty)),* $(,)?) => {
        /// Writes `values` as `dtype` to `out`.
        fn write_as<T>(values: &[T], dtype: DType, out: &mut [u8]) -> Result<()>
        where
            T: Element $(+ CastTo<$type>)*,
        {
            match dtype {
                $(DType::$variant => {
                    let out: &mut [$type] = bytemuck::try_cast_slice_mut(out)
                        .map_err(|e| Error::bug(format!("scratch as {dtype}: {e}")))?;
                    for (value, out) in values.iter().zip(out) {
                        *out = value.cast();
                    }
                })*
            }
            Ok(())
        }
    };
}
for_each_element!(define);
