//! The cells of one shape, row by row.

use super::lattice::Lattice;
use super::polygon::Polygon;
use super::{Canvas, check, check_radii, whole_between};
use crate::Shape;
use framefold::{Error, Result};
use std::ops::Range;

/// A shape whose numbers have been checked.
pub(super) struct Outline {
    /// The rows that it may have cells in.
    pub(super) rows: Range<usize>,
    kind: Kind,
}

enum Kind {
    /// These columns of each row.
    Block(Range<usize>),
    Round(Round),
    Wedge {
        round: Round,
        from: f64,
        width: f64,
    },
    Polygon(Polygon),
    Lattice(Lattice),
}

/// All at most `ro` from the centre, and more than `ri` if there is one.
pub(super) struct Round {
    pub(super) centre: [f64; 2],
    pub(super) ro: f64,
    pub(super) ri: Option<f64>,
}

/// # Errors
/// `InvalidArgument` that names the number that does not fit; `Limit` for too many corners or disks.
pub(super) fn of(shape: &Shape, canvas: Canvas) -> Result<Outline> {
    let all = 0..canvas.rows;
    let (rows, kind) = match shape {
        Shape::Point { y, x } => {
            check("point", &[("y", *y), ("x", *x)])?;
            let [row, column] = [(y + 0.5).floor(), (x + 0.5).floor()];
            (
                whole_between(row, row, canvas.rows),
                Kind::Block(whole_between(column, column, canvas.columns)),
            )
        }
        Shape::Rectangle { y0, x0, y1, x1 } => {
            check("rectangle", &[("y0", *y0), ("x0", *x0), ("y1", *y1), ("x1", *x1)])?;
            let between =
                |a: f64, b: f64, end| whole_between(a.min(b).trunc(), a.max(b).trunc(), end);
            (between(*y0, *y1, canvas.rows), Kind::Block(between(*x0, *x1, canvas.columns)))
        }
        Shape::Disk { cy, cx, r } => {
            let round = round("disk", [*cy, *cx], *r, None)?;
            (round.rows(canvas.rows), Kind::Round(round))
        }
        Shape::Ring { cy, cx, ri, ro } => {
            let round = round("ring", [*cy, *cx], *ro, Some(*ri))?;
            (round.rows(canvas.rows), Kind::Round(round))
        }
        Shape::Wedge { cy, cx, ri, ro, from, to } => {
            let round = round("wedge", [*cy, *cx], *ro, Some(*ri))?;
            check("wedge", &[("from", *from), ("to", *to)])?;
            let turn = to - from;
            let width = if turn >= 360.0 { f64::INFINITY } else { turn.rem_euclid(360.0) };
            (round.rows(canvas.rows), Kind::Wedge { round, from: *from, width })
        }
        Shape::Polygon { points } => (all, Kind::Polygon(Polygon::try_new(points)?)),
        Shape::Lattice { cy, cx, a, b, r, order } => {
            (all, Kind::Lattice(Lattice::try_new([*cy, *cx], *a, *b, *r, *order, canvas)?))
        }
        Shape::Array { .. } => return Err(Error::bug("an array has no outline")),
    };
    Ok(Outline { rows, kind })
}

fn round(shape: &str, centre: [f64; 2], ro: f64, ri: Option<f64>) -> Result<Round> {
    check(shape, &[("cy", centre[0]), ("cx", centre[1])])?;
    match ri {
        None => check_radii(shape, &[("r", ro)])?,
        Some(ri) => {
            check_radii(shape, &[("ri", ri), ("ro", ro)])?;
            if ri > ro {
                return Err(Error::invalid(format!(
                    "the inner radius {ri} of a {shape} is above the outer radius {ro}"
                )));
            }
        }
    }
    Ok(Round { centre, ro, ri })
}

impl Outline {
    /// Appends the columns of a row that belong to it, in order and without overlap.
    pub(super) fn spans(&self, row: usize, columns: usize, spans: &mut Vec<Range<usize>>) {
        match &self.kind {
            Kind::Block(span) => spans.push(span.clone()),
            Kind::Round(round) => spans.extend(round.spans(row, columns)),
            Kind::Wedge { round, from, width } => {
                let [cy, cx] = round.centre;
                let dy = row as f64 - cy;
                for column in round.spans(row, columns).into_iter().flatten() {
                    let angle = dy.atan2(column as f64 - cx).to_degrees();
                    if (angle - from).rem_euclid(360.0) < *width {
                        match spans.last_mut() {
                            Some(last) if last.end == column => last.end += 1,
                            _ => spans.push(column..column + 1),
                        }
                    }
                }
            }
            Kind::Polygon(polygon) => polygon.spans(row, columns, spans),
            Kind::Lattice(lattice) => lattice.spans(row, columns, spans),
        }
    }
}

impl Round {
    /// The rows that it may have cells in.
    pub(super) fn rows(&self, end: usize) -> Range<usize> {
        let [cy, _] = self.centre;
        // A row more on either side, for rounding.
        whole_between(cy - self.ro - 1.0, cy + self.ro + 1.0, end)
    }

    pub(super) fn spans(&self, row: usize, columns: usize) -> [Range<usize>; 2] {
        let [cy, cx] = self.centre;
        let outer = chord(columns, row as f64 - cy, cx, self.ro);
        let inner = self.ri.map_or(0..0, |ri| chord(columns, row as f64 - cy, cx, ri));
        match inner.is_empty() {
            true => [outer, 0..0],
            false => [outer.start..inner.start, inner.end..outer.end],
        }
    }
}

/// The columns of a row `dy` below the centre that are at most `r` away from it.
fn chord(columns: usize, dy: f64, cx: f64, r: f64) -> Range<usize> {
    let inside = |column: usize| {
        let dx = column as f64 - cx;
        dx * dx + dy * dy <= r * r
    };
    // Distances are compared as others do who make masks; half of the chord only says where to look.
    let half = (r * r - dy * dy).max(0.0).sqrt();
    let margin = 2.0 + (cx.abs() + r) * 1e-7;
    let near = whole_between(cx - half - margin, cx + half + margin, columns);
    match (near.clone().find(|&c| inside(c)), near.rev().find(|&c| inside(c))) {
        (Some(first), Some(last)) => first..last + 1,
        _ => 0..0,
    }
}
