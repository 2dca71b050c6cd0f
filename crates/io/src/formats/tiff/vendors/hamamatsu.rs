//! What HPD-TA, Hamamatsu's program for streak cameras, writes: a description (tag 270) of sections.
//!
//! `[Scaling],ScalingXType=2,ScalingXUnit="nm",ScalingXScalingFile="#1379631,0672"`: sections and values follow
//! each other after commas and ends of lines; texts in quotes may hold any of these. `#` begins a place in the
//! file and a number of values there, f32, one for each column: what the axis is at it. Y has the same for
//! rows. Where there is no `#`, an axis has steps of `ScalingXScale` if it has a unit.
//!
//! A wavelength or a time may have values that are not equally far apart; axes have but one step. So the axis is
//! the line that fits the values best, and a warning says how far off it is.

use crate::formats::tiff::ifd::{Directory, tag};
use crate::headers::calibration::Calibration;
use crate::headers::fields::Fields;
use crate::headers::units::convert;
use framefold_core::{AxisKind, MetadataList, Quantity as Q};

/// Of a step: what is farther from the line is worth a warning.
const CLOSE: f64 = 0.01;
/// What stands for no unit.
const NO_UNIT: &str = "no unit";

/// Adds what is known. Says whether HPD-TA wrote the page, and what is odd about its axes.
pub(super) fn add(
    directory: &Directory<'_>,
    text: &str,
    facts: &mut MetadataList,
) -> Option<Vec<String>> {
    let described = Sections::read(Some(text).filter(|text| text.starts_with("[Application]"))?);
    described.value("Application", "Software").filter(|software| *software == "HPD-TA")?;
    facts.text(Q::Detector, described.value("Camera", "CameraName"));
    facts.text(Q::Note, described.value("Comment", "UserComment"));
    let exposure = described.value("Acquisition", "ExposureTime").and_then(|value| {
        let (number, unit) = value.split_once(' ')?;
        convert(number.parse().ok()?, unit, Q::ExposureTime)
    });
    facts.positive(Q::ExposureTime, exposure);
    let binning =
        described.value("Acquisition", "pntBinning").and_then(|both| both.split_once(','));
    if let Some((x, y)) = binning {
        facts.positive(Q::BinningX, x.trim().parse::<f64>().ok());
        facts.positive(Q::BinningY, y.trim().parse::<f64>().ok());
    }
    let mut odd = Vec::new();
    for (from_last, name, size) in [(0, 'X', tag::WIDTH), (1, 'Y', tag::HEIGHT)] {
        let size = directory.number(size).ok().flatten().unwrap_or(0);
        match axis(directory, &described, name, size) {
            Ok((found, note)) => {
                odd.extend(note);
                // A wavelength is no length on the specimen: the axis has its unit, and no quantity.
                if let Some(plain) = found.and_then(|axis| axis.plain()) {
                    facts.calibrate(AxisKind::Sig, from_last, plain);
                }
            }
            Err(what) => odd.push(format!("{what}; axis {name} has no unit")),
        }
    }
    Some(odd)
}

/// The axis of so many positions, and how far from it its values are.
fn axis(
    directory: &Directory<'_>,
    described: &Sections<'_>,
    name: char,
    size: u64,
) -> Result<(Option<Calibration>, Option<String>), String> {
    let value = |what: &str| described.value("Scaling", &format!("Scaling{name}{what}"));
    let unit = value("Unit").filter(|unit| unit.to_lowercase() != NO_UNIT).unwrap_or_default();
    let file = value("ScalingFile").unwrap_or_default();
    let Some(place) = file.strip_prefix('#') else {
        let scale = value("Scale").and_then(|scale| scale.parse::<f64>().ok());
        let linear = scale.filter(|scale| scale.is_finite() && *scale != 0.0 && !unit.is_empty());
        let axis = |step| Calibration { step, offset: None, unit: unit.to_owned() };
        return Ok((linear.map(axis), None));
    };
    let wrong = |what: &str| format!("the values of axis {name} at '{file}' {what}");
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (at, count) = place.split_once(',').ok_or_else(|| wrong("are no place in the file"))?;
    let (at, count) =
        number(at).zip(number(count)).ok_or_else(|| wrong("are no place in the file"))?;
    if count != size {
        return Err(wrong(&format!("are not {size}, as many as it has positions")));
    }
    let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(4));
    let bytes = bytes.and_then(|len| directory.bytes_at(at, len));
    let bytes = bytes.ok_or_else(|| wrong("are beyond the end of the file"))?;
    let fields = Fields::new(&bytes, directory.flavour().big_endian);
    let values = (0..bytes.len() / 4).filter_map(|i| fields.f32(4 * i).map(f64::from));
    let Some((step, offset, off)) = line(values) else {
        return Err(wrong("are no numbers that go up or down"));
    };
    let note = (off > CLOSE * step.abs()).then(|| {
        format!(
            "the values of axis {name} are not equally far apart: the axis is the line that fits \
             them best, with steps of {step:.4} {unit}, from which they are up to {off:.3} {unit} away"
        )
    });
    Ok((Some(Calibration { step, offset: Some(offset), unit: unit.to_owned() }), note))
}

/// The line that fits best, by the sum of squares: its step, its start, and how far values are from it.
fn line(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64, f64)> {
    let n = values.clone().count() as f64;
    let middle = (n - 1.0) / 2.0;
    let mean = values.clone().sum::<f64>() / n;
    let (mut products, mut squares) = (0.0, 0.0);
    for (i, value) in values.clone().enumerate() {
        let distance = i as f64 - middle;
        products += distance * (value - mean);
        squares += distance * distance;
    }
    let step: f64 = products / squares;
    let offset = mean - step * middle;
    let known = step.is_finite() && step != 0.0 && offset.is_finite();
    let off = values.enumerate().map(|(i, value)| (value - (offset + step * i as f64)).abs());
    known.then(|| (step, offset, off.fold(0.0, f64::max)))
}

/// Values, each with its section and its name.
struct Sections<'a>(Vec<(&'a str, &'a str, &'a str)>);

impl<'a> Sections<'a> {
    fn read(text: &'a str) -> Self {
        let mut found = Vec::new();
        let mut section = "";
        let (mut start, mut quoted) = (0, false);
        for (at, c) in text.char_indices().chain([(text.len(), '\n')]) {
            quoted ^= c == '"';
            if (quoted && at < text.len()) || !matches!(c, ',' | '[' | ']' | '\r' | '\n') {
                continue;
            }
            let part = text.get(start..at).unwrap_or_default();
            if c == ']' {
                section = part.trim();
            } else if let Some((name, value)) = part.split_once('=') {
                found.push((section, name.trim(), value.trim().trim_matches('"').trim()));
            }
            start = at + 1;
        }
        Sections(found)
    }

    fn value(&self, section: &str, name: &str) -> Option<&'a str> {
        let mut all = self.0.iter();
        let found = all.find(|(of, named, _)| (*of, *named) == (section, name));
        found.map(|(_, _, value)| *value).filter(|value| !value.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_their_section() {
        let text = "[Application],Software=\"HPD-TA\",Note=\"a, [b] = c\"\r\n[Grabber],SubType=0[LUT],Size=7,\
                    Open=\"1[Comment";
        let found = Sections::read(text);
        assert_eq!(found.value("Application", "Software"), Some("HPD-TA"));
        assert_eq!(found.value("Application", "Note"), Some("a, [b] = c"));
        assert_eq!(found.value("Grabber", "SubType"), Some("0"));
        assert_eq!(found.value("LUT", "Size"), Some("7"));
        assert_eq!(found.value("LUT", "Open"), Some("1[Comment"));
        for (section, name) in [("Grabber", "Size"), ("", "Software"), ("LUT", "")] {
            assert_eq!(found.value(section, name), None);
        }
    }

    #[test]
    fn the_line_fits_values_best() {
        let of = |values: &[f64]| line(values.iter().copied());
        assert_eq!(of(&[3.0, 2.5, 2.0]), Some((-0.5, 3.0, 0.0)));
        let (step, offset, off) = of(&[0.0, 1.0, 2.1, 3.3, 4.6, 6.0]).unwrap();
        assert!((step - 1.2).abs() < 1e-12 && (offset + 1.0 / 6.0).abs() < 1e-12);
        assert!((off - 1.0 / 6.0).abs() < 1e-12);
        for none in [&[][..], &[1.0], &[2.0, 2.0], &[0.0, f64::NAN], &[0.0, f64::INFINITY]] {
            assert_eq!(of(none), None);
        }
    }
}
