//! The integrated centre of mass.

use super::com::{Field, mean};
use super::fourier::{frequency, transform};
use framefold::Result;
use framefold::core::memory;
use rustfft::FftDirection;
use rustfft::num_complex::Complex;

/// The phase whose gradient is 2π times the field, with mean 0: `φ(q) = −i q·C(q) / q²`.
///
/// Lazić, Bosch, Lazar, Ultramicroscopy 160 (2016), 265: of all scalar fields the one that fits best, the
/// scan taken as periodic. With vectors in cycles per length, and that length between positions, it is in
/// radians; here, in pixels of the frame times steps of the scan, both along x. Where the field is
/// unknown, it is taken as its mean, and the phase is not given.
///
/// # Errors
/// `Limit` if there is no memory for it.
pub(crate) fn phase(field: &Field) -> Result<Vec<f64>> {
    let (rows, columns) = (field.rows, field.columns);
    let component = |values: &[f64]| {
        let mean = mean(values);
        let shift = |value: &f64| if value.is_finite() { value - mean } else { 0.0 };
        let shifts = values.iter().map(|value| Complex::new(shift(value), 0.0));
        let mut shifts = memory::collected(shifts)?;
        transform(&mut shifts, rows, columns, FftDirection::Forward)?;
        Ok::<_, framefold::Error>(shifts)
    };
    let (mut phase, along_x) = (component(&field.y)?, component(&field.x)?);
    for (place, (value, x)) in phase.iter_mut().zip(along_x).enumerate() {
        let q_y = frequency(place / columns, rows) / field.steps[0];
        let q_x = frequency(place % columns, columns) / field.steps[1];
        let length = q_y * q_y + q_x * q_x;
        *value = match length == 0.0 {
            true => Complex::default(),
            false => Complex::new(0.0, -1.0) * (*value * q_y + x * q_x) / length,
        };
    }
    transform(&mut phase, rows, columns, FftDirection::Inverse)?;
    let known = field.y.iter().zip(&field.x).map(|(y, x)| y.is_finite() && x.is_finite());
    let values = phase.iter().zip(known);
    Ok(values.map(|(phase, known)| if known { phase.re } else { f64::NAN }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    #[test]
    fn the_phase_of_a_gradient_comes_back() {
        for (rows, columns, steps) in
            [(30, 42, [1.0; 2]), (1, 25, [1.0; 2]), (16, 9, [4.0; 2]), (17, 12, [2.5, 0.75])]
        {
            let angle = |i: usize| {
                let (y, x) =
                    ((i / columns) as f64 / rows as f64, (i % columns) as f64 / columns as f64);
                (2.0 * PI * (y + 2.0 * x), 2.0 * PI * (3.0 * x - 1.0 * y) + 0.5)
            };
            // Of one row, nothing changes along y.
            let down = if rows > 1 { 1.0 } else { 0.0 };
            let n = rows * columns;
            let expected: Vec<f64> =
                (0..n).map(|i| angle(i).0.cos() + 0.3 * angle(i).1.sin()).collect();
            let along = |first: f64, second: f64, length: f64| -> Vec<f64> {
                let slope = |i: usize| -first * angle(i).0.sin() + 0.3 * second * angle(i).1.cos();
                // Per length, over 2π; a constant has no phase.
                (0..n).map(|i| slope(i) / length + 0.7).collect()
            };
            let field = Field {
                y: along(down, -down, rows as f64 * steps[0]),
                x: along(2.0, 3.0, columns as f64 * steps[1]),
                rows,
                columns,
                steps,
            };
            let found = phase(&field).unwrap();
            for (found, expected) in found.iter().zip(&expected) {
                assert!((found - expected).abs() < 1e-9, "{rows} {columns}: {found} {expected}");
            }
        }
    }

    #[test]
    fn unknown_positions_stay_unknown() {
        let mut field =
            Field { y: vec![1.0; 12], x: vec![0.0; 12], rows: 3, columns: 4, steps: [1.0; 2] };
        field.y[5] = f64::NAN;
        let phase = phase(&field).unwrap();
        assert!(phase[5].is_nan());
        assert!(phase.iter().enumerate().all(|(i, value)| i == 5 || value.abs() < 1e-12));
    }
}
