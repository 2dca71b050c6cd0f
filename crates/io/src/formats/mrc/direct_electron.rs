//! The text file that DE Server writes beside the movies of Direct Electron cameras.
//!
//! `20241021_00405_movie.mrc` has `20241021_00405_info.txt` beside it, with lines of
//! `key = value`. Used are:
//!
//! | key | meaning |
//! |---|---|
//! | `Scan - Enable` | `Enable` if frames belong to a scan |
//! | `Scan - Type` | `Raster` if positions follow each other row by row |
//! | `Scan - Size X`, `Y` | columns and rows |
//! | `Scan - Camera Frames Per Point` | frames at each position, one after the other |
//! | `Scan - ROI Enable`, `Scan - ROI Size X`, `Y` | the part of it that was scanned |
//! | `Frame Exposure Time (nanoseconds)`, `Frame Time (nanoseconds)` | times of a frame |
//! | `Instrument Accelerating Voltage (V)`, `Instrument Project Camera Length (centimeters)` | |
//! | `Specimen Pixel Size X (nanometers)`, `Y` | steps of a raster; pixels of images where there is no scan and no camera length |
//! | `ADUs Per Electron` or `ADUs Per Electron Bin1x`, `Camera Model`, `Local time` | |
//!
//! Numbers that are not known are -1. `Diffraction Pixel Size X` and `Y` come without a unit, and are
//! listed as they are. Positions of other scans than rasters are in a file of
//! coordinates, which is not read: their frames are delivered in the order of time.

use crate::access::names;
use crate::headers::fields::read_small;
use framefold_core::{AxisKind, Calibration, MetadataList, Quantity, Result, suggested_scans};
use std::path::{Path, PathBuf};

/// The largest file that is believed.
const MAX_LEN: u64 = 4 << 20;

/// A scan of more than this many times the frames that are there is not believed.
const MAX_SCAN_PER_FRAME: u64 = 1024;

/// The lines of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Info(Vec<(String, String)>);

/// The scan shape that the file suggests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scan {
    pub(super) shape: Vec<usize>,
    pub(super) warning: Option<String>,
    /// Whether the axes are those of the raster, and not one of all frames.
    pub(super) has_axes: bool,
}

/// The file that belongs to a movie, if there is one. Other images that the server saves (sums,
/// virtual images) are no scans and have none.
///
/// # Errors
/// `BadFile` or `Io` if it is there and cannot be read.
pub(super) fn find(path: &Path) -> Result<Option<(PathBuf, Info)>> {
    let stem = names::stem(path);
    let Some(mut base) = stem.strip_suffix("_movie") else { return Ok(None) };
    // Names can have a suffix and a number between the acquisition and `movie`.
    loop {
        let candidate = names::beside(path, &format!("{base}_info.txt"));
        if candidate.is_file() {
            let bytes = read_small(&candidate, MAX_LEN)?;
            return Ok(Some((candidate, Info::parse(&bytes))));
        }
        match base.rsplit_once('_') {
            Some((shorter, _)) if shorter.contains('_') => base = shorter,
            _ => return Ok(None),
        }
    }
}

impl Info {
    /// Lines that are not `key = value` are passed over.
    fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let lines = text.lines().filter_map(|line| line.split_once('='));
        Info(lines.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect())
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == key).map(|(_, value)| value.as_str())
    }

    fn float(&self, key: &str) -> Option<f64> {
        self.text(key)?.parse().ok()
    }

    fn count(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok().filter(|&n| n > 0)
    }

    /// The shape of the scan for `n_frames` frames, which are what is really there; `None` if
    /// they belong to no scan, or to one that they do not fit.
    pub(super) fn nav_shape(&self, n_frames: u64) -> Option<Scan> {
        if self.text("Scan - Enable") != Some("Enable") {
            return None;
        }
        let has_roi = self.text("Scan - ROI Enable") == Some("Enable");
        let (kind, x, y) = if has_roi {
            ("Scan - ROI Type", "Scan - ROI Size X", "Scan - ROI Size Y")
        } else {
            ("Scan - Type", "Scan - Size X", "Scan - Size Y")
        };
        let line = |warning: String| {
            let shape = vec![usize::try_from(n_frames).unwrap_or(usize::MAX)];
            Some(Scan { shape, warning: Some(warning), has_axes: false })
        };
        for kind in [kind, "Scan - Type"] {
            if let Some(kind) = self.text(kind).filter(|&kind| kind != "Raster") {
                return line(format!(
                    "the scan is of type '{kind}': frames are in the order of time, not of \
                     positions, which the _scan_coordinates.csv file tells"
                ));
            }
        }
        let (x, y) = (self.count(x)?, self.count(y)?);
        let per_point = self.frames_per_point();
        let n_scan = x.checked_mul(y)?.checked_mul(per_point)?;
        let scan = |repeats: u64, warning: Option<String>| -> Option<Scan> {
            let axes = [repeats, y, x, per_point];
            let axes = axes.get(usize::from(repeats == 1)..if per_point == 1 { 3 } else { 4 })?;
            let shape = axes.iter().map(|&n| usize::try_from(n).ok()).collect::<Option<_>>()?;
            Some(Scan { shape, warning, has_axes: true })
        };
        let described = match per_point {
            1 => format!("a scan of {y} x {x} positions"),
            _ => format!("a scan of {y} x {x} positions with {per_point} frames each"),
        };
        if n_frames.is_multiple_of(n_scan) {
            return scan(n_frames / n_scan, None);
        }
        if n_frames < n_scan && n_scan / MAX_SCAN_PER_FRAME <= n_frames {
            let warning = format!(
                "the _info.txt file describes {described}, but there are only {n_frames} frames"
            );
            return scan(1, Some(warning));
        }
        line(format!(
            "the _info.txt file describes {described}, which {n_frames} frames do not fit; these \
             would: {}",
            suggested_scans(n_frames)
        ))
    }

    fn frames_per_point(&self) -> u64 {
        self.count("Scan - Camera Frames Per Point").unwrap_or(1)
    }

    /// Adds what it tells about the experiment and the axes of the scan, of which the caller may give the
    /// shape. What has no unit comes back in its words.
    pub(super) fn add_to(
        &self,
        facts: &mut MetadataList,
        scan: Option<&Scan>,
        shape_is_given: bool,
    ) -> Vec<(String, String)> {
        self.add_pixel_sizes(facts, scan, shape_is_given);
        let scaled = |key: &str, factor: f64| self.float(key).map(|value| value * factor);
        facts.positive(
            Quantity::AccelerationVoltage,
            scaled("Instrument Accelerating Voltage (V)", 1e-3),
        );
        facts.positive(
            Quantity::CameraLength,
            scaled("Instrument Project Camera Length (centimeters)", 10.0),
        );
        facts.positive(Quantity::Magnification, scaled("Instrument Project Magnification", 1.0));
        facts.positive(Quantity::ExposureTime, scaled("Frame Exposure Time (nanoseconds)", 1e-9));
        facts.positive(Quantity::FrameTime, scaled("Frame Time (nanoseconds)", 1e-9));
        let per_electron = self.float("ADUs Per Electron");
        facts.positive(
            Quantity::CountsPerElectron,
            per_electron.or_else(|| self.float("ADUs Per Electron Bin1x")),
        );
        facts.text(Quantity::Detector, self.text("Camera Model"));
        facts.text(Quantity::RecordedAt, self.text("Local time"));
        let version = self.text("Server Software Version").filter(|version| !version.is_empty());
        facts.text(
            Quantity::Software,
            version.map(|version| format!("DE Server {version}")).as_deref(),
        );
        let keys = ["Diffraction Pixel Size X", "Diffraction Pixel Size Y"].into_iter();
        let known = keys.filter(|key| self.float(key).is_some_and(|size| size > 0.0));
        let value = |key: &str| format!("{} (without a unit)", self.text(key).unwrap_or_default());
        known.map(|key| (key.to_lowercase(), value(key))).collect()
    }

    /// Sizes on the specimen are those of the scan where there is one, and those of images where
    /// there is neither a scan nor a camera length.
    fn add_pixel_sizes(&self, facts: &mut MetadataList, scan: Option<&Scan>, shape_is_given: bool) {
        use Quantity::{ImageStepX, ImageStepY, ScanStepX, ScanStepY};
        let diffracts = self.float("Instrument Project Camera Length (centimeters)");
        let is_raster = self.text("Scan - Type") == Some("Raster")
            && (self.text("Scan - ROI Enable") != Some("Enable")
                || self.text("Scan - ROI Type").is_none_or(|kind| kind == "Raster"));
        let steps = match (self.text("Scan - Enable"), diffracts) {
            (Some("Enable"), _) if is_raster => [ScanStepX, ScanStepY],
            (Some("Disable"), Some(length)) if length <= 0.0 => [ImageStepX, ImageStepY],
            _ => return,
        };
        let sizes =
            ["X", "Y"].map(|axis| self.float(&format!("Specimen Pixel Size {axis} (nanometers)")));
        let has_axes = scan.is_some_and(|scan| scan.has_axes);
        if steps == [ScanStepX, ScanStepY] && self.frames_per_point() > 1 {
            // The last axis is that of the frames of a position.
            let repeats = scan.is_some_and(|scan| scan.shape.len() > 3);
            let names =
                if repeats { "repeat, scan_y, scan_x, time" } else { "scan_y, scan_x, time" };
            facts.text(Quantity::ScanAxes, Some(names).filter(|_| has_axes));
            for (from_last, size) in (1..).zip(sizes) {
                let size = size.filter(|size| size.is_finite() && *size > 0.0);
                if let Some(step) = size.filter(|_| has_axes) {
                    let axis = Calibration { step, offset: 0.0, unit: "nm".to_owned() };
                    facts.calibrate(AxisKind::Nav, from_last, axis);
                }
            }
            return;
        }
        // All frames in one line go on from row to row.
        if steps == [ScanStepX, ScanStepY] && !has_axes && !shape_is_given {
            return;
        }
        for (step, size) in steps.into_iter().zip(sizes) {
            facts.positive(step, size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nav(lines: &str, n_frames: u64) -> Option<(Vec<usize>, bool)> {
        let scan = Info::parse(lines.as_bytes()).nav_shape(n_frames)?;
        Some((scan.shape, scan.warning.is_some()))
    }

    const RASTER: &str = "Scan - Enable  = Enable\nScan - Type = Raster\nScan - Size X = 8\n\
                          Scan - Size Y = 4\nScan - ROI Size X = 2\nScan - ROI Size Y = 3\n";

    #[test]
    fn rasters_have_their_shape() {
        assert_eq!(nav(RASTER, 32), Some((vec![4, 8], false)));
        assert_eq!(nav(RASTER, 64), Some((vec![2, 4, 8], false)));
        assert_eq!(nav(RASTER, 30), Some((vec![4, 8], true)));
        assert_eq!(nav(RASTER, 33), Some((vec![33], true)));
        let per_point = format!("{RASTER}Scan - Camera Frames Per Point = 2\n");
        for (n_frames, shape, doubtful) in [
            (64, &[4, 8, 2][..], false),
            (192, &[3, 4, 8, 2], false),
            (32, &[4, 8, 2], true),
            (30, &[4, 8, 2], true),
            (62, &[4, 8, 2], true),
            (96, &[96], true),
        ] {
            assert_eq!(nav(&per_point, n_frames), Some((shape.to_vec(), doubtful)));
        }
        let roi = format!("{RASTER}Scan - ROI Enable = Enable\nScan - ROI Type = Raster\n");
        assert_eq!(nav(&roi, 6), Some((vec![3, 2], false)));
    }

    #[test]
    fn pixels_on_the_specimen_are_steps_of_a_scan_or_of_images() {
        let facts_of = |lines: &str, n_frames: u64, shape_is_given: bool| {
            let (mut facts, info) = (MetadataList::new(), Info::parse(lines.as_bytes()));
            let details =
                info.add_to(&mut facts, info.nav_shape(n_frames).as_ref(), shape_is_given);
            let steps = facts.iter().filter(|fact| fact.quantity.name().contains("step"));
            let steps = steps.map(|fact| format!("{} {fact}", fact.quantity.name()));
            let details = details.into_iter().map(|(key, value)| format!("{key}: {value}"));
            steps.chain(details).collect::<Vec<_>>()
        };
        let facts = |lines: &str| facts_of(lines, 32, false);
        let sizes = "Specimen Pixel Size X (nanometers) = 0.1\n\
                     Specimen Pixel Size Y (nanometers) = 0.2\nDiffraction Pixel Size X = 0.5\n\
                     Diffraction Pixel Size Y = -1\n";
        let diffraction = "diffraction pixel size x: 0.5 (without a unit)";
        assert_eq!(
            facts(&format!("{RASTER}{sizes}")),
            ["scan_step_x 0.1 nm", "scan_step_y 0.2 nm", diffraction]
        );
        let length = "Instrument Project Camera Length (centimeters)";
        let no_scan = format!("{}{sizes}{length}", RASTER.replace("= Enable", "= Disable"));
        assert_eq!(
            facts(&format!("{no_scan} = -1\n")),
            ["image_step_x 0.1 nm", "image_step_y 0.2 nm", diffraction]
        );
        for other in [no_scan.clone(), format!("{no_scan} = 10\n"), sizes.to_owned()] {
            assert_eq!(facts(&other), [diffraction]);
        }
        assert_eq!(facts(&format!("{}{sizes}", RASTER.replace("Raster", "Random"))), [diffraction]);
        let part = format!("{RASTER}{sizes}Scan - ROI Enable = Enable\nScan - ROI Type = ");
        assert_eq!(facts_of(&format!("{part}Raster\n"), 6, false).len(), 3);
        assert_eq!(facts(&format!("{part}Random\n")), [diffraction]);
        // Frames that do not fit are no raster, unless the caller makes them one.
        let raster = format!("{RASTER}{sizes}");
        assert_eq!(facts_of(&raster, 33, false), [diffraction]);
        assert_eq!(facts_of(&raster, 33, true), facts(&raster));
    }

    #[test]
    fn other_scans_are_lines_of_frames() {
        assert_eq!(nav(&RASTER.replace("Raster", "Random"), 32), Some((vec![32], true)));
        assert_eq!(nav(&RASTER.replace("Enable\n", "Disable\n"), 32), None);
        assert_eq!(nav("nothing", 32), None);
        let absurd = RASTER.replace("= 8", "= 18446744073709551615");
        assert_eq!(nav(&absurd, 32), None);
        assert_eq!(nav(&RASTER.replace("= 8", "= 0"), 32), None);
        assert_eq!(nav(&RASTER.replace("= 8", "= 99999999"), 32), Some((vec![32], true)));
    }
}
