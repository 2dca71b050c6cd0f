//! Discrete Fourier transforms of planes of any size.

use framefold::Result;
use framefold::core::memory;
use rustfft::num_complex::Complex;
use rustfft::{FftDirection, FftPlanner};

/// Transforms `values`, rows of `columns` each, in place; the inverse is divided by their number.
///
/// # Errors
/// `Limit` if there is no memory for it.
pub(crate) fn transform(
    values: &mut [Complex<f64>],
    rows: usize,
    columns: usize,
    direction: FftDirection,
) -> Result<()> {
    let mut planner = FftPlanner::new();
    if columns > 1 {
        planner.plan_fft(columns, direction).process(values);
    }
    if rows > 1 {
        let mut turned = memory::filled(Complex::default(), values.len())?;
        turn(values, &mut turned, rows, columns);
        planner.plan_fft(rows, direction).process(&mut turned);
        turn(&turned, values, columns, rows);
    }
    if direction == FftDirection::Inverse {
        let n = values.len().max(1) as f64;
        values.iter_mut().for_each(|value| *value /= n);
    }
    Ok(())
}

/// Rows become columns.
fn turn(from: &[Complex<f64>], to: &mut [Complex<f64>], rows: usize, columns: usize) {
    /// Blocks of so many rows and columns stay in the cache.
    const BLOCK: usize = 32;
    for top in (0..rows).step_by(BLOCK) {
        for left in (0..columns).step_by(BLOCK) {
            for row in top..rows.min(top + BLOCK) {
                for column in left..columns.min(left + BLOCK) {
                    to[column * rows + row] = from[row * columns + column];
                }
            }
        }
    }
}

/// The frequency of each of `n` places, in cycles per step, as the transform orders them.
pub(crate) fn frequency(place: usize, n: usize) -> f64 {
    let cycles = if place < n.div_ceil(2) { place as f64 } else { place as f64 - n as f64 };
    cycles / n as f64
}

/// Where a place goes when frequency 0 goes to the middle, place `n / 2`.
pub(crate) fn from_middle(place: usize, n: usize) -> usize {
    (place + n / 2) % n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transforms_are_those_of_the_definition() {
        for (rows, columns) in [(1, 7), (6, 10), (5, 1), (3, 33), (16, 4), (1, 1)] {
            let values: Vec<Complex<f64>> = (0..rows * columns)
                .map(|i| Complex::new((i * i % 13) as f64, (i % 5) as f64))
                .collect();
            let mut found = values.clone();
            transform(&mut found, rows, columns, FftDirection::Forward).unwrap();
            for (place, found) in found.iter().enumerate() {
                let (ky, kx) = (place / columns, place % columns);
                let mut expected = Complex::new(0.0, 0.0);
                for (i, value) in values.iter().enumerate() {
                    let turns = (ky * (i / columns)) as f64 / rows as f64
                        + (kx * (i % columns)) as f64 / columns as f64;
                    expected +=
                        value * Complex::from_polar(1.0, -2.0 * std::f64::consts::PI * turns);
                }
                assert!((found - expected).norm() < 1e-9, "{rows} {columns} {place}");
            }
            transform(&mut found, rows, columns, FftDirection::Inverse).unwrap();
            assert!(found.iter().zip(&values).all(|(a, b)| (a - b).norm() < 1e-9));
        }
    }

    #[test]
    fn frequencies_and_their_places() {
        let all = |n| (0..n).map(|i| (frequency(i, n) * n as f64).round()).collect::<Vec<f64>>();
        assert_eq!(all(4), [0.0, 1.0, -2.0, -1.0]);
        assert_eq!(all(5), [0.0, 1.0, 2.0, -2.0, -1.0]);
        for n in [1, 4, 5] {
            for i in 0..n {
                let shown = from_middle(i, n) as f64 - (n / 2) as f64;
                assert_eq!(shown, (frequency(i, n) * n as f64).round());
            }
        }
    }
}
