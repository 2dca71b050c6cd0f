//! Files of Delmic's Odemis (SPARC: cathodoluminescence): an acquisition for each detector.
//!
//! | path, below `Acquisition0`, `Acquisition1`, … | what |
//! |---|---|
//! | `SVIData/Company` | `Delmic` |
//! | `ImageData/Image` | the pixels: C, T or A, Z, Y, X |
//! | `ImageData/DimensionScaleC`, `…A`, `…T`, `…Y`, `…X`, attribute `UNIT` | the values on the axis, or the step |
//! | `ImageData/XOffset`, `YOffset` | the place of the middle of the image, in m; y goes up, and rows go down |
//! | `PhysicalData/Title`, `HardwareName`, `IntegrationTime` | what was recorded, with what, for how many s |
//! | `PhysicalData/PolePosition` | frames are of angles |
//!
//! Where C, T or A are longer than 1, Y and X are the scan, and those the axes of a frame, C the last one.
//! Otherwise it is an image. Angle-resolved files have an acquisition for each position of the scan: images of one
//! title and shape, whose places tell the scan. `Preview/Image` is a picture of the sample.

use super::grid::grid;
use super::library::Library;
use super::values;
use crate::headers::calibration::{Calibration, Steps, add_steps};
use crate::headers::fields::iso_seconds;
use crate::headers::units::convert;
use framefold_core::{AxisKind, MetadataList, Quantity};
use hdf5_reader::group::Group;
use std::collections::{BTreeMap, HashSet};

pub(super) const NAME: &str = "Delmic";
/// A picture of the sample, which is never opened unless it is named.
pub(super) const PREVIEW: &str = "Preview/Image";
/// The axes of a scan.
const SCAN: [usize; 2] = [3, 4];
/// The last second of the year 9999.
const LATEST: f64 = 253_402_300_799.0;

/// Where images that follow each other are, as `Found` has it.
type Parts = [(String, Option<u64>)];

/// One acquisition.
struct Acquisition {
    image: Group,
    physical: Option<Group>,
}

impl Acquisition {
    /// That of the data set at `path`, if it is one.
    fn at(library: &Library, path: &str) -> Option<Self> {
        let own = path.strip_suffix("/ImageData/Image")?;
        number(own)?;
        let group = library.group(own)?;
        let company = values::text(&group.group("SVIData").ok()?, "Company")?;
        (company.trim() == NAME).then_some(())?;
        Some(Acquisition {
            image: group.group("ImageData").ok()?,
            physical: group.group("PhysicalData").ok(),
        })
    }

    fn number(&self, name: &str) -> Option<f64> {
        values::number(&self.image, name).filter(|number| number.is_finite())
    }

    /// The middle of the image: x and y.
    fn place(&self) -> Option<(f64, f64)> {
        Some((self.number("XOffset")?, self.number("YOffset")?))
    }

    fn physical(&self, name: &str) -> Option<String> {
        let dataset = self.physical.as_ref()?.dataset(name).ok()?;
        if dataset.num_elements().ok()? != 1 {
            return None;
        }
        dataset.read_strings().ok()?.into_iter().next().or_else(|| dataset.read_string().ok())
    }

    /// The values on an axis, or the step between them, and their unit.
    fn axis(&self, letter: &str) -> Option<(Vec<f64>, String)> {
        let dataset = self.image.dataset(&format!("DimensionScale{letter}")).ok()?;
        let unit = dataset.attribute("UNIT").ok()?.read_string().ok()?;
        Some((values::numbers(&dataset)?, unit))
    }

    /// The letter of the second axis: A or T.
    fn second(&self) -> &'static str {
        if self.image.dataset("DimensionScaleA").is_ok() { "A" } else { "T" }
    }

    /// The step on an axis that is no place.
    fn channels(&self, axis: usize) -> Option<Calibration> {
        let (values, unit) = self.axis(if axis == 0 { "C" } else { self.second() })?;
        let found = match values.as_slice() {
            &[step] => Calibration { step, offset: None, unit },
            values => Calibration::of_values(values, &unit)?,
        };
        // The file gives wavelengths in m.
        let nm = |value| convert(value, &found.unit, Quantity::ScanStepX);
        match (nm(found.step), found.offset.and_then(nm)) {
            (Some(step), offset) => Some(Calibration { step, offset, unit: "nm".to_owned() }),
            (None, _) => Some(found),
        }
    }

    /// The step on `Y` or `X` of an image.
    fn places(&self, axis: usize) -> Option<Calibration> {
        let (letter, offset, down) = match axis {
            3 => ("Y", "YOffset", -1.0),
            4 => ("X", "XOffset", 1.0),
            _ => return None,
        };
        let (values, unit) = self.axis(letter)?;
        let &[step] = values.as_slice() else { return None };
        let step = step * down;
        let len = *self.image.dataset("Image").ok()?.shape().get(axis)?;
        let first = |middle: f64| middle - len.saturating_sub(1) as f64 / 2.0 * step;
        Some(Calibration { step, offset: self.number(offset).map(first), unit })
    }
}

/// The number in the name of an acquisition.
fn number(name: &str) -> Option<u64> {
    name.strip_prefix("Acquisition")?.parse().ok()
}

/// Where the images of all acquisitions are, in their order; none if the file is another one.
pub(super) fn images(library: &Library) -> Vec<String> {
    let root = library.main.file.root_group().ok();
    let Some((groups, _)) = root.and_then(|root| root.member_names().ok()) else { return vec![] };
    let mut numbered: Vec<_> =
        groups.iter().filter_map(|name| Some((number(name)?, name))).collect();
    numbered.sort_unstable();
    let paths = numbered.into_iter().map(|(_, name)| format!("{name}/ImageData/Image"));
    paths.filter(|path| is_at(library, path)).collect()
}

/// Whether the data set at `path` is the image of an acquisition.
pub(super) fn is_at(library: &Library, path: &str) -> bool {
    Acquisition::at(library, path).is_some()
}

/// The axes of a frame, if the shape is that of a scan: T or A, and C, as far as they are longer than 1.
pub(super) fn sig_axes(shape: &[u64]) -> Option<Vec<usize>> {
    let &[c, t, 1, _, _] = shape else { return None };
    let sig = [(1, t), (0, c)].into_iter().filter(|(_, len)| *len > 1).map(|(axis, _)| axis);
    Some(sig.collect()).filter(|sig: &Vec<_>| !sig.is_empty())
}

/// Which of these images, by path and shape, are opened: those with the most frames, then with the most
/// pixels, the first ones of equals. Images of one title and shape that lie apart follow each other.
pub(super) fn choose(library: &Library, images: &[(&str, &[u64])]) -> Option<Vec<String>> {
    let product = |lens: &[u64]| lens.iter().fold(1, |all: u64, len| all.saturating_mul(*len));
    let mut candidates: Vec<(u64, u64, Vec<&str>)> = vec![];
    let mut series: BTreeMap<(String, &[u64]), Vec<_>> = BTreeMap::new();
    for &(path, shape) in images {
        let split = shape.len().saturating_sub(2);
        let (leading, last) = shape.split_at_checked(split).unwrap_or_default();
        let n = if sig_axes(shape).is_some() { product(last) } else { product(leading) };
        candidates.push((n, product(shape), vec![path]));
        if product(leading) == 1
            && let Some(acquisition) = Acquisition::at(library, path)
            && let Some(place) = acquisition.place()
        {
            let title = acquisition.physical("Title").unwrap_or_default();
            series.entry((title, shape)).or_default().push((path, place));
        }
    }
    for ((_, shape), images) in series {
        let bits = |(_, (x, y)): &(_, (f64, f64))| (x.to_bits(), y.to_bits());
        let places: HashSet<_> = images.iter().map(bits).collect();
        if places.len() == images.len() {
            let n = u64::try_from(images.len()).unwrap_or(u64::MAX);
            let paths = images.into_iter().map(|(path, _)| path).collect();
            candidates.push((n, n.saturating_mul(product(shape)), paths));
        }
    }
    let chosen = candidates.into_iter().rev().max_by_key(|(n, cells, _)| (*n, *cells));
    chosen.map(|(_, _, paths)| paths.into_iter().map(str::to_owned).collect())
}

/// The axes of the scan among those that are not of a frame: all others are of length 1.
pub(super) fn nav_axes(sig: &[usize], nav: &[usize]) -> Vec<usize> {
    let is_scan = sig.iter().all(|axis| *axis < 2) && nav.ends_with(&SCAN);
    if is_scan { SCAN.to_vec() } else { nav.to_vec() }
}

/// The shape of the scan of images that follow each other, and the steps on its axes, if it has any.
pub(super) fn scan(library: &Library, parts: &Parts) -> (Vec<usize>, Vec<Calibration>) {
    let place = |(path, _): &(String, _)| Acquisition::at(library, path)?.place();
    let places: Option<Vec<_>> = parts.iter().map(place).collect();
    let on_grid = places.and_then(|places| grid(&places));
    on_grid.unwrap_or_else(|| (vec![parts.len()], vec![]))
}

/// Adds what is said of the data; gives what is in units that are not known.
pub(super) fn add(
    library: &Library,
    parts: &Parts,
    nav: &[usize],
    sig: &[usize],
    list: &mut MetadataList,
) -> Vec<(String, String)> {
    let first = parts.first().and_then(|(path, _)| Acquisition::at(library, path));
    let Some(first) = first else { return vec![] };
    list.text(Quantity::Title, first.physical("Title").as_deref());
    list.text(Quantity::Detector, first.physical("HardwareName").as_deref());
    let exposure = first.physical.as_ref().and_then(|all| values::number(all, "IntegrationTime"));
    list.positive(Quantity::ExposureTime, exposure);
    let began = first.number("TOffset").filter(|seconds| *seconds > 0.0 && *seconds < LATEST);
    let began = began.map(|seconds| format!("{}Z", iso_seconds(seconds as i64)));
    list.text(Quantity::RecordedAt, began.as_deref());

    let nav = nav_axes(sig, nav);
    let of_angles = first.physical.as_ref().is_some_and(|all| all.dataset("PolePosition").is_ok());
    let steps = Steps {
        nav: match parts.len() {
            1 => nav.iter().map(|&axis| first.places(axis)).collect(),
            // What else is asked for has no shape of a scan, either.
            _ if sig != SCAN => vec![],
            _ => scan(library, parts).1.into_iter().map(Some).collect(),
        },
        // Steps of pixels of the camera are none of the angles.
        sig: sig.iter().map(|&axis| first.places(axis).filter(|_| !of_angles)).collect(),
    };
    let others = add_steps(list, &steps.nav, &steps.sig);
    // Wavelengths are no places, though the file gives both in m.
    let mut names = vec![];
    for (i, &axis) in sig.iter().enumerate().filter(|(_, axis)| **axis < 2) {
        if let Some(plain) = first.channels(axis).and_then(|step| step.plain()) {
            list.calibrate(AxisKind::Sig, sig.len() - 1 - i, plain);
        }
        names.push(match (axis, first.second()) {
            (0, _) => "wavelength",
            (_, "A") => "angle",
            _ => "time",
        });
    }
    if names.len() == sig.len() && first.axis("C").is_none_or(|(_, unit)| unit == "m") {
        list.text(Quantity::FrameAxes, Some(names.join(", ").as_str()));
    }
    others
}
