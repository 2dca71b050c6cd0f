//! What EMD files of Berkeley and py4DSTEM say: a data set for each axis, beside the data.
//!
//! They are called `dim1` and so on, or `dim0` and so on, and hold the values at all positions, or
//! at the first two.

use super::library::Library;
use super::values::{numbers, unit};
use crate::calibration::{Calibration, add_steps};
use framefold_core::MetadataList;

/// Adds the steps on the axes. What cannot be converted goes to `others` in the words of the file.
pub(super) fn add_axes(
    library: &Library,
    path: &str,
    nav_axes: &[usize],
    sig_axes: &[usize],
    list: &mut MetadataList,
    others: &mut Vec<(String, String)>,
) {
    let Some(group) = path.rsplit_once('/').and_then(|(group, _)| library.group(group)) else {
        return;
    };
    let first = usize::from(group.dataset("dim0").is_err());
    let calibration = |axis: &usize| -> Option<Calibration> {
        let dataset = group.dataset(&format!("dim{}", axis.checked_add(first)?)).ok()?;
        Calibration::of_values(&numbers(&dataset)?, &unit(&dataset)?)
    };
    let nav: Vec<_> = nav_axes.iter().map(calibration).collect();
    let sig: Vec<_> = sig_axes.iter().map(calibration).collect();
    others.extend(add_steps(list, &nav, &sig));
}
