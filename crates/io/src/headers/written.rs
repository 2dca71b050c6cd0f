//! Names in files that `write` makes, by which their meta data are found again.

use framefold_core::{AxisKind, Calibration, MetadataList, axes};

/// The group in HDF5, and the attribute in Zarr, that holds meta data.
pub(crate) const METADATA: &str = "metadata";
/// In HDF5, what follows a quantity's name in that of its unit.
pub(crate) const UNIT: &str = "_unit";
/// In Zarr, the attribute that says how many of the last axes are those of a frame.
pub(crate) const SIG_DIMS: &str = "sig_dims";
/// In HDF5, the group of the groups of axes; in Zarr, the attribute that lists them.
pub(crate) const AXES: &str = "axes";
/// What is said of an axis.
pub(crate) const NAME: &str = "name";
pub(crate) const SCALE: &str = "scale";
pub(crate) const OFFSET: &str = "offset";
pub(crate) const UNITS: &str = "units";

/// Adds what axes were written with, slowest first, where the quantities that were written say something else.
pub(crate) fn add_axes(
    list: &mut MetadataList,
    nav: &[Option<Calibration>],
    sig: &[Option<Calibration>],
) {
    let known = axes(&vec![1; nav.len()], &vec![1; sig.len()], list);
    for ((kind, from_last, written), axis) in in_order(nav, sig).zip(known) {
        let known = Calibration { step: axis.scale, offset: axis.offset, unit: axis.unit };
        if let Some(written) = written.clone().filter(|written| *written != known) {
            list.calibrate(kind, from_last, written);
        }
    }
}

type Place<'a> = (AxisKind, usize, &'a Option<Calibration>);

fn in_order<'a>(
    nav: &'a [Option<Calibration>],
    sig: &'a [Option<Calibration>],
) -> impl Iterator<Item = Place<'a>> {
    let of = |kind, axes: &'a [Option<Calibration>]| {
        axes.iter().enumerate().map(move |(index, axis)| (kind, axes.len() - 1 - index, axis))
    };
    of(AxisKind::Nav, nav).chain(of(AxisKind::Sig, sig))
}
