//! What is known of an axis whose pixels are others than before: fewer, farther apart, in reverse.

use super::calibration::quantities;
use super::units::convert;
use framefold_core::{AxisKind, AxisMap, Calibration, MetadataList, Quantity};

/// Has an axis keep for each place the value that it had there. Nothing is known afterwards of what was not
/// known before.
pub(crate) fn regrid(
    list: &mut MetadataList,
    kind: AxisKind,
    from_last: usize,
    n_axes: usize,
    map: AxisMap,
) {
    if map == AxisMap::SAME {
        return;
    }
    let known = list.calibration(kind, from_last).cloned();
    // Of two axes, the one with energies is that with their unit.
    let has_energies = n_axes == 1
        || known
            .as_ref()
            .is_some_and(|known| convert(known.step, &known.unit, Quantity::EnergyStep).is_some());
    if let Some(known) = known {
        let offset = known.offset + known.step * map.first;
        let step = known.step * map.step;
        list.calibrate(kind, from_last, Calibration { step, offset, ..known });
    }
    let of_axis = quantities(kind, from_last, n_axes).iter();
    for &quantity in of_axis.filter(|&&each| has_energies || each != Quantity::EnergyStep) {
        let (step, place) = (list.get_number(quantity), quantity.offset_of_step());
        if let (Some(step), Some(place)) = (step, place) {
            let offset = list.get_number(place).unwrap_or(0.0) + step * map.first;
            list.number(quantity, step * map.step);
            list.remove(place);
            // Of energies, 0 is a place as well.
            let is_known = offset != 0.0 || quantity == Quantity::EnergyStep;
            list.number(place, Some(offset).filter(|_| is_known));
        }
    }
    // The size of the detector's pixels is that without binning, and stays.
    let of_detector = of_detector(from_last).filter(|_| kind == AxisKind::Sig);
    let n_binned = map.step.abs();
    if let Some([_, binning]) = of_detector.filter(|_| n_binned != 1.0) {
        list.number(binning, list.get_number(binning).unwrap_or(1.0) * n_binned);
    }
}

/// Forgets what is known of the axes of frames: they are others.
pub(crate) fn forget(list: &mut MetadataList, n_axes: usize) {
    for from_last in 0..n_axes {
        list.forget_axis(AxisKind::Sig, from_last);
        of_detector(from_last).into_iter().flatten().for_each(|quantity| list.remove(quantity));
    }
    list.remove(Quantity::FrameAxes);
}

/// The size of the detector's pixels along an axis, and how many of them are in one of a frame.
fn of_detector(from_last: usize) -> Option<[Quantity; 2]> {
    match from_last {
        0 => Some([Quantity::PixelSizeX, Quantity::BinningX]),
        1 => Some([Quantity::PixelSizeY, Quantity::BinningY]),
        _ => None,
    }
}
