//! What HyperSpy says about a signal, in HDF5 and in Zarr alike.
//!
//! A signal is a group; groups within have attributes. Axes tell their units; for what is in
//! `metadata`, HyperSpy's documentation does.

use crate::calibration::{Calibration, add_steps};
use framefold_core::{MetadataList, Quantity};

/// More axes than HyperSpy has use for are not looked at.
const MOST_AXES: usize = 8;

/// Numbers about the microscope: their names, and by how much of the quantity's unit their own is.
pub(crate) const TEM: [(&str, Quantity, f64); 5] = [
    ("beam_energy", Quantity::AccelerationVoltage, 1.0),
    ("camera_length", Quantity::CameraLength, 1.0),
    ("magnification", Quantity::Magnification, 1.0),
    ("convergence_angle", Quantity::ConvergenceAngle, 1.0),
    // In nA.
    ("beam_current", Quantity::BeamCurrent, 1e3),
];

/// Numbers about its stage; lengths are in mm.
pub(crate) const STAGE: [(&str, Quantity, f64); 5] = [
    ("x", Quantity::StageX, 1e3),
    ("y", Quantity::StageY, 1e3),
    ("z", Quantity::StageZ, 1e3),
    ("tilt_alpha", Quantity::StageAlpha, 1.0),
    ("tilt_beta", Quantity::StageBeta, 1.0),
];

/// The attributes of the groups within a signal, each named by its path.
pub(crate) trait Signal {
    /// Whether there is such a group.
    fn has(&self, group: &str) -> bool;
    fn number(&self, group: &str, name: &str) -> Option<f64>;
    fn text(&self, group: &str, name: &str) -> Option<String>;
    fn truth(&self, group: &str, name: &str) -> Option<bool>;
}

/// Adds what is known. What cannot be converted comes back in the words of the file.
pub(crate) fn add(signal: &impl Signal, list: &mut MetadataList) -> Vec<(String, String)> {
    use Quantity as Q;
    let general = "metadata/General";
    let text = |name| signal.text(general, name).filter(|text| !text.trim().is_empty());
    list.text(Q::Title, text("title").as_deref());
    let time = text("time").map(|time| format!("T{time}")).unwrap_or_default();
    list.text(Q::RecordedAt, text("date").map(|date| date + &time).as_deref());
    list.text(Q::Note, signal.text(general, "notes").as_deref());
    let tem = "metadata/Acquisition_instrument/TEM";
    for (name, quantity, factor) in TEM {
        list.positive(quantity, signal.number(tem, name).map(|number| number * factor));
    }
    let stage = format!("{tem}/Stage");
    for (name, quantity, factor) in STAGE {
        list.number(quantity, signal.number(&stage, name).map(|number| number * factor));
    }
    list.text(Q::Microscope, signal.text(tem, "microscope").as_deref());
    let (mut nav, mut sig) = (vec![], vec![]);
    for axis in (0..MOST_AXES).map(|axis| format!("axis-{axis}")) {
        if !signal.has(&axis) {
            break;
        }
        let calibration = || {
            let step = signal.number(&axis, "scale")?;
            Some(Calibration {
                step,
                offset: signal.number(&axis, "offset"),
                unit: signal.text(&axis, "units")?,
            })
        };
        let navigates = signal.truth(&axis, "navigate") == Some(true);
        if navigates { &mut nav } else { &mut sig }.push(calibration());
    }
    add_steps(list, &nav, &sig)
}
