//! What the tags know about the experiment.

use super::tags::Group;
use crate::headers::calibration::Calibration;
use framefold_core::{MetadataList, Quantity};

/// What is true of the image as a whole.
pub(super) fn of_image(group: Group<'_>) -> MetadataList {
    let mut facts = MetadataList::new();
    let tag = |path: &[&str]| group.group(&["ImageTags"])?.number(path);
    let text = |path: &[&str]| group.group(&["ImageTags"])?.text(path);
    facts.text(Quantity::Title, group.text(&["Name"]));
    let volts = tag(&["Microscope Info", "Voltage"]);
    facts.positive(Quantity::AccelerationVoltage, volts.map(|volts| volts / 1000.0));
    // Of diffraction, this is the camera length in mm; but not while the probe scans: the projector may
    // be in diffraction then, and the number is the magnification of the scan.
    let indicated = tag(&["Microscope Info", "Indicated Magnification"]);
    let mode = |name: &str| text(&["Microscope Info", name]).unwrap_or_default().to_uppercase();
    let scans =
        mode("Operation Mode").contains("SCANNING") || mode("Illumination Mode").contains("STEM");
    let is_diffraction = |name: &str| mode(name).ends_with("DIFFRACTION");
    let diffracts = !scans && (is_diffraction("Imaging Mode") || is_diffraction("Operation Mode"));
    let quantity = if diffracts { Quantity::CameraLength } else { Quantity::Magnification };
    facts.positive(quantity, indicated);
    facts.positive(Quantity::CameraLength, tag(&["Microscope Info", "STEM Camera Length"]));
    facts.text(Quantity::Microscope, text(&["Microscope Info", "Name"]));
    let exposure = ["Acquisition", "Parameters", "High Level", "Exposure (s)"];
    facts.positive(Quantity::ExposureTime, tag(&exposure));
    facts.text(Quantity::Detector, text(&["Acquisition", "Device", "Name"]));
    // Those of HyperSpy's kinds that go by the same name.
    let signal = text(&["Meta Data", "Signal"]);
    let known = signal.filter(|signal| ["EELS", "CL"].contains(signal));
    facts.text(Quantity::SignalType, known);
    // In micrometres and degrees.
    for (name, quantity) in [
        ("Stage X", Quantity::StageX),
        ("Stage Y", Quantity::StageY),
        ("Stage Z", Quantity::StageZ),
        ("Stage Alpha", Quantity::StageAlpha),
        ("Stage Beta", Quantity::StageBeta),
    ] {
        facts.number(quantity, tag(&["Microscope Info", "Stage Position", name]));
    }
    facts
}

/// The steps on the axes of each image in the list of dimensions, fastest first.
pub(super) fn calibrations(group: Group<'_>, n_axes: usize) -> Vec<Option<Calibration>> {
    let all = group.group(&["ImageData", "Calibrations", "Dimension"]);
    let mut steps: Vec<Option<Calibration>> = all
        .into_iter()
        .flat_map(Group::entries)
        .map(|(_, entry)| {
            let entry = entry.group()?;
            let step = entry.number(&["Scale"])?;
            let unit = entry.text(&["Units"])?.trim().to_owned();
            // The position of 0, counted in pixels.
            let origin = entry.number(&["Origin"]);
            Some(Calibration { step, offset: origin.map(|origin| -origin * step), unit })
        })
        .take(n_axes)
        .collect();
    steps.resize(n_axes, None);
    steps
}
