//! A disk or ring, cut into rectangles.

use crate::reductions::masks::geometry::RowSpans;
use framefold_core::{Result, memory};
use std::ops::Range;

/// How many rows a loop over columns adds up at a time: so many rows are read per sum that is
/// loaded and stored.
pub(crate) const ROWS: usize = 4;

/// Some columns of one row, or of [`ROWS`] rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rectangle {
    /// Its first row.
    pub(crate) row: usize,
    /// The distance between its rows; `None` if it is one row only.
    pub(crate) gap: Option<usize>,
    /// Its columns; there is at least one.
    pub(crate) columns: Range<usize>,
}

impl Rectangle {
    pub(crate) fn n_pixels(&self) -> usize {
        self.columns.len() * if self.gap.is_some() { ROWS } else { 1 }
    }
}

/// Cuts the part of the rows of a region that lies in `columns` into rectangles that cover each
/// pixel once. Rows and columns of the rectangles are counted from the first of `spans` and from
/// the start of `columns`.
///
/// # Errors
/// `Limit` if there is no memory for them.
pub(crate) fn rectangles(spans: &[RowSpans], columns: &Range<usize>) -> Result<Vec<Rectangle>> {
    let whole = 0..columns.len();
    if spans.iter().all(|[left, _]| clip(left, columns) == whole) {
        return far_apart(spans.len(), whole);
    }
    let mut found = Vec::new();
    let mut add = |row, gap, columns: Range<usize>| {
        if columns.is_empty() {
            return Ok(());
        }
        memory::push(&mut found, Rectangle { row, gap, columns })
    };
    for (group, spans) in spans.chunks(ROWS).enumerate() {
        let first = group * ROWS;
        for side in 0..2 {
            let spans = spans.iter().map(|spans| clip(&spans[side], columns));
            let shared = spans.clone().reduce(|a, b| a.start.max(b.start)..a.end.min(b.end));
            match shared {
                Some(shared) if spans.len() == ROWS && !shared.is_empty() => {
                    add(first, Some(1), shared.clone())?;
                    for (row, span) in spans.enumerate() {
                        add(first + row, None, span.start..shared.start)?;
                        add(first + row, None, shared.end..span.end)?;
                    }
                }
                _ => spans.enumerate().try_for_each(|(row, span)| add(first + row, None, span))?,
            }
        }
    }
    Ok(found)
}

/// Whole rows, those of a rectangle as far apart as can be: each of them begins a run of memory
/// that is read from end to end, and the processor fetches ahead in all of them.
fn far_apart(n_rows: usize, columns: Range<usize>) -> Result<Vec<Rectangle>> {
    let gap = n_rows / ROWS;
    let tall = (0..gap).map(|row| (row, Some(gap)));
    let rest = (gap * ROWS..n_rows).map(|row| (row, None));
    let mut found = memory::with_room(gap + n_rows % ROWS)?;
    found.extend(tall.chain(rest).map(|(row, gap)| Rectangle {
        row,
        gap,
        columns: columns.clone(),
    }));
    Ok(found)
}

/// The part of `span` that lies in `columns`, counted from their start.
fn clip(span: &Range<usize>, columns: &Range<usize>) -> Range<usize> {
    let start = span.start.max(columns.start);
    let end = span.end.min(columns.end).max(start);
    start - columns.start..end - columns.start
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reductions::masks::geometry::row_spans;

    #[test]
    fn a_frame_is_read_in_several_places() {
        let whole = row_spans([10, 9], [3.0, 4.0], f64::INFINITY, None).unwrap();
        let rectangle = |row, gap| Rectangle { row, gap, columns: 0..7 };
        let expected = [(0, Some(2)), (1, Some(2)), (8, None), (9, None)];
        assert_eq!(
            rectangles(&whole, &(2..9)).unwrap(),
            expected.map(|(row, gap)| rectangle(row, gap))
        );
    }

    #[test]
    fn each_pixel_of_a_region_is_covered_once() {
        for (r, ri) in [
            (4.0, None),
            (9.3, Some(2.5)),
            (f64::INFINITY, Some(6.0)),
            (f64::INFINITY, None),
            (0.0, None),
        ] {
            for columns in [0..17, 5..17, 3..9, 16..17] {
                let spans = row_spans([13, 17], [6.2, 8.0], r, ri).unwrap();
                let mut counts = vec![vec![0; columns.len()]; 13];
                for rectangle in rectangles(&spans, &columns).unwrap() {
                    let rows = if rectangle.gap.is_some() { ROWS } else { 1 };
                    for row in 0..rows {
                        let row = rectangle.row + row * rectangle.gap.unwrap_or(0);
                        let counts = &mut counts[row][rectangle.columns.clone()];
                        counts.iter_mut().for_each(|count| *count += 1);
                    }
                }
                for (counts, spans) in counts.iter().zip(&spans) {
                    for (count, column) in counts.iter().zip(columns.clone()) {
                        let inside = spans.iter().any(|span| span.contains(&column));
                        assert_eq!(*count, i32::from(inside));
                    }
                }
            }
        }
    }
}
