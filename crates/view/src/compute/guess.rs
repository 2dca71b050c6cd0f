//! What a viewer finds out by itself: the bright disk, and how scan and detector lie to each other.

use super::com::Field;
use crate::{ComGuess, DiskGuess};
use framefold::{Error, Result};

/// So many thresholds are tried, from one hundredth of the brightest pixels up.
const THRESHOLDS: usize = 100;
/// Over so many of them the size of the disk is to change least.
const PLATEAU: usize = 20;
/// Of so many pixels one may be hot.
const HOT: usize = 2000;

/// The bright disk of a pattern: of those above a threshold, that for which their area changes least with
/// it; their area gives the radius, their centre of mass the centre.
///
/// # Errors
/// `InvalidArgument` if there is nothing bright.
pub(crate) fn disk(pattern: &[f64], columns: usize) -> Result<DiskGuess> {
    let mut sorted: Vec<f64> = pattern.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let (Some(&darkest), Some(&top)) =
        (sorted.get(n / 20), sorted.get(n.saturating_sub(1 + n.div_ceil(HOT))))
    else {
        return Err(nothing_bright());
    };
    // Without what is everywhere: a pedestal of the camera, say.
    let height = top - darkest;
    if height <= 0.0 {
        return Err(nothing_bright());
    }
    let threshold = |step: usize| darkest + height * (step + 1) as f64 / (THRESHOLDS + 1) as f64;
    let area = |step: usize| n - sorted.partition_point(|&value| value <= threshold(step));
    let radii: Vec<f64> =
        (0..THRESHOLDS).map(|step| (area(step) as f64 / std::f64::consts::PI).sqrt()).collect();
    let change = |window: &[f64]| match window {
        [first, .., last] => (first - last) / first,
        _ => 0.0,
    };
    let windows = radii.windows(PLATEAU).enumerate();
    let flattest = windows.min_by(|(_, a), (_, b)| change(a).total_cmp(&change(b)));
    let step = flattest.map_or(THRESHOLDS / 2, |(start, _)| start + PLATEAU / 2);
    let (limit, r) = (threshold(step), radii.get(step).copied().unwrap_or(0.0));
    let (mut total, mut y, mut x) = (0.0, 0.0, 0.0);
    for (pixel, &value) in pattern.iter().enumerate().filter(|(_, value)| **value > limit) {
        // A hot pixel weighs no more than a bright one.
        let weight = value.min(top) - darkest;
        total += weight;
        y += weight * (pixel / columns) as f64;
        x += weight * (pixel % columns) as f64;
    }
    if total <= 0.0 {
        return Err(nothing_bright());
    }
    Ok(DiskGuess { cy: y / total, cx: x / total, r })
}

fn nothing_bright() -> Error {
    Error::invalid("the mean pattern has no bright disk: all pixels are alike")
        .with_hint("draw the detector by hand")
}

/// Rotation, flip and centre from centres of mass, as `framefold.udf.com.guess_corrections` finds them: the
/// field of a specimen without magnetic field has no curl; of the two angles half a turn apart, with the right
/// one more of its strongest divergences are negative, at the atoms. A pixel is `aspect` times as long along y.
///
/// # Errors
/// `InvalidArgument` if the scan does not have two axes of two positions, or no position is known.
pub(crate) fn com(centres: &Field, aspect: f64) -> Result<ComGuess> {
    let (rows, columns) = (centres.rows, centres.columns);
    if rows < 2 || columns < 2 {
        return Err(Error::invalid(format!(
            "rotation and flip follow from derivatives on a scan of two axes, and this one has \
             {rows} × {columns} positions"
        )));
    }
    // Derivatives in the last row and column are from one side.
    let inner = |i: usize| i / columns + 1 < rows && i % columns + 1 < columns;
    let mut seen = centres.clone();
    seen.y.iter_mut().for_each(|y| *y *= aspect);
    let parts = |flip_y: bool| {
        let mut field = seen.clone();
        field.turn(0.0, flip_y);
        (field.curl(), field.divergence())
    };
    let mut best: Option<(f64, bool, u16)> = None;
    for flip_y in [false, true] {
        let (curl, divergence) = parts(flip_y);
        // Turning mixes both: curl cos + divergence sin.
        let (mut curls, mut divergences, mut both, mut n) = (0.0, 0.0, 0.0, 0usize);
        for (i, (c, d)) in curl.iter().zip(&divergence).enumerate() {
            if inner(i) && c.is_finite() && d.is_finite() {
                curls += c * c;
                divergences += d * d;
                both += c * d;
                n += 1;
            }
        }
        if n == 0 {
            return Err(Error::invalid("there is no position to judge the curl at: all lack data"));
        }
        if curls + divergences == 0.0 {
            return Err(Error::invalid(
                "the vectors are the same everywhere, which tells no rotation",
            )
            .with_hint("choose another detector, such as the whole frame"));
        }
        for angle in 0..180u16 {
            let (sin, cos) = f64::from(angle).to_radians().sin_cos();
            let squares = curls * cos * cos + divergences * sin * sin + 2.0 * both * sin * cos;
            if best.is_none_or(|(least, ..)| squares < least) {
                best = Some((squares, flip_y, angle));
            }
        }
    }
    let (_, flip_y, angle) = best.unwrap_or((0.0, false, 0));
    let mut field = seen;
    field.turn(f64::from(angle), flip_y);
    let strengths = field.divergence();
    let strengths = strengths.iter().enumerate().filter(|(i, s)| inner(*i) && s.is_finite());
    let strengths: Vec<f64> = strengths.map(|(_, s)| *s).collect();
    let limit = strengths.iter().fold(0.0, |limit: f64, s| limit.max(s.abs()));
    // The strongest fifths on either side.
    let above = strengths.iter().filter(|s| **s >= 0.6 * limit).count();
    let below = strengths.iter().filter(|s| **s < -0.6 * limit).count();
    let angle = i16::try_from(angle).unwrap_or(0);
    let turned = if angle > 0 { angle - 180 } else { 180 };
    let rotation = f64::from(if above > below { turned } else { angle });
    let mean = |values: &[f64]| {
        let known = values.iter().enumerate().filter(|(i, value)| inner(*i) && value.is_finite());
        let (sum, n) = known.fold((0.0, 0usize), |(sum, n), (_, value)| (sum + value, n + 1));
        sum / n.max(1) as f64
    };
    Ok(ComGuess { rotation, flip_y, cy: mean(&centres.y), cx: mean(&centres.x) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bright_disks_are_found() {
        for (cy, cx, r) in [(31.0, 40.0, 9.0), (20.3, 22.6, 14.5), (5.0, 60.0, 12.0)] {
            let mut pattern: Vec<f64> = (0..64 * 80)
                .map(|i| {
                    let (y, x) = ((i / 80) as f64 - cy, (i % 80) as f64 - cx);
                    let edge = (r + 0.5 - y.hypot(x)).clamp(0.0, 1.0);
                    // A pedestal, counts further out, and noise.
                    100.0 + 900.0 * edge + 60.0 / (1.0 + y.hypot(x) / 10.0) + (i * 7919 % 13) as f64
                })
                .collect();
            pattern[17] = 1e6;
            pattern[1000] = f64::NAN;
            let found = disk(&pattern, 80).unwrap();
            let cut = cy - r < 0.0;
            assert!((found.cx - cx).abs() < 0.5, "{found:?} for {cy} {cx} {r}");
            assert!(cut || (found.cy - cy).abs() < 0.5, "{found:?} for {cy} {cx} {r}");
            assert!(cut || (found.r - r).abs() < 1.0, "{found:?} for {cy} {cx} {r}");
        }
        for nothing in [vec![], vec![5.0; 12], vec![f64::NAN; 12]] {
            assert!(disk(&nothing, 4).unwrap_err().to_string().contains("no bright disk"));
        }
    }

    #[test]
    fn rotations_and_flips_are_found() {
        let (rows, columns) = (40, 44);
        // Atoms that draw the beam to them; not round ones, if they are oblique.
        let atoms = |oblique: f64| {
            let n = rows * columns;
            let mut field =
                Field { y: vec![0.0; n], x: vec![0.0; n], rows, columns, steps: [1.0; 2] };
            for i in 0..n {
                for (ay, ax) in [(10.0, 12.0), (30.0, 11.0), (21.0, 31.0), (8.0, 35.0)] {
                    let (dy, dx) = ((i / columns) as f64 - ay, (i % columns) as f64 - ax);
                    let (y, x) = (dy + oblique * dx, dx + oblique * dy);
                    let pull = (-(dy * y + dx * x) / 18.0f64).exp();
                    field.y[i] -= pull * y;
                    field.x[i] -= pull * x;
                }
            }
            field
        };
        let round = atoms(0.0);
        for flip_y in [false, true] {
            for rotation in [0.0, 35.0, 150.0, 180.0, -20.0, -135.0] {
                // The way back: from the scan to the detector.
                let mut seen = round.clone();
                seen.turn(-rotation, false);
                seen.turn(0.0, flip_y);
                seen.y.iter_mut().for_each(|y| *y += 31.5);
                seen.x.iter_mut().for_each(|x| *x += 33.25);
                let found = com(&seen, 1.0).unwrap();
                assert_eq!((found.rotation, found.flip_y), (rotation, flip_y));
                assert!((found.cy - 31.5).abs() < 0.1 && (found.cx - 33.25).abs() < 0.1);
            }
        }
        // Every second row alone, and pixels that are three times as high as they are wide.
        let thinned = |oblique: f64| {
            let mut seen = atoms(oblique);
            seen.turn(-35.0, false);
            let rest = |of: &[f64], by: f64| -> Vec<f64> {
                of.chunks(columns).step_by(2).flatten().map(|value| value / by).collect()
            };
            let (y, x) = (rest(&seen.y, 3.0), rest(&seen.x, 1.0));
            Field { y, x, rows: rows / 2, columns, steps: [2.0, 1.0] }
        };
        let off = |field: &Field, aspect| (com(field, aspect).unwrap().rotation - 35.0).abs();
        for oblique in [0.0, 0.3] {
            assert!(off(&thinned(oblique), 3.0) <= 1.0);
        }
        assert!(off(&thinned(0.0), 1.0) >= 3.0);
        assert!(off(&Field { steps: [1.0; 2], ..thinned(0.3) }, 3.0) >= 6.0);
        let n = rows * columns;
        let same = Field { y: vec![3.0; n], x: vec![2.0; n], ..round.clone() };
        assert!(com(&same, 1.0).unwrap_err().to_string().contains("the same everywhere"));
        let line = Field { rows: 1, columns: rows * columns, ..round };
        assert!(com(&line, 1.0).is_err());
    }
}
