//! The inside of a polygon, by the even-odd rule.

use super::{check, whole_between};
use framefold::{Error, Result};
use std::ops::Range;

/// Corners that have been checked.
pub(super) struct Polygon(Vec<[f64; 2]>);

impl Polygon {
    pub(super) fn try_new(points: &[[f64; 2]]) -> Result<Self> {
        if points.len() < 3 {
            let n = points.len();
            return Err(Error::invalid(format!("a polygon of {n} corners has no inside"))
                .with_hint("give at least 3 points (y, x)"));
        }
        for &[y, x] in points {
            check("polygon", &[("y", y), ("x", x)])?;
        }
        Ok(Polygon(points.to_vec()))
    }

    /// A pixel is inside if a ray from its middle to the right meets an odd number of edges. Of an
    /// edge, the upper end belongs to it and the lower one does not.
    pub(super) fn spans(&self, row: usize, columns: usize, spans: &mut Vec<Range<usize>>) {
        let y = row as f64;
        let ends = self.0.iter().zip(self.0.iter().cycle().skip(1));
        let mut crossings: Vec<f64> = ends
            .filter(|(a, b)| (a[0] <= y) != (b[0] <= y))
            .map(|(a, b)| a[1] + (y - a[0]) / (b[0] - a[0]) * (b[1] - a[1]))
            .collect();
        crossings.sort_by(f64::total_cmp);
        for &[from, to] in crossings.as_chunks::<2>().0 {
            // From the first crossing, which is within, up to before the second.
            let span = whole_between(from, to.ceil() - 1.0, columns);
            if !span.is_empty() {
                spans.push(span);
            }
        }
    }
}
