//! The extended header of older microscopes of FEI: 1024 records of 128 bytes. The header has no name for
//! their kind, but says of each record that it has 32 floats, and no integers, or, by mistake, 128:
//!
//! | offset in the header | type | what |
//! |---|---|---|
//! | 104 | 4 bytes | blank |
//! | 128, 130 | i16 | integers and floats of a record |
//!
//! Records begin with:
//!
//! | offset | type | what |
//! |---|---|---|
//! | 0, 4 | f32 | tilts in degrees |
//! | 8, 12, 16 | f32 | stage in m |
//! | 28 | f32 | defocus in m |
//! | 32 | f32 | exposure in s |
//! | 44 | f32 | size of a pixel in m |
//! | 48 | f32 | magnification |
//!
//! Fields are those that rosettasciio and IMOD name. Lengths above 1 are in another unit, which the file
//! does not tell, and are left out.

use crate::headers::fields::Fields;
use framefold_core::{MetadataList, Quantity};

/// The bytes of one record, and of all of them.
pub(super) const LEN: usize = 128;
pub(super) const LEN_ALL: u64 = 128 * 1024;

/// Whether the header is one of these files.
pub(super) fn is_named(header: &Fields<'_>) -> bool {
    let numbers = (header.i16(128), header.i16(130));
    header.text(104, 4).is_empty() && matches!(numbers, (Some(0 | 128), Some(32)))
}

/// Adds what the first record says; nothing if it is empty.
pub(super) fn add(fields: &Fields<'_>, facts: &mut MetadataList) {
    let number = |at| fields.f32(at).map(f64::from);
    let any = (0..52).step_by(4).filter_map(number).any(|number| number != 0.0);
    if !any {
        return;
    }
    let metres = |at, factor: f64| {
        number(at).filter(|metres| metres.abs() <= 1.0).map(|metres| metres * factor)
    };
    for (quantity, at) in [(Quantity::StageAlpha, 0), (Quantity::StageBeta, 4)] {
        facts.number(quantity, number(at).filter(|angle| angle.abs() <= 360.0));
    }
    for (quantity, at) in [(Quantity::StageX, 8), (Quantity::StageY, 12), (Quantity::StageZ, 16)] {
        facts.number(quantity, metres(at, 1e6));
    }
    facts.number(Quantity::Defocus, metres(28, 1e9));
    facts.positive(Quantity::ExposureTime, number(32));
    for quantity in [Quantity::ImageStepX, Quantity::ImageStepY] {
        facts.positive(quantity, metres(44, 1e9));
    }
    facts.positive(Quantity::Magnification, number(48));
}
