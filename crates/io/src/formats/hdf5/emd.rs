//! What EMD files of Berkeley and py4DSTEM say: a data set for each axis, beside the data.
//!
//! They are called `dim1` and so on, or `dim0` and so on, and hold the values at all positions, or
//! at the first two.

use super::library::Library;
use super::values::{numbers, unit};
use crate::headers::calibration::{Calibration, Steps};

/// The steps on the axes of a data set.
pub(super) fn steps(library: &Library, path: &str, nav: &[usize], sig: &[usize]) -> Option<Steps> {
    let group = path.rsplit_once('/').and_then(|(group, _)| library.group(group))?;
    let first = usize::from(group.dataset("dim0").is_err());
    let calibration = |axis: &usize| -> Option<Calibration> {
        let dataset = group.dataset(&format!("dim{}", axis.checked_add(first)?)).ok()?;
        Calibration::of_values(&numbers(&dataset)?, &unit(&dataset)?)
    };
    Some(Steps {
        nav: nav.iter().map(calibration).collect(),
        sig: sig.iter().map(calibration).collect(),
    })
}
