//! Whether columns are in order.

use framefold_simd::Simd;

/// Entries that are looked at together: so few that 32 bits count their descents.
const CHUNK: usize = 1 << 16;

/// Whether the columns of every row ascend strictly and stay below `len`.
///
/// `starts` holds one start more than there are rows, begins with 0, never falls, and ends with
/// the number of columns. All columns are looked at in one go, whatever rows they belong to; then
/// those descents are taken off that lie between two rows.
pub(super) fn rows_are(starts: &[usize], columns: &[u32], len: usize) -> bool {
    let simd = Simd::best();
    let (mut n_descents, mut largest) = (0, 0);
    for first in (0..columns.len()).step_by(CHUNK) {
        let chunk = &columns[first..columns.len().min(first + CHUNK + 1)];
        let (descents, in_chunk) = framefold_simd::run!(simd, survey(chunk));
        n_descents += descents as usize;
        largest = largest.max(in_chunk);
    }
    if columns.is_empty() || !usize::try_from(largest).is_ok_and(|largest| largest < len) {
        return columns.is_empty();
    }
    let (mut between_rows, mut last) = (0, 0);
    for &start in starts {
        // Rows without entries start where the next one does.
        if start > last && start < columns.len() {
            between_rows += usize::from(columns[start - 1] >= columns[start]);
        }
        last = start;
    }
    n_descents == between_rows
}

/// How often a column is not above the one before it, and the largest column.
///
/// The number of descents is below that of columns, of which there are `CHUNK` and one. To look for an
/// overflow in each addition, as this crate does in releases, too, would keep them from being eight or
/// sixteen at a time.
#[inline(always)]
fn survey(columns: &[u32]) -> (u32, u32) {
    let mut descents = 0;
    for (a, b) in columns.iter().zip(&columns[1..]) {
        descents = u32::wrapping_add(descents, u32::from(a >= b));
    }
    (descents, columns.iter().fold(0, |largest, &column| largest.max(column)))
}

/// The same for one row, column by column.
pub(super) fn row_is(columns: &[u32], len: usize) -> bool {
    let below = |&last: &u32| usize::try_from(last).is_ok_and(|last| last < len);
    columns.is_sorted_by(|a, b| a < b) && columns.last().is_none_or(below)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn row_by_row(starts: &[usize], columns: &[u32], len: usize) -> bool {
        starts.windows(2).all(|row| row_is(&columns[row[0]..row[1]], len))
    }

    proptest! {
        #[test]
        fn all_rows_at_once_are_as_row_by_row(
            rows in prop::collection::vec(prop::collection::vec(0u32..40, 0..9), 1..9),
            sorted in prop::collection::vec(any::<bool>(), 9),
            len in 35usize..41,
        ) {
            let (mut starts, mut columns) = (vec![0], vec![]);
            for (mut row, sorted) in rows.into_iter().zip(sorted) {
                if sorted {
                    row.sort_unstable();
                    row.dedup();
                }
                columns.extend(row);
                starts.push(columns.len());
            }
            let expected = row_by_row(&starts, &columns, len);
            prop_assert_eq!(rows_are(&starts, &columns, len), expected);
        }
    }

    #[test]
    fn descents_are_found_wherever_they_are() {
        let n = 2 * CHUNK + 100;
        let good: Vec<u32> = (0..n as u32).collect();
        assert!(rows_are(&[0, n], &good, n));
        assert!(!rows_are(&[0, n], &good, n - 1));
        for place in [1, 15, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, n - 1] {
            let mut columns = good.clone();
            columns[place] = columns[place - 1];
            assert!(!rows_are(&[0, n], &columns, n), "{place}");
            assert!(rows_are(&[0, place, place, n], &columns, n), "{place}");
            assert!(!rows_are(&[0, place + 1, n, n], &columns, n), "{place}");
        }
        assert!(rows_are(&[0, 0, 0], &[], 1));
    }
}
