//! What formats say about their pixels and the experiment, as far as several say it alike.

pub(crate) mod axes;
pub(crate) mod calibration;
pub(crate) mod chosen;
pub(crate) mod dates;
pub(crate) mod fields;
pub(crate) mod geometry;
pub(crate) mod hyperspy;
pub(crate) mod json;
pub(crate) mod packed;
pub(crate) mod regrid;
pub(crate) mod units;
pub(crate) mod written;
pub(crate) mod xml;
