//! What Nion Swift says of a data item: JSON in an attribute.
//!
//! | where | what |
//! |---|---|
//! | `/data`, attribute `properties` | of an item in a library (`.h5`) |
//! | `/data/0`, `/data/1`, …, attribute `properties` | of exported items (`.nhdf`) |
//!
//! The last `datum_dimension_count` axes are those of a frame. `dimensional_calibrations` has an entry
//! for each axis: `scale`, `offset` and `units`. Numbers in `metadata` are in SI units, angles in
//! radians, unless their names say otherwise; times are in UTC. Up to version 12 of the properties,
//! most of them are in `data_source`, and before in the first of `data_sources`.

use super::json::Json;
use super::library::Library;
use crate::headers::calibration::{Calibration, Steps};
use framefold_core::{MetadataList, Quantity};
use hdf5_reader::Dataset;

/// The properties of a data item, if the data set is one.
pub(super) struct Item {
    all: Json,
    /// What describes the data.
    source: Json,
}

impl Item {
    /// That of the data set at `path`.
    pub(super) fn at(library: &Library, path: &str) -> Option<Self> {
        if path != "data" && !path.starts_with("data/") {
            return None;
        }
        Item::of(&library.main.file.dataset(path).ok()?)
    }

    fn of(dataset: &Dataset) -> Option<Self> {
        let text = dataset.attribute("properties").ok()?.read_string().ok()?;
        Item::from_json(Json::parse(text.as_bytes())?)
    }

    fn from_json(all: Json) -> Option<Self> {
        let source = all.object("/data_source").or_else(|| all.object("/data_sources/0"));
        let source = source.unwrap_or_else(|| all.clone());
        source.number("/datum_dimension_count").is_some().then_some(Item { all, source })
    }

    /// The axes of a frame among `n_axes`.
    pub(super) fn sig_axes(&self, n_axes: usize) -> Option<Vec<usize>> {
        let count = self.source.number("/datum_dimension_count")?;
        let first = (0..n_axes).find(|&axis| (n_axes - axis) as f64 == count)?;
        Some((first..n_axes).collect())
    }

    /// Adds what is said; gives the steps on these axes.
    pub(super) fn add(&self, nav: &[usize], sig: &[usize], list: &mut MetadataList) -> Steps {
        use Quantity as Q;
        let said = &self.source;
        let scaled = |paths: &[&str], factor: f64| Some(said.first_number(paths)? * factor);
        for (quantity, factor, paths) in [
            (
                Q::AccelerationVoltage,
                1e-3,
                [
                    "/metadata/instrument/high_tension",
                    "/metadata/hardware_source/autostem/high_tension_v",
                ],
            ),
            (
                Q::ConvergenceAngle,
                1e3,
                [
                    "/metadata/instrument/convergence_angle",
                    "/metadata/hardware_source/convergence_angle_rad",
                ],
            ),
            (
                Q::BeamCurrent,
                1e12,
                ["/metadata/instrument/beam_current", "/metadata/hardware_source/beam_current_a"],
            ),
        ] {
            list.positive(quantity, scaled(&paths, factor));
        }
        let defocus = ["/metadata/instrument/defocus", "/metadata/hardware_source/defocus_m"];
        list.number(Q::Defocus, scaled(&defocus, 1e9));
        let rotation = ["/metadata/scan/rotation", "/metadata/hardware_source/rotation"];
        list.number(Q::ScanRotation, said.first_number(&rotation).map(f64::to_degrees));
        let exposure = said.number("/metadata/hardware_source/exposure");
        let detector = if said.number("/metadata/hardware_source/pixel_time_us").is_some() {
            // Pixels are recorded one by one, and the exposure is that of all of them.
            list.positive(Q::FrameTime, exposure);
            "/metadata/hardware_source/channel_name"
        } else {
            list.positive(Q::ExposureTime, exposure);
            let binning = said.number("/metadata/hardware_source/binning");
            list.positive(Q::BinningX, binning);
            list.positive(Q::BinningY, binning);
            "/metadata/hardware_source/hardware_source_name"
        };
        list.text(Q::Detector, said.text(detector));
        for session in ["/session", "/session_metadata"] {
            list.text(Q::Microscope, self.all.text(&format!("{session}/instrument")));
        }
        list.text(Q::Title, self.all.text("/title").or(said.text("/title")));
        list.text(Q::Note, self.all.text("/caption").or(said.text("/caption")));
        let began = self.all.text("/created").filter(|began| !began.is_empty());
        list.text(Q::RecordedAt, began.map(|began| format!("{began}Z")).as_deref());
        let steps = |axes: &[usize]| axes.iter().map(|&axis| self.step(axis)).collect();
        Steps { nav: steps(nav), sig: steps(sig) }
    }

    fn step(&self, axis: usize) -> Option<Calibration> {
        let path = |name: &str| format!("/dimensional_calibrations/{axis}/{name}");
        let step = self.source.number(&path("scale"))?;
        Some(Calibration {
            step,
            offset: self.source.number(&path("offset")),
            unit: self.source.text(&path("units"))?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn facts(value: Value) -> Option<Vec<String>> {
        let mut list = MetadataList::new();
        Item::from_json(Json::from(value))?.add(&[0], &[1], &mut list);
        Some(list.iter().map(|fact| format!("{} {fact}", fact.quantity.name())).collect())
    }

    #[test]
    fn numbers_are_converted() {
        let hardware = json!({
            "exposure": 0.025, "binning": 2, "hardware_source_name": "Ronchigram",
            "autostem": { "high_tension_v": 60000 },
        });
        let instrument =
            json!({ "defocus": -5e-7, "convergence_angle": 0.03, "beam_current": 2e-11 });
        let value = json!({
            "datum_dimension_count": 1,
            "created": "2026-11-22T19:49:50.838147",
            "metadata": { "hardware_source": hardware, "instrument": instrument },
            "session": { "instrument": "Ultra" },
            "title": "a scan",
        });
        let expected = [
            "acceleration_voltage 60 kV",
            "defocus -500 nm",
            "convergence_angle 30 mrad",
            "beam_current 20 pA",
            "exposure_time 0.025 s",
            "binning_x 2",
            "binning_y 2",
            "detector Ronchigram",
            "microscope Ultra",
            "recorded_at 2026-11-22T19:49:50.838147Z",
            "title a scan",
        ];
        assert_eq!(facts(value).unwrap(), expected);
    }

    #[test]
    fn scans_have_a_time_for_all_of_their_pixels() {
        let hardware = json!({
            "exposure": 0.5, "pixel_time_us": 8.0, "rotation": 0.5,
            "hardware_source_name": "Scan", "channel_name": "HAADF",
        });
        let source =
            json!({ "datum_dimension_count": 2, "metadata": { "hardware_source": hardware } });
        let expected = ["scan_rotation 28.64789 deg", "frame_time 0.5 s", "detector HAADF"];
        assert_eq!(facts(json!({ "data_source": source })).unwrap(), expected);
        assert_eq!(facts(json!({ "data_sources": [source] })).unwrap(), expected);
    }

    #[test]
    fn what_is_no_data_item_says_nothing() {
        for value in [json!([]), json!({ "metadata": {} }), json!({ "data_sources": [] })] {
            assert_eq!(facts(value), None);
        }
        let odd = json!({
            "datum_dimension_count": 7, "created": "", "title": 5, "metadata": [1, 2],
            "dimensional_calibrations": [null, { "scale": "wide" }],
        });
        let item = Item::from_json(Json::from(odd)).unwrap();
        assert_eq!(item.sig_axes(4), None);
        assert_eq!(item.step(0), None);
        assert_eq!(item.step(1), None);
        assert_eq!(item.step(usize::MAX), None);
    }
}
