//! A disk or ring, cut into rectangles.

use crate::masks::geometry::RowSpans;
use std::ops::Range;

/// How many rows a loop over columns adds up at a time: so many rows are read per sum that is
/// loaded and stored.
pub(crate) const ROWS: usize = 4;

/// Some columns of one row, or of [`ROWS`] rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rectangle {
    /// Its first row.
    pub(crate) row: usize,
    /// Whether it is [`ROWS`] rows high, or one.
    pub(crate) tall: bool,
    /// Its columns; there is at least one.
    pub(crate) columns: Range<usize>,
}

/// Cuts the part of the rows of a region that lies in `columns` into rectangles that cover each
/// pixel once. Rows and columns of the rectangles are counted from the first of `spans` and from
/// the start of `columns`.
pub(crate) fn rectangles(spans: &[RowSpans], columns: &Range<usize>) -> Vec<Rectangle> {
    let mut found = Vec::new();
    let mut add = |row, tall, columns: Range<usize>| {
        if !columns.is_empty() {
            found.push(Rectangle { row, tall, columns });
        }
    };
    for (group, spans) in spans.chunks(ROWS).enumerate() {
        let first = group * ROWS;
        for side in 0..2 {
            let spans = spans.iter().map(|spans| clip(&spans[side], columns));
            let shared = spans.clone().reduce(|a, b| a.start.max(b.start)..a.end.min(b.end));
            match shared {
                Some(shared) if spans.len() == ROWS && !shared.is_empty() => {
                    add(first, true, shared.clone());
                    for (row, span) in spans.enumerate() {
                        add(first + row, false, span.start..shared.start);
                        add(first + row, false, shared.end..span.end);
                    }
                }
                _ => spans.enumerate().for_each(|(row, span)| add(first + row, false, span)),
            }
        }
    }
    found
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
    use crate::masks::geometry::row_spans;

    #[test]
    fn a_frame_is_cut_into_bands() {
        let whole = row_spans([6, 9], [3.0, 4.0], f64::INFINITY, None);
        let rectangle = |row, tall| Rectangle { row, tall, columns: 0..7 };
        assert_eq!(
            rectangles(&whole, &(2..9)),
            [rectangle(0, true), rectangle(4, false), rectangle(5, false)]
        );
    }

    #[test]
    fn each_pixel_of_a_region_is_covered_once() {
        for (r, ri) in [(4.0, None), (9.3, Some(2.5)), (f64::INFINITY, Some(6.0)), (0.0, None)] {
            for columns in [0..17, 5..17, 3..9, 16..17] {
                let spans = row_spans([13, 17], [6.2, 8.0], r, ri);
                let mut counts = vec![vec![0; columns.len()]; 13];
                for rectangle in rectangles(&spans, &columns) {
                    let rows = if rectangle.tall { ROWS } else { 1 };
                    for row in &mut counts[rectangle.row..rectangle.row + rows] {
                        row[rectangle.columns.clone()].iter_mut().for_each(|count| *count += 1);
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
