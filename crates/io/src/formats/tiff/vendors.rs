//! What microscopes of several makers write into tags of their own.
//!
//! | maker | tag | what it holds |
//! |---|---|---|
//! | FEI, Thermo Fisher (SEM) | 34680, 34682 | sections `[Scan]` of lines `PixelWidth=3.4e-6`, in units of the SI |
//! | Zeiss (SEM) | 34118 | numbers, one a line: the fourth is the width of a pixel in m, of images with 1024 columns; then for each value a line with its key, `AP_MAG`, and one with its name, number and unit, `Mag = 2.00 K X` |
//! | JEOL (SightX) | 270 | XML, `TemReporter`, where the maker (271) is `JEOL Ltd.`; pixels per inch or cm of the detector (282) |
//! | Gatan, HyperSpy | 65003, 65004; 65009, 65010 | units and steps of x and y |
//! | HyperSpy | 65006, 65007 | where x and y begin, in these units, where the software (305) is `hyperspy` |
//! | HyperSpy | 65005, 65008, 65011 | unit, start and step of the axis of a stack |
//! | TVIPS (EM-MENU) | 37706 | a structure: see `tvips` |
//! | Olympus (SIS) | 33560 | a structure, and blocks elsewhere: see `olympus` |
//! | Hamamatsu (HPD-TA) | 270 | sections of values, and tables elsewhere: see `hamamatsu` |
//!
//! Where numbers lie was found in real files of FEI, JEOL and Hamamatsu; for the others, it is what
//! tifffile and rosettasciio find in them.

mod hamamatsu;
mod olympus;
mod tvips;

use super::ifd::{Directory, tag};
use crate::headers::calibration::{Calibration, add_steps};
use crate::headers::dates;
use crate::headers::units::convert;
use crate::headers::xml::Element;
use framefold_core::{MetadataList, Quantity as Q};

const FEI: [u16; 2] = [34680, 34682];
const ZEISS: u16 = 34118;
/// Of x and y.
const GATAN_UNITS: [u16; 2] = [65003, 65004];
const GATAN_STEPS: [u16; 2] = [65009, 65010];
const HYPERSPY_STARTS: [u16; 2] = [65006, 65007];
/// Unit, start and step.
const HYPERSPY_STACK: (u16, u16, u16) = (65005, 65008, 65011);
/// Longer texts are of another kind.
const LONGEST: usize = 1 << 20;

/// Adds what is known, and what is odd about it; says who wrote it, if it is one of them.
pub(super) fn add(
    directory: &Directory<'_>,
    facts: &mut MetadataList,
    odd: &mut Vec<String>,
) -> Option<&'static str> {
    let text = |tag| directory.text(tag).filter(|text| text.len() <= LONGEST);
    if let Some(text) = FEI.into_iter().find_map(text) {
        fei(&text, facts);
        return Some("FEI");
    }
    if let Some(text) = text(ZEISS) {
        let width = directory.number(tag::WIDTH).ok().flatten()?;
        zeiss(&text, width as f64, facts);
        return Some("Zeiss");
    }
    if text(tag::MAKE).is_some_and(|make| make.trim() == "JEOL Ltd.") {
        // From one pixel of the detector to the next.
        let metres =
            if directory.number(tag::RESOLUTION_UNIT).ok()? == Some(3) { 0.01 } else { 0.0254 };
        let sizes = [tag::X_RESOLUTION, tag::Y_RESOLUTION].map(|tag| {
            let per_unit = directory.fraction(tag).filter(|&per_unit| per_unit > 0.0);
            per_unit.map(|per_unit| metres / per_unit)
        });
        let report = text(tag::DESCRIPTION)?;
        jeol(&Element::parse(report.trim_end().as_bytes()).ok()?, sizes, facts);
        return Some("JEOL");
    }
    for (add, name) in [
        (tvips::add as fn(&Directory<'_>, &mut MetadataList) -> _, "TVIPS"),
        (olympus::add, "Olympus"),
    ] {
        if let Some(found) = add(directory, facts) {
            odd.extend(found.err().map(|what| format!("{what}; what it says is left out")));
            return Some(name);
        }
    }
    if let Some(found) =
        text(tag::DESCRIPTION).and_then(|text| hamamatsu::add(directory, &text, facts))
    {
        odd.extend(found);
        return Some("Hamamatsu");
    }
    let steps = GATAN_STEPS.map(|tag| directory.float(tag));
    let units = GATAN_UNITS.map(|tag| text(tag).unwrap_or_default());
    // Of DigitalMicrograph itself, it is not known in which unit these are.
    let is_hyperspy = text(tag::SOFTWARE).is_some_and(|name| name == "hyperspy");
    let starts = HYPERSPY_STARTS.map(|tag| directory.float(tag).filter(|_| is_hyperspy));
    let axis = |((step, offset), unit): ((Option<f64>, Option<f64>), String)| {
        Some(Calibration { step: step?, offset, unit })
    };
    if steps == [None, None] {
        return None;
    }
    let known = steps.into_iter().zip(starts).zip(units);
    let mut axes: Vec<Option<Calibration>> = known.map(axis).collect();
    axes.reverse();
    let (unit, start, step) = HYPERSPY_STACK;
    let stack = directory.float(step).filter(|_| is_hyperspy).map(|step| Calibration {
        step,
        offset: directory.float(start),
        unit: text(unit).unwrap_or_default(),
    });
    add_steps(facts, &Vec::from_iter(stack.map(Some)), &axes);
    Some("DigitalMicrograph")
}

/// The name of the section that a line begins.
fn section(line: &str) -> Option<&str> {
    line.strip_prefix('[')?.strip_suffix(']')
}

/// Sections of lines `name=value`.
fn fei(text: &str, facts: &mut MetadataList) {
    let value = |section: &str, name: &str| {
        let mut lines = text.lines().map(str::trim);
        lines.find(|line| self::section(line) == Some(section))?;
        let mut lines = lines.take_while(|line| self::section(line).is_none());
        let found = lines.find_map(|line| line.split_once('=').filter(|(key, _)| *key == name));
        found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
    };
    let number = |section: &str, name: &str| value(section, name)?.parse::<f64>().ok();
    let beam = value("Beam", "Beam").unwrap_or("EBeam");
    for (quantity, step, field, pixels) in [
        (Q::ImageStepX, "PixelWidth", "HFW", "ResolutionX"),
        (Q::ImageStepY, "PixelHeight", "VFW", "ResolutionY"),
    ] {
        let of_field = || Some(number("IRBeam", field)? / number("Image", pixels)?);
        let step = number("Scan", step).or_else(of_field);
        facts.positive(quantity, step.map(|metres| metres * 1e9));
    }
    facts.text(Q::AcquisitionMode, "SEM");
    facts.text(Q::Microscope, value("System", "SystemType"));
    facts.text(Q::Operator, value("User", "User"));
    facts.text(Q::Note, value("User", "UserText"));
    facts.text(Q::Detector, value("Detectors", "Name"));
    facts.text(Q::Software, value("System", "Software"));
    // The month is the first of the numbers.
    let [date, time] = ["Date", "Time"].map(|name| value("User", name));
    facts.text(Q::RecordedAt, dates::joined(date, time).as_deref());
    for (quantity, section, name, factor) in [
        (Q::AccelerationVoltage, "Beam", "HV", 1e-3),
        (Q::BeamCurrent, beam, "BeamCurrent", 1e12),
        (Q::DwellTime, "Scan", "Dwelltime", 1.0),
        (Q::FrameTime, "Scan", "FrameTime", 1.0),
    ] {
        facts.positive(quantity, number(section, name).map(|number| number * factor));
    }
    let degrees = 180.0 / std::f64::consts::PI;
    for (quantity, name, factor) in [
        (Q::StageX, "StageX", 1e6),
        (Q::StageY, "StageY", 1e6),
        (Q::StageZ, "StageZ", 1e6),
        (Q::StageRotation, "StageR", degrees),
        (Q::StageTilt, "StageT", degrees),
        (Q::WorkingDistance, "WorkingDistance", 1e3),
    ] {
        facts.number(quantity, number("Stage", name).map(|number| number * factor));
    }
}

/// Lines of numbers, then pairs of lines: a key, and `name = value unit` or `name :value`.
fn zeiss(text: &str, width: f64, facts: &mut MetadataList) {
    const COLUMNS: f64 = 1024.0;
    let value = |key: &str| {
        let mut lines = text.lines().map(str::trim);
        lines.find(|line| *line == key)?;
        let line = lines.next()?;
        let (_, value) = line.split_once('=').or_else(|| line.split_once(':'))?;
        Some(value.trim()).filter(|value| !value.is_empty())
    };
    let metres = text.lines().nth(3).and_then(|line| line.trim().parse::<f64>().ok());
    let step = metres.map(|metres| metres * 1e9 * COLUMNS / width.max(1.0));
    facts.positive(Q::ImageStepX, step);
    facts.positive(Q::ImageStepY, step);
    facts.text(Q::AcquisitionMode, "SEM");
    facts.text(Q::Microscope, value("SV_SERIAL_NUMBER"));
    facts.text(Q::Operator, value("SV_USER_NAME"));
    facts.text(Q::Detector, value("DP_DETECTOR_TYPE"));
    facts.text(Q::Software, value("SV_VERSION"));
    facts.text(Q::RecordedAt, dates::joined(value("AP_DATE"), value("AP_TIME")).as_deref());
    let number = |key: &str, quantity| {
        let (number, unit) = value(key)?.split_once(' ')?;
        convert(number.parse::<f64>().ok()?, unit, quantity)
    };
    for (quantity, key) in [
        (Q::AccelerationVoltage, "AP_ACTUALKV"),
        (Q::BeamCurrent, "AP_IPROBE"),
        (Q::DwellTime, "DP_DWELL_TIME"),
        (Q::FrameTime, "AP_FRAME_TIME"),
    ] {
        facts.positive(quantity, number(key, quantity));
    }
    for (quantity, key) in [
        (Q::StageX, "AP_STAGE_AT_X"),
        (Q::StageY, "AP_STAGE_AT_Y"),
        (Q::StageZ, "AP_STAGE_AT_Z"),
        (Q::StageRotation, "AP_STAGE_AT_R"),
        (Q::StageTilt, "AP_STAGE_AT_T"),
        (Q::WorkingDistance, "AP_WD"),
    ] {
        facts.number(quantity, number(key, quantity));
    }
    // `2.00 K X` is 2000.
    let magnification = value("AP_MAG").and_then(|value| {
        let (number, unit) = value.split_once(' ').unwrap_or((value, "X"));
        let thousands = if unit.to_uppercase().starts_with('K') { 1e3 } else { 1.0 };
        Some(number.parse::<f64>().ok()? * thousands)
    });
    facts.positive(Q::Magnification, magnification);
}

/// `TemReporter`, and the sizes of pixels of the detector in m.
fn jeol(report: &Element, sizes: [Option<f64>; 2], facts: &mut MetadataList) {
    let text = |path: &[&str]| {
        let mut path = path.iter();
        let found = path.try_fold(report, |element, name| {
            element.children.iter().find(|child| child.name == *name)
        });
        found.map(|element| element.text().to_owned()).filter(|text| !text.is_empty())
    };
    let number = |path: &[&str]| text(path)?.parse::<f64>().ok().filter(|&number| number > 0.0);
    let imaging = |name: &str| text(&["ImageFormingSystem", name]);
    facts.text(Q::Microscope, text(&["Instruments"]).as_deref());
    facts.text(Q::Operator, text(&["Operator"]).as_deref());
    facts.text(Q::Note, text(&["Comment"]).as_deref());
    facts.text(Q::RecordedAt, text(&["DateTime"]).as_deref());
    let volts = number(&["ElectronGun", "AccelerationVoltage"]);
    facts.positive(Q::AccelerationVoltage, volts.map(|volts| volts * 1e-3));
    // `BeamCurrent` is that of the gun: the sum of `EmissionCurrent` and `DarkCurrent`, not what the
    // specimen gets.
    for (quantity, name) in [(Q::StageAlpha, "TX"), (Q::StageBeta, "TY")] {
        let angle = text(&["GonioStage", "StagePosition", name]);
        facts.number(quantity, angle.and_then(|angle| angle.parse::<f64>().ok()));
    }
    let scans = text(&["Eos", "EosMode"]).as_deref() == Some("eosASID");
    let mode = if scans { "STEM" } else { "TEM" };
    facts.text(Q::AcquisitionMode, mode);
    let forming = if scans { "ScanningImageFormingMode" } else { "ImageFormingMode" };
    let plain =
        |text: Option<String>| text.map(|t| t.strip_prefix("mode").unwrap_or(&t).to_owned());
    let title = [
        Some(mode.to_owned()),
        plain(text(&["IlluminationSystem", "ImageField"])),
        plain(imaging(forming)),
        imaging("SelectorString"),
    ];
    facts.text(Q::Title, title.into_iter().flatten().collect::<Vec<_>>().join(", ").as_str());
    let selected = number(&["ImageFormingSystem", "SelectorValue"]);
    match imaging("ModeString").as_deref() {
        Some("DIFF") => {
            let unit = imaging("SelectorUnitString").unwrap_or_default();
            let length = selected.and_then(|length| convert(length, &unit, Q::CameraLength));
            facts.positive(Q::CameraLength, length);
            let inverse = |size: f64| Some(size / (length? * 1e-3 * wavelength(volts?)));
            for (quantity, size) in
                [Q::DiffractionStepX, Q::DiffractionStepY].into_iter().zip(sizes)
            {
                facts.positive(quantity, size.and_then(inverse).filter(|_| !scans));
            }
        }
        Some("MAG") => {
            facts.positive(Q::Magnification, selected);
            for (quantity, size) in [Q::ImageStepX, Q::ImageStepY].into_iter().zip(sizes) {
                let step = size.zip(selected).map(|(size, selected)| size * 1e9 / selected);
                facts.positive(quantity, step.filter(|_| !scans));
            }
        }
        _ => facts.positive(Q::Magnification, selected),
    }
}

/// Of electrons that were accelerated by so many volts, in nm.
fn wavelength(volts: f64) -> f64 {
    // h c / sqrt(E (E + 2 m c²)), in eV nm and eV.
    1_239.841_984 / (volts * (volts + 2.0 * 510_998.95)).sqrt()
}
