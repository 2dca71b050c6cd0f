//! Steps, units and names of axes that a caller gives, in the place of what a file says.

use crate::headers::calibration::{self, add_steps, quantities};
use crate::headers::units::{is_known, known_symbols};
use framefold_core::{
    AxisKind, COLOUR, Calibration, Dataset, Error, MetadataList, NAMES_SEPARATOR, Quantity, Result,
    usual_axis_name,
};

/// Facts about axes that replace those of the file; the default says nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibrate {
    /// The step of the scan and its unit: one for the last two axes, or one for each axis, slowest
    /// first; empty for none.
    pub scan_step: Vec<(f64, String)>,
    /// The size of a pixel and its unit, likewise; the unit says what it is a size of. Of pictures in
    /// colours, one size is for rows and columns, not for the axis of their colours.
    pub pixel_size: Vec<(f64, String)>,
    /// The rotation of the scan in degrees.
    pub rotation: Option<f64>,
    /// Which pixel has the value 0, for each axis of a frame; empty for none.
    pub centre: Vec<f64>,
    /// The names of all axes, those of the scan first; empty for none.
    pub names: Vec<String>,
}

impl Calibrate {
    /// The same frames with these facts. Where a step is replaced, 0 stays at the pixel where it was.
    ///
    /// # Errors
    /// `InvalidArgument` that names what was given and what is expected.
    pub fn apply(&self, dataset: Dataset) -> Result<Dataset> {
        if *self == Calibrate::default() {
            return Ok(dataset);
        }
        let (n_nav, n_sig) = (dataset.shape().nav().len(), dataset.shape().sig().len());
        let mut list = dataset.metadata().clone();
        let before = dataset.axes();
        for (name, kind, steps, n) in [
            ("scan_step", AxisKind::Nav, &self.scan_step, n_nav),
            ("pixel_size", AxisKind::Sig, &self.pixel_size, n_sig),
        ] {
            let own = before.iter().filter(|axis| axis.kind == kind);
            let plain: Vec<bool> = own.map(|axis| axis.name != COLOUR).collect();
            let mut steps = each_axis(name, steps, &plain)?;
            for (from_last, step) in steps.iter_mut().rev().enumerate() {
                let Some(step) = step else { continue };
                let index = n - 1 - from_last + if kind == AxisKind::Sig { n_nav } else { 0 };
                let old = before.get(index);
                step.offset = old.map(|axis| axis.offset / axis.scale * step.step);
                list.forget_axis(kind, from_last);
            }
            match kind {
                AxisKind::Nav => add_steps(&mut list, &steps, &[]),
                AxisKind::Sig => add_steps(&mut list, &[], &steps),
            };
        }
        self.place(&mut list, n_sig)?;
        if let Some(rotation) = self.rotation {
            list.number(Quantity::ScanRotation, finite("rotation", rotation)?);
        }
        self.name(&mut list, n_nav, n_sig)?;
        Ok(dataset.with_metadata(list))
    }

    /// Moves the places of the axes of frames.
    fn place(&self, list: &mut MetadataList, n_sig: usize) -> Result<()> {
        if self.centre.is_empty() {
            return Ok(());
        }
        if self.centre.len() != n_sig {
            return Err(Error::invalid(format!(
                "centre is {:?}, expected one number for each of the {n_sig} axes of a frame",
                self.centre
            ))
            .with_hint("give rows and columns in pixels: (cy, cx)"));
        }
        for (from_last, &at) in self.centre.iter().rev().enumerate() {
            let at = finite("centre", at)?;
            let mut is_known = false;
            if let Some(known) = list.calibration(AxisKind::Sig, from_last).cloned() {
                is_known = true;
                let offset = 0.0 - at * known.step;
                list.calibrate(AxisKind::Sig, from_last, Calibration { offset, ..known });
            }
            for &quantity in quantities(AxisKind::Sig, from_last, n_sig) {
                let step = list.get_number(quantity);
                if let (Some(step), Some(offset)) = (step, quantity.offset_of_step()) {
                    is_known = true;
                    list.remove(offset);
                    list.number(offset, Some(0.0 - at * step).filter(|&offset| offset != 0.0));
                }
            }
            if !is_known && at != 0.0 {
                let counted = Calibration { offset: 0.0 - at, ..Calibration::none() };
                list.calibrate(AxisKind::Sig, from_last, counted);
            }
        }
        Ok(())
    }

    fn name(&self, list: &mut MetadataList, n_nav: usize, n_sig: usize) -> Result<()> {
        const LONGEST: usize = 200;
        if self.names.is_empty() {
            return Ok(());
        }
        let names: Vec<&str> = self.names.iter().map(|name| name.trim()).collect();
        let wrong = |what: String| {
            Error::invalid(format!("names is {:?}: {what}", self.names)).with_hint(
                "give one for each axis, those of the scan first: scan_y, scan_x, ky, kx",
            )
        };
        if names.len() != n_nav + n_sig {
            return Err(wrong(format!("the data have {} axes", n_nav + n_sig)));
        }
        for (i, name) in names.iter().enumerate() {
            if name.is_empty()
                || name.contains(',')
                || name.contains(char::is_control)
                || name.chars().count() > LONGEST
            {
                return Err(wrong(format!("'{name}' cannot be the name of an axis")));
            }
            if names.iter().take(i).any(|other| other == name) {
                return Err(wrong(format!("'{name}' is there twice")));
            }
        }
        let (nav, sig) = names.split_at(n_nav);
        for (quantity, kind, names) in
            [(Quantity::ScanAxes, AxisKind::Nav, nav), (Quantity::FrameAxes, AxisKind::Sig, sig)]
        {
            let usual = (0..names.len()).map(|i| usual_axis_name(kind, i, names.len()));
            if usual.eq(names.iter().copied()) {
                list.remove(quantity);
            } else {
                list.text(quantity, names.join(NAMES_SEPARATOR).as_str());
            }
        }
        Ok(())
    }
}

/// The steps that a text says, one or several with commas between them: `0.5nm`, `2 s, 0.5 nm`.
///
/// # Errors
/// `InvalidArgument` that names the text if it is no number with a unit that is known.
pub fn parse_steps(text: &str) -> Result<Vec<(f64, String)>> {
    text.split(',').map(|part| parse_step(part.trim(), text)).collect()
}

fn parse_step(part: &str, text: &str) -> Result<(f64, String)> {
    // The longest number that it begins with: 0.5eV is 0.5 and eV.
    let is_number = part.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    let ends = part.char_indices().map(|(at, c)| at + c.len_utf8()).rev();
    let found = ends.filter(|_| is_number).find_map(|end| {
        let (number, unit) = part.split_at_checked(end)?;
        Some((number.parse::<f64>().ok()?, unit.trim().to_owned()))
    });
    let (value, unit) = found.ok_or_else(|| {
        Error::invalid(format!("'{text}' is no number with a unit")).with_hint("write it as 0.5nm")
    })?;
    if unit.is_empty() && text.contains(',') {
        return Err(Error::invalid(format!("{value} in '{text}' has no unit")).with_hint(
            "write each step with its unit, as 1nm,2nm, and decimals with a point, as 0.5nm",
        ));
    }
    checked("the step", value, &unit)?;
    Ok((value, unit))
}

/// Whether such a step can be that of an axis.
fn checked(name: &str, value: f64, unit: &str) -> Result<()> {
    if finite(name, value)? == 0.0 {
        return Err(Error::invalid(format!("{name} is 0 {unit}, expected a number that is not 0")));
    }
    if !is_known(unit) {
        let what = match unit {
            "" => "has no unit".to_owned(),
            unit => format!("has the unit '{unit}'"),
        };
        return Err(Error::invalid(format!("{name} {value} {what}, expected one that is known"))
            .with_hint(format!(
                "there are {}, and 1/nm and the like",
                known_symbols().join(", ")
            )));
    }
    Ok(())
}

fn finite(name: &str, value: f64) -> Result<f64> {
    if value.is_finite() {
        Ok(value)
    } else {
        Err(Error::invalid(format!("{name} is {value}, expected a finite number")))
    }
}

/// The steps of axes, slowest first. One that is given once is for the last two of those that are
/// `plain`, which the axis of colours is not.
fn each_axis(
    name: &str,
    steps: &[(f64, String)],
    plain: &[bool],
) -> Result<Vec<Option<calibration::Calibration>>> {
    let n = plain.len();
    if !(steps.len() <= 1 || steps.len() == n) {
        return Err(Error::invalid(format!(
            "{name} has {} values, expected one, or one for each of {n} axes",
            steps.len()
        )));
    }
    for (value, unit) in steps {
        checked(name, *value, unit)?;
    }
    let n_plain_after = |index: usize| plain.iter().skip(index + 1).filter(|&&plain| plain).count();
    let step = |index: usize| {
        let given = match steps {
            [one] if plain.get(index) == Some(&true) && n_plain_after(index) < 2 => Some(one),
            [_] => None,
            all => all.get(index),
        };
        given.map(|(step, unit)| calibration::Calibration {
            step: *step,
            offset: None,
            unit: unit.clone(),
        })
    };
    Ok((0..n).map(step).collect())
}
