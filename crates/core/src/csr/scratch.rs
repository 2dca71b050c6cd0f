//! Reusable memory for one sparse tile.

use super::{CsrTile, TypedSlice};
use crate::{DType, Error, Result, Scratch, memory};
use bytemuck::Zeroable;

/// Memory for row starts, columns and values, reused from tile to tile.
///
/// As with [`Scratch`], a clone of the owner of a tile's values keeps them: the next
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
    /// `Limit` if that many entries cannot be in memory.
    pub fn prepare(&mut self, rows: usize, entries: usize, dtype: DType) -> Result<CsrParts<'_>> {
        let (n_starts, len_bytes) = rows
            .checked_add(1)
            .zip(entries.checked_mul(dtype.size()))
            .ok_or_else(|| Error::limit("a sparse tile does not fit in memory"))?;
        let starts = reuse(&mut self.starts, n_starts)?;
        let columns = reuse(&mut self.columns, entries)?;
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
fn reuse<T: Zeroable>(kept: &mut Vec<T>, len: usize) -> Result<&mut [T]> {
    if kept.len() < len {
        // What there is goes first. Some spare room, since tiles differ in their number of entries.
        *kept = Vec::new();
        *kept = memory::zeros(len.saturating_add(len / 8))?;
    }
    Ok(&mut kept[..len])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn what_there_is_no_memory_for_is_an_error() {
        let mut scratch = CsrScratch::new();
        memory::within(1000, || {
            for (rows, entries) in [(1000, 1), (1, 1000), (1, 150), (usize::MAX - 1, 1)] {
                let error = scratch.prepare(rows, entries, DType::F64).map(drop).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Limit, "{rows} {entries}");
            }
            let (starts, columns, values) = scratch.prepare(3, 100, DType::F64).unwrap();
            assert_eq!((starts.len(), columns.len(), values.len()), (4, 100, 800));
        });
    }
}
