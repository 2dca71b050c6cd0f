//! Units as files spell them.
//!
//! Writers agree neither on symbols nor on words: `nm`, `nanometers`, `[n_m]`, `1/nm`, `$nm^{-1}$`
//! and `nm⁻¹` are all in use. What is not in the table is not guessed.

use framefold_core::Quantity;

/// What a unit measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Length,
    Time,
    /// Of an electron, so that volts are electronvolts.
    Energy,
    Angle,
    Current,
    Temperature,
}

/// Kind, number, power of ten, and the names: the symbol first.
type Row = (Kind, f64, i32, &'static [&'static str]);

/// Symbols, and the words that they stand for, by how much of the unit of the SI (for energies:
/// electronvolts) they are: a number and a power of ten, so that results are rounded once. `A` has
/// two meanings; only what is asked for tells which.
const UNITS: &[Row] = &[
    (Kind::Length, 1.0, 0, &["m", "meter", "metre"]),
    (Kind::Length, 1.0, -2, &["cm", "centimeter", "centimetre"]),
    (Kind::Length, 1.0, -3, &["mm", "millimeter", "millimetre"]),
    (Kind::Length, 1.0, -6, &["um", "micron", "micrometer", "micrometre"]),
    (Kind::Length, 1.0, -9, &["nm", "nanometer", "nanometre"]),
    (Kind::Length, 1.0, -10, &["A", "Å", "Ang", "ang", "angstrom", "ångström", "ångstrom"]),
    (Kind::Length, 1.0, -12, &["pm", "picometer", "picometre"]),
    (Kind::Time, 3600.0, 0, &["h", "hr", "hour"]),
    (Kind::Time, 60.0, 0, &["min", "minute"]),
    (Kind::Time, 1.0, 0, &["s", "sec", "second"]),
    (Kind::Time, 1.0, -3, &["ms", "msec", "millisecond"]),
    (Kind::Time, 1.0, -6, &["us", "usec", "microsecond"]),
    (Kind::Time, 1.0, -9, &["ns", "nsec", "nanosecond"]),
    (Kind::Energy, 1.0, 0, &["eV", "ev", "V", "volt", "electronvolt"]),
    (Kind::Energy, 1.0, -3, &["meV"]),
    (Kind::Energy, 1.0, 3, &["keV", "kev", "KeV", "kV", "kilovolt", "kiloelectronvolt"]),
    (Kind::Energy, 1.0, 6, &["MeV", "MV"]),
    (Kind::Angle, 1.0, 0, &["rad", "radian"]),
    (Kind::Angle, 1.0, -3, &["mrad", "milliradian"]),
    (Kind::Angle, 1.0, -6, &["urad", "microradian"]),
    (Kind::Angle, std::f64::consts::PI / 180.0, 0, &["deg", "Deg", "°", "degree"]),
    (Kind::Current, 1.0, 0, &["A", "Amp", "ampere"]),
    (Kind::Current, 1.0, -6, &["uA"]),
    (Kind::Current, 1.0, -9, &["nA"]),
    (Kind::Current, 1.0, -12, &["pA"]),
    (Kind::Temperature, 1.0, 0, &["K", "kelvin"]),
];

/// `value` with the unit that the file spells `unit`, in the unit of `quantity`; `None` if that
/// unit is not known, or measures something else.
pub(crate) fn convert(value: f64, unit: &str, quantity: Quantity) -> Option<f64> {
    let wanted = simplified(quantity.unit());
    let (wanted, wanted_inverse) = parts(&wanted);
    let (kind, wanted, wanted_power) = one(wanted, None)?;
    let unit = simplified(unit);
    let (name, inverse) = parts(&unit);
    if inverse != wanted_inverse {
        return None;
    }
    let (_, found, power) = one(name, Some(kind))?;
    let (factor, power) = match inverse {
        true => (wanted / found, wanted_power - power),
        false => (found / wanted, power - wanted_power),
    };
    let value = value * factor;
    Some(if power < 0 { value / 10f64.powi(-power) } else { value * 10f64.powi(power) })
}

/// The symbol of a unit: `s` for `seconds`, `1/nm` for `[n_m^-1]`, `µm` for `microns`. What is not known, or
/// could be two things, is as it was but for the space around it.
pub(crate) fn symbol(unit: &str) -> String {
    const LONGEST: usize = 40;
    let spelled = simplified(unit);
    let (name, inverse) = parts(&spelled);
    // Volts are as good as electronvolts, but not the same; `A` is one of two things.
    let is_plain = |(kind, ..): &&Row| {
        let is_volt = *kind == Kind::Energy && !name.to_lowercase().contains('e');
        !is_volt && name != "A"
    };
    let symbol = row(name, None).filter(is_plain).and_then(symbol_of);
    match symbol {
        Some(symbol) if inverse => format!("1/{symbol}"),
        Some(symbol) => symbol,
        None => unit.trim().chars().filter(|c| !c.is_control()).take(LONGEST).collect(),
    }
}

fn symbol_of((kind, _, _, names): &Row) -> Option<String> {
    let first = *names.first()?;
    Some(match (kind, first.strip_prefix('u')) {
        (Kind::Length, None) if first == "A" => "Å".to_owned(),
        (_, Some(rest)) => format!("µ{rest}"),
        _ => first.to_owned(),
    })
}

/// Whether it is a unit of the table, or one through such a unit.
pub(crate) fn is_known(unit: &str) -> bool {
    row(parts(&simplified(unit)).0, None).is_some()
}

/// The symbols of all units.
pub(crate) fn known_symbols() -> Vec<String> {
    UNITS.iter().filter_map(symbol_of).collect()
}

/// Without brackets, mathematical markup and the two micro signs of Unicode.
fn simplified(unit: &str) -> String {
    let unit = unit.trim_matches(|c: char| c.is_whitespace() || "[]()$\0".contains(c));
    let unit = unit.replace("^{-1}", "^-1").replace("\\mu", "u").replace(['µ', 'μ'], "u");
    unit.replace(['_', ' ', '{', '}'], "").replace('\u{212b}', "Å")
}

/// The unit itself, and whether it is one through that unit.
fn parts(unit: &str) -> (&str, bool) {
    let inverse = unit
        .strip_prefix("1/")
        .or_else(|| ["^-1", "⁻¹", "**-1", "-1"].iter().find_map(|power| unit.strip_suffix(power)));
    inverse.map_or((unit, false), |unit| (unit, true))
}

/// The kind of a unit, its factor and its power of ten, among those of one kind.
fn one(name: &str, kind: Option<Kind>) -> Option<(Kind, f64, i32)> {
    row(name, kind).map(|(kind, factor, power, _)| (*kind, *factor, *power))
}

/// The row of a unit, among those of one kind.
fn row(name: &str, kind: Option<Kind>) -> Option<&'static Row> {
    let singular = name.strip_suffix('s').unwrap_or(name);
    let fits = |known: &str| match known.chars().count() {
        0..=2 => known == name,
        3..=4 => [name, singular].contains(&known),
        // Case tells symbols apart, and means nothing in words.
        _ => [name, singular].iter().any(|name| known == name.to_lowercase()),
    };
    UNITS.iter().find(|(of, _, _, names)| {
        kind.is_none_or(|kind| kind == *of) && names.iter().any(|known| fits(known))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_the_quantity_afterwards() {
        use Quantity as Q;
        for (value, unit, quantity, expected) in [
            (75e-6, "m", Q::PixelSizeX, 75.0),
            (0.075, "mm", Q::PixelSizeX, 75.0),
            (75.0, "um", Q::PixelSizeX, 75.0),
            (75.0, "µm", Q::PixelSizeX, 75.0),
            (75.0, "\u{3bc}m", Q::PixelSizeX, 75.0),
            (75.0, "Microns", Q::PixelSizeX, 75.0),
            (75.0, "micrometres", Q::PixelSizeX, 75.0),
            (5.0, "Å", Q::ScanStepX, 0.5),
            (5.0, "A", Q::ScanStepX, 0.5),
            (5.0, "Angstroms", Q::ScanStepX, 0.5),
            (5.0, "[n_m]", Q::ScanStepX, 5.0),
            (2.0, "ms", Q::ExposureTime, 0.002),
            (2.0, "us", Q::ExposureTime, 2e-6),
            (2.0, "seconds", Q::ExposureTime, 2.0),
            (2.0, "hours", Q::ExposureTime, 7200.0),
            (300_000.0, "eV", Q::AccelerationVoltage, 300.0),
            (300.0, "keV", Q::AccelerationVoltage, 300.0),
            (300.0, "kV", Q::AccelerationVoltage, 300.0),
            (12.5, "keV", Q::EnergyStep, 12_500.0),
            (180.0, "degrees", Q::AngleStepX, 3_141.592_653_589_793),
            (1.0, "rad", Q::ScanRotation, 57.295_779_513_082_32),
            (2.0, "mrad", Q::AngleStepX, 2.0),
            (2.0, "nA", Q::BeamCurrent, 2000.0),
            (1e-12, "A", Q::BeamCurrent, 1.0),
            (0.3, "m", Q::CameraLength, 300.0),
            (2.0, "1/nm", Q::DiffractionStepX, 2.0),
            (2.0, "1 / Å", Q::DiffractionStepX, 20.0),
            (2.0, "A^-1", Q::DiffractionStepX, 20.0),
            (2.0, "$nm^{-1}$", Q::DiffractionStepX, 2.0),
            (2.0, "[n_m^-1]", Q::DiffractionStepX, 2.0),
            (2.0, "Å⁻¹", Q::DiffractionStepX, 20.0),
            (2e9, "1/m", Q::DiffractionStepX, 2.0),
        ] {
            let found = convert(value, unit, quantity).unwrap();
            assert!((found / expected - 1.0).abs() < 1e-12, "{value} {unit}: {found}");
        }
    }

    #[test]
    fn symbols_are_plain() {
        for (unit, expected) in [
            ("seconds", "s"),
            ("[n_m^-1]", "1/nm"),
            ("1 / Å", "1/Å"),
            (" Angstroms", "Å"),
            ("microns", "µm"),
            ("um", "µm"),
            ("usec", "µs"),
            ("degrees", "deg"),
            ("KeV", "keV"),
            ("ampere", "A"),
            // As they are.
            ("A", "A"),
            ("V", "V"),
            ("kilovolts", "kilovolts"),
            ("K\0", "K"),
            ("electrons / s", "electrons / s"),
            ("", ""),
        ] {
            assert_eq!(symbol(unit), expected, "{unit:?}");
        }
    }

    #[test]
    fn what_is_not_known_or_measures_something_else_is_nothing() {
        use Quantity as Q;
        for (unit, quantity) in [
            ("", Q::ScanStepX),
            ("px", Q::ScanStepX),
            ("furlong", Q::ScanStepX),
            ("s", Q::ScanStepX),
            ("1/nm", Q::ScanStepX),
            ("nm", Q::DiffractionStepX),
            ("MM", Q::PixelSizeX),
            ("NM", Q::PixelSizeX),
            ("S", Q::ExposureTime),
            ("mev", Q::EnergyStep),
            ("m", Q::Magnification),
            ("nS", Q::ExposureTime),
        ] {
            assert_eq!(convert(1.0, unit, quantity), None, "{unit:?}");
        }
        assert_eq!(convert(0.5, "A", Q::ScanStepX), Some(0.05));
        assert_eq!(convert(2.0, "us", Q::ExposureTime), Some(2e-6));
        // A thousandth and a million are not the same.
        assert_eq!(convert(1.0, "meV", Q::EnergyStep), Some(1e-3));
        assert_eq!(convert(1.0, "MeV", Q::EnergyStep), Some(1e6));
    }
}
