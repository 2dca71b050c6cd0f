//! PRZ: CEOS's Panta Rhei. A zip archive of NumPy arrays, as `numpy.savez` writes it.
//!
//! | member | content |
//! |---|---|
//! | `data.npy` | the pixels, as in an NPY file |
//! | `meta_data_json.npy` | one text: JSON, a list with one object of names and values |
//! | `meta_data.npy`, `data_model.npy` | the same in Python's own way; not looked at |
//!
//! Endianness: as in the header of `data.npy`. Pixels that were only stored are used where they lie;
//! deflated ones are decoded when the file is opened, up to 1 GiB. Known writers: Panta Rhei. Limits:
//! which axes are those of the scan is not written anywhere known; the last two are taken for a
//! frame.

use crate::access::Storage;
use crate::access::archive::{Archive, MAGIC};
use crate::format::{Format, Prefix, Verdict};
use crate::formats::npy;
use crate::options;
use crate::options::OpenOptions;
use framefold_core::{Dataset, Error, MetadataList, Quantity, Result};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "prz",
    title: "a Panta Rhei file (PRZ)",
    extensions: &["prz"],
    options: &[
        options::NAV_SHAPE,
        options::SIG_SHAPE,
        options::SIG_DIMS,
        options::SYNC_OFFSET,
        options::IO_BACKEND,
    ],
    detect: &detect,
    open: &open,
};

/// Pixels beyond this have to be stored without compression.
const MOST_DECODED: u64 = 1 << 30;
/// Longer texts are no meta data.
const MOST_TEXT: u64 = 64 << 20;

fn detect(prefix: &Prefix<'_>) -> Verdict {
    if !prefix.bytes.starts_with(MAGIC) {
        return Verdict::No(format!("it starts with {}, not with 'PK'", prefix.describe()));
    }
    if prefix.extension() == "prz" {
        Verdict::Match("it is a zip archive with the extension '.prz'".into())
    } else {
        Verdict::No("it is an archive without the extension '.prz'".into())
    }
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let storage = Storage::open(path, options.backend)?;
    let archive = Archive::open(storage)?;
    let name = "data.npy";
    let member = archive.get(name).ok_or_else(|| {
        let names: Vec<&str> = archive.names().take(8).collect();
        Error::bad_file(format!("the archive has no 'data.npy'; it has {}", names.join(", ")))
            .with_path(path)
            .with_offset(0)
            .with_hint("this is not a file of Panta Rhei")
    })?;
    let pixels = match archive.in_place(name, member)? {
        Some(range) => archive.storage().part(range),
        None => {
            let bytes = archive.read(name, member, MOST_DECODED)?;
            Storage::shared_of(Arc::new(bytes), path)
        }
    };
    npy::open_stored(pixels, FORMAT.name, metadata(&archive), options)
        .map_err(|error| error.with_path(path))
}

/// What the JSON says; nothing, if it is not there or no JSON.
fn metadata(archive: &Archive) -> MetadataList {
    let mut list = MetadataList::new();
    let Some(json) = json(archive) else { return list };
    let object = json.get(0).unwrap_or(&json);
    let number = |name: &str| object[name].as_f64();
    list.positive(Quantity::AccelerationVoltage, number("electron_gun.voltage").map(|v| v * 1e-3));
    list.positive(Quantity::CameraLength, number("projector.camera_length").map(|m| m * 1e3));
    list.positive(Quantity::Magnification, number("scan_driver.magnification"));
    list.positive(Quantity::ExposureTime, number("scan_generator.dwell_time"));
    list.text(Quantity::Detector, object["scan_generator.detector"].as_str());
    list.text(Quantity::Note, object["comment"].as_str());
    // The order of x and y is not known, so that only square pixels have a size.
    let step = |i: usize| {
        let axis = object["device.calib"].get(i).unwrap_or(&serde_json::Value::Null);
        let metres = axis["name"] == "Length" && axis["unit"] == "m";
        let factor = axis["pixel_factor"].as_f64().unwrap_or(1.0);
        axis["value"].as_f64().filter(|_| metres).map(|value| value * factor * 1e9)
    };
    if step(0) == step(1) && object["type"] == "2D" {
        list.positive(Quantity::ImageStepX, step(0));
        list.positive(Quantity::ImageStepY, step(0));
    }
    list
}

/// The text of `meta_data_json.npy`: one element of kind U, four bytes to a character.
fn json(archive: &Archive) -> Option<Value> {
    let name = "meta_data_json.npy";
    let bytes = archive.read(name, archive.get(name)?, MOST_TEXT).ok()?;
    let len = usize::from(u16::from_le_bytes([*bytes.get(8)?, *bytes.get(9)?]));
    let header = String::from_utf8_lossy(bytes.get(10..)?.get(..len)?).into_owned();
    if bytes.get(6) != Some(&1) || !header.contains("'<U") {
        return None;
    }
    let letters = bytes.get(10 + len..)?.chunks_exact(4).map(|letter| {
        let letter = letter.first_chunk().map_or(0, |letter| u32::from_le_bytes(*letter));
        char::from_u32(letter).unwrap_or(char::REPLACEMENT_CHARACTER)
    });
    crate::headers::json::parse(letters.collect::<String>().trim_end_matches('\0').as_bytes()).ok()
}
