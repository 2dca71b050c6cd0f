//! Puts the entries of a row in order, and adds up those of the same cell.

use framefold_core::{Bool8, Complex64, Complex128, DType, Element, Error, F16, Result, Scratch};

/// Memory for one row, used again from row to row.
#[derive(Default)]
pub(in crate::readers) struct Sorter {
    /// Column and place in the row of each entry; sorting keeps the order of equal columns.
    order: Vec<u64>,
    values: Scratch,
}

impl Sorter {
    /// Sorts a row; gives the number of entries that are left at its beginning.
    ///
    /// `values` are elements of `dtype`, as many as there are columns, and aligned for it. The
    /// first entry of a cell is the first to be added.
    ///
    /// # Errors
    /// `BadFile` if integers of one cell add up to more than their dtype holds.
    pub(in crate::readers) fn sort(
        &mut self,
        columns: &mut [u32],
        values: &mut [u8],
        dtype: DType,
    ) -> Result<usize> {
        let Ok(n) = u32::try_from(columns.len()) else {
            return Err(Error::limit("a frame has too many entries that are not in order"));
        };
        self.order.clear();
        self.order.extend(
            columns.iter().zip(0..n).map(|(&column, i)| u64::from(column) << 32 | u64::from(i)),
        );
        self.order.sort_unstable();
        self.values.prepare(values.len())?.copy_from_slice(values);
        let from = self.values.bytes().get(..values.len()).unwrap_or_default();
        macro_rules! each {
            ($($variant:ident $type:ty),* $(,)?) => {
                match dtype {
                    $(DType::$variant => add_up::<$type>(&self.order, from, columns, values),)*
                }
            };
        }
        each!(
            Bool Bool8, U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64,
            F16 F16, F32 f32, F64 f64, C64 Complex64, C128 Complex128,
        )
    }
}

#[expect(
    clippy::indexing_slicing,
    reason = "order numbers the entries, and n is that of one which was seen"
)]
fn add_up<T: Sum>(
    order: &[u64],
    from: &[u8],
    columns: &mut [u32],
    values: &mut [u8],
) -> Result<usize> {
    let cast = |e| Error::bug(format!("values as {}: {e}", T::DTYPE));
    let from: &[T] = bytemuck::try_cast_slice(from).map_err(cast)?;
    let values: &mut [T] = bytemuck::try_cast_slice_mut(values).map_err(cast)?;
    let mut n = 0;
    for &entry in order {
        let column = (entry >> 32) as u32;
        let value = from[(entry & u64::from(u32::MAX)) as usize];
        if n > 0 && columns[n - 1] == column {
            values[n - 1] = values[n - 1].plus(value).ok_or_else(|| {
                Error::bad_file(format!(
                    "the entries of pixel {column} add up to more than {} holds",
                    T::DTYPE
                ))
                .with_hint("write the values in a wider dtype")
            })?;
        } else {
            columns[n] = column;
            values[n] = value;
            n += 1;
        }
    }
    Ok(n)
}

/// Elements that can be added, if the sum is one of them.
trait Sum: Element {
    fn plus(self, other: Self) -> Option<Self>;
}

macro_rules! sum {
    ($($type:ty),*: $a:ident, $b:ident => $sum:expr) => {$(
        impl Sum for $type {
            fn plus(self, other: Self) -> Option<Self> {
                let ($a, $b) = (self, other);
                $sum
            }
        }
    )*};
}
sum!(u8, u16, u32, u64, i8, i16, i32, i64: a, b => a.checked_add(b));
sum!(F16, f32, f64, Complex64, Complex128: a, b => Some(a + b));
sum!(Bool8: a, b => Some(Bool8::from(a.get() || b.get())));

#[cfg(test)]
mod tests {
    use super::*;

    fn sort<T: Element>(columns: &[u32], values: &[T]) -> Result<(Vec<u32>, Vec<T>)> {
        let (mut columns, mut values) = (columns.to_vec(), values.to_vec());
        let bytes = bytemuck::cast_slice_mut(&mut values);
        let n = Sorter::default().sort(&mut columns, bytes, T::DTYPE)?;
        Ok((columns[..n].to_vec(), values[..n].to_vec()))
    }

    #[test]
    fn entries_of_one_cell_are_added_in_their_order() {
        let found = sort(&[7, 2, 7, 0, 2, 7], &[1u8, 2, 4, 8, 16, 32]).unwrap();
        assert_eq!(found, (vec![0, 2, 7], vec![8, 18, 37]));
        // Another order would give 0.
        assert_eq!(sort(&[1, 1, 1], &[1e30f64, -1e30, 1.0]).unwrap().1, [1.0]);
        assert_eq!(sort(&[1, 1, 1], &[1.0f64, 1e30, -1e30]).unwrap().1, [0.0]);
        assert_eq!(sort(&[3, 3], &[Bool8(1), Bool8(1)]).unwrap().1, [Bool8(1)]);
        assert_eq!(sort::<u16>(&[], &[]).unwrap(), (vec![], vec![]));
    }

    #[test]
    fn a_sum_that_overflows_is_refused() {
        assert_eq!(
            sort(&[1, 1], &[i8::MIN, -1]).unwrap_err().kind(),
            framefold_core::ErrorKind::BadFile
        );
        let error = sort(&[4, 4], &[200u8, 56]).unwrap_err();
        assert!(error.to_string().contains("pixel 4") && error.to_string().contains("uint8"));
        assert_eq!(sort(&[4, 4], &[200u8, 55]).unwrap().1, [255]);
    }
}
