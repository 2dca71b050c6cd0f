//! What dialects of HDF5 say about an experiment.

use super::find::Found;
use super::library::Library;
use crate::write::hdf5 as written;
use framefold_core::{DType, MetadataList, Quantity};
use hdf5_reader::group::Group;

/// What the file says, as far as its dialect is known.
pub(super) fn read(library: &Library, found: &Found) -> MetadataList {
    let mut list = MetadataList::new();
    match found.dialect {
        "framefold" => {
            if let Some(group) = library.group(written::METADATA) {
                framefold(&group, &mut list);
            }
        }
        "DECTRIS" => dectris(library, &mut list),
        "HyperSpy" => {
            let signal = found.parts.first().and_then(|(path, _)| path.strip_suffix("/data"));
            if let Some(signal) = signal.and_then(|path| library.group(path)) {
                hyperspy(&signal, &mut list);
                let original = signal.group("original_metadata");
                if let Ok(group) = original.and_then(|group| group.group("framefold")) {
                    framefold(&group, &mut list);
                }
            }
        }
        _ => {}
    }
    list
}

/// What framefold wrote: an attribute for each quantity, and one for its unit.
fn framefold(group: &Group, list: &mut MetadataList) {
    for &quantity in Quantity::ALL {
        let name = quantity.name();
        let unit = attribute_text(group, &format!("{name}{}", written::UNIT)).unwrap_or_default();
        if unit != quantity.unit() {
            continue;
        }
        match attribute_text(group, name) {
            Some(text) => list.text(quantity, text.as_str()),
            None => list.number(quantity, attribute_number(group, name)),
        }
    }
}

/// As in NeXus's NXmx: lengths in metres, times in seconds.
fn dectris(library: &Library, list: &mut MetadataList) {
    let Some(detector) = library.group("entry/instrument/detector") else { return };
    list.positive(Quantity::ExposureTime, number(&detector, "count_time"));
    list.positive(Quantity::FrameTime, number(&detector, "frame_time"));
    let micrometres = |metres: f64| metres * 1e6;
    let size = |name| number(&detector, name).map(micrometres);
    list.positive(Quantity::PixelSizeX, size("x_pixel_size"));
    list.positive(Quantity::PixelSizeY, size("y_pixel_size"));
    list.positive(Quantity::BitDepth, number(&detector, "bit_depth_image"));
    list.text(Quantity::Detector, text(&detector, "description").as_deref());
}

/// Attributes of groups; scales of axes, where their units are known.
fn hyperspy(signal: &Group, list: &mut MetadataList) {
    let metadata = signal.group("metadata");
    let within = |path: &[&str]| {
        let mut group = metadata.as_ref().ok()?.clone();
        for name in path {
            group = group.group(name).ok()?;
        }
        Some(group)
    };
    if let Some(general) = within(&["General"]) {
        list.text(Quantity::Title, attribute_text(&general, "title").as_deref());
    }
    if let Some(tem) = within(&["Acquisition_instrument", "TEM"]) {
        list.positive(Quantity::AccelerationVoltage, attribute_number(&tem, "beam_energy"));
        list.positive(Quantity::CameraLength, attribute_number(&tem, "camera_length"));
        list.positive(Quantity::Magnification, attribute_number(&tem, "magnification"));
        list.text(Quantity::Microscope, attribute_text(&tem, "microscope").as_deref());
    }
    let mut axes = (0..8).map_while(|number| signal.group(&format!("axis-{number}")).ok());
    let axes: Vec<Group> = axes.by_ref().collect();
    let navigates = |axis: &&Group| {
        let navigate = axis.attribute("navigate");
        navigate.is_ok_and(|navigate| navigate.raw_data.iter().any(|byte| *byte != 0))
    };
    let scan: Vec<&Group> = axes.iter().filter(navigates).collect();
    let frame: Vec<&Group> = axes.iter().filter(|axis| !navigates(axis)).collect();
    let step = |axis: Option<&&Group>, unit: fn(&str) -> Option<f64>| {
        let axis = axis?;
        Some(attribute_number(axis, "scale")? * unit(&attribute_text(axis, "units")?)?)
    };
    list.positive(Quantity::ScanStepX, step(scan.last(), nanometres));
    list.positive(Quantity::ScanStepY, step(scan.iter().rev().nth(1), nanometres));
    if frame.len() == 2 {
        list.positive(Quantity::DiffractionStepX, step(frame.last(), per_nanometre));
        list.positive(Quantity::DiffractionStepY, step(frame.first(), per_nanometre));
    }
}

/// How many nm that unit has.
pub(crate) fn nanometres(unit: &str) -> Option<f64> {
    Some(match unit.trim() {
        "nm" => 1.0,
        "um" | "µm" | "μm" => 1e3,
        "pm" => 1e-3,
        "A" | "Å" => 0.1,
        _ => return None,
    })
}

/// How many 1/nm that unit has.
pub(crate) fn per_nanometre(unit: &str) -> Option<f64> {
    let unit = unit.replace("$", "").replace("^{-1}", "^-1").replace(' ', "");
    let length = unit.strip_prefix("1/").or_else(|| unit.strip_suffix("^-1"));
    let length = length.or_else(|| unit.strip_suffix("⁻¹"))?;
    nanometres(length).map(|nanometres| 1.0 / nanometres)
}

fn attribute_number(group: &Group, name: &str) -> Option<f64> {
    group.attribute(name).ok()?.read_as_f64().ok()
}

fn attribute_text(group: &Group, name: &str) -> Option<String> {
    group.attribute(name).ok()?.read_string().ok()
}

fn text(group: &Group, name: &str) -> Option<String> {
    group.dataset(name).ok()?.read_string().ok()
}

/// A single number, of whatever dtype.
fn number(group: &Group, name: &str) -> Option<f64> {
    let dataset = group.dataset(name).ok()?;
    if dataset.num_elements().ok()? != 1 {
        return None;
    }
    let dtype = super::dtype::stored_dtype(&dataset).ok()?.dtype;
    let bytes = dataset.read_native_bytes().ok()?;
    Some(match dtype {
        DType::U8 => f64::from(*bytes.first()?),
        DType::U16 => f64::from(u16::from_ne_bytes(*bytes.first_chunk()?)),
        DType::U32 => f64::from(u32::from_ne_bytes(*bytes.first_chunk()?)),
        DType::I32 => f64::from(i32::from_ne_bytes(*bytes.first_chunk()?)),
        DType::I64 => i64::from_ne_bytes(*bytes.first_chunk()?) as f64,
        DType::U64 => u64::from_ne_bytes(*bytes.first_chunk()?) as f64,
        DType::F32 => f64::from(f32::from_ne_bytes(*bytes.first_chunk()?)),
        DType::F64 => f64::from_ne_bytes(*bytes.first_chunk()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_reciprocal_space() {
        let close = |unit: &str, expected: f64| {
            assert!((per_nanometre(unit).unwrap() - expected).abs() < 1e-9, "{unit}");
        };
        for unit in ["1/nm", "nm^-1", "$nm^{-1}$", "nm⁻¹"] {
            close(unit, 1.0);
        }
        for unit in ["1/Å", "A^-1", "$A^{-1}$", "Å⁻¹"] {
            close(unit, 10.0);
        }
        assert_eq!(per_nanometre("px"), None);
        assert_eq!(per_nanometre("1/px"), None);
    }
}
