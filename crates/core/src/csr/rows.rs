//! Sparse rows while they are made.

use super::{CsrScratch, CsrTile};
use crate::{DType, Element, Error, Result, memory};

/// Rows of a sparse tile, entry by entry, whose number is not known before.
#[derive(Debug, Default)]
pub struct CsrRows {
    /// The number of entries up to the end of each row.
    ends: Vec<usize>,
    columns: Vec<u32>,
    values: Vec<u8>,
}

impl CsrRows {
    /// No rows; nothing is allocated.
    pub fn new() -> Self {
        CsrRows::default()
    }

    /// Forgets all rows, and keeps their memory.
    pub fn clear(&mut self) {
        self.ends.clear();
        self.columns.clear();
        self.values.clear();
    }

    /// Appends an entry to the row that is being made. Columns ascend, and values have the dtype of the tile.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it.
    pub fn push<T: Element>(&mut self, column: u32, value: T) -> Result<()> {
        memory::push(&mut self.columns, column)?;
        memory::append(&mut self.values, bytemuck::bytes_of(&value))
    }

    /// Ends a row, so that the next one begins.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it.
    pub fn end_row(&mut self) -> Result<()> {
        memory::push(&mut self.ends, self.columns.len())
    }

    /// All rows that have ended, as a tile of `depth` frames of `len` cells of `dtype` in `scratch`.
    ///
    /// # Errors
    /// `Bug` if there are more rows or fewer, values of another dtype, or columns that do not ascend within
    /// a row or reach `len`; `Limit` if there is no memory for the tile.
    pub fn tile<'t>(
        &self,
        depth: usize,
        dtype: DType,
        len: usize,
        scratch: &'t mut CsrScratch,
    ) -> Result<CsrTile<'t>> {
        let n_entries = self.columns.len();
        let complete = self.ends.len() == depth
            && self.ends.last().copied().unwrap_or(0) == n_entries
            && Some(self.values.len()) == n_entries.checked_mul(dtype.size());
        if !complete {
            return Err(Error::bug(format!(
                "{} rows of {n_entries} entries in {} bytes for {depth} frames of {dtype}",
                self.ends.len(),
                self.values.len()
            )));
        }
        let (starts, columns, values) = scratch.prepare(depth, n_entries, dtype)?;
        starts[0] = 0;
        starts[1..].copy_from_slice(&self.ends);
        columns.copy_from_slice(&self.columns);
        values.copy_from_slice(&self.values);
        scratch.tile(depth, n_entries, dtype, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn rows_become_a_tile() {
        let (mut rows, mut scratch) = (CsrRows::new(), CsrScratch::new());
        for _ in 0..2 {
            rows.clear();
            rows.push(2, 7u16).unwrap();
            rows.push(4, 8u16).unwrap();
            rows.end_row().unwrap();
            rows.end_row().unwrap();
            rows.push(0, 9u16).unwrap();
            rows.end_row().unwrap();
            let tile = rows.tile(3, DType::U16, 5, &mut scratch).unwrap();
            let view = tile.view::<u16>().unwrap();
            assert_eq!(view.frame(0), (&[2, 4][..], &[7, 8][..]));
            assert_eq!(view.frame(1), (&[][..], &[][..]));
            assert_eq!(view.frame(2), (&[0][..], &[9][..]));
        }
    }

    #[test]
    fn what_is_no_tile_is_a_bug() {
        let mut rows = CsrRows::new();
        rows.push(3, 1u8).unwrap();
        let check = |rows: &CsrRows, depth, dtype, len| {
            let mut scratch = CsrScratch::new();
            let kind = rows.tile(depth, dtype, len, &mut scratch).unwrap_err().kind();
            assert_eq!(kind, ErrorKind::Bug);
        };
        check(&rows, 0, DType::U8, 9);
        rows.end_row().unwrap();
        check(&rows, 2, DType::U8, 9);
        check(&rows, 1, DType::U16, 9);
        check(&rows, 1, DType::U8, 3);
    }
}
