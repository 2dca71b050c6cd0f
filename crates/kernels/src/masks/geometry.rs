//! Masks of common shapes: disk and ring.

use framefold_core::{Error, NativeArray, Result};
use std::ops::Range;

/// The spans of a row that belong to a mask: left and right of what is left out.
pub(crate) type RowSpans = [Range<usize>; 2];

/// A disk of radius `r` around row `cy` and column `cx`: 1 inside, 0 outside, as float32.
///
/// Pixels whose centre is at most `r` away belong to the disk, so that `r = 0` is a single
/// pixel. The centre need not lie on a pixel, nor within the frame.
///
/// # Errors
/// `InvalidArgument` if the frame does not have two axes, a number is NaN, or `r` is negative.
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
/// or the inner radius is larger than the outer.
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
    let mut mask = vec![0f32; rows * columns];
    let spans = row_spans([rows, columns], [cy, cx], ro, ri);
    for (row, spans) in mask.chunks_exact_mut(columns.max(1)).zip(spans) {
        for span in spans {
            row[span].fill(1.0);
        }
    }
    NativeArray::try_new(sig_shape, mask)
}

/// Row by row, the columns of a disk or ring: at most `ro` from the centre and, if there is an
/// inner radius, more than that away.
pub(crate) fn row_spans(
    [rows, columns]: [usize; 2],
    [cy, cx]: [f64; 2],
    ro: f64,
    ri: Option<f64>,
) -> Vec<RowSpans> {
    (0..rows)
        .map(|row| {
            let outer = chord(columns, row as f64 - cy, cx, ro);
            match ri {
                None => [outer, 0..0],
                Some(ri) => {
                    let inner = chord(columns, row as f64 - cy, cx, ri);
                    if inner.is_empty() {
                        [outer, 0..0]
                    } else {
                        [outer.start..inner.start, inner.end..outer.end.max(inner.end)]
                    }
                }
            }
        })
        .collect()
}

/// The columns of a row `dy` below the centre that are at most `r` away from it.
fn chord(columns: usize, dy: f64, cx: f64, r: f64) -> Range<usize> {
    let inside = |column: usize| {
        let dx = column as f64 - cx;
        dx * dx + dy * dy <= r * r
    };
    // Distances shrink towards the centre and then grow, so the columns inside are one run.
    match ((0..columns).find(|&c| inside(c)), (0..columns).rev().find(|&c| inside(c))) {
        (Some(first), Some(last)) => first..last + 1,
        _ => 0..0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
