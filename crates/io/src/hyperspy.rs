//! What HyperSpy says about a signal, in HDF5 and in Zarr alike.
//!
//! A signal is a group; groups within have attributes. Axes tell their units; for what is in
//! `metadata`, HyperSpy's documentation does.

use crate::calibration::{Calibration, add_steps};
use framefold_core::{MetadataList, Quantity};

/// More axes than HyperSpy has use for are not looked at.
const MOST_AXES: usize = 8;

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
    let tem = "metadata/Acquisition_instrument/TEM";
    for (quantity, name, factor) in [
        (Q::AccelerationVoltage, "beam_energy", 1.0),
        (Q::CameraLength, "camera_length", 1.0),
        (Q::Magnification, "magnification", 1.0),
        (Q::ConvergenceAngle, "convergence_angle", 1.0),
        // In nA.
        (Q::BeamCurrent, "beam_current", 1e3),
    ] {
        list.positive(quantity, signal.number(tem, name).map(|number| number * factor));
    }
    list.text(Q::Microscope, signal.text(tem, "microscope").as_deref());
    let (mut nav, mut sig) = (vec![], vec![]);
    for axis in (0..MOST_AXES).map(|axis| format!("axis-{axis}")) {
        if !signal.has(&axis) {
            break;
        }
        let calibration = || {
            Some(Calibration {
                step: signal.number(&axis, "scale")?.abs(),
                offset: signal.number(&axis, "offset"),
                unit: signal.text(&axis, "units")?,
            })
        };
        let navigates = signal.truth(&axis, "navigate") == Some(true);
        if navigates { &mut nav } else { &mut sig }.push(calibration());
    }
    add_steps(list, &nav, &sig)
}
