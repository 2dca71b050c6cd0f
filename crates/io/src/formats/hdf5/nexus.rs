//! What NeXus says about an experiment, NXmx of detectors above all.
//!
//! Numbers have an attribute `units`, and mean nothing without it.

use super::library::Library;
use super::values::{attribute_text, number, numbers, text, unit};
use crate::headers::calibration::{Calibration, Steps};
use crate::headers::units::convert;
use framefold_core::{MetadataList, Quantity};
use hdf5_reader::group::Group;

/// Adds what the entry around the data set says. What cannot be converted goes to `others` in the
/// words of the file.
pub(super) fn add(
    library: &Library,
    path: &str,
    list: &mut MetadataList,
    others: &mut Vec<(String, String)>,
) {
    let Some(entry) = entry(library, path) else { return };
    list.text(Quantity::Title, text(&entry, "title").as_deref());
    list.text(Quantity::RecordedAt, text(&entry, "start_time").as_deref());
    let Some(detector) = detector(&entry) else { return };
    for (quantity, name) in [
        (Quantity::ExposureTime, "count_time"),
        (Quantity::FrameTime, "frame_time"),
        (Quantity::PixelSizeX, "x_pixel_size"),
        (Quantity::PixelSizeY, "y_pixel_size"),
        (Quantity::Threshold, "threshold_energy"),
    ] {
        let Some(value) = number(&detector, name).filter(|&value| value > 0.0) else { continue };
        let unit = detector.dataset(name).ok().and_then(|dataset| unit(&dataset));
        match unit.as_deref().and_then(|unit| convert(value, unit, quantity)) {
            Some(value) => list.positive(quantity, value),
            None => {
                let unit = unit.filter(|unit| !unit.trim().is_empty());
                let unit = unit.unwrap_or_else(|| "of an unknown unit".to_owned());
                others.push((name.to_owned(), format!("{value} {}", unit.trim())));
            }
        }
    }
    list.positive(Quantity::BitDepth, number(&detector, "bit_depth_image"));
    list.text(Quantity::Detector, text(&detector, "description").as_deref());
    if let Ok(specific) = detector.group("detectorSpecific") {
        list.text(Quantity::RecordedAt, text(&specific, "data_collection_date").as_deref());
    }
}

/// The steps on the axes of the NXdata that the data set is in.
pub(super) fn steps(library: &Library, path: &str, nav: &[usize], sig: &[usize]) -> Option<Steps> {
    let group = path.rsplit_once('/').and_then(|(group, _)| library.group(group))?;
    if attribute_text(&group, "NX_class").as_deref() != Some("NXdata") {
        return None;
    }
    let axes = group.attribute("axes").ok()?;
    let one = || axes.read_string().map(|name| vec![name]);
    let names = axes.read_strings().or_else(|_| one()).ok()?;
    let calibration = |axis: &usize| -> Option<Calibration> {
        let place = |(i, name): (usize, &String)| {
            let index = super::values::attribute_number(&group, &format!("{name}_indices"));
            index.unwrap_or(i as f64) == *axis as f64
        };
        let i = names.iter().enumerate().position(place)?;
        let dataset = group.dataset(names.get(i)?).ok()?;
        Calibration::of_values(&numbers(&dataset)?, &unit(&dataset)?)
    };
    Some(Steps {
        nav: nav.iter().map(calibration).collect(),
        sig: sig.iter().map(calibration).collect(),
    })
}

/// The NXentry that a data set is in; DECTRIS calls it `entry`.
fn entry(library: &Library, path: &str) -> Option<Group> {
    let parents = path.match_indices('/').map(|(at, _)| &path[..at]);
    let is_entry = |group: &Group, name: &str| match attribute_text(group, "NX_class") {
        Some(class) => class == "NXentry",
        None => name == "entry",
    };
    parents
        .filter_map(|parent| Some((parent, library.group(parent)?)))
        .find(|(name, group)| is_entry(group, name))
        .map(|(_, group)| group)
}

/// The detector, if there is but one.
fn detector(entry: &Group) -> Option<Group> {
    let instrument = entry.group("instrument").ok()?;
    if let Ok(detector) = instrument.group("detector") {
        return Some(detector);
    }
    let is_detector =
        |group: &Group| attribute_text(group, "NX_class").as_deref() == Some("NXdetector");
    let mut detectors = instrument.groups().ok()?.into_iter().filter(is_detector);
    detectors.next().filter(|_| detectors.next().is_none())
}
