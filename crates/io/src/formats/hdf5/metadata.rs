//! What dialects of HDF5 say about an experiment.

use super::find::Found;
use super::library::Library;
use super::values::{attribute_number, attribute_text};
use super::{delmic, dm5, emd, nexus, nion, topspin, velox};
use crate::headers::calibration::add_steps;
use crate::headers::hyperspy::{self, Signal};
use crate::headers::written;
use framefold_core::{AxisKind, Calibration, MetadataList, Quantity, usual_axis_name};
use hdf5_reader::group::Group;

/// What a file says of the axes of the data and of the experiment, as far as its dialect is known.
#[derive(Default)]
pub(super) struct Said {
    pub(super) metadata: MetadataList,
    /// What is in units that are not known, in the words of the file.
    pub(super) others: Vec<(String, String)>,
    pub(super) warning: Option<String>,
}

/// Reads all of it; `nav` and `sig` are the axes of the scan and of frames.
pub(super) fn read(library: &Library, found: &Found, nav: &[usize], sig: &[usize]) -> Said {
    let mut said = Said::default();
    let Said { metadata: list, others, warning } = &mut said;
    let Some((path, _)) = found.parts.first() else { return said };
    // Those that the file says.
    let n_sig = found.sig_axes.as_ref().map_or(sig.len(), Vec::len);
    if found.dialect == "framefold" {
        if let Some(group) = library.group(written::METADATA) {
            framefold(&group, list);
        }
        // As they were written, whatever is a frame now.
        let n_axes = nav.len() + sig.len();
        let n_nav = n_axes.saturating_sub(n_sig);
        let axis = |&axis: &usize| {
            let name = match axis.checked_sub(n_nav) {
                None => usual_axis_name(AxisKind::Nav, axis, n_nav),
                Some(index) => usual_axis_name(AxisKind::Sig, index, n_sig),
            };
            let group = library.group(&format!("{}/{name}", written::AXES))?;
            Some(Calibration {
                step: attribute_number(&group, written::SCALE)?,
                offset: attribute_number(&group, written::OFFSET)?,
                unit: attribute_text(&group, written::UNITS)?,
            })
        };
        let of = |axes: &[usize]| axes.iter().map(axis).collect::<Vec<_>>();
        written::add_axes(list, &of(nav), &of(sig), n_sig);
    } else if let Some(signal) = signal(path) {
        let of = InGroup { library, path: signal };
        *others = hyperspy::add(&of, nav, sig, list);
        *warning = hyperspy::uneven(&of, nav.len() + sig.len());
        if let Some(group) = library.group(&format!("{signal}/original_metadata/framefold")) {
            let mut written = MetadataList::new();
            framefold(&group, &mut written);
            hyperspy::settle(written, sig.len(), n_sig, list);
        }
    } else {
        nexus::add(library, path, list, others);
        if found.dialect == delmic::NAME {
            others.extend(delmic::add(library, &found.parts, nav, sig, list));
        }
        if found.dialect == "TopSpin"
            && let Some(steps) = topspin::steps(library, found, sig.len())
        {
            others.extend(add_steps(list, &steps.nav, &steps.sig));
        }
        if found.parts.len() == 1 {
            let image = dm5::Image::at(library, path);
            if image.as_ref().is_some_and(dm5::Image::is_colour) {
                *warning = Some(crate::formats::dm::COLOURS.to_owned());
            }
            let steps = [
                nexus::steps(library, path, nav, sig),
                emd::steps(library, path, nav, sig),
                velox::add(library, path, nav, sig, list),
                nion::Item::at(library, path).map(|item| item.add(nav, sig, list)),
                image.map(|image| image.steps(nav, sig)),
            ];
            for steps in steps.into_iter().flatten() {
                others.extend(add_steps(list, &steps.nav, &steps.sig));
                *warning = warning.take().or_else(|| steps.warning());
            }
        }
    }
    said
}

/// The group of HyperSpy's signal that a data set belongs to.
fn signal(path: &str) -> Option<&str> {
    path.strip_suffix("/data").filter(|signal| signal.starts_with("Experiments/"))
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

/// The groups of a signal.
struct InGroup<'a> {
    library: &'a Library,
    path: &'a str,
}

impl InGroup<'_> {
    fn group(&self, name: &str) -> Option<Group> {
        self.library.group(&format!("{}/{name}", self.path))
    }
}

impl Signal for InGroup<'_> {
    fn has(&self, group: &str) -> bool {
        self.group(group).is_some()
    }

    fn number(&self, group: &str, name: &str) -> Option<f64> {
        attribute_number(&self.group(group)?, name)
    }

    fn text(&self, group: &str, name: &str) -> Option<String> {
        attribute_text(&self.group(group)?, name)
    }

    fn truth(&self, group: &str, name: &str) -> Option<bool> {
        let attribute = self.group(group)?.attribute(name).ok()?;
        Some(attribute.raw_data.iter().any(|byte| *byte != 0))
    }
}
