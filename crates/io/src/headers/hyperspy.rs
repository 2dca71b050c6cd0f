//! What HyperSpy says about a signal, in HDF5 and in Zarr alike.
//!
//! A signal is a group; groups within have attributes. Axes tell their units; for what is in
//! `metadata`, HyperSpy's documentation does.

use crate::headers::calibration::{Calibration, add_steps};
use crate::headers::written::forget_axes;
use framefold_core::{AxisKind, MetadataList, NAMES_SEPARATOR, Quantity, usual_axis_name};

/// Where an instrument is described: that of files of SEMs is another one than that of all others.
pub(crate) const TEM: &str = "TEM";
pub(crate) const SEM: &str = "SEM";

/// Numbers about the microscope: their names, and by how much of the quantity's unit their own is.
pub(crate) const MICROSCOPE: [(&str, Quantity, f64); 6] = [
    ("beam_energy", Quantity::AccelerationVoltage, 1.0),
    ("camera_length", Quantity::CameraLength, 1.0),
    ("magnification", Quantity::Magnification, 1.0),
    ("working_distance", Quantity::WorkingDistance, 1.0),
    ("convergence_angle", Quantity::ConvergenceAngle, 1.0),
    // In nA.
    ("beam_current", Quantity::BeamCurrent, 1e3),
];

/// Numbers about its camera.
pub(crate) const CAMERA: [(&str, Quantity, f64); 1] = [("exposure", Quantity::ExposureTime, 1.0)];

/// Numbers about its spectrometer; the times are those of signals of type `EELS`.
pub(crate) const EELS: [(&str, Quantity, f64); 3] = [
    ("collection_angle", Quantity::CollectionAngle, 1.0),
    ("exposure", Quantity::ExposureTime, 1.0),
    DWELL,
];

/// The time at a position: of the microscope, for all signals that are not of type `EELS`.
pub(crate) const DWELL: (&str, Quantity, f64) = ("dwell_time", Quantity::DwellTime, 1.0);

/// Numbers about its stage; lengths are in mm.
pub(crate) const STAGE: [(&str, Quantity, f64); 7] = [
    ("x", Quantity::StageX, 1e3),
    ("y", Quantity::StageY, 1e3),
    ("z", Quantity::StageZ, 1e3),
    ("tilt_alpha", Quantity::StageAlpha, 1.0),
    ("tilt_beta", Quantity::StageBeta, 1.0),
    ("rotation", Quantity::StageRotation, 1.0),
    ("tilt", Quantity::StageTilt, 1.0),
];

/// The attributes of the groups within a signal, each named by its path.
pub(crate) trait Signal {
    /// Whether there is such a group.
    fn has(&self, group: &str) -> bool;
    fn number(&self, group: &str, name: &str) -> Option<f64>;
    fn text(&self, group: &str, name: &str) -> Option<String>;
    fn truth(&self, group: &str, name: &str) -> Option<bool>;
}

/// Adds what is known. What cannot be converted comes back in the words of the file. `nav` and `sig` are the
/// axes of the scan and of frames.
pub(crate) fn add(
    signal: &impl Signal,
    nav: &[usize],
    sig: &[usize],
    list: &mut MetadataList,
) -> Vec<(String, String)> {
    use Quantity as Q;
    let general = "metadata/General";
    let text = |name| signal.text(general, name).filter(|text| !text.trim().is_empty());
    list.text(Q::Title, text("title").as_deref());
    // Names of other zones are not looked up.
    let zone = text("time_zone").map(|zone| if zone == "UTC" { "Z".to_owned() } else { zone });
    let zone = zone.filter(|zone| zone.starts_with(['+', '-', 'Z']));
    let time = text("time").map(|time| format!("T{time}{}", zone.unwrap_or_default()));
    let time = time.unwrap_or_default();
    list.text(Q::RecordedAt, text("date").map(|date| date + &time).as_deref());
    list.text(Q::Note, signal.text(general, "notes").as_deref());
    list.text(Q::Operator, text("authors").as_deref());
    let place = |kind| format!("metadata/Acquisition_instrument/{kind}");
    // Where both are there, that of a SEM may be empty.
    let tem = place(TEM);
    let is_tem = signal.text(&tem, "acquisition_mode").is_some()
        || signal.number(&tem, "beam_energy").is_some();
    let is_sem = signal.has(&place(SEM)) && !is_tem;
    let instrument = place(if is_sem { SEM } else { TEM });
    for (name, quantity, factor) in MICROSCOPE.into_iter().chain([DWELL]) {
        // Specimens may lie above the place that working distances count from.
        let number = signal.number(&instrument, name).map(|number| number * factor);
        match quantity {
            Q::WorkingDistance => list.number(quantity, number),
            _ => list.positive(quantity, number),
        }
    }
    let stage = format!("{instrument}/Stage");
    for (name, quantity, factor) in STAGE {
        list.number(quantity, signal.number(&stage, name).map(|number| number * factor));
    }
    for (group, table) in [("Camera", &CAMERA[..]), ("Detector/EELS", &EELS)] {
        let group = format!("{instrument}/{group}");
        for &(name, quantity, factor) in table {
            list.positive(quantity, signal.number(&group, name).map(|number| number * factor));
        }
    }
    list.text(Q::Microscope, signal.text(&instrument, "microscope").as_deref());
    let mode = signal.text(&instrument, "acquisition_mode");
    list.text(Q::AcquisitionMode, mode.as_deref().or(is_sem.then_some(SEM)));
    list.text(Q::SignalType, signal.text("metadata/Signal", "signal_type").as_deref());
    let axis = |axis: &usize| {
        let axis = format!("axis-{axis}");
        let calibration = signal.number(&axis, "scale").map(|step| Calibration {
            step,
            offset: signal.number(&axis, "offset"),
            unit: signal.text(&axis, "units").unwrap_or_default(),
        });
        (calibration, signal.text(&axis, "name").unwrap_or_default())
    };
    let (nav, nav_names): (Vec<_>, Vec<_>) = nav.iter().map(axis).unzip();
    let (sig, sig_names): (Vec<_>, Vec<_>) = sig.iter().map(axis).unzip();
    list.text(Q::ScanAxes, join_names(&nav_names, AxisKind::Nav).as_deref());
    list.text(Q::FrameAxes, join_names(&sig_names, AxisKind::Sig).as_deref());
    add_steps(list, &nav, &sig)
}

/// A sentence about axes whose values are not equally far apart: they have no step.
pub(crate) fn uneven(signal: &impl Signal, n_axes: usize) -> Option<String> {
    let is_uneven = |axis: &String| {
        let kind = signal.text(axis, "_type");
        matches!(kind.as_deref(), Some("DataAxis" | "FunctionalDataAxis"))
    };
    let uneven = (0..n_axes).map(|axis| format!("axis-{axis}")).filter(is_uneven);
    let uneven = uneven.map(|axis| {
        let name = signal.text(&axis, "name").unwrap_or_default();
        format!("{axis} ('{name}')")
    });
    let uneven: Vec<String> = uneven.collect();
    (!uneven.is_empty()).then(|| {
        format!(
            "the values of {} are not equally far apart: such an axis has no step and no unit, its \
             positions are counted; the file has its values",
            uneven.join(", ")
        )
    })
}

/// Adds what framefold wrote into a file of HyperSpy, which may have changed since: HyperSpy keeps the
/// numbers of framefold, but does not know what they mean. What HyperSpy has a place for is as it
/// says there, and as framefold wrote it only where that is the same but for rounding. `n_sig` is
/// the number of axes of frames, and `n_written` that with which they were written.
pub(crate) fn settle(
    mut written: MetadataList,
    n_sig: usize,
    n_written: usize,
    list: &mut MetadataList,
) {
    use Quantity as Q;
    if n_sig != n_written {
        forget_axes(&mut written);
    }
    let of_frames: [&[Q]; 2] = match n_sig {
        1 => [&[Q::EnergyStep], &[]],
        _ => [
            &[Q::DiffractionStepX, Q::AngleStepX, Q::ImageStepX],
            &[Q::DiffractionStepY, Q::AngleStepY, Q::ImageStepY],
        ],
    };
    for steps in [&[Q::ScanStepX][..], &[Q::ScanStepY]].into_iter().chain(of_frames) {
        // An axis has one step: the first one that was known.
        let Some(&step) = steps.iter().find(|&&step| written.get(step).is_some()) else { continue };
        let place = |list: &MetadataList| {
            step.offset_of_step().and_then(|offset| list.get_number(offset)).unwrap_or(0.0)
        };
        let is_same = written.get_number(step).zip(list.get_number(step)).is_some_and(is_close)
            && is_close((place(&written), place(list)));
        for &step in steps.iter().filter(|_| !is_same) {
            written.remove(step);
            step.offset_of_step().into_iter().for_each(|offset| written.remove(offset));
        }
    }
    // Those have a place in every file of HyperSpy.
    for quantity in [Q::SignalType, Q::ScanAxes, Q::FrameAxes] {
        written.remove(quantity);
    }
    // So do these in what framefold writes: what is not there any more was deleted.
    let tables = MICROSCOPE.iter().chain(&STAGE).map(|&(_, quantity, _)| quantity);
    let texts = [Q::Title, Q::Note, Q::Microscope, Q::AcquisitionMode, Q::Operator];
    for quantity in texts.into_iter().chain([Q::CollectionAngle]).chain(tables) {
        if list.get(quantity).is_none() {
            written.remove(quantity);
        }
    }
    for fact in written.iter() {
        let quantity = fact.quantity;
        let numbers = written.get_number(quantity).zip(list.get_number(quantity));
        if list.get(quantity).is_none() || numbers.is_some_and(is_close) {
            list.insert(fact.clone());
        }
    }
}

/// Whether they are the same number but for rounding.
fn is_close((a, b): (f64, f64)) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// One text of the names of axes; `None` if all are those that they get when they are written.
/// One that has none, or has a comma in it, is empty there.
fn join_names(names: &[String], kind: AxisKind) -> Option<String> {
    const LONGEST: usize = 200;
    let known = names.iter().enumerate().map(|(axis, name)| {
        let name = name.trim();
        let unnamed = ["<undefined>", "_None_", "None"].contains(&name);
        let plain = !name.contains(',') && !name.contains(char::is_control);
        let kept = plain && !unnamed && name.chars().count() <= LONGEST;
        let name = if kept { name } else { "" };
        if name == usual_axis_name(kind, axis, names.len()) { None } else { Some(name) }
    });
    let known: Vec<Option<&str>> = known.collect();
    if known.iter().all(|name| name.is_none_or(str::is_empty)) {
        return None;
    }
    let known = known.iter().zip(names).map(|(known, name)| known.unwrap_or(name.trim()));
    Some(known.collect::<Vec<_>>().join(NAMES_SEPARATOR))
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::split_names;

    #[test]
    fn what_was_changed_in_hyperspy_is_as_it_is_there() {
        use Quantity as Q;
        let of = |facts: &[(Q, f64)]| {
            let mut list = MetadataList::new();
            facts.iter().for_each(|&(quantity, number)| list.number(quantity, number));
            list
        };
        let settled = |there: &[(Q, f64)]| {
            let written = of(&[
                (Q::ScanStepX, 0.3),
                (Q::ScanOffsetX, 1.0),
                (Q::DiffractionStepX, 2.0),
                (Q::AngleStepX, 5.0),
                (Q::CameraLength, 100.0),
                (Q::ExposureTime, 7.0),
            ]);
            let mut list = of(there);
            settle(written.clone(), 2, 2, &mut list);
            (written, list)
        };
        let (step, offset) = ((Q::ScanStepX, 0.3 + 1e-16), (Q::ScanOffsetX, 1.0));
        let (frame, camera) = ((Q::DiffractionStepX, 2.0), (Q::CameraLength, 100.0));
        // Nothing was changed: numbers are those that were written, to the last bit.
        let (written, list) = settled(&[step, offset, frame, camera]);
        assert_eq!(list, written);
        let (exposure, angle) = ((Q::ExposureTime, 7.0), (Q::AngleStepX, 5.0));
        let step = (Q::ScanStepX, 0.3);
        for (there, expected) in [
            // Another step, place and camera length; no place; no units.
            (
                vec![(Q::ScanStepX, 0.6), offset, frame, camera],
                vec![(Q::ScanStepX, 0.6), offset, frame, camera, angle, exposure],
            ),
            (
                vec![step, frame, (Q::CameraLength, 90.0)],
                vec![step, frame, (Q::CameraLength, 90.0), angle, exposure],
            ),
            (vec![(Q::ImageStepX, 3.0), camera], vec![(Q::ImageStepX, 3.0), camera, exposure]),
            (vec![camera], vec![camera, exposure]),
        ] {
            assert_eq!(settled(&there).1, of(&expected), "{there:?}");
        }
        // What was deleted stays deleted, if HyperSpy has a place for it.
        let left = [(Q::AngleStepX, 5.0), (Q::ExposureTime, 7.0)];
        assert_eq!(
            settled(&[step, offset, frame]).1,
            of(&[&[step, offset, frame], &left[..]].concat())
        );
        let mut written = MetadataList::new();
        written.text(Q::Title, "gone");
        written.text(Q::Detector, "stays");
        let mut list = MetadataList::new();
        settle(written, 2, 2, &mut list);
        assert_eq!((list.get(Q::Title), list.get(Q::Detector).is_some()), (None, true));
    }

    #[test]
    fn names_of_axes_come_back() {
        let joined = |names: &[&str], kind| {
            let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
            join_names(&names, kind)
        };
        // Those that they get anyway are no news.
        assert_eq!(joined(&["scan_y", "scan_x"], AxisKind::Nav), None);
        assert_eq!(joined(&["y", "x"], AxisKind::Sig), None);
        assert_eq!(joined(&["<undefined>", ""], AxisKind::Sig), None);
        for (names, expected) in [
            (["y", "x"], ["y", "x"]),
            (["time", "scan_x"], ["time", "scan_x"]),
            (["", "kx "], ["", "kx"]),
            (["a,b", "c"], ["", "c"]),
        ] {
            let joined = joined(&names, AxisKind::Nav).unwrap();
            assert_eq!(split_names(&joined, 2), expected, "{joined}");
            assert_eq!(split_names(&joined, 1), [""], "{joined}");
        }
    }
}
