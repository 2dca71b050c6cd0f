//! What the tags know about the experiment.

use super::tags::Group;
use crate::headers::calibration::Calibration;
use crate::headers::dates;
use framefold_core::{MetadataList, Quantity};

/// What is true of the image as a whole.
pub(super) fn of_image(group: Group<'_>) -> MetadataList {
    let mut facts = MetadataList::new();
    let tag = |path: &[&str]| experiment(group)?.number(path);
    let text = |path: &[&str]| experiment(group)?.text(path);
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
    // The person at the microscope has named it.
    facts.text(Quantity::Microscope, text(&["Session Info", "Microscope"]));
    let illumination = mode("Illumination Mode");
    let kinds = ["STEM", "SEM", "TEM"];
    let kind = kinds.into_iter().find(|kind| illumination.contains(kind));
    facts.text(Quantity::AcquisitionMode, kind);
    let nanoamperes = tag(&["Microscope Info", "Probe Current (nA)"]);
    facts.positive(Quantity::BeamCurrent, nanoamperes.map(|current| current * 1e3));
    let exposure = ["Acquisition", "Parameters", "High Level", "Exposure (s)"];
    facts.positive(Quantity::ExposureTime, tag(&exposure));
    let scan = tag(&["DigiScan", "Sample Time"]).map(|microseconds| microseconds * 1e-6);
    facts.positive(Quantity::DwellTime, scan);
    of_spectra(group, &mut facts);
    for [at, date, time] in [
        ["DataBar", "Acquisition Date", "Acquisition Time"],
        ["SI", "Date", "Start time"],
        ["EELS", "Date", "Start time"],
        ["CL", "Date", "Start time"],
    ] {
        let of = |name| {
            if at == "DataBar" { text(&[at, name]) } else { text(&[at, "Acquisition", name]) }
        };
        facts.text(Quantity::RecordedAt, dates::joined(of(date), of(time)).as_deref());
    }
    facts.text(Quantity::Operator, text(&["Session Info", "Operator"]));
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

/// The tags of the experiment. A stack that the script "Automatic Stack Builder" made of images that were
/// shown one after another has those of the first of them, as they were then, in a group of its own.
fn experiment(group: Group<'_>) -> Option<Group<'_>> {
    let at_creation = group.group(&["ImageTags", "source", "Tags at creation"]);
    at_creation.or_else(|| group.group(&["ImageTags"]))
}

/// What is true of electron energy-loss spectra. Their exposure is that of all readouts that were added
/// to a spectrum; while the probe scans, it is the time for which it stays at a position.
fn of_spectra(group: Group<'_>, facts: &mut MetadataList) {
    let tag = |path: &[&str]| experiment(group)?.group(&["EELS"])?.number(path);
    let conditions = |name| tag(&["Experimental Conditions", name]);
    facts.positive(Quantity::ConvergenceAngle, conditions("Convergence semi-angle (mrad)"));
    facts.positive(Quantity::CollectionAngle, conditions("Collection semi-angle (mrad)"));
    let readouts = tag(&["Acquisition", "Number of frames"]).unwrap_or(1.0);
    let whole = tag(&["Acquisition", "Integration time (s)"]);
    let exposure = tag(&["Acquisition", "Exposure (s)"]).map(|exposure| exposure * readouts);
    let scans = experiment(group).and_then(|tags| tags.group(&["DigiScan"])).is_some();
    let quantity = if scans { Quantity::DwellTime } else { Quantity::ExposureTime };
    facts.positive(quantity, whole.or(exposure));
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
            // An empty text is no text, but an array, where it has characters of two bytes.
            let unit = entry.text(&["Units"]).unwrap_or_default().trim().to_owned();
            // The position of 0, counted in pixels.
            let origin = entry.number(&["Origin"]);
            Some(Calibration { step, offset: origin.map(|origin| -origin * step), unit })
        })
        .take(n_axes)
        .collect();
    steps.resize(n_axes, None);
    steps
}
