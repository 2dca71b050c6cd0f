//! What headers say about an experiment, by names and in units that are the same for all formats.

use crate::axes::{AxisKind, Calibration};
use std::fmt;

macro_rules! quantities {
    ($($key:ident $name:literal $unit:literal $meaning:literal;)*) => {
        /// What a piece of meta data is about. Each has one name and one unit, whatever the format.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Quantity {
            $(#[doc = $meaning] $key,)*
        }

        impl Quantity {
            /// All of them, in the order in which they are shown.
            pub const ALL: &[Quantity] = &[$(Quantity::$key,)*];

            /// The name: `camera_length`.
            pub fn name(self) -> &'static str {
                match self { $(Quantity::$key => $name,)* }
            }

            /// The unit: `mm`; empty for texts and for plain numbers.
            pub fn unit(self) -> &'static str {
                match self { $(Quantity::$key => $unit,)* }
            }

            /// What it is, in a few words.
            pub fn meaning(self) -> &'static str {
                match self { $(Quantity::$key => $meaning,)* }
            }
        }
    };
}

quantities! {
    ScanStepX "scan_step_x" "nm" "Distance of neighbouring scan positions in a row.";
    ScanStepY "scan_step_y" "nm" "Distance of neighbouring rows of the scan.";
    ScanOffsetX "scan_offset_x" "nm" "Place of the first scan position of a row.";
    ScanOffsetY "scan_offset_y" "nm" "Place of the first row of the scan.";
    ScanRotation "scan_rotation" "deg" "Rotation of the scan.";
    AccelerationVoltage "acceleration_voltage" "kV" "Acceleration voltage of the electrons.";
    CameraLength "camera_length" "mm" "Camera length.";
    Magnification "magnification" "" "Magnification.";
    Defocus "defocus" "nm" "Defocus.";
    WorkingDistance "working_distance" "mm" "Working distance of a scanning electron microscope.";
    ConvergenceAngle "convergence_angle" "mrad" "Semi-convergence angle of the probe.";
    CollectionAngle "collection_angle" "mrad" "Semi-collection angle of the spectrometer.";
    BeamCurrent "beam_current" "pA" "Beam current.";
    ExposureTime "exposure_time" "s" "Exposure time of a frame.";
    DwellTime "dwell_time" "s" "Time for which the beam stays at a scan position.";
    FrameTime "frame_time" "s" "Time from the start of a frame to that of the next.";
    DiffractionStepX "diffraction_step_x" "1/nm" "Width of a pixel of a diffraction pattern.";
    DiffractionStepY "diffraction_step_y" "1/nm" "Height of a pixel of a diffraction pattern.";
    DiffractionOffsetX "diffraction_offset_x" "1/nm" "Place of the first column of a diffraction pattern.";
    DiffractionOffsetY "diffraction_offset_y" "1/nm" "Place of the first row of a diffraction pattern.";
    AngleStepX "angle_step_x" "mrad" "Width of a pixel of a diffraction pattern, as an angle.";
    AngleStepY "angle_step_y" "mrad" "Height of a pixel of a diffraction pattern, as an angle.";
    AngleOffsetX "angle_offset_x" "mrad" "Place of the first column of a diffraction pattern, as an angle.";
    AngleOffsetY "angle_offset_y" "mrad" "Place of the first row of a diffraction pattern, as an angle.";
    ImageStepX "image_step_x" "nm" "Width of a pixel of an image, on the specimen.";
    ImageStepY "image_step_y" "nm" "Height of a pixel of an image, on the specimen.";
    ImageOffsetX "image_offset_x" "nm" "Place of the first column of an image, on the specimen.";
    ImageOffsetY "image_offset_y" "nm" "Place of the first row of an image, on the specimen.";
    EnergyStep "energy_step" "eV" "Width of a channel of a spectrum.";
    EnergyOffset "energy_offset" "eV" "Energy of the first channel of a spectrum.";
    PixelSizeX "pixel_size_x" "µm" "Width of a pixel of the detector, without binning.";
    PixelSizeY "pixel_size_y" "µm" "Height of a pixel of the detector, without binning.";
    BinningX "binning_x" "" "Pixels of the detector in one of a frame, in a row.";
    BinningY "binning_y" "" "Pixels of the detector in one of a frame, in a column.";
    BitDepth "bit_depth" "" "Bits of a pixel that hold counts.";
    Threshold "threshold" "keV" "Energy that an electron must have to be counted.";
    CountsPerElectron "counts_per_electron" "" "Counts of the detector for one electron.";
    StageX "stage_x" "µm" "Position of the stage, x.";
    StageY "stage_y" "µm" "Position of the stage, y.";
    StageZ "stage_z" "µm" "Position of the stage, z.";
    StageAlpha "stage_alpha" "deg" "Tilt of the stage about its first axis.";
    StageBeta "stage_beta" "deg" "Tilt of the stage about its second axis.";
    StageRotation "stage_rotation" "deg" "Rotation of the stage of a scanning electron microscope.";
    StageTilt "stage_tilt" "deg" "Tilt of the stage of a scanning electron microscope.";
    Detector "detector" "" "The detector.";
    Microscope "microscope" "" "The microscope.";
    AcquisitionMode "acquisition_mode" "" "How the microscope worked: TEM, STEM or SEM.";
    Software "software" "" "The program that wrote the file.";
    RecordedAt "recorded_at" "" "When it was recorded: ISO 8601, or as the file spells it.";
    Operator "operator" "" "Who recorded it.";
    Title "title" "" "Title of the recording.";
    Note "note" "" "Comment of the operator who recorded it.";
    SignalType "signal_type" "" "Kind of signal, as HyperSpy names it.";
    ScanAxes "scan_axes" "" "Names of the axes of the scan, slowest first.";
    FrameAxes "frame_axes" "" "Names of the axes of frames, slowest first.";
    Orientation "orientation" "" "How frames were turned, compared with those of the file.";
}

/// A number in the quantity's unit, or a text.
#[derive(Clone, Debug, PartialEq)]
pub enum MetadataValue {
    /// A number in the unit of the quantity; finite.
    Number(f64),
    /// A text; not empty.
    Text(String),
}

/// One fact that a header tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Metadata {
    /// What it is about.
    pub quantity: Quantity,
    /// Its value.
    pub value: MetadataValue,
}

/// Facts in the order of [`Quantity::ALL`], each quantity once; and the calibrations of axes that no
/// quantity can say.
///
/// What a file does not really say is not there: empty texts, and numbers that are not finite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetadataList {
    facts: Vec<Metadata>,
    calibrations: Vec<(AxisKind, usize, Calibration)>,
}

impl MetadataList {
    /// Nothing is known.
    pub fn new() -> Self {
        MetadataList::default()
    }

    /// Adds a number in the quantity's unit, in the place of what was there. NaN, infinities and
    /// `None` add nothing.
    pub fn number(&mut self, quantity: Quantity, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.insert(Metadata { quantity, value: MetadataValue::Number(value) });
        }
    }

    /// As [`MetadataList::number`], but for numbers of which 0 or less means "not known".
    pub fn positive(&mut self, quantity: Quantity, value: impl Into<Option<f64>>) {
        self.number(quantity, value.into().filter(|&value| value > 0.0));
    }

    /// Adds a text without the space around it, in the place of what was there. Empty texts and
    /// `None` add nothing.
    pub fn text<'a>(&mut self, quantity: Quantity, value: impl Into<Option<&'a str>>) {
        if let Some(value) = value.into().map(str::trim).filter(|value| !value.is_empty()) {
            self.insert(Metadata { quantity, value: MetadataValue::Text(value.to_owned()) });
        }
    }

    /// Adds a fact, in the place of what was there.
    pub fn insert(&mut self, fact: Metadata) {
        let place = self.facts.partition_point(|other| other.quantity < fact.quantity);
        match self.facts.get_mut(place).filter(|other| other.quantity == fact.quantity) {
            Some(other) => *other = fact,
            None => self.facts.insert(place, fact),
        }
    }

    /// Adds the calibration of an axis, in the place of what was there: seconds, kelvin, the
    /// wavelengths of spectra, whatever the axis has and no quantity is for. It goes before
    /// quantities in [`crate::Dataset::axes`]. `from_last` is 0 for the last axis of that kind, 1
    /// for the one before it. One whose step is 0, or whose numbers are not finite, adds nothing.
    pub fn calibrate(&mut self, kind: AxisKind, from_last: usize, calibration: Calibration) {
        let Calibration { step, offset, .. } = calibration;
        if step.is_finite() && step != 0.0 && offset.is_finite() {
            self.uncalibrate(kind, from_last);
            self.calibrations.push((kind, from_last, calibration));
            self.calibrations.sort_by_key(|&(kind, from_last, _)| (kind, from_last));
        }
    }

    /// Forgets the calibration that [`MetadataList::calibrate`] gave an axis.
    pub fn uncalibrate(&mut self, kind: AxisKind, from_last: usize) {
        self.calibrations.retain(|&(of, at, _)| (of, at) != (kind, from_last));
    }

    /// The calibration that [`MetadataList::calibrate`] gave an axis.
    pub fn calibration(&self, kind: AxisKind, from_last: usize) -> Option<&Calibration> {
        let mut all = self.calibrations.iter();
        all.find(|(of, at, _)| (*of, *at) == (kind, from_last)).map(|(_, _, found)| found)
    }

    /// Forgets a quantity.
    pub fn remove(&mut self, quantity: Quantity) {
        self.facts.retain(|fact| fact.quantity != quantity);
    }

    /// The number of a quantity, if it is known and is one.
    pub fn get_number(&self, quantity: Quantity) -> Option<f64> {
        match self.get(quantity)? {
            MetadataValue::Number(number) => Some(*number),
            MetadataValue::Text(_) => None,
        }
    }

    /// The value of a quantity, if it is known.
    pub fn get(&self, quantity: Quantity) -> Option<&MetadataValue> {
        self.facts.iter().find(|fact| fact.quantity == quantity).map(|fact| &fact.value)
    }

    /// All facts, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Metadata> {
        self.facts.iter()
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.facts.is_empty() && self.calibrations.is_empty()
    }
}

/// The value with its unit: `200 kV`.
impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            MetadataValue::Text(text) => f.write_str(text),
            MetadataValue::Number(number) => {
                write!(f, "{}", Number(*number))?;
                match self.quantity.unit() {
                    "" => Ok(()),
                    unit => write!(f, " {unit}"),
                }
            }
        }
    }
}

/// A number for people to read.
pub(crate) struct Number(pub(crate) f64);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = shown(self.0);
        let magnitude = number.abs();
        if magnitude != 0.0 && !(1e-4..1e7).contains(&magnitude) {
            write!(f, "{number:e}")
        } else {
            write!(f, "{number}")
        }
    }
}

/// The number, with so many digits as headers are good for: many are floats of 32
/// bits, or were converted from other units.
fn shown(number: f64) -> f64 {
    // Adding 0 turns -0 into 0.
    format!("{number:.6e}").parse::<f64>().unwrap_or(number) + 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_without_what_is_left_of_conversions() {
        for (number, expected) in [
            (0.10000000149011612, 0.1),
            (320.00000000000006, 320.0),
            (-16.409999999999997, -16.41),
            (9.950000094249845e-5, 9.95e-5),
            (-0.0, 0.0),
            (1234567.0, 1234567.0),
            (f64::MAX, 1.797693e308),
            (f64::MIN_POSITIVE, 2.225074e-308),
        ] {
            assert_eq!(shown(number).to_bits(), f64::to_bits(expected), "{number}");
        }
    }

    #[test]
    fn names_are_unique_and_meanings_are_sentences() {
        for (i, a) in Quantity::ALL.iter().enumerate() {
            assert!(a.meaning().ends_with('.'), "{a:?}");
            assert!(Quantity::ALL[..i].iter().all(|b| a.name() != b.name()), "{a:?}");
        }
    }

    #[test]
    fn facts_are_in_order_and_unique() {
        let mut facts = MetadataList::new();
        facts.text(Quantity::Detector, " pnCCD ");
        facts.number(Quantity::ScanStepX, 2.0);
        facts.number(Quantity::ScanStepX, 3.0);
        let shown: Vec<String> =
            facts.iter().map(|fact| format!("{}: {fact}", fact.quantity.name())).collect();
        assert_eq!(shown, ["scan_step_x: 3 nm", "detector: pnCCD"]);
        assert_eq!(facts.get(Quantity::ScanStepX), Some(&MetadataValue::Number(3.0)));
        assert_eq!(facts.get(Quantity::Title), None);
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let mut facts = MetadataList::new();
        facts.text(Quantity::Title, " ");
        facts.text(Quantity::Title, None);
        facts.number(Quantity::Magnification, f64::NAN);
        facts.number(Quantity::Magnification, None);
        facts.positive(Quantity::CameraLength, 0.0);
        assert!(facts.is_empty());
    }

    #[test]
    fn an_axis_has_one_calibration() {
        let of = |step, offset| Calibration { step, offset, unit: "s".into() };
        let mut facts = MetadataList::new();
        for (step, offset) in [(0.0, 1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
            facts.calibrate(AxisKind::Nav, 0, of(step, offset));
        }
        assert!(facts.is_empty());
        facts.calibrate(AxisKind::Sig, 0, of(1.0, 0.0));
        facts.calibrate(AxisKind::Nav, 0, of(2.0, 0.0));
        facts.calibrate(AxisKind::Nav, 0, of(3.0, 4.0));
        assert_eq!(facts.calibration(AxisKind::Nav, 0), Some(&of(3.0, 4.0)));
        assert_eq!(facts.calibration(AxisKind::Nav, 1), None);
        let mut other = MetadataList::new();
        other.calibrate(AxisKind::Nav, 0, of(3.0, 4.0));
        other.calibrate(AxisKind::Sig, 0, of(1.0, 0.0));
        assert_eq!(facts, other);
        facts.uncalibrate(AxisKind::Nav, 0);
        facts.uncalibrate(AxisKind::Sig, 0);
        assert!(facts.is_empty());
    }

    #[test]
    fn long_numbers_are_short() {
        let shown = |value| {
            let fact =
                Metadata { quantity: Quantity::BitDepth, value: MetadataValue::Number(value) };
            fact.to_string()
        };
        assert_eq!(shown(0.0), "0");
        assert_eq!(shown(16.0), "16");
        assert_eq!(shown(2.5e-9), "2.5e-9");
        assert_eq!(shown(0.000_5), "0.0005");
    }
}
