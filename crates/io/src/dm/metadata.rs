//! What the tags know about the experiment.

use super::tags::Group;
use framefold_core::{MetadataList, Quantity};

/// The step on an axis and its unit, as the file has them.
pub(super) type Calibration = (f64, String);

/// What is true of the image as a whole.
pub(super) fn of_image(group: Group<'_>) -> MetadataList {
    let mut facts = MetadataList::new();
    let tag = |path: &[&str]| group.group(&["ImageTags"])?.number(path);
    let text = |path: &[&str]| group.group(&["ImageTags"])?.text(path);
    facts.text(Quantity::Title, group.text(&["Name"]));
    let volts = tag(&["Microscope Info", "Voltage"]);
    facts.positive(Quantity::AccelerationVoltage, volts.map(|volts| volts / 1000.0));
    facts.positive(Quantity::Magnification, tag(&["Microscope Info", "Indicated Magnification"]));
    facts.positive(Quantity::CameraLength, tag(&["Microscope Info", "STEM Camera Length"]));
    facts.text(Quantity::Microscope, text(&["Microscope Info", "Name"]));
    let exposure = ["Acquisition", "Parameters", "High Level", "Exposure (s)"];
    facts.positive(Quantity::ExposureTime, tag(&exposure));
    facts.text(Quantity::Detector, text(&["Acquisition", "Device", "Name"]));
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
            Some((entry.number(&["Scale"])?, entry.text(&["Units"])?.trim().to_owned()))
        })
        .take(n_axes)
        .collect();
    steps.resize(n_axes, None);
    steps
}

/// Adds the steps on the axes of the scan and on those of a frame, slowest first.
pub(super) fn add_steps(
    facts: &mut MetadataList,
    nav: &[Option<Calibration>],
    sig: &[Option<Calibration>],
) {
    use Quantity as Q;
    for (step, scan) in nav.iter().rev().zip([Q::ScanStepX, Q::ScanStepY]) {
        if let Some((step, unit)) = step {
            facts.positive(scan, nanometres(*step, unit));
        }
    }
    let of_sig = [
        (Q::ImageStepX, Q::DiffractionStepX, Q::AngleStepX),
        (Q::ImageStepY, Q::DiffractionStepY, Q::AngleStepY),
    ];
    for (step, (image, diffraction, angle)) in sig.iter().rev().zip(of_sig) {
        let Some((step, unit)) = step else { continue };
        match unit.as_str() {
            "1/nm" => facts.positive(diffraction, *step),
            "1/Å" | "1/A" => facts.positive(diffraction, step * 10.0),
            "mrad" => facts.positive(angle, *step),
            "rad" => facts.positive(angle, step * 1e3),
            "eV" => facts.positive(Q::EnergyStep, *step),
            _ => facts.positive(image, nanometres(*step, unit)),
        }
    }
}

fn nanometres(step: f64, unit: &str) -> Option<f64> {
    let factor = match unit {
        "pm" => 1e-3,
        "Å" | "A" => 0.1,
        "nm" => 1.0,
        "um" | "µm" | "μm" => 1e3,
        "mm" => 1e6,
        _ => return None,
    };
    Some(step * factor)
}
