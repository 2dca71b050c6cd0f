//! The axes of a data set: names, steps and units, from what is known of the experiment.

use crate::metadata::{Number, Quantity};
use crate::{MetadataList, MetadataValue};
use std::fmt;

/// Whether an axis is one of the scan or one of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AxisKind {
    /// Of the scan.
    Nav,
    /// Of frames.
    Sig,
}

impl AxisKind {
    /// `nav` or `sig`.
    pub fn name(self) -> &'static str {
        match self {
            AxisKind::Nav => "nav",
            AxisKind::Sig => "sig",
        }
    }
}

/// What a file says of an axis; see [`MetadataList::calibrate`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Calibration {
    /// From one position to the next: below 0 where values fall.
    pub step: f64,
    /// The value of the first position.
    pub offset: f64,
    /// Empty if there is none.
    pub unit: String,
}

impl Calibration {
    /// That positions are counted.
    pub fn none() -> Self {
        Calibration { step: 1.0, offset: 0.0, unit: String::new() }
    }
}

/// One axis. Position `i` on it is at `offset + i * scale`.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// No other axis of the data set has the same.
    pub name: String,
    /// Whether it is one of the scan or one of frames.
    pub kind: AxisKind,
    /// How many positions it has.
    pub size: usize,
    /// The distance of neighbours: below 0 where values fall, 1 if it is not known.
    pub scale: f64,
    /// The value of the first position; 0 if it is not known.
    pub offset: f64,
    /// Empty if it is not known, or if there is none.
    pub unit: String,
}

impl Axis {
    /// 1 where values rise with the index, -1 where they fall.
    pub fn direction(&self) -> i8 {
        if self.scale < 0.0 { -1 } else { 1 }
    }
}

/// `scan_y: 128 × 0.5 nm, from -2 nm`; only `scan_y: 128` where nothing is known.
impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Axis { name, size, scale, offset, unit, .. } = self;
        write!(f, "{name}: {size}")?;
        if (*scale, *offset, unit.as_str()) == (1.0, 0.0, "") {
            return Ok(());
        }
        let separator = if unit.is_empty() { "" } else { " " };
        write!(f, " × {}{separator}{unit}", Number(*scale))?;
        if *offset != 0.0 {
            write!(f, ", from {}{separator}{unit}", Number(*offset))?;
        }
        Ok(())
    }
}

/// The axes of a scan of shape `nav` over frames of shape `sig`, slowest first.
///
/// An axis has the calibration that it was given ([`MetadataList::calibrate`]); else the first step that is
/// known of those that it may have ([`steps_of`]).
pub fn axes(nav: &[usize], sig: &[usize], metadata: &MetadataList) -> Vec<Axis> {
    let parts =
        [(AxisKind::Nav, nav, Quantity::ScanAxes), (AxisKind::Sig, sig, Quantity::FrameAxes)];
    let mut axes = Vec::with_capacity(nav.len() + sig.len());
    for (kind, sizes, names) in parts {
        let given = match metadata.get(names) {
            Some(MetadataValue::Text(names)) => names,
            _ => "",
        };
        for ((index, &size), name) in sizes.iter().enumerate().zip(split_names(given, sizes.len()))
        {
            let name = match name {
                "" => usual_axis_name(kind, index, sizes.len()),
                name => name.to_owned(),
            };
            let Calibration { step, offset, unit } = metadata
                .calibration(kind, sizes.len() - 1 - index)
                .cloned()
                .unwrap_or_else(|| of_quantities(steps_of(kind, index, sizes.len()), metadata));
            axes.push(Axis { name, kind, size, scale: step, offset, unit });
        }
    }
    name_apart(&mut axes, nav.len());
    axes
}

/// That of the first of the steps that is known.
fn of_quantities(steps: &[Quantity], metadata: &MetadataList) -> Calibration {
    let known = steps.iter().find_map(|&step| Some((step, metadata.get_number(step)?)));
    let Some((quantity, step)) = known else { return Calibration::none() };
    let offset = quantity.offset_of_step().and_then(|offset| metadata.get_number(offset));
    let (offset, unit) = (offset.unwrap_or(0.0), quantity.unit().to_owned());
    Calibration { step, offset, unit }
}

/// The quantities that may be the step of the `index`-th of `n` axes, the first one first.
pub fn steps_of(kind: AxisKind, index: usize, n: usize) -> &'static [Quantity] {
    use Quantity as Q;
    match (kind, n.saturating_sub(index + 1), n) {
        (AxisKind::Nav, 0, _) => &[Q::ScanStepX],
        (AxisKind::Nav, 1, _) => &[Q::ScanStepY],
        (AxisKind::Sig, 0, 1) => &[Q::EnergyStep],
        (AxisKind::Sig, 0, _) => &[Q::DiffractionStepX, Q::AngleStepX, Q::ImageStepX],
        (AxisKind::Sig, 1, _) => &[Q::DiffractionStepY, Q::AngleStepY, Q::ImageStepY],
        _ => &[],
    }
}

impl MetadataList {
    /// Forgets all that is known of the steps of an axis, and where it begins. `from_last` is 0 for the last axis
    /// of that kind, 1 for the one before it.
    pub fn forget_axis(&mut self, kind: AxisKind, from_last: usize) {
        self.uncalibrate(kind, from_last);
        // Of frames, either axis may be that of energies.
        let energy = [Quantity::EnergyStep];
        let energy = energy.iter().filter(|_| kind == AxisKind::Sig && from_last < 2);
        // Where there are two axes at least, so that they are no channels.
        let n = from_last + 2;
        for &step in steps_of(kind, 1, n).iter().chain(energy) {
            self.remove(step);
            step.offset_of_step().into_iter().for_each(|offset| self.remove(offset));
        }
    }

    /// Keeps steps and names on axes of that kind, which the file gives the lengths `of_file`, where they have others:
    /// an axis keeps both if its length and all those behind it are as in the file; the first one may be
    /// shorter or longer. Axes of length 1 in front do not count where their number differs. Frames in a
    /// row have no shape of a scan yet, and keep the steps that are known.
    pub fn lay_out(&mut self, kind: AxisKind, of_file: &[usize], lens: &[usize]) {
        let ones = |lens: &[usize]| lens.iter().take_while(|&&len| len == 1).count();
        let in_a_row = of_file.len() - ones(of_file) < 2 && lens.len() >= of_file.len();
        if of_file == lens {
            return;
        }
        let (mut old, mut new) = (of_file, lens);
        if old.len() != new.len() {
            (old, new) = (old.split_at(ones(old)).1, new.split_at(ones(new)).1);
        }
        let n_same = old.iter().rev().zip(new.iter().rev()).take_while(|(old, new)| old == new);
        let n_same = n_same.count();
        let is_first = old.len() == new.len() && old.len() == n_same + 1;
        let n_kept = n_same + usize::from(is_first);
        self.keep_names(kind, n_kept, of_file.len(), lens.len());
        if kind == AxisKind::Nav && in_a_row {
            return;
        }
        (n_kept..of_file.len().max(lens.len())).for_each(|axis| self.forget_axis(kind, axis));
    }

    /// Has `n` axes of that kind, of which the file has `n_of_file`, keep the names of the last `n_kept` alone. Names
    /// of another number of axes are not those of the file's, and stay.
    fn keep_names(&mut self, kind: AxisKind, n_kept: usize, n_of_file: usize, n: usize) {
        let quantity = match kind {
            AxisKind::Nav => Quantity::ScanAxes,
            AxisKind::Sig => Quantity::FrameAxes,
        };
        let Some(MetadataValue::Text(text)) = self.get(quantity).cloned() else { return };
        let of_file = split_names(&text, n_of_file);
        if of_file.iter().all(|name| name.is_empty()) {
            return;
        }
        let kept = of_file.split_at(n_of_file - n_kept).1;
        self.remove(quantity);
        if kept.iter().any(|name| !name.is_empty()) {
            let names = vec![""; n - n_kept].into_iter().chain(kept.iter().copied());
            let names = names.enumerate().map(|(index, name)| match name {
                "" => usual_axis_name(kind, index, n),
                name => name.to_owned(),
            });
            self.text(quantity, names.collect::<Vec<_>>().join(NAMES_SEPARATOR).as_str());
        }
    }
}

impl Quantity {
    /// Which quantity says where an axis with such steps begins; `None` if it is not one of steps.
    pub fn offset_of_step(self) -> Option<Quantity> {
        use Quantity as Q;
        Some(match self {
            Q::ScanStepX => Q::ScanOffsetX,
            Q::ScanStepY => Q::ScanOffsetY,
            Q::DiffractionStepX => Q::DiffractionOffsetX,
            Q::DiffractionStepY => Q::DiffractionOffsetY,
            Q::AngleStepX => Q::AngleOffsetX,
            Q::AngleStepY => Q::AngleOffsetY,
            Q::ImageStepX => Q::ImageOffsetX,
            Q::ImageStepY => Q::ImageOffsetY,
            Q::EnergyStep => Q::EnergyOffset,
            _ => return None,
        })
    }
}

/// The name of the `index`-th of `n` axes where nothing else names it.
pub fn usual_axis_name(kind: AxisKind, index: usize, n: usize) -> String {
    match (kind, n.saturating_sub(index + 1), n) {
        (AxisKind::Nav, 0, _) => "scan_x".to_owned(),
        (AxisKind::Nav, 1, _) => "scan_y".to_owned(),
        (AxisKind::Nav, other, _) => format!("scan_{other}"),
        (AxisKind::Sig, 0, 1) => "channel".to_owned(),
        (AxisKind::Sig, 0, _) => "x".to_owned(),
        (AxisKind::Sig, 1, _) => "y".to_owned(),
        (AxisKind::Sig, other, _) => format!("frame_{other}"),
    }
}

/// The name of an axis of frames that holds the colours of pixels.
pub const COLOUR: &str = "colour";

/// What stands between the names of axes in [`Quantity::ScanAxes`] and [`Quantity::FrameAxes`].
pub const NAMES_SEPARATOR: &str = ", ";

/// The names of `n` axes from such a text; empty where there is none.
pub fn split_names(joined: &str, n: usize) -> Vec<&str> {
    let names: Vec<&str> = joined.split(NAMES_SEPARATOR.trim()).map(str::trim).collect();
    if names.len() == n { names } else { vec![""; n] }
}

/// Gives all axes their usual names if two have the same: those are never the same.
fn name_apart(axes: &mut [Axis], nav_dims: usize) {
    let twice = |i: usize| axes.iter().take(i).any(|other| other.name == axes[i].name);
    if !(0..axes.len()).any(twice) {
        return;
    }
    let sig_dims = axes.len() - nav_dims;
    for (i, axis) in axes.iter_mut().enumerate() {
        axis.name = match axis.kind {
            AxisKind::Nav => usual_axis_name(axis.kind, i, nav_dims),
            AxisKind::Sig => usual_axis_name(axis.kind, i - nav_dims, sig_dims),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_with_units() {
        let mut metadata = MetadataList::new();
        metadata.number(Quantity::ScanStepX, 2.0);
        metadata.number(Quantity::AngleStepY, -0.1);
        let found = axes(&[3, 4], &[5, 6], &metadata);
        let shown: Vec<_> =
            found.iter().map(|a| (a.name.as_str(), a.scale, a.unit.as_str())).collect();
        assert_eq!(
            shown,
            [("scan_y", 1.0, ""), ("scan_x", 2.0, "nm"), ("y", -0.1, "mrad"), ("x", 1.0, "")]
        );
        assert_eq!(found.iter().map(Axis::direction).collect::<Vec<_>>(), [1, 1, -1, 1]);
        metadata.number(Quantity::ScanOffsetX, -7.0);
        metadata.number(Quantity::ImageOffsetY, 3.0);
        let starts: Vec<f64> =
            axes(&[3, 4], &[5, 6], &metadata).iter().map(|axis| axis.offset).collect();
        assert_eq!(starts, [0.0, -7.0, 0.0, 0.0]);
        metadata.number(Quantity::EnergyStep, 0.5);
        metadata.number(Quantity::EnergyOffset, -20.0);
        let spectra = axes(&[3], &[5], &metadata);
        assert_eq!((spectra[1].scale, spectra[1].offset, &*spectra[1].unit), (0.5, -20.0, "eV"));
    }

    #[test]
    fn of_several_steps_that_of_diffraction_goes_first() {
        let mut metadata = MetadataList::new();
        let last = |metadata: &MetadataList| axes(&[], &[5, 6], metadata)[1].to_string();
        for (step, shown) in [
            (Quantity::ImageStepX, "x: 6 × 1 nm"),
            (Quantity::AngleStepX, "x: 6 × 2 mrad"),
            (Quantity::DiffractionStepX, "x: 6 × 3 1/nm"),
        ] {
            metadata
                .number(step, shown.split(' ').nth(3).and_then(|text| text.parse::<f64>().ok()));
            assert_eq!(last(&metadata), shown);
        }
    }

    #[test]
    fn what_no_quantity_says_goes_first() {
        let mut metadata = MetadataList::new();
        metadata.number(Quantity::ScanStepX, 2.0);
        let of = |unit: &str| Calibration { step: 0.5, offset: -1.0, unit: unit.into() };
        metadata.calibrate(AxisKind::Nav, 0, of("s"));
        metadata.calibrate(AxisKind::Nav, 2, of("K"));
        metadata.calibrate(AxisKind::Sig, 0, of("nm"));
        let lines: Vec<_> = axes(&[7, 3, 4], &[5], &metadata).iter().map(Axis::to_string).collect();
        assert_eq!(
            lines,
            [
                "scan_2: 7 × 0.5 K, from -1 K",
                "scan_y: 3",
                "scan_x: 4 × 0.5 s, from -1 s",
                "channel: 5 × 0.5 nm, from -1 nm",
            ]
        );
    }

    #[test]
    fn axes_are_shown_in_a_line() {
        let mut metadata = MetadataList::new();
        metadata.number(Quantity::ScanStepX, 0.30000000000000004);
        metadata.number(Quantity::ScanOffsetX, -7.0);
        let shown = |axes: Vec<Axis>| axes.iter().map(Axis::to_string).collect::<Vec<_>>();
        assert_eq!(
            shown(axes(&[3, 4], &[6], &metadata)),
            ["scan_y: 3", "scan_x: 4 × 0.3 nm, from -7 nm", "channel: 6"]
        );
        let axis = Axis { unit: String::new(), ..axes(&[4], &[1], &metadata).swap_remove(0) };
        assert_eq!(axis.to_string(), "scan_x: 4 × 0.3, from -7");
    }

    #[test]
    fn names_are_those_of_axes_that_are_laid_out_as_in_the_file() {
        let (own, other) = ("time, depth", "");
        for (kind, of_file, lens, names, expected) in [
            (AxisKind::Nav, &[3, 4][..], &[3, 4][..], own, own),
            (AxisKind::Nav, &[3, 4], &[2, 4], own, own),
            (AxisKind::Nav, &[3, 4], &[4, 3], own, other),
            (AxisKind::Nav, &[3, 4], &[6, 2], own, other),
            (AxisKind::Nav, &[3, 4], &[12], own, other),
            (AxisKind::Nav, &[6, 4], &[2, 3, 4], own, "scan_2, scan_y, depth"),
            (AxisKind::Nav, &[1, 12], &[3, 4], own, other),
            (AxisKind::Nav, &[1, 4], &[4], own, "depth"),
            (AxisKind::Nav, &[12], &[10], "time", "time"),
            // A square that is guessed from a number of frames.
            (AxisKind::Nav, &[3, 3], &[9], "time", "time"),
            (AxisKind::Sig, &[3, 6, 8], &[18, 8], "colour, y, x", "y, x"),
            (AxisKind::Sig, &[6, 8, 3], &[3, 6, 8], "y, x, colour", other),
            (AxisKind::Sig, &[6, 8, 3], &[48, 3], "y, x, colour", "y, colour"),
        ] {
            let quantity = match kind {
                AxisKind::Nav => Quantity::ScanAxes,
                AxisKind::Sig => Quantity::FrameAxes,
            };
            let mut metadata = MetadataList::new();
            metadata.text(quantity, names);
            metadata.lay_out(kind, of_file, lens);
            let kept = match metadata.get(quantity) {
                Some(MetadataValue::Text(text)) => text,
                _ => "",
            };
            assert_eq!(kept, expected, "{names}: {of_file:?} as {lens:?}");
        }
    }

    #[test]
    fn names_are_those_that_are_given_unless_two_are_the_same() {
        let named = |nav: &str, sig: &str| {
            let mut metadata = MetadataList::new();
            metadata.text(Quantity::ScanAxes, nav);
            metadata.text(Quantity::FrameAxes, sig);
            let names = axes(&[3, 4], &[5, 6], &metadata).into_iter().map(|axis| axis.name);
            names.collect::<Vec<_>>().join(" ")
        };
        let usual = "scan_y scan_x y x";
        assert_eq!(named("", ""), usual);
        assert_eq!(named("time, scan_x", ", kx"), "time scan_x y kx");
        // Of another number of axes, or the same name twice.
        assert_eq!(named("time", "a, b, c"), usual);
        assert_eq!(named("y, x", ""), usual);
        assert_eq!(named("y, x", "ky, kx"), "y x ky kx");
        assert_eq!(named("scan_x, a", "b, scan_y"), "scan_x a b scan_y");
    }
}
