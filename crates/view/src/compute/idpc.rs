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
/// radians; uncalibrated, in pixels of the frame times steps of the scan. Where the field is
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
