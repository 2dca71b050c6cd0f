//! What EM-MENU, the program of TVIPS, writes: a structure of numbers behind tag 37706.
//!
//! | byte | content |
//! |---|---|
//! | 0 | version: 1 or 2 |
//! | 4 | the fields of version 1, 240 bytes |
//! | 244 | those of version 2, if it is 2 |
//!
//! Of version 2, from its own start: 0 name (UTF-16, 160 bytes), 348 comment (1024 bytes), 2724 size of a pixel in
//! x and y in nm, 2868 microscope (160 bytes), 3028 voltage in V, 3292 magnification, 3308 stage (x, y and z in m,
//! then two tilts in degrees), 3524 camera (160 bytes), 3684 size of a pixel of the detector in nm, 3700 binning,
//! 3708 exposure in ms, 6064 the number `0xAAAAAAAA`. Version 1 has no size of a pixel, and units that are not
//! known: nothing of it is read.

use crate::formats::tiff::ifd::Directory;
use crate::headers::fields::Fields;
use framefold_core::{MetadataList, Quantity as Q};

const TVIPS: u16 = 37706;
const START: usize = 244;
const LEN: usize = START + 6068;
const MAGIC: u32 = 0xAAAA_AAAA;

/// Adds what is known. Says whether TVIPS wrote the page, and what is wrong with the structure.
pub(super) fn add(
    directory: &Directory<'_>,
    facts: &mut MetadataList,
) -> Option<Result<(), String>> {
    let bytes = directory.structure(TVIPS, LEN)?;
    let fields = Fields::new(&bytes, directory.flavour().big_endian);
    Some(match fields.i32(0) {
        Some(1) => Ok(()),
        Some(2) if fields.u32(START + 6064) == Some(MAGIC) => {
            second(fields, facts);
            Ok(())
        }
        Some(2) => Err(format!(
            "its structure of TVIPS (tag {TVIPS}) has {} bytes that do not end as those of version 2",
            bytes.len()
        )),
        version => {
            let version = version.map_or("none".to_owned(), |version| version.to_string());
            Err(format!(
                "the version of its structure of TVIPS (tag {TVIPS}) is {version}, not 1 or 2"
            ))
        }
    })
}

fn second(fields: Fields<'_>, facts: &mut MetadataList) {
    let number = |at: usize| fields.f32(START + at).map(f64::from);
    let whole = |at: usize| fields.i32(START + at).map(f64::from);
    let text = |at: usize, len: usize| fields.text_utf16(START + at, len);
    facts.text(Q::Title, text(0, 160).as_str());
    facts.text(Q::Note, text(348, 1024).as_str());
    facts.text(Q::Microscope, text(2868, 160).as_str());
    facts.text(Q::Detector, text(3524, 160).as_str());
    facts.text(Q::AcquisitionMode, "TEM");
    for (quantity, at, factor) in [
        (Q::ImageStepX, 2724, 1.0),
        (Q::ImageStepY, 2728, 1.0),
        (Q::AccelerationVoltage, 3028, 1e-3),
        (Q::Magnification, 3292, 1.0),
        (Q::PixelSizeX, 3684, 1e-3),
        (Q::PixelSizeY, 3688, 1e-3),
        (Q::ExposureTime, 3708, 1e-3),
    ] {
        facts.positive(quantity, number(at).map(|number| number * factor));
    }
    facts.positive(Q::BinningX, whole(3700));
    facts.positive(Q::BinningY, whole(3704));
    for (quantity, at, factor) in [
        (Q::StageX, 3308, 1e6),
        (Q::StageY, 3312, 1e6),
        (Q::StageZ, 3316, 1e6),
        (Q::StageAlpha, 3320, 1.0),
        (Q::StageBeta, 3324, 1.0),
    ] {
        facts.number(quantity, number(at).map(|number| number * factor));
    }
}
