//! What Velox says of an experiment: JSON beside the images.
//!
//! | path, beside `Data` | what |
//! |---|---|
//! | `Metadata` | u8, a column for each frame: JSON in UTF-8, and zeros to the end of the column |
//!
//! Images are `Data/Image/ID/Data`: height, width, frames. Spectra of energy loss are
//! `Data/EelsSpectrumImage/ID/Data`: x, energy, y of a scan, or x, energy of a line; beside them:
//!
//! | path | what |
//! |---|---|
//! | `Info` | JSON: `width` and `height` of the scan, `bincount` energies, `encoding` of the numbers |
//! | `AcquisitionMetadata` | JSON: `Data` with `offset` and `dispersion`, in eV |
//!
//! Numbers in it are texts, in SI units; angles are in radians, times in seconds since 1970, UTC.
//! The column of the first frame is read.

use super::json::Json;
use super::library::Library;
use crate::headers::calibration::{Calibration, Steps};
use crate::headers::fields::iso_seconds;
use framefold_core::{DType, MetadataList, Quantity};
use hdf5_reader::Dataset;
use hdf5_reader::dataset::{SliceInfo, SliceInfoElem};
use hdf5_reader::error::Error::DatasetNotFound as Missing;
use hdf5_reader::group::Group;

/// Columns are no longer than this; those of Velox are 60 000 bytes long.
const LONGEST: u64 = 1 << 20;
/// Chunks that are read for it are no larger.
const LARGEST_CHUNK: u64 = 1 << 24;

const IMAGES: &str = "Data/Image/";
const SPECTRA: &str = "Data/EelsSpectrumImage/";

/// Whether the data set at `path` is named as images are, and has `Metadata` beside it.
pub(super) fn is_image(library: &Library, path: &str) -> bool {
    let named = path.strip_prefix(IMAGES).and_then(|path| path.strip_suffix("/Data"));
    let id = named.filter(|id| !id.contains('/'));
    let group = id.and_then(|id| library.group(&format!("{IMAGES}{id}")));
    // Where the file is cut short, it may be there and cannot be read.
    group.is_some_and(|group| !matches!(group.dataset("Metadata"), Err(Missing(_))))
}

/// Which axis of a spectrum image is that of energies; `None` if it is none, or is not laid out as
/// `Info` says it is.
pub(super) fn energy_axis(library: &Library, path: &str) -> Option<usize> {
    let group = library.group(path.strip_suffix("/Data").filter(|p| p.starts_with(SPECTRA))?)?;
    let shape = group.dataset("Data").ok()?.shape().to_vec();
    let said = beside(&group, "Info");
    let len = |name: &str| said.as_ref()?.number(name).filter(|len| *len >= 1.0);
    let fits = |axis: usize, name: &str| {
        // Lengths that the file does not give fit.
        len(name).is_none_or(|len| shape.get(axis).is_some_and(|&n| n as f64 == len))
    };
    let is_line = shape.len() == 2 && fits(0, "/width");
    let is_scan = shape.len() == 3 && fits(0, "/width") && fits(2, "/height");
    ((is_line || is_scan) && fits(1, "/bincount")).then_some(1)
}

/// Puts the axes of the scan of a spectrum image in order: y, x.
pub(super) fn order(nav: &mut [usize], sig: &[usize]) {
    if sig == [1] {
        nav.reverse();
    }
}

/// The JSON of a data set in a group: a text, or bytes of one.
fn beside(group: &Group, name: &str) -> Option<Json> {
    let dataset = group.dataset(name).ok()?;
    if dataset.num_elements().ok()? > LONGEST {
        return None;
    }
    let is_bytes = super::dtype::stored_dtype(&dataset).is_ok_and(|d| d.dtype == DType::U8);
    let text = if is_bytes {
        dataset.read_native_bytes().ok()?
    } else {
        dataset.read_strings().ok()?.into_iter().next()?.into_bytes()
    };
    Json::parse(text.split(|byte| *byte == 0).next()?)
}

/// The step of a spectrum image on its axis of energies.
fn energies(group: &Group) -> Option<Calibration> {
    let said = beside(group, "AcquisitionMetadata")?;
    Some(Calibration {
        step: said.number("/Data/dispersion")?,
        offset: said.number("/Data/offset"),
        unit: "eV".to_owned(),
    })
}

/// Adds what is said of the data set at `path`; the steps on its axes, if it is one of Velox.
pub(super) fn add(
    library: &Library,
    path: &str,
    nav: &[usize],
    sig: &[usize],
    list: &mut MetadataList,
) -> Option<Steps> {
    let parent = path.strip_suffix("/Data")?;
    if parent.starts_with(SPECTRA) && sig == [1] {
        let group = library.group(parent)?;
        if let Some(column) = group.dataset("Metadata").ok().and_then(|all| first_column(&all)) {
            let json = column.split(|byte| *byte == 0).next().and_then(Json::parse);
            Said(json.unwrap_or_else(|| Json::from(serde_json::Value::Null))).add(list);
        }
        return Some(Steps { nav: vec![None; nav.len()], sig: vec![energies(&group)] });
    }
    if !is_image(library, path) {
        return None;
    }
    let column = first_column(&library.group(parent)?.dataset("Metadata").ok()?)?;
    let said = Said(Json::parse(column.split(|byte| *byte == 0).next()?)?);
    said.add(list);
    if nav == [2] {
        list.text(Quantity::ScanAxes, "time");
    }
    let steps = |axes: &[usize]| axes.iter().map(|&axis| said.step(axis)).collect();
    Some(Steps { nav: steps(nav), sig: steps(sig) })
}

fn first_column(dataset: &Dataset) -> Option<Vec<u8>> {
    let &[len, n_frames] = dataset.shape() else { return None };
    let chunk = dataset.chunks().unwrap_or_default();
    let chunk_bytes = chunk.iter().try_fold(1, |n: u64, len| n.checked_mul(u64::from(*len)))?;
    let is_bytes = super::dtype::stored_dtype(dataset).ok()?.dtype == DType::U8;
    if !is_bytes || len > LONGEST || n_frames == 0 || chunk_bytes > LARGEST_CHUNK {
        return None;
    }
    let column = |end| SliceInfoElem::Slice { start: 0, end, step: 1 };
    let first = SliceInfo { selections: vec![column(len), column(1)] };
    Some(dataset.read_slice::<u8>(&first).ok()?.into_iter().collect())
}

/// What is said of one frame.
struct Said(Json);

impl Said {
    fn text(&self, path: &str) -> Option<&str> {
        self.0.text(path)
    }

    fn number(&self, path: &str) -> Option<f64> {
        self.0.number(path)
    }

    fn add(&self, list: &mut MetadataList) {
        use Quantity as Q;
        let scaled = |path: &str, factor: f64| Some(self.number(path)? * factor);
        let degrees = |path: &str| self.number(path).map(f64::to_degrees);
        list.positive(Q::AccelerationVoltage, scaled("/Optics/AccelerationVoltage", 1e-3));
        list.positive(Q::ConvergenceAngle, scaled("/Optics/BeamConvergence", 1e3));
        let defocus = scaled("/Optics/Defocus", 1e9).filter(|defocus| *defocus != 0.0);
        list.number(Q::Defocus, defocus);
        for (quantity, axis) in [(Q::StageX, "x"), (Q::StageY, "y"), (Q::StageZ, "z")] {
            list.number(quantity, scaled(&format!("/Stage/Position/{axis}"), 1e6));
        }
        list.number(Q::StageAlpha, degrees("/Stage/AlphaTilt"));
        list.number(Q::StageBeta, degrees("/Stage/BetaTilt"));
        // Of images without a scan: the camera length is that of diffraction patterns then.
        let magnification = self.number("/Optics/NominalMagnification");
        list.positive(Q::Magnification, magnification);
        if magnification.is_none() {
            list.positive(Q::CameraLength, scaled("/Optics/CameraLength", 1e3));
        }
        if self.number("/Scan/ScanSize/width").is_some_and(|width| width > 0.0) {
            list.number(Q::ScanRotation, degrees("/Scan/ScanRotation"));
            list.positive(Q::FrameTime, self.number("/Scan/FrameTime"));
            list.positive(
                Q::Magnification,
                self.number("/CustomProperties/StemMagnification/value"),
            );
        }
        if let Some(index) = self.number("/BinaryResult/DetectorIndex") {
            let detector = format!("/Detectors/Detector-{index}");
            list.positive(Q::ExposureTime, self.number(&format!("{detector}/ExposureTime")));
            list.positive(Q::BinningX, self.number(&format!("{detector}/Binning/width")));
            list.positive(Q::BinningY, self.number(&format!("{detector}/Binning/height")));
        }
        list.text(Q::Detector, self.text("/BinaryResult/Detector"));
        let microscope = self.text("/Instrument/InstrumentModel");
        list.text(Q::Microscope, self.text("/Instrument/InstrumentClass"));
        list.text(Q::Microscope, microscope);
        let began = self.number("/Acquisition/AcquisitionStartDatetime/DateTime");
        let began = began.filter(|seconds| *seconds > 0.0 && *seconds < LATEST);
        let began = began.map(|seconds| format!("{}Z", iso_seconds(seconds as i64)));
        list.text(Q::RecordedAt, began.as_deref());
    }

    /// The step on an axis of the data set: height, width, frames.
    fn step(&self, axis: usize) -> Option<Calibration> {
        let (side, place, unit) = match axis {
            0 => ("height", "y", "PixelUnitY"),
            1 => ("width", "x", "PixelUnitX"),
            _ => return self.frames(),
        };
        Some(Calibration {
            step: self.number(&format!("/BinaryResult/PixelSize/{side}"))?,
            offset: self.number(&format!("/BinaryResult/Offset/{place}")),
            unit: self.text(&format!("/BinaryResult/{unit}"))?.to_owned(),
        })
    }

    /// From frame to frame: the time that a scan takes, or else that of an exposure.
    fn frames(&self) -> Option<Calibration> {
        let exposure = || {
            let index = self.number("/BinaryResult/DetectorIndex")?;
            self.number(&format!("/Detectors/Detector-{index}/ExposureTime"))
        };
        let step = self.number("/Scan/FrameTime").or_else(exposure)?;
        Some(Calibration { step, offset: None, unit: "s".to_owned() })
    }
}

/// The last second of the year 9999.
const LATEST: f64 = 253_402_300_799.0;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn facts(value: Value) -> Vec<String> {
        let mut list = MetadataList::new();
        Said(Json::from(value)).add(&mut list);
        list.iter().map(|fact| format!("{} {fact}", fact.quantity.name())).collect()
    }

    #[test]
    fn scans_have_a_camera_length_and_images_a_magnification() {
        let optics = json!({ "CameraLength": "0.301", "AccelerationVoltage": "300000" });
        let scan = json!({
            "Optics": optics,
            "Scan": { "ScanSize": { "width": "128" }, "FrameTime": "0.25" },
            "CustomProperties": { "StemMagnification": { "type": "double", "value": "7100" } },
        });
        let expected =
            ["acceleration_voltage 300 kV", "camera_length 301 mm", "magnification 7100"];
        assert_eq!(facts(scan), [&expected[..], &["frame_time 0.25 s"]].concat());
        let image = json!({
            "Optics": { "CameraLength": "0.301", "NominalMagnification": 1000.5 },
            "Scan": { "ScanSize": { "width": "0" }, "FrameTime": "0.25" },
            "CustomProperties": { "StemMagnification": { "type": "bool", "value": "0" } },
        });
        assert_eq!(facts(image), ["magnification 1000.5"]);
    }

    #[test]
    fn what_says_nothing_is_left_out() {
        let nothing = json!({
            "Optics": { "AccelerationVoltage": "", "BeamConvergence": "-0.03", "Defocus": "nan" },
            "Acquisition": { "AcquisitionStartDatetime": { "DateTime": "1e300" } },
            "BinaryResult": { "DetectorIndex": "7", "Detector": " " },
            "Detectors": [],
            "Stage": "none",
        });
        assert_eq!(facts(nothing), [""; 0]);
        assert_eq!(facts(Value::Null), [""; 0]);
    }
}
