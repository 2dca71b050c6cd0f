//! What DigitalMicrograph says of an image in a `.dm5` file.
//!
//! | path, below `ImageList/[k]` | what |
//! |---|---|
//! | `ImageData/Data` | the pixels |
//! | `ImageData`, attribute `DataType` | as in `.dm3` and `.dm4`; 8 and 23 are four bytes of colour |
//! | `ImageData/Calibrations/Dimension/[d]`, attributes `Origin`, `Scale`, `Units` | steps, fastest axis first |
//! | `ImageTags/Meta Data`, attributes `Format`, `Data Order Swapped` | as there |
//!
//! Spectrum images lie as they do there: energies first, unless the order is swapped.

use super::library::Library;
use super::values::{attribute_number, attribute_text, number};
use crate::headers::calibration::{Calibration, Steps};
use hdf5_reader::group::Group;

/// One image of a file.
pub(super) struct Image {
    data: Group,
    tags: Option<Group>,
}

impl Image {
    /// The image that a data set belongs to, if it is one of these.
    pub(super) fn at(library: &Library, path: &str) -> Option<Self> {
        let image = path.strip_suffix("/ImageData/Data")?;
        if !image.starts_with("ImageList/[") {
            return None;
        }
        let data = library.group(&format!("{image}/ImageData"))?;
        Some(Image { data, tags: library.group(&format!("{image}/ImageTags/Meta Data")) })
    }

    /// The axis of spectra, where each position has one.
    pub(super) fn sig_axes(&self, n_axes: usize) -> Option<Vec<usize>> {
        let tags = self.tags.as_ref()?;
        let format = attribute_text(tags, "Format")?;
        if !format.trim().eq_ignore_ascii_case("Spectrum image") {
            return None;
        }
        let name = "Data Order Swapped";
        // A number or a truth value, which HDF5 has as an enumeration.
        let attribute = tags.attribute(name).ok();
        let swapped = attribute.map(|found| found.raw_data.iter().any(|byte| *byte != 0));
        let swapped = swapped.or_else(|| Some(number(tags, name)? != 0.0)).unwrap_or(false);
        let last = n_axes.checked_sub(1)?;
        Some(vec![if n_axes > 2 && !swapped { 0 } else { last }])
    }

    /// Whether a pixel is four bytes of colour.
    pub(super) fn is_colour(&self) -> bool {
        attribute_number(&self.data, "DataType").is_some_and(|code| code == 8.0 || code == 23.0)
    }

    /// The steps on axes of the data set, which has so many.
    pub(super) fn steps(&self, nav: &[usize], sig: &[usize]) -> Steps {
        let n_axes = nav.len() + sig.len();
        let step = |&axis: &usize| {
            let number = n_axes.checked_sub(axis + 1)?;
            let all = self.data.group("Calibrations").ok()?.group("Dimension").ok()?;
            let dimension = all.group(&format!("[{number}]")).ok()?;
            let step = attribute_number(&dimension, "Scale")?;
            // The position of 0, counted in pixels.
            let origin = attribute_number(&dimension, "Origin");
            Some(Calibration {
                step,
                offset: origin.map(|origin| -origin * step),
                unit: attribute_text(&dimension, "Units")?.trim().to_owned(),
            })
        };
        Steps { nav: nav.iter().map(step).collect(), sig: sig.iter().map(step).collect() }
    }
}
