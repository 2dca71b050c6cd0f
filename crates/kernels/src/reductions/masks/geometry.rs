//! Masks of common shapes: disk and ring.

use framefold_core::{Error, NativeArray, Result, interrupt, memory};
use std::ops::Range;

/// The spans of a row that belong to a mask: left and right of what is left out.
pub(crate) type RowSpans = [Range<usize>; 2];

/// A disk of radius `r` around row `cy` and column `cx`: 1 inside, 0 outside, as float32.
///
/// Pixels whose centre is at most `r` away belong to the disk, so that `r = 0` is a single
/// pixel. The centre need not lie on a pixel, nor within the frame.
///
/// # Errors
/// `InvalidArgument` if the frame does not have two axes, a number is NaN, or `r` is negative;
/// `Limit` if there is no memory for it.
pub fn disk(sig_shape: &[usize], cy: f64, cx: f64, r: f64) -> Result<NativeArray> {
    paint(sig_shape, cy, cx, r, None)
}

/// A ring around row `cy` and column `cx`: 1 inside, 0 outside, as float32.
///
/// It is the disk of radius `ro` without that of radius `ri`: pixels at the outer radius belong
/// to it, pixels at the inner radius do not. With `ri = 0` it lacks the pixel at the centre.
///
/// # Errors
/// `InvalidArgument` if the frame does not have two axes, a number is NaN, a radius is negative,
/// or the inner radius is larger than the outer; `Limit` if there is no memory for it.
pub fn ring(sig_shape: &[usize], cy: f64, cx: f64, ro: f64, ri: f64) -> Result<NativeArray> {
    paint(sig_shape, cy, cx, ro, Some(ri))
}

fn paint(sig_shape: &[usize], cy: f64, cx: f64, ro: f64, ri: Option<f64>) -> Result<NativeArray> {
    let &[rows, columns] = sig_shape else {
        return Err(Error::invalid(format!(
            "a disk or ring needs frames with two axes, these have shape {sig_shape:?}"
        )));
    };
    if !cy.is_finite() || !cx.is_finite() {
        return Err(Error::invalid(format!("the centre ({cy}, {cx}) is not finite")));
    }
    for r in [Some(ro), ri].into_iter().flatten() {
        if r.is_nan() || r < 0.0 {
            return Err(Error::invalid(format!("{r} cannot be a radius"))
                .with_hint("radii are in pixels, 0 or more"));
        }
    }
    if ri.is_some_and(|ri| ri > ro) {
        return Err(Error::invalid(format!(
            "the inner radius {} is above the outer radius {ro}",
            ri.unwrap_or(0.0)
        )));
    }
    let mut mask: Vec<f32> = memory::zeros(rows.saturating_mul(columns))?;
    let spans = row_spans([rows, columns], [cy, cx], ro, ri)?;
    for (row, spans) in mask.chunks_exact_mut(columns.max(1)).zip(spans) {
        for span in spans {
            row[span].fill(1.0);
        }
    }
    NativeArray::try_new(sig_shape, mask)
}

/// After so many rows, those who watch are asked whether the work is still wanted.
const ROWS_BETWEEN_CHECKS: usize = 4096;

/// Row by row, the columns of a disk or ring: at most `ro` from the centre and, if there is an
/// inner radius, more than that away.
///
/// # Errors
/// `Limit` if there is no memory for them; `Cancelled` if the run was stopped.
pub(crate) fn row_spans(
    [rows, columns]: [usize; 2],
    [cy, cx]: [f64; 2],
    ro: f64,
    ri: Option<f64>,
) -> Result<Vec<RowSpans>> {
    let mut spans = memory::with_room(rows)?;
    for row in 0..rows {
        if row % ROWS_BETWEEN_CHECKS == ROWS_BETWEEN_CHECKS - 1 {
            interrupt::check()?;
        }
        let outer = chord(columns, row as f64 - cy, cx, ro);
        let inner = ri.map_or(0..0, |ri| chord(columns, row as f64 - cy, cx, ri));
        spans.push(match inner.is_empty() {
            true => [outer, 0..0],
            false => [outer.start..inner.start, inner.end..outer.end.max(inner.end)],
        });
    }
    Ok(spans)
}

/// The columns of a row `dy` below the centre that are at most `r` away from it.
fn chord(columns: usize, dy: f64, cx: f64, r: f64) -> Range<usize> {
    let inside = |column: usize| {
        let dx = column as f64 - cx;
        dx * dx + dy * dy <= r * r
    };
    // Columns further away than half of the chord, and a bit for rounding, need not be looked at.
    let half = match (r * r, dy * dy) {
        (outer, row) if outer.is_finite() => (outer - row).max(0.0).sqrt(),
        _ => r,
    };
    let margin = 2.0 + cx.abs() * (4.0 * f64::EPSILON) + r * (4.0 * f64::EPSILON.sqrt());
    let near = (cx - half - margin) as usize..columns.min((cx + half + margin) as usize);
    // Distances shrink towards the centre and then grow, so the columns inside are one run.
    match (near.clone().find(|&c| inside(c)), near.rev().find(|&c| inside(c))) {
        (Some(first), Some(last)) => first..last + 1,
        _ => 0..0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_beyond_all_memory_are_refused() {
        let huge = 1 << 30;
        assert!(disk(&[huge, huge], 0.0, 0.0, 5.0).is_err());
        assert!(memory::within(100, || disk(&[5, 6], 0.0, 0.0, 5.0)).is_err());
        let stopped = || row_spans([1 << 20, 4], [0.0, 0.0], 5.0, None);
        assert!(interrupt::watched(|| Err(Error::cancelled()), stopped).is_err());
    }

    #[test]
    fn chords_are_found_wherever_the_centre_is() {
        let radii = [0.0, 0.5, 1.0, 2.5, 7.0, 40.0, 1e9, 1e17, f64::MAX, f64::INFINITY];
        let centres = [-1e17, -1e9, -3.0, -0.5, 0.0, 3.3, 11.0, 14.0, 1e9, 1e17, f64::MAX];
        for (r, cx) in radii.into_iter().flat_map(|r| centres.map(|cx| (r, cx))) {
            for dy in [0.0, 0.5, 3.0, 1e9] {
                let inside = |&c: &usize| (c as f64 - cx).powi(2) + dy * dy <= r * r;
                let expected: Vec<usize> = (0..12).filter(inside).collect();
                let found: Vec<usize> = chord(12, dy, cx, r).collect();
                assert_eq!(found, expected, "{r} {cx} {dy}");
            }
        }
    }

    /// Each row as a text.
    fn rows(mask: Result<NativeArray>) -> Vec<String> {
        let mask = mask.unwrap();
        let columns = mask.shape()[1];
        let sign = |&cell: &f32| if cell == 1.0 { '#' } else { '.' };
        mask.as_slice::<f32>()
            .unwrap()
            .chunks(columns)
            .map(|r| r.iter().map(sign).collect())
            .collect()
    }

    #[test]
    fn the_rim_belongs_to_a_disk() {
        let sig = [5, 5];
        assert_eq!(rows(disk(&sig, 2.0, 2.0, 1.0)), [".....", "..#..", ".###.", "..#..", "....."]);
        assert_eq!(rows(disk(&sig, 2.0, 2.0, 2.0)), ["..#..", ".###.", "#####", ".###.", "..#.."]);
        assert_eq!(rows(disk(&sig, 2.0, 2.0, 0.0))[2], "..#..");
        assert_eq!(
            rows(disk(&[5, 6], 2.0, 2.5, 1.5)),
            ["......", "..##..", ".####.", "..##..", "......"]
        );
    }

    #[test]
    fn the_inner_rim_does_not_belong_to_a_ring() {
        let sig = [5, 5];
        assert_eq!(
            rows(ring(&sig, 2.0, 2.0, 2.0, 1.0)),
            ["..#..", ".#.#.", "#...#", ".#.#.", "..#.."]
        );
        assert_eq!(rows(ring(&sig, 2.0, 2.0, 1.0, 1.0)), ["....."; 5]);
        assert_eq!(rows(ring(&sig, 2.0, 2.0, 2.0, 0.0))[2], "##.##");
    }

    #[test]
    fn a_ring_is_the_difference_of_two_disks() {
        let sig = [13, 17];
        for (cy, cx) in [(6.0, 8.0), (5.3, 9.7), (-2.0, 3.0), (12.5, 20.0)] {
            for (ro, ri) in [(4.0, 2.0), (7.5, 0.0), (f64::INFINITY, 3.3), (100.0, 99.0)] {
                let ring = ring(&sig, cy, cx, ro, ri).unwrap();
                let (outer, inner) =
                    (disk(&sig, cy, cx, ro).unwrap(), disk(&sig, cy, cx, ri).unwrap());
                let cells = |mask: &NativeArray| mask.as_slice::<f32>().unwrap().to_vec();
                let difference: Vec<f32> =
                    cells(&outer).iter().zip(cells(&inner)).map(|(o, i)| o - i).collect();
                assert_eq!(cells(&ring), difference, "{cy} {cx} {ro} {ri}");
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(disk(&[5], 0.0, 0.0, 1.0).is_err());
        assert!(disk(&[5, 5], f64::NAN, 0.0, 1.0).is_err());
        assert!(disk(&[5, 5], 0.0, 0.0, -1.0).is_err());
        assert!(disk(&[5, 5], 0.0, 0.0, f64::NAN).is_err());
        assert!(ring(&[5, 5], 0.0, 0.0, 1.0, 2.0).is_err());
    }
}
