//! Moved frames against their definition, one pixel at a time.

use super::*;

const SIG: [usize; 3] = [3, 4, 9];
const LEN: usize = 3 * 4 * 9;
const SHIFTS: [[f64; 3]; 9] = [
    [0.0, 0.0, 0.0],
    [1.0, -2.0, 3.0],
    [0.0, 0.0, -8.0],
    [0.0, 0.0, 9.0],
    [0.5, 0.0, 0.0],
    [0.0, -0.25, 0.75],
    [-1.25, 2.5, -7.5],
    [0.0, 3.75, 8.5],
    [-1e300, 1e300, -1e-300],
];

/// How much of pixel `p` lies under cell `i`: a triangle along each axis.
fn weight(cell: usize, pixel: usize, shift: &[f64; 3]) -> f64 {
    let place = |i: usize| [i / 36, i / 9 % 4, i % 9].map(|at| at as f64);
    let axes = place(cell).into_iter().zip(place(pixel)).zip(shift);
    axes.map(|((i, p), shift)| (1.0 - (i - p + shift).abs()).max(0.0)).product()
}

fn frame() -> Vec<u16> {
    (0..LEN).map(|i| (i * i % 251) as u16 * 8).collect()
}

fn expected(shift: &[f64; 3]) -> Vec<f64> {
    let frame = frame();
    let cell = |i| (0..LEN).map(|p| weight(i, p, shift) * f64::from(frame[p])).sum();
    (0..LEN).map(cell).collect()
}

fn axes(shift: &[f64; 3]) -> Vec<Axis> {
    shift.iter().map(|&shift| Axis::new(shift)).collect()
}

#[test]
fn frames_lie_under_masks_as_their_shifts_say() {
    let frame = frame();
    for shift in &SHIFTS {
        let (axes, mut room) = (axes(shift), Room::default());
        let expected = expected(shift);
        for simd in Simd::all() {
            let moved = Moved { simd, sig: &SIG, axes: &axes };
            // Blocks begin and end within lines.
            for pixels in [0..LEN, 0..0, 5..7, 7..40, 9..18, 107..108] {
                let expected = &expected[pixels.clone()];
                let mut under = vec![7f32; pixels.len()];
                let part = Part { frame: &frame, pixels: pixels.clone(), ahead: &[] };
                moved.blend(part, &mut room, &mut under, u16::between).unwrap();
                assert!(under.iter().zip(expected).all(|(&u, &e)| f64::from(u) == e), "{shift:?}");
                if axes.iter().all(Axis::is_whole) {
                    let mut under = vec![7u16; pixels.len()];
                    moved.copy(&frame, pixels, &mut under);
                    assert!(under.iter().zip(expected).all(|(&u, &e)| f64::from(u) == e));
                }
            }
        }
    }
}

#[test]
fn entries_lie_under_masks_as_dense_frames_do() {
    let frame = frame();
    for shift in &SHIFTS {
        let axes = axes(shift);
        let moved = Moved { simd: Simd::best(), sig: &SIG, axes: &axes };
        let (mut under, mut cells) = (vec![0.0; LEN], vec![]);
        for (pixel, &value) in (0..).zip(&frame) {
            moved.cells(pixel, &mut cells).unwrap();
            for &(cell, weight) in &cells {
                under[cell] += weight * f64::from(value);
            }
        }
        assert_eq!(under, expected(shift), "{shift:?}");
        assert!(moved.cells(LEN as u32, &mut cells).is_err());
        assert!(moved.cells(u32::MAX, &mut cells).is_err());
    }
}

#[test]
fn columns_are_those_that_lie_on_the_frame() {
    for shift in &SHIFTS {
        let axes = axes(shift);
        let moved = Moved { simd: Simd::best(), sig: &SIG, axes: &axes };
        let inside = |x: &usize| (0..9).any(|p| weight(*x, p, &[0.0, 0.0, shift[2]]) > 0.0);
        let expected: Vec<usize> = (0..9).filter(inside).collect();
        assert_eq!(moved.columns().collect::<Vec<_>>(), expected, "{shift:?}");
    }
}

#[test]
fn pixels_of_weight_zero_are_not_looked_at() {
    let mut frame = vec![1f32; LEN];
    frame.iter_mut().skip(1).step_by(2).for_each(|cell| *cell = f32::NAN);
    let axes = axes(&[0.0, 0.0, -0.0]);
    let moved = Moved { simd: Simd::best(), sig: &SIG, axes: &axes };
    let mut under = vec![0f32; LEN];
    let part = Part { frame: &frame, pixels: 0..LEN, ahead: &frame };
    moved.blend(part, &mut Room::default(), &mut under, f32::between).unwrap();
    assert!(under.iter().zip(&frame).all(|(a, b)| a.to_bits() == b.to_bits()));
}

#[test]
fn what_is_asked_for_ahead_is_what_lies_under_the_masks() {
    for shift in &SHIFTS {
        let axes = axes(shift);
        let moved = Moved { simd: Simd::best(), sig: &SIG, axes: &axes };
        let reach = moved.reach(&(0..LEN));
        assert!(reach.start <= reach.end && reach.end <= LEN, "{shift:?} {reach:?}");
    }
    let axes = axes(&[1.0, -2.0, 3.5]);
    let moved = Moved { simd: Simd::best(), sig: &SIG, axes: &axes };
    // A plane further, two rows back, three columns further; and a row and a pixel more.
    assert_eq!(moved.reach(&(29..31)), 29 + 36 - 18 + 3..31 + 36 - 18 + 3 + 10);
}
