//! Names, steps and units of the axes that are written, from what is known of the experiment.

use framefold_core::{MetadataList, MetadataValue, Quantity};

/// One axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) len: usize,
    /// Whether it is one of the scan.
    pub(super) navigates: bool,
    /// The distance of neighbours; 1 without a unit if it is not known.
    pub(super) scale: f64,
    pub(super) offset: f64,
    pub(super) units: &'static str,
}

/// The axes of a scan of shape `nav` over frames of shape `sig`.
pub(super) fn axes(nav: &[usize], sig: &[usize], metadata: &MetadataList) -> Vec<Axis> {
    use Quantity::{
        AngleStepX, AngleStepY, DiffractionStepX, DiffractionStepY, EnergyOffset, EnergyStep,
        ImageStepX, ImageStepY, ScanStepX, ScanStepY,
    };
    let number = |quantity| match metadata.get(quantity) {
        Some(MetadataValue::Number(value)) => Some(*value),
        _ => None,
    };
    let pixel = |quantities: [Quantity; 3]| {
        quantities.into_iter().find_map(|quantity| Some((number(quantity)?, quantity.unit())))
    };
    let from_end = |axis: usize, n: usize| n - 1 - axis;
    let mut axes = Vec::with_capacity(nav.len() + sig.len());
    for (axis, &len) in nav.iter().enumerate() {
        let (name, step) = match from_end(axis, nav.len()) {
            0 => ("scan_x".to_owned(), number(ScanStepX)),
            1 => ("scan_y".to_owned(), number(ScanStepY)),
            other => (format!("scan_{other}"), None),
        };
        axes.push(Axis::new(name, len, true, step.map(|step| (step, ScanStepX.unit()))));
    }
    for (axis, &len) in sig.iter().enumerate() {
        let (name, step) = match (from_end(axis, sig.len()), sig.len()) {
            (0, 1) => ("channel".to_owned(), number(EnergyStep).map(|s| (s, EnergyStep.unit()))),
            (0, _) => ("x".to_owned(), pixel([DiffractionStepX, AngleStepX, ImageStepX])),
            (1, _) => ("y".to_owned(), pixel([DiffractionStepY, AngleStepY, ImageStepY])),
            (other, _) => (format!("frame_{other}"), None),
        };
        axes.push(Axis::new(name, len, false, step));
    }
    if let (1, Some(offset), Some(axis)) = (sig.len(), number(EnergyOffset), axes.last_mut())
        && !axis.units.is_empty()
    {
        axis.offset = offset;
    }
    axes
}

impl Axis {
    fn new(name: String, len: usize, navigates: bool, step: Option<(f64, &'static str)>) -> Self {
        let (scale, units) = step.unwrap_or((1.0, ""));
        Axis { name, len, navigates, scale, offset: 0.0, units }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_come_with_units() {
        let mut metadata = MetadataList::new();
        metadata.number(Quantity::ScanStepX, 2.0);
        metadata.number(Quantity::AngleStepY, 0.1);
        let axes = axes(&[3, 4], &[5, 6], &metadata);
        let shown: Vec<_> = axes.iter().map(|a| (a.name.as_str(), a.scale, a.units)).collect();
        assert_eq!(
            shown,
            [("scan_y", 1.0, ""), ("scan_x", 2.0, "nm"), ("y", 0.1, "mrad"), ("x", 1.0, "")]
        );
        metadata.number(Quantity::EnergyStep, 0.5);
        metadata.number(Quantity::EnergyOffset, -20.0);
        let axes = super::axes(&[3], &[5], &metadata);
        assert_eq!((axes[1].scale, axes[1].offset, axes[1].units), (0.5, -20.0, "eV"));
    }
}
