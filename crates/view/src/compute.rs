//! From a query to pictures: shapes, passes over the data, and what follows from their results.

pub(crate) mod background;
pub(crate) mod binning;
pub(crate) mod com;
pub(crate) mod cube;
pub(crate) mod detect;
pub(crate) mod detector;
pub(crate) mod fourier;
pub(crate) mod gate;
pub(crate) mod gather;
pub(crate) mod grid;
pub(crate) mod guess;
pub(crate) mod idpc;
pub(crate) mod kept;
pub(crate) mod own;
pub(crate) mod pace;
pub(crate) mod pass;
pub(crate) mod pattern;
pub(crate) mod pixel;
pub(crate) mod plane;
pub(crate) mod raw;
pub(crate) mod rest;
pub(crate) mod runs;
pub(crate) mod scan;
pub(crate) mod shapes_of_scan;
pub(crate) mod store;
pub(crate) mod transform;
