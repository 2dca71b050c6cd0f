//! The entries of a sparse tile, as the reductions see them.
//!
//! What a reduction does with a sparse tile costs time for each entry and each frame, and none for
//! the pixels of a frame. Columns lie in memory that may be a mapped file, and that may be
//! written to after they were checked: no loop takes for granted that one lies within its frame.

use framefold_core::{
    ArrayFormat, CsrTile, Element, Error, Requirements, Result, SigSlice, memory, stray_column,
};
use framefold_simd::{Simd, run};
use std::ops::Range;

/// Native tiles of the planner's choice, dense or sparse.
pub(crate) fn dense_or_sparse() -> Requirements {
    let formats = vec![ArrayFormat::Dense, ArrayFormat::Csr];
    Requirements { formats, ..Requirements::native_tiles() }
}

/// The entries of some frames, one frame after the other.
#[derive(Clone, Copy)]
pub(crate) struct Entries<'a, T> {
    /// Where frames begin and end, counted from wherever the first one begins.
    starts: &'a [usize],
    columns: &'a [u32],
    values: &'a [T],
}

impl<'a, T: Element> Entries<'a, T> {
    /// Those of a tile, whose columns count the cells of its slice.
    ///
    /// # Errors
    /// `Bug` if the tile has another dtype than was planned.
    pub(crate) fn of(tile: &CsrTile<'a>) -> Result<Self> {
        let values = T::of_slice(tile.values()).ok_or_else(|| {
            Error::bug(format!("a sparse tile of {} was processed as {}", tile.dtype(), T::DTYPE))
        })?;
        Ok(Entries { starts: tile.starts(), columns: tile.columns(), values })
    }

    /// Of rows that begin and end at `starts`.
    pub(crate) fn new(starts: &'a [usize], columns: &'a [u32], values: &'a [T]) -> Self {
        Entries { starts, columns, values }
    }

    /// The same with other columns, as many as there were.
    pub(crate) fn with_columns(self, columns: &'a [u32]) -> Self {
        Entries { columns, ..self }
    }

    /// The number of frames.
    pub(crate) fn depth(&self) -> usize {
        self.starts.len() - 1
    }

    /// The entries of these frames.
    fn part(&self, which: Range<usize>) -> Self {
        let starts = &self.starts[which.start..=which.end];
        let entries = starts[0] - self.starts[0]..starts[which.len()] - self.starts[0];
        Entries { starts, columns: &self.columns[entries.clone()], values: &self.values[entries] }
    }

    /// Columns and values of these frames.
    pub(crate) fn frames(&self, which: Range<usize>) -> (&'a [u32], &'a [T]) {
        let Entries { columns, values, .. } = self.part(which);
        (columns, values)
    }

    /// Columns and values, frame by frame.
    #[inline(always)]
    pub(crate) fn by_frame(&self) -> impl Iterator<Item = (&'a [u32], &'a [T])> + use<'a, T> {
        let Entries { starts, columns, values } = *self;
        let first = starts[0];
        starts.windows(2).map(
            #[inline(always)]
            move |row| {
                let entries = row[0] - first..row[1] - first;
                (&columns[entries.clone()], &values[entries])
            },
        )
    }

    /// Calls `add` with a part of each value in double precision, some frames at a time: as many
    /// as stay in the first-level cache, and at least one. So loops that are made for many numbers
    /// of masks, or of regions, are not made for each dtype as well, and frames with few entries
    /// cost little more than these.
    ///
    /// # Errors
    /// Those of `add`.
    pub(crate) fn in_double(
        &self,
        simd: Simd,
        scratch: &mut Vec<f64>,
        part: impl Fn(T) -> f64 + Copy,
        mut add: impl FnMut(Range<usize>, Entries<'_, f64>) -> Result<()>,
    ) -> Result<()> {
        const AT_A_TIME: usize = 2048;
        let mut first = 0;
        while first < self.depth() {
            let most = self.starts[first] + AT_A_TIME;
            let fit = self.starts[first..].partition_point(|&start| start <= most) - 1;
            let frames = first..first + fit.max(1);
            first = frames.end;
            let Entries { starts, columns, values } = self.part(frames.clone());
            memory::resize(scratch, scratch.len().max(values.len()), 0.0)?;
            let reals = &mut scratch[..values.len()];
            run!(simd, {
                for (real, &value) in reals.iter_mut().zip(values) {
                    *real = part(value);
                }
            });
            add(frames, Entries { starts, columns, values: reals })?;
        }
        Ok(())
    }
}

/// Calls `add` with each value and the cell that its column names.
///
/// # Errors
/// `BadFile` if a column does not name any.
#[inline(always)]
pub(crate) fn scatter<C, T: Copy>(
    cells: &mut [C],
    (columns, values): (&[u32], &[T]),
    mut add: impl FnMut(&mut C, T),
) -> Result<()> {
    for (&column, &value) in columns.iter().zip(values) {
        match cells.get_mut(column as usize) {
            Some(cell) => add(cell, value),
            None => return Err(stray_column(column, cells.len())),
        }
    }
    Ok(())
}

/// From the cells of a slice to the pixels of the frame.
#[derive(Default)]
pub(crate) struct Pixels {
    /// The number of the slice that `starts` belong to.
    slice: Option<usize>,
    /// The first pixel of each run of the slice.
    starts: Vec<u32>,
    pixels: Vec<u32>,
}

impl Pixels {
    /// The entries of a tile with the pixels of the frame, of shape `sig`, as columns. They may lie
    /// outside of it if the slice is all of the frame: then nothing was looked at.
    ///
    /// # Errors
    /// As [`Entries::of`]; `BadFile` if a column lies outside of a slice that is part of the frame.
    pub(crate) fn entries<'a, T: Element>(
        &'a mut self,
        tile: &CsrTile<'a>,
        slice: &SigSlice,
        sig: &[usize],
    ) -> Result<Entries<'a, T>> {
        let entries = Entries::of(tile)?;
        let n_cells = slice.len();
        if n_cells == sig.iter().product::<usize>() {
            return Ok(entries);
        }
        if self.slice != Some(slice.index()) {
            let first = |run: Range<usize>| {
                // All pixels of the run have a number of 32 bits, and not only its first.
                u32::try_from(run.end.saturating_sub(1))
                    .and_then(|_| u32::try_from(run.start))
                    .map_err(|_| Error::limit("a sparse frame is too large"))
            };
            self.starts.clear();
            for run in slice.runs(sig) {
                memory::push(&mut self.starts, first(run)?)?;
            }
            self.slice = Some(slice.index());
        }
        let run_len = u32::try_from(n_cells / self.starts.len().max(1)).unwrap_or(u32::MAX);
        self.pixels.clear();
        memory::make_room(&mut self.pixels, tile.n_entries())?;
        for &cell in tile.columns() {
            match self.starts.get((cell / run_len) as usize) {
                Some(start) => self.pixels.push(start + cell % run_len),
                None => return Err(stray_column(cell, n_cells)),
            }
        }
        Ok(entries.with_columns(&self.pixels))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::{TilingScheme, TypedSlice};

    #[test]
    fn cells_of_a_slice_are_pixels_of_the_frame() {
        let sig = [3, 4, 5];
        for tile in [[3, 4, 5], [1, 4, 5], [2, 2, 5], [2, 3, 2], [1, 1, 1], [3, 1, 2]] {
            let scheme = TilingScheme::try_new(&sig, &tile, 1).unwrap();
            let mut pixels = Pixels::default();
            for slice in scheme.slices() {
                let len = slice.len();
                let columns: Vec<u32> = (0..len as u32).collect();
                let values = vec![1u8; len];
                let starts = [0, len];
                let tile =
                    CsrTile::try_new(&starts, &columns, TypedSlice::U8(&values), len).unwrap();
                let entries: Entries<'_, u8> = pixels.entries(&tile, slice, &sig).unwrap();
                let found: Vec<usize> =
                    entries.frames(0..1).0.iter().map(|&pixel| pixel as usize).collect();
                assert_eq!(found, slice.runs(&sig).flatten().collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn numbers_are_taken_some_frames_at_a_time() {
        // Frames of many, no and few entries.
        for lengths in [&[0, 3, 0][..], &[5000, 1, 0, 2047, 1, 2000, 48, 1, 0], &[2048, 2048]] {
            let starts: Vec<usize> = lengths
                .iter()
                .scan(0, |end, len| {
                    *end += len;
                    Some(*end)
                })
                .collect();
            let starts = [&[0], &starts[..]].concat();
            let n = starts[lengths.len()];
            let columns: Vec<u32> = (0..n as u32).collect();
            let values: Vec<i16> = (0..n as i16).collect();
            let entries = Entries::new(&starts, &columns, &values);
            let mut next = (0, 0);
            let add = |frames: Range<usize>, part: Entries<'_, f64>| {
                assert_eq!(frames.start, next.0);
                assert!(part.columns.len() <= 2048 || frames.len() == 1);
                next.0 = frames.end;
                for (frame, (columns, values)) in frames.zip(part.by_frame()) {
                    assert_eq!(columns.len(), lengths[frame]);
                    for (&column, &value) in columns.iter().zip(values) {
                        assert_eq!((column, value), (next.1, -f64::from(next.1)));
                        next.1 += 1;
                    }
                }
                Ok(())
            };
            let part = |value: i16| -f64::from(value);
            entries.in_double(Simd::best(), &mut vec![], part, add).unwrap();
            assert_eq!(next, (lengths.len(), n as u32));
        }
    }

    #[test]
    fn columns_outside_are_errors() {
        let mut cells = [0; 3];
        let message = |result: Result<()>| result.unwrap_err().to_string();
        let add = |cell: &mut i32, value: i32| *cell += value;
        let text = message(scatter(&mut cells, (&[2, 3], &[5, 7]), add));
        assert!(text.contains("column 3") && text.contains("0 to 2"), "{text}");
        assert_eq!(cells, [0, 0, 5]);
        // Of a slice of four cells that is part of the frame, a tile of more.
        let scheme = TilingScheme::try_new(&[4, 4], &[2, 2], 1).unwrap();
        let tile = CsrTile::try_new(&[0, 1], &[4], TypedSlice::U8(&[1]), 16).unwrap();
        let mut pixels = Pixels::default();
        assert!(pixels.entries::<u8>(&tile, &scheme.slices()[1], &[4, 4]).is_err());
        assert!(pixels.entries::<u16>(&tile, &scheme.slices()[0], &[4, 4]).is_err());
        // Of a slice whose last pixels have numbers of more than 32 bits.
        let (sig, len) = ([(1 << 32) + 2], 1 << 30);
        let scheme = TilingScheme::try_new(&sig, &[3 << 30], 1).unwrap();
        let column = [(1 << 30) + 1];
        let tile = CsrTile::try_new(&[0, 1], &column, TypedSlice::U8(&[1]), len + 2).unwrap();
        assert!(Pixels::default().entries::<u8>(&tile, &scheme.slices()[1], &sig).is_err());
    }
}
