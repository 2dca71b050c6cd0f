//! Names, steps and units of the axes that are written, from what is known of the experiment.

use crate::headers::axes::axis_name;
use crate::headers::calibration::offset_of;
use framefold_core::{MetadataList, Quantity};

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
        AngleStepX, AngleStepY, DiffractionStepX, DiffractionStepY, EnergyStep, ImageStepX,
        ImageStepY, ScanStepX, ScanStepY,
    };
    let mut axes = Vec::with_capacity(nav.len() + sig.len());
    for (axis, &len) in nav.iter().enumerate() {
        let steps: &[Quantity] = match nav.len() - 1 - axis {
            0 => &[ScanStepX],
            1 => &[ScanStepY],
            _ => &[],
        };
        let name = axis_name(axis, nav.len(), true);
        axes.push(Axis::new(name, len, true, steps, metadata));
    }
    for (axis, &len) in sig.iter().enumerate() {
        let steps: &[Quantity] = match (sig.len() - 1 - axis, sig.len()) {
            (0, 1) => &[EnergyStep],
            (0, _) => &[DiffractionStepX, AngleStepX, ImageStepX],
            (1, _) => &[DiffractionStepY, AngleStepY, ImageStepY],
            _ => &[],
        };
        let name = axis_name(axis, sig.len(), false);
        axes.push(Axis::new(name, len, false, steps, metadata));
    }
    axes
}

impl Axis {
    /// With the first of the steps that is known.
    fn new(
        name: String,
        len: usize,
        navigates: bool,
        steps: &[Quantity],
        metadata: &MetadataList,
    ) -> Self {
        let known = steps.iter().find_map(|&step| Some((step, metadata.get_number(step)?)));
        let Some((step, scale)) = known else {
            return Axis { name, len, navigates, scale: 1.0, offset: 0.0, units: "" };
        };
        let offset = offset_of(step).and_then(|offset| metadata.get_number(offset));
        let (offset, units) = (offset.unwrap_or(0.0), step.unit());
        Axis { name, len, navigates, scale, offset, units }
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
        metadata.number(Quantity::ScanOffsetX, -7.0);
        metadata.number(Quantity::ImageOffsetY, 3.0);
        let axes = super::axes(&[3, 4], &[5, 6], &metadata);
        let starts: Vec<f64> = axes.iter().map(|axis| axis.offset).collect();
        assert_eq!(starts, [0.0, -7.0, 0.0, 0.0]);
        metadata.number(Quantity::EnergyStep, 0.5);
        metadata.number(Quantity::EnergyOffset, -20.0);
        let axes = super::axes(&[3], &[5], &metadata);
        assert_eq!((axes[1].scale, axes[1].offset, axes[1].units), (0.5, -20.0, "eV"));
    }
}
