//! Sparse tiles: of each frame, only the pixels that are not zero.

mod canonical;
mod convert;
mod rows;
mod scratch;

pub use convert::{convert_csr, densify, sparsify};
pub use rows::CsrRows;
pub use scratch::{CsrParts, CsrScratch};

use crate::element::for_each_element;
use crate::{DType, Element, Error, LentBytes, Owner, Result, SigSlice, memory};
use std::ops::Range;

macro_rules! define {
    ($(($variant:ident, $type:ty)),* $(,)?) => {
        /// A slice of one of the engine's element types.
        #[derive(Clone, Copy, Debug)]
        pub enum TypedSlice<'a> {
            $(
                #[doc = concat!("Values of dtype [`DType::", stringify!($variant), "`].")]
                $variant(&'a [$type]),
            )*
        }

        impl<'a> TypedSlice<'a> {
            /// The dtype of the values.
            pub fn dtype(&self) -> DType {
                match self { $(TypedSlice::$variant(_) => DType::$variant,)* }
            }

            /// The number of values.
            pub fn len(&self) -> usize {
                match self { $(TypedSlice::$variant(values) => values.len(),)* }
            }

            /// The values as bytes in native byte order.
            pub fn as_bytes(&self) -> &'a [u8] {
                match self { $(TypedSlice::$variant(values) => bytemuck::cast_slice(values),)* }
            }

            /// A view of native-endian `bytes` as values of `dtype`.
            ///
            /// # Errors
            /// `Bug` if the bytes are not aligned for the dtype, or end within a value.
            pub fn from_bytes(dtype: DType, bytes: &'a [u8]) -> Result<Self> {
                match dtype {
                    $(DType::$variant => bytemuck::try_cast_slice(bytes)
                        .map(TypedSlice::$variant)
                        .map_err(|e| Error::bug(format!("bytes as {dtype}: {e}"))),)*
                }
            }
        }
    };
}
for_each_element!(define);

impl TypedSlice<'_> {
    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The same signal slice of several frames, as compressed sparse rows: one row per frame.
///
/// Columns count the cells of the slice in C order, ascend strictly within a row, and are all
/// below the length of the slice; [`CsrTile::try_new`] makes sure of that, so that nothing that
/// works on tiles needs to. A value may be zero.
#[derive(Clone, Debug)]
pub struct CsrTile<'a> {
    /// Where rows begin and end among the entries: one more than there are rows, first 0.
    starts: &'a [usize],
    columns: &'a [u32],
    values: TypedSlice<'a>,
    len: usize,
    lent: Option<LentBytes>,
}

impl<'a> CsrTile<'a> {
    /// A tile of frames of `len` cells.
    ///
    /// # Errors
    /// `Bug` if `starts` does not begin with 0, falls, or does not end with the number of entries;
    /// if there are not as many values as columns; or if columns do not ascend within a row or
    /// reach `len`. Sources check what they read before they make a tile of it.
    pub fn try_new(
        starts: &'a [usize],
        columns: &'a [u32],
        values: TypedSlice<'a>,
        len: usize,
    ) -> Result<Self> {
        let complete = starts.len() > 1 && starts[0] == 0 && starts.last() == Some(&columns.len());
        let ordered = starts.is_sorted() && values.len() == columns.len();
        if !(complete && ordered) {
            return Err(Error::bug(format!(
                "a sparse tile of {} rows has {} columns and {} values",
                starts.len().saturating_sub(1),
                columns.len(),
                values.len()
            )));
        }
        let tile = CsrTile { starts, columns, values, len, lent: None };
        if !canonical::rows_are(starts, columns, len) {
            let broken =
                (0..tile.depth()).find(|&i| !canonical::row_is(&columns[tile.row(i)], len));
            return Err(Error::bug(format!(
                "the columns of row {} of a sparse tile do not ascend or reach {len}",
                broken.unwrap_or(0)
            )));
        }
        Ok(tile)
    }

    /// The same, with values in memory of `owner`, which keeps them alive for as long as a clone
    /// of it is held.
    ///
    /// Row starts and columns are not lent: other code gets copies of them, since it relies on what
    /// was checked here, and a mapped file may change after that.
    ///
    /// # Errors
    /// `Bug` if the values lie elsewhere.
    pub fn with_owner(mut self, owner: Owner) -> Result<Self> {
        self.lent = Some(LentBytes::try_new(self.values.as_bytes(), owner)?);
        Ok(self)
    }

    /// That it is what was asked for: see [`crate::DenseTile::check`].
    ///
    /// # Errors
    /// `Bug` that says what the source gave instead.
    pub fn check(&self, n_frames: usize, sig: &SigSlice, dtype: DType) -> Result<()> {
        let given = (self.depth(), self.frame_len(), self.dtype());
        crate::tile::check_given(given, (n_frames, sig.len(), dtype))
    }

    /// The bytes of the values, to be shown beyond the tile's life; `None` if they end with it.
    pub fn lent_values(&self) -> Option<&LentBytes> {
        self.lent.as_ref()
    }

    /// The number of frames.
    pub fn depth(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of cells of the slice, zeros included; the same for every frame.
    pub fn frame_len(&self) -> usize {
        self.len
    }

    /// The number of entries of all frames.
    pub fn n_entries(&self) -> usize {
        self.columns.len()
    }

    /// The dtype of the values.
    pub fn dtype(&self) -> DType {
        self.values.dtype()
    }

    /// The entries of the `i`-th frame of the tile.
    ///
    /// # Panics
    /// If `i` is not below [`CsrTile::depth`].
    pub fn row(&self, i: usize) -> Range<usize> {
        self.starts[i]..self.starts[i + 1]
    }

    /// Where rows begin and end among the entries; one more than there are rows.
    pub fn starts(&self) -> &'a [usize] {
        self.starts
    }

    /// For each entry, its cell within the slice.
    pub fn columns(&self) -> &'a [u32] {
        self.columns
    }

    /// A copy of the columns, checked once more: for code that goes by them without a look, since a mapped
    /// file may change after the tile was made.
    ///
    /// # Errors
    /// `BadFile` if they have changed; `Limit` if there is no memory for them.
    pub fn checked_columns(&self) -> Result<Vec<u32>> {
        let columns = memory::copied(self.columns)?;
        if canonical::rows_are(self.starts, &columns, self.len) {
            return Ok(columns);
        }
        Err(Error::bad_file("the columns of sparse data changed while they were read")
            .with_hint("do not change files, or arrays in memory, while they are being read"))
    }

    /// The value of each entry.
    pub fn values(&self) -> TypedSlice<'a> {
        self.values
    }

    /// A view with the values as `T`, if they are of that type.
    pub fn view<T: Element>(&self) -> Option<CsrView<'a, T>> {
        T::of_slice(self.values).map(|values| self.with_values(values))
    }

    /// A view with the values that a `match` on [`CsrTile::values`] gave.
    #[doc(hidden)]
    pub fn with_values<T: Element>(&self, values: &'a [T]) -> CsrView<'a, T> {
        CsrView { starts: self.starts, columns: self.columns, values, len: self.len }
    }
}

/// A sparse tile whose element type is known.
#[derive(Clone, Copy, Debug)]
pub struct CsrView<'a, T> {
    starts: &'a [usize],
    columns: &'a [u32],
    values: &'a [T],
    len: usize,
}

impl<'a, T: Element> CsrView<'a, T> {
    /// The number of frames.
    pub fn depth(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of cells of the slice, the same for every frame.
    pub fn frame_len(&self) -> usize {
        self.len
    }

    /// Columns and values of the `i`-th frame of the tile.
    ///
    /// # Panics
    /// If `i` is not below [`CsrView::depth`].
    #[inline(always)]
    pub fn frame(&self, i: usize) -> (&'a [u32], &'a [T]) {
        let row = self.starts[i]..self.starts[i + 1];
        (&self.columns[row.clone()], &self.values[row])
    }

    /// The frames in order.
    pub fn frames(&self) -> impl ExactSizeIterator<Item = (&'a [u32], &'a [T])> + '_ {
        (0..self.depth()).map(|i| self.frame(i))
    }

    /// Columns and values of all frames, one after the other.
    pub fn entries(&self) -> (&'a [u32], &'a [T]) {
        (self.columns, self.values)
    }
}

/// The error for a column that does not lie within the `len` cells of its slice.
///
/// Columns are checked when a tile is made. Those of a mapped file may change afterwards, so each
/// write to the cell of a column checks it again.
pub fn stray_column(column: u32, len: usize) -> Error {
    Error::bad_file(format!(
        "found column {column} in a sparse tile, expected 0 to {}",
        len.max(1) - 1
    ))
    .with_hint("do not change files while they are being read")
}

/// Runs `$body` with `$view` bound to the [`CsrView`] of a [`CsrTile`], whatever its element type.
///
/// ```
/// use framefold_core::{CsrTile, TypedSlice, dispatch_csr};
///
/// let tile = CsrTile::try_new(&[0, 1, 3], &[4, 0, 2], TypedSlice::U8(&[1, 2, 3]), 6)?;
/// let entries = dispatch_csr!(&tile, view => view.frames().map(|(_, v)| v.len()).sum::<usize>());
/// assert_eq!(entries, 3);
/// # Ok::<(), framefold_core::Error>(())
/// ```
#[macro_export]
macro_rules! dispatch_csr {
    ($tile:expr, $view:ident => $body:expr) => {{
        let tile: &$crate::CsrTile<'_> = $tile;
        $crate::dispatch_csr!(@match tile, $view, $body;
            Bool U8 U16 U32 U64 I8 I16 I32 I64 F16 F32 F64 C64 C128)
    }};
    (@match $tile:ident, $view:ident, $body:expr; $($variant:ident)*) => {
        match $tile.values() {
            $($crate::TypedSlice::$variant(values) => {
                let $view = $tile.with_values(values);
                $body
            })*
        }
    };
}

#[cfg(test)]
mod tests;
