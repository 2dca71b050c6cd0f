//! Disks on the points of a lattice.

use super::outline::Round;
use super::{Canvas, check, check_radii};
use framefold::{Error, Result};
use std::ops::Range;

/// A lattice goes no further.
const MOST_ORDERS: u32 = 32;

/// Those of its disks that may have cells on the canvas.
pub(super) struct Lattice(Vec<(Range<usize>, Round)>);

impl Lattice {
    pub(super) fn try_new(
        [cy, cx]: [f64; 2],
        a: [f64; 2],
        b: [f64; 2],
        r: f64,
        order: u32,
        canvas: Canvas,
    ) -> Result<Self> {
        let numbers = [("cy", cy), ("cx", cx), ("a", a[0]), ("a", a[1]), ("b", b[0]), ("b", b[1])];
        check("lattice", &numbers)?;
        check_radii("lattice", &[("r", r)])?;
        if order > MOST_ORDERS {
            return Err(Error::limit(format!(
                "a lattice of order {order} was asked for, and {MOST_ORDERS} is the highest"
            ))
            .with_hint("lower the order, or send the weights as an array"));
        }
        let orders = || (0..=2 * order).map(|i| f64::from(i) - f64::from(order));
        let disks = orders().flat_map(|i| orders().map(move |j| (i, j))).filter_map(|(i, j)| {
            let centre = [cy + i * a[0] + j * b[0], cx + i * a[1] + j * b[1]];
            let round = Round { centre, ro: r, ri: None };
            let rows = round.rows(canvas.rows);
            let meets = centre[1] + r + 1.0 >= 0.0 && centre[1] - r - 1.0 <= canvas.columns as f64;
            (meets && !rows.is_empty()).then_some((rows, round))
        });
        Ok(Lattice(disks.collect()))
    }

    pub(super) fn spans(&self, row: usize, columns: usize, spans: &mut Vec<Range<usize>>) {
        let here = self.0.iter().filter(|(rows, _)| rows.contains(&row));
        let mut of_disks = Vec::new();
        of_disks.extend(here.flat_map(|(_, disk)| disk.spans(row, columns)));
        of_disks.retain(|span| !span.is_empty());
        of_disks.sort_by_key(|span| span.start);
        for span in of_disks {
            match spans.last_mut() {
                Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
                _ => spans.push(span),
            }
        }
    }
}
