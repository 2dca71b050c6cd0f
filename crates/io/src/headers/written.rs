//! Names in files that `write` makes, by which their meta data are found again.

use crate::headers::calibration::{self, add_steps};
use framefold_core::{AxisKind, Calibration, MetadataList, Quantity, axes};

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
/// With another number of axes of frames than `n_written`, axes have what they were written with alone.
pub(crate) fn add_axes(
    list: &mut MetadataList,
    nav: &[Option<Calibration>],
    sig: &[Option<Calibration>],
    n_written: usize,
) {
    if sig.len() != n_written {
        forget_axes(list);
        let plain = |axis: &Option<Calibration>| axis.as_ref().map(calibration::Calibration::of);
        let of = |axes: &[Option<Calibration>]| axes.iter().map(plain).collect::<Vec<_>>();
        add_steps(list, &of(nav), &of(sig));
        return;
    }
    let known = axes(&vec![1; nav.len()], &vec![1; sig.len()], list);
    for ((kind, from_last, written), axis) in in_order(nav, sig).zip(known) {
        let known = Calibration { step: axis.scale, offset: axis.offset, unit: axis.unit };
        if let Some(written) = written.clone().filter(|written| *written != known) {
            list.calibrate(kind, from_last, written);
        }
    }
}

/// Forgets the steps and names of all axes that quantities say.
pub(crate) fn forget_axes(list: &mut MetadataList) {
    for kind in [AxisKind::Nav, AxisKind::Sig] {
        (0..2).for_each(|from_last| list.forget_axis(kind, from_last));
    }
    [Quantity::ScanAxes, Quantity::FrameAxes].into_iter().for_each(|names| list.remove(names));
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
