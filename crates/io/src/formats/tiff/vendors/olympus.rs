//! What programs of Olympus Soft Imaging Solutions (SIS; iTEM, analySIS) write: a header behind tag 33560, and
//! blocks elsewhere in the file.
//!
//! | byte | content |
//! |---|---|
//! | 0–3 | `SIS0` |
//! | 10–19 | minute, hour, day, month from 0 on, years since 1900: i16 each |
//! | 26–57 | name |
//! | 58 | number of blocks, i16 |
//! | 60 + 8 i | kind (i16), count (i16) and place in the file (u32) of a block |
//!
//! A block of kind 1: 10 power of ten of the sizes (i16), 12 and 20 sizes of a pixel in x and y (f64), in m
//! with that power, 36 magnification (f64), 46 name of the camera (34 bytes).

use crate::formats::tiff::ifd::Directory;
use crate::headers::dates;
use crate::headers::fields::Fields;
use framefold_core::{MetadataList, Quantity as Q};

const SIS: u16 = 33560;
const HEAD: usize = 60;
const ENTRY: usize = 8;
/// More blocks than any program writes.
const MOST_BLOCKS: usize = 256;
const GENERAL: i16 = 1;
const BLOCK: usize = 112;
/// From femtometres to metres.
const POWERS: std::ops::RangeInclusive<i16> = -15..=0;

/// Adds what is known. Says whether a program of Olympus wrote the page, and what is wrong with what it wrote.
pub(super) fn add(
    directory: &Directory<'_>,
    facts: &mut MetadataList,
) -> Option<Result<(), String>> {
    let bytes = directory.structure(SIS, HEAD + ENTRY * MOST_BLOCKS)?;
    Some(header(directory, &bytes, facts))
}

fn header(directory: &Directory<'_>, bytes: &[u8], facts: &mut MetadataList) -> Result<(), String> {
    let big_endian = directory.flavour().big_endian;
    let fields = Fields::new(bytes, big_endian);
    if !bytes.starts_with(b"SIS0") {
        return Err(format!("its header of Olympus (tag {SIS}) does not start with 'SIS0'"));
    }
    facts.text(Q::Title, fields.text(26, 32).as_str());
    let number = |at| fields.i16(at).map(i32::from);
    if let (Some(minute), Some(hour), Some(day), Some(month), Some(year)) =
        (number(10), number(12), number(14), number(16), number(18))
    {
        let date = format!("{:04}-{}-{day}", year + 1900, month + 1);
        let time = format!("{hour}:{minute}:00");
        // What is no date is not one that the file spells in another way.
        let when = dates::joined(Some(&date), Some(&time)).filter(|when| when.contains('T'));
        facts.text(Q::RecordedAt, when.as_deref());
    }
    let n_blocks = fields.i16(58).and_then(|n| usize::try_from(n).ok()).unwrap_or(0);
    let place = (0..n_blocks.min(MOST_BLOCKS))
        .map(|i| HEAD + ENTRY * i)
        .find(|&at| fields.i16(at) == Some(GENERAL))
        .and_then(|at| fields.u32(at + 4));
    let Some(place) = place else {
        return Err(format!(
            "its header of Olympus (tag {SIS}) of {} bytes lists no block with the size of pixels",
            bytes.len()
        ));
    };
    let block = directory.bytes_at(place.into(), BLOCK).ok_or_else(|| {
        format!("the size of pixels of Olympus (tag {SIS}) at byte {place} is beyond the end of the file")
    })?;
    let fields = Fields::new(&block, big_endian);
    let power = fields.i16(10).unwrap_or(1);
    if !POWERS.contains(&power) {
        return Err(format!(
            "the size of pixels of Olympus (tag {SIS}) is in 10^{power} m, expected 10^{} to 10^{}",
            POWERS.start(),
            POWERS.end()
        ));
    }
    let nanometres = 10f64.powi(i32::from(power) + 9);
    for (quantity, at, factor) in [
        (Q::ImageStepX, 12, nanometres),
        (Q::ImageStepY, 20, nanometres),
        (Q::Magnification, 36, 1.0),
    ] {
        facts.positive(quantity, fields.f64(at).map(|number| number * factor));
    }
    facts.text(Q::Detector, fields.text(46, 34).as_str());
    Ok(())
}
