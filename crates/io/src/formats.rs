//! The file formats, one module each, and the table of them.

mod blo;
mod dm;
mod empad;
mod frms6;
pub(crate) mod hdf5;
mod k2is;
mod mib;
mod mrc;
mod npy;
mod prz;
pub(crate) mod raw;
pub(crate) mod raw_csr;
mod seq;
mod ser;
mod spe;
mod tiff;
mod tvips;
pub(crate) mod zarr;

use crate::format::Format;
use framefold_core::Orientation;

/// Every format that is built in, in the order in which detection asks them.
///
/// Formats with the longest signature come first, so that a chance match of a short one cannot
/// shadow them; `raw`, which any file could be, comes last and never detects.
pub const FORMATS: &[Format] = &[
    npy::FORMAT,
    hdf5::FORMAT,
    blo::FORMAT,
    seq::FORMAT,
    tvips::FORMAT,
    ser::FORMAT,
    k2is::FORMAT,
    dm::FORMAT,
    tiff::FORMAT,
    frms6::FORMAT,
    mib::FORMAT,
    // Its mark lies at byte 208, and old files have none.
    mrc::FORMAT,
    empad::FORMAT,
    raw_csr::FORMAT,
    zarr::FORMAT,
    prz::FORMAT,
    spe::FORMAT,
    raw::FORMAT,
];

/// In which order a format's rows are given, in words, where that is not simply from the top down as
/// they lie in the file.
pub fn row_order(format: &str) -> Option<&'static str> {
    match format {
        "mib" => Some("as stored, the bottom row of the detector first; HyperSpy turns them over"),
        "ser" => Some("from the top down; the file has the bottom row first"),
        _ => None,
    }
}

/// How HyperSpy turns the frames of a format, compared with how they are given here.
pub(crate) fn shown_by_hyperspy(format: &str) -> Orientation {
    Orientation { flip_y: format == "mib", ..Orientation::default() }
}
