//! Reusable memory for one sparse tile.

use super::{CsrTile, TypedSlice};
use crate::{DType, Error, Result, Scratch};

/// Memory for row starts, columns and values, reused from tile to tile.
///
/// As with [`Scratch`], whoever clones the owner of a tile's values keeps them: the next
/// [`CsrScratch::prepare`] then takes fresh memory for those.
#[derive(Default)]
pub struct CsrScratch {
    starts: Vec<usize>,
    columns: Vec<u32>,
    values: Scratch,
}

/// Where a tile is written to: one start more than there are rows, a column per entry, and the
/// bytes of as many values.
pub type CsrParts<'a> = (&'a mut [usize], &'a mut [u32], &'a mut [u8]);

impl CsrScratch {
    /// Empty; nothing is allocated.
    pub fn new() -> Self {
        CsrScratch::default()
    }

    /// Room for a tile of so many rows and entries. Contents are unspecified.
    ///
    /// # Errors
    /// `LimitExceeded` if that many entries cannot be in memory.
    pub fn prepare(&mut self, rows: usize, entries: usize, dtype: DType) -> Result<CsrParts<'_>> {
        let (n_starts, len_bytes) = rows
            .checked_add(1)
            .zip(entries.checked_mul(dtype.size()))
            .ok_or_else(|| Error::limit("a sparse tile does not fit in memory"))?;
        let starts = reuse(&mut self.starts, n_starts);
        let columns = reuse(&mut self.columns, entries);
        Ok((starts, columns, self.values.prepare(len_bytes)?))
    }

    /// What was written, as a tile of frames of `len` cells.
    ///
    /// # Errors
    /// As [`CsrTile::try_new`].
    pub fn tile(
        &self,
        rows: usize,
        entries: usize,
        dtype: DType,
        len: usize,
    ) -> Result<CsrTile<'_>> {
        let written = self.starts.get(..rows.saturating_add(1)).zip(self.columns.get(..entries));
        let bytes = self.values.bytes().get(..entries.saturating_mul(dtype.size()));
        let ((starts, columns), bytes) = written
            .zip(bytes)
            .ok_or_else(|| Error::bug("a sparse tile is larger than what was prepared"))?;
        let values = TypedSlice::from_bytes(dtype, bytes)?;
        CsrTile::try_new(starts, columns, values, len)?.with_owner(self.values.owner())
    }
}

/// The first `len` elements.
fn reuse<T: Clone + Default>(memory: &mut Vec<T>, len: usize) -> &mut [T] {
    if memory.len() < len {
        // Some spare room, since tiles differ in their number of entries.
        *memory = vec![T::default(); len + len / 8];
    }
    &mut memory[..len]
}
