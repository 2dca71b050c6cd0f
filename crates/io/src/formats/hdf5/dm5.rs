//! What DigitalMicrograph says of an image in a `.dm5` file.
//!
//! | path, below `ImageList/[k]` | what |
//! |---|---|
//! | `ImageData/Data` | the pixels |
//! | `ImageData`, attribute `DataType` | as in `.dm3` and `.dm4`; 8 and 23 are four bytes of colour |
//! | `ImageData/Calibrations/Dimension/[d]`, attributes `Origin`, `Scale`, `Units` | steps, fastest axis first |
//! | `ImageTags/Meta Data`, attributes `Format`, `Data Order Swapped` | as there |
//!
//! Axes lie as they do there: those of frames first, in spectrum images and 4D data, unless the order is swapped.

use super::library::Library;
use super::values::{attribute_number, attribute_text, number};
use crate::formats::dm::Order;
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

    /// The axes of a frame, or of a spectrum where each position has one.
    pub(super) fn sig_axes(&self, n_axes: usize) -> Option<Vec<usize>> {
        let n_sig = if self.is_spectrum_image() { 1 } else { 2 };
        let n_nav = n_axes.checked_sub(n_sig)?;
        let first = self.order(n_axes) == Order::PositionsTogether;
        Some(if first { (0..n_sig).collect() } else { (n_nav..n_axes).collect() })
    }

    /// A word about files that could have been meant the other way round, if frames are those of
    /// [`Image::sig_axes`].
    pub(super) fn doubt(&self, shape: &[usize], sig: &[usize]) -> Option<String> {
        let doubt = self.order(shape.len()).doubt(shape, self.order_swapped())?;
        (self.sig_axes(shape.len()).as_deref() == Some(sig)).then(|| {
            format!("{doubt}; otherwise read the array with h5py, and load it as 'memory'")
        })
    }

    fn order(&self, n_axes: usize) -> Order {
        Order::of_axes(n_axes, self.is_spectrum_image(), self.order_swapped())
    }

    fn is_spectrum_image(&self) -> bool {
        let format = self.tags.as_ref().and_then(|tags| attribute_text(tags, "Format"));
        format.is_some_and(|format| format.trim().eq_ignore_ascii_case("Spectrum image"))
    }

    /// Whether the pixels of a frame lie together, if the file says so.
    fn order_swapped(&self) -> Option<bool> {
        let (tags, name) = (self.tags.as_ref()?, "Data Order Swapped");
        // A number or a truth value, which HDF5 has as an enumeration.
        let attribute = tags.attribute(name).ok();
        let swapped = attribute.map(|found| found.raw_data.iter().any(|byte| *byte != 0));
        swapped.or_else(|| Some(number(tags, name)? != 0.0))
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
                unit: attribute_text(&dimension, "Units").unwrap_or_default().trim().to_owned(),
            })
        };
        Steps { nav: nav.iter().map(step).collect(), sig: sig.iter().map(step).collect() }
    }
}
