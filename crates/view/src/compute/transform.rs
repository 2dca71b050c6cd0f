//! What is done to pictures before they are shown: Fourier transforms, with their axes.

use super::com::mean;
use super::fourier::{from_middle, transform};
use crate::{AxisDescription, Transform};
use framefold::core::memory;
use framefold::{Error, Result};
use rustfft::FftDirection;
use rustfft::num_complex::Complex;

/// One plane of a picture.
pub(crate) struct Plane {
    pub(crate) name: &'static str,
    pub(crate) values: Vec<f64>,
}

/// The planes of a picture after one another.
pub(crate) struct Transformed {
    pub(crate) names: Vec<String>,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f64>,
    /// Where they are not those of the picture.
    pub(crate) axes: Option<Vec<AxisDescription>>,
}

/// `axes` are those of all positions, of which there is every `steps`-th in the planes.
///
/// # Errors
/// `Limit` if there is no memory for it.
pub(crate) fn apply(
    what: Transform,
    planes: Vec<Plane>,
    shape: Vec<usize>,
    axes: &[AxisDescription],
    steps: &[usize],
) -> Result<Transformed> {
    let names = planes.iter().map(|plane| plane.name.to_owned()).collect();
    let mut values = memory::with_room(planes.iter().map(|plane| plane.values.len()).sum())?;
    for plane in planes {
        values.extend(match what {
            Transform::None => plane.values,
            Transform::Fft => spectrum(plane.values, &shape)?,
            Transform::Ewpc => spectrum(logarithms(plane.values), &shape)?,
        });
    }
    let sizes = shape.iter().zip(axes).zip(steps);
    let axes = (what != Transform::None)
        .then(|| sizes.map(|((&n, axis), &step)| reciprocal(axis, n, step)).collect());
    Ok(Transformed { names, shape, values, axes })
}

/// The absolute values of the Fourier transform, frequency 0 in the middle. Unknown values are taken as the
/// mean of the others.
fn spectrum(values: Vec<f64>, shape: &[usize]) -> Result<Vec<f64>> {
    let (rows, columns) = match *shape {
        [columns] => (1, columns),
        [rows, columns] => (rows, columns),
        _ => return Err(Error::bug(format!("a plane of shape {shape:?}"))),
    };
    let mean = mean(&values);
    let known = |value: f64| if value.is_finite() { value } else { mean };
    let known = values.iter().map(|&value| Complex::new(known(value), 0.0));
    let mut waves = memory::collected(known)?;
    transform(&mut waves, rows, columns, FftDirection::Forward)?;
    let mut spectrum = values;
    for (place, wave) in waves.into_iter().enumerate() {
        let row = from_middle(place / columns, rows);
        let column = from_middle(place % columns, columns);
        spectrum[row * columns + column] = wave.norm();
    }
    Ok(spectrum)
}

/// Natural logarithms. What is 0 or below counts as the smallest value above 0.
fn logarithms(mut values: Vec<f64>) -> Vec<f64> {
    let above = values.iter().copied().filter(|&value| value > 0.0 && value.is_finite());
    let smallest = above.fold(f64::INFINITY, f64::min);
    let smallest = if smallest.is_finite() { smallest } else { 1.0 };
    for value in &mut values {
        // NaN stays.
        *value = if *value < smallest { smallest.ln() } else { value.ln() };
    }
    values
}

/// The axis of frequencies of `n` positions, `step` apart; steps without a unit are pixels.
pub(crate) fn reciprocal(axis: &AxisDescription, n: usize, step: usize) -> AxisDescription {
    let pixel = if axis.unit.is_empty() { 1.0 } else { axis.scale };
    let scale = 1.0 / (n as f64 * step as f64 * pixel);
    AxisDescription {
        name: format!("1/{}", axis.name),
        size: n,
        scale,
        offset: -((n / 2) as f64) * scale,
        unit: reciprocal_unit(&axis.unit),
    }
}

fn reciprocal_unit(unit: &str) -> String {
    if unit.is_empty() {
        return "1/px".to_owned();
    }
    let is_one = |unit: &str| !unit.contains(['/', '·', '*', ' ']);
    let below_one = unit.strip_prefix('1').and_then(|rest| rest.trim_start().strip_prefix('/'));
    if let Some(rest) = below_one.map(str::trim) {
        let within = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
        if let Some(below) = within.or(Some(rest).filter(|rest| is_one(rest))) {
            return below.to_owned();
        }
    }
    match unit.strip_suffix("^-1").or_else(|| unit.strip_suffix("⁻¹")) {
        Some(rest) if is_one(rest) => rest.to_owned(),
        _ if is_one(unit) => format!("1/{unit}"),
        _ => format!("1/({unit})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_inverted() {
        for (unit, expected) in [
            ("", "1/px"),
            ("nm", "1/nm"),
            ("1/nm", "nm"),
            ("Å⁻¹", "Å"),
            ("nm^-1", "nm"),
            ("mrad", "1/mrad"),
            ("1 / nm", "nm"),
            ("nm/s", "1/(nm/s)"),
            ("1/(nm/s)", "nm/s"),
            ("1/nm/s", "1/(1/nm/s)"),
            ("1/(nm)/s", "1/(1/(nm)/s)"),
            ("mrad nm^-1", "1/(mrad nm^-1)"),
        ] {
            assert_eq!(reciprocal_unit(unit), expected);
        }
    }

    #[test]
    fn steps_without_a_unit_are_pixels() {
        let of = |unit: &str| {
            let unit = unit.to_owned();
            let axis = AxisDescription { name: "x".into(), size: 8, scale: 0.5, offset: 3.0, unit };
            let made = reciprocal(&axis, 4, 2);
            (made.scale, made.offset, made.unit)
        };
        assert_eq!(of(""), (1.0 / 8.0, -2.0 / 8.0, "1/px".to_owned()));
        assert_eq!(of("nm"), (1.0 / 4.0, -2.0 / 4.0, "1/nm".to_owned()));
    }
}
