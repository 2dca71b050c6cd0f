//! How far apart neighbours on an axis are, as files tell it.

use crate::headers::units::{convert, symbol};
use framefold_core::{AxisKind, MetadataList, Quantity, steps_of};

/// One axis: the unit is spelled as in the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Calibration {
    /// From one position to the next: below 0 where the axis counts down.
    pub(crate) step: f64,
    /// Where the axis begins, if that is known.
    pub(crate) offset: Option<f64>,
    pub(crate) unit: String,
}

impl Calibration {
    /// The axis with these values at its positions; `None` if they are not equally far apart.
    pub(crate) fn of_values(values: &[f64], unit: &str) -> Option<Self> {
        let (&[first, second], &last) = (values.first_chunk()?, values.last()?);
        let step = (last - first) / (values.len() - 1) as f64;
        let even = |pair: &[f64]| match pair {
            [a, b] => (b - a - step).abs() <= 1e-3 * step.abs(),
            _ => false,
        };
        let known = step.is_finite() && (second - first).is_finite() && step != 0.0;
        let even = known && values.windows(2).all(even);
        even.then(|| Calibration { step, offset: Some(first), unit: unit.to_owned() })
    }
}

impl Calibration {
    /// That of an axis of a data set.
    pub(crate) fn of(axis: &framefold_core::Calibration) -> Self {
        let (step, offset, unit) = (axis.step, Some(axis.offset), axis.unit.clone());
        Calibration { step, offset, unit }
    }

    /// Adds step and place of the axis as a quantity and its own offset.
    fn add_as(&self, quantity: Quantity, facts: &mut MetadataList) {
        facts.number(quantity, convert(self.step, &self.unit, quantity));
        let offset = self.offset.and_then(|offset| convert(offset, &self.unit, quantity));
        // An offset of 0 is a default in most files, not a measured place; of energies it is one.
        let is_known = |offset: &f64| *offset != 0.0 || quantity == Quantity::EnergyStep;
        if let Some(of_first) = quantity.offset_of_step() {
            facts.number(of_first, offset.filter(is_known));
        }
    }

    /// As it is, with the symbol of the unit; `None` if it says that positions are counted.
    pub(crate) fn plain(&self) -> Option<framefold_core::Calibration> {
        let unit = if says_nothing(&self.unit) { String::new() } else { symbol(&self.unit) };
        let offset = self.offset.unwrap_or(0.0);
        let plain = framefold_core::Calibration { step: self.step, offset, unit };
        (plain != framefold_core::Calibration::none()).then_some(plain)
    }
}

/// The axes of a scan and those of its frames, slowest first, as far as they are known.
pub(crate) struct Steps {
    pub(crate) nav: Vec<Option<Calibration>>,
    pub(crate) sig: Vec<Option<Calibration>>,
}

impl Steps {
    /// That the axes seem to be in the other order: those of frames are lengths, as of a scan, and
    /// those of the scan are inverse ones, as of diffraction patterns.
    pub(crate) fn warning(&self) -> Option<String> {
        let units = |axes: &[Option<Calibration>], quantity| -> Option<String> {
            let fits = |Calibration { step, unit, .. }: &Calibration| {
                convert(*step, unit, quantity).map(|_| unit.trim().to_owned())
            };
            let units: Option<Vec<_>> =
                axes.iter().map(|axis| axis.as_ref().and_then(fits)).collect();
            Some(units.filter(|units| units.len() == 2)?.join(", "))
        };
        let nav = units(&self.nav, Quantity::DiffractionStepX)?;
        let sig = units(&self.sig, Quantity::ScanStepX)?;
        Some(format!(
            "the axes of frames have the units of a scan ({sig}), and those of the scan the units of \
             diffraction patterns ({nav}): the file, perhaps an EMD file of HyperSpy, may have its \
             axes in the other order. They are read as they are; save the data with the axes of \
             the detector last, for instance as .hspy"
        ))
    }
}

/// Adds the calibrations of the axes of the scan and of those of a frame, slowest first.
///
/// Where the unit is that of a quantity, that quantity has it; where none is for the axis, its calibration
/// is added as it is ([`MetadataList::calibrate`]): either way, the axis has what the file gives it. What has
/// a unit that is not known, or does not fit, comes back in the words of the file as well. So does a length
/// on the axis of frames that have but one: it may be a wavelength as well as a place.
pub(crate) fn add_steps(
    facts: &mut MetadataList,
    nav: &[Option<Calibration>],
    sig: &[Option<Calibration>],
) -> Vec<(String, String)> {
    let mut others = vec![];
    let axes = [(AxisKind::Nav, nav, 0), (AxisKind::Sig, sig, nav.len())];
    for (kind, axes, before) in axes {
        for (index, axis) in axes.iter().enumerate().rev() {
            let Some(axis) = axis.as_ref().filter(|axis| axis.step != 0.0) else { continue };
            let from_last = axes.len() - 1 - index;
            let fits = quantities(kind, from_last, axes.len())
                .iter()
                .find(|&&quantity| convert(axis.step, &axis.unit, quantity).is_some());
            if let Some(&quantity) = fits {
                // No other step of the axis that was known before.
                for &step in steps_of(kind, index, axes.len()) {
                    facts.remove(step);
                    step.offset_of_step().into_iter().for_each(|offset| facts.remove(offset));
                }
                axis.add_as(quantity, facts);
            } else if !says_nothing(&axis.unit) {
                let (name, unit) = (format!("step of axis {}", before + index), axis.unit.trim());
                others.push((name, format!("{} {unit}", axis.step)));
            }
            // What the axis does not get from its quantities.
            let own = fits.is_some_and(|step| steps_of(kind, index, axes.len()).contains(step));
            match axis.plain() {
                Some(plain) if !own => facts.calibrate(kind, from_last, plain),
                _ => facts.uncalibrate(kind, from_last),
            }
        }
    }
    others.sort();
    others
}

/// Which quantities the step of an axis may be, by its unit.
pub(crate) fn quantities(kind: AxisKind, from_last: usize, n_axes: usize) -> &'static [Quantity] {
    use Quantity as Q;
    match (kind, from_last, n_axes) {
        (AxisKind::Nav, 0, _) => &[Q::ScanStepX],
        (AxisKind::Nav, 1, _) => &[Q::ScanStepY],
        (AxisKind::Sig, 0, 1) => &[Q::DiffractionStepX, Q::AngleStepX, Q::EnergyStep],
        (AxisKind::Sig, 0, _) => {
            &[Q::DiffractionStepX, Q::AngleStepX, Q::EnergyStep, Q::ImageStepX]
        }
        (AxisKind::Sig, 1, _) => {
            &[Q::DiffractionStepY, Q::AngleStepY, Q::EnergyStep, Q::ImageStepY]
        }
        _ => &[],
    }
}

/// Whether it is no unit: nothing, or that of counting.
fn says_nothing(unit: &str) -> bool {
    let unit = unit.trim_matches(|c: char| c.is_whitespace() || "[]<>_".contains(c));
    // HyperSpy spells units of EMD `[p_x]`.
    let unit = unit.to_lowercase().replace('_', "");
    ["", "undefined", "none", "px", "pixel", "pixels", "index"].contains(&unit.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::MetadataValue;

    fn shown(facts: &MetadataList, nav: &[usize], sig: &[usize]) -> Vec<String> {
        framefold_core::axes(nav, sig, facts).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn axes_have_what_the_file_gives_them() {
        let axis = |step, offset, unit: &str| {
            Some(Calibration { step, offset: Some(offset), unit: unit.into() })
        };
        let of = |nav: &[_], sig: &[_]| {
            let mut facts = MetadataList::new();
            add_steps(&mut facts, nav, sig);
            let (n, m) = (vec![2; nav.len()], vec![2; sig.len()]);
            shown(&facts, &n, &m).join("; ")
        };
        // Units that no quantity of the axis has, and axes that have no quantity.
        let nav = [axis(-10.0, 300.0, "K"), axis(2.0, 0.0, "seconds"), axis(0.5, 7.0, "A")];
        let sig = [axis(3.0, 1.0, "nm"), axis(0.5, 2.0, "[eV]"), axis(0.5, 0.0, "_None_")];
        assert_eq!(
            of(&nav, &sig),
            "scan_2: 2 × -10 K, from 300 K; scan_y: 2 × 2 s; scan_x: 2 × 0.05 nm, from 0.7 nm; \
             frame_2: 2 × 3 nm, from 1 nm; y: 2 × 0.5 eV, from 2 eV; x: 2 × 0.5"
        );
        // A spectrum of angles or wavelengths, of any sign.
        assert_eq!(of(&[], &[axis(0.5, -1.0, "mrad")]), "channel: 2 × 0.5 mrad, from -1 mrad");
        assert_eq!(of(&[], &[axis(-0.5, 700.0, "nm")]), "channel: 2 × -0.5 nm, from 700 nm");
        // What counts positions, and steps of nothing.
        for (step, offset, unit) in [(1.0, 0.0, "px"), (1.0, 0.0, ""), (0.0, 3.0, "s")] {
            assert_eq!(of(&[axis(step, offset, unit)], &[]), "scan_x: 2");
        }
        for unit in ["[p_x]", "[<_u_n_d_e_f_i_n_e_d_>]", "<undefined>"] {
            assert_eq!(of(&[axis(0.5, 0.0, unit)], &[]), "scan_x: 2 × 0.5");
        }
    }

    #[test]
    fn the_last_calibration_of_an_axis_counts() {
        let axis = |unit: &str| Some(Calibration { step: 2.0, offset: None, unit: unit.into() });
        let mut facts = MetadataList::new();
        add_steps(&mut facts, &[axis("s")], &[]);
        add_steps(&mut facts, &[axis("nm")], &[]);
        assert_eq!(shown(&facts, &[3], &[]), ["scan_x: 3 × 2 nm"]);
        add_steps(&mut facts, &[axis("s")], &[]);
        assert_eq!(shown(&facts, &[3], &[]), ["scan_x: 3 × 2 s"]);
        // Inverse lengths go before lengths if both are there.
        let mut facts = MetadataList::new();
        for unit in ["1/nm", "nm"] {
            let axis = Calibration { step: 2.0, offset: Some(1.0), unit: unit.into() };
            add_steps(&mut facts, &[], &[Some(axis), None]);
        }
        assert_eq!(shown(&facts, &[], &[3, 4]), ["y: 3 × 2 nm, from 1 nm", "x: 4"]);
        assert_eq!(facts.iter().count(), 2);
    }

    #[test]
    fn steps_are_even_or_unknown() {
        let of = |values: &[f64]| Calibration::of_values(values, "nm");
        let step = |values: &[f64]| of(values).map(|axis| (axis.step, axis.offset));
        assert_eq!(step(&[1.0, 1.5, 2.0]), Some((0.5, Some(1.0))));
        assert_eq!(step(&[2.0, 1.5, 1.0]), Some((-0.5, Some(2.0))));
        for uneven in [&[][..], &[1.0], &[0.0, 1.0, 4.0], &[1.0, 1.0], &[0.0, f64::NAN]] {
            assert_eq!(step(uneven), None, "{uneven:?}");
        }
        assert_eq!(step(&[0.0, f64::INFINITY]), None);
    }

    #[test]
    fn axes_begin_where_the_file_says() {
        let axis = |step, offset: f64, unit: &str| {
            Some(Calibration { step, offset: Some(offset), unit: unit.into() })
        };
        let offsets = |nav: &[_], sig: &[_]| -> Vec<String> {
            let mut facts = MetadataList::new();
            add_steps(&mut facts, nav, sig);
            let begins = facts.iter().filter(|fact| fact.quantity.name().contains("offset"));
            begins.map(|fact| format!("{} {fact}", fact.quantity.name())).collect()
        };
        let patterns = [axis(0.25, -3.0, "1/nm"), axis(2.0, 0.25, "1/A")];
        assert_eq!(
            offsets(&[axis(0.5, 7.0, "A"), axis(0.5, -2.0, "um")], &patterns),
            [
                "scan_offset_x -2000 nm",
                "scan_offset_y 0.7 nm",
                "diffraction_offset_x 2.5 1/nm",
                "diffraction_offset_y -3 1/nm",
            ]
        );
        assert_eq!(offsets(&[], &[axis(1.0, 4.0, "mrad"), axis(1.0, 5.0, "nm")]).len(), 2);
        assert_eq!(offsets(&[], &[axis(0.5, 0.0, "eV")]), ["energy_offset 0 eV"]);
        let nothing = [axis(0.5, 0.0, "nm"), axis(0.0, 3.0, "nm")];
        assert_eq!(offsets(&nothing, &[axis(0.0, 2.0, "nm"), axis(1.0, 2.0, "px")]), [""; 0]);
        // Axes that count down begin somewhere, too.
        assert_eq!(offsets(&[axis(-1.0, 2.0, "nm")], &[]), ["scan_offset_x 2 nm"]);
    }

    #[test]
    fn axes_in_the_other_order_give_a_warning() {
        let axes = |units: [&str; 2]| {
            let axis = |unit: &str| Calibration { step: 0.5, offset: None, unit: unit.into() };
            units.map(|unit| Some(unit).filter(|unit| !unit.is_empty()).map(axis)).to_vec()
        };
        let warning = |nav, sig| Steps { nav: axes(nav), sig: axes(sig) }.warning();
        let text = warning(["1/nm", "[1_/_n_m]"], ["nm", " um"]).unwrap();
        assert!(text.contains("scan (nm, um)") && text.contains("patterns (1/nm, [1_/_n_m])"));
        for (nav, sig) in [
            (["nm", "nm"], ["1/nm", "1/nm"]),
            (["nm", "nm"], ["nm", "nm"]),
            (["1/nm", "1/nm"], ["1/nm", "1/nm"]),
            (["1/nm", ""], ["nm", "nm"]),
            (["1/nm", "1/nm"], ["nm", "mrad"]),
        ] {
            assert_eq!(warning(nav, sig), None, "{nav:?} {sig:?}");
        }
    }

    #[test]
    fn lengths_on_the_axis_of_spectra_are_no_places() {
        let axis = |step, unit: &str| Some(Calibration { step, offset: None, unit: unit.into() });
        let mut facts = MetadataList::new();
        let others = add_steps(&mut facts, &[], &[axis(0.25, "nm")]);
        assert_eq!(facts.iter().next(), None);
        assert_eq!(shown(&facts, &[], &[5]), ["channel: 5 × 0.25 nm"]);
        assert_eq!(others, [("step of axis 0".to_owned(), "0.25 nm".to_owned())]);
        assert!(add_steps(&mut facts, &[], &[axis(0.5, "eV")]).is_empty());
        assert_eq!(facts.get(Quantity::EnergyStep), Some(&MetadataValue::Number(0.5)));
        assert_eq!(shown(&facts, &[], &[5]), ["channel: 5 × 0.5 eV"]);
    }

    #[test]
    fn units_that_do_not_fit_stay_as_they_are() {
        let axis = |step, unit: &str| Some(Calibration { step, offset: None, unit: unit.into() });
        let mut facts = MetadataList::new();
        let nav = [axis(2.0, "s"), axis(0.5, "A")];
        let sig = [axis(1.5, "furlong"), axis(0.25, "1/nm")];
        let none = add_steps(&mut facts, &[axis(1.0, "[]"), axis(1.0, "pixels")], &[]);
        assert!(none.is_empty() && facts.is_empty());
        let others = add_steps(&mut facts, &nav, &sig);
        let facts: Vec<String> = facts.iter().map(|fact| fact.to_string()).collect();
        assert_eq!(facts, ["0.05 nm", "0.25 1/nm"]);
        let expected = [("step of axis 0", "2 s"), ("step of axis 2", "1.5 furlong")];
        assert_eq!(others, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
