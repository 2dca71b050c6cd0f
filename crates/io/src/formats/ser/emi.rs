//! The `.emi` file beside a series: meta data, for people to read.
//!
//! A binary file with XML in it. What is of use are the entries of the form
//! `<Data><Label>High tension</Label><Value>200</Value><Unit>kV</Unit></Data>`.

use crate::access::{Storage, names};
use crate::options::Backend;
use framefold_core::{Error, MetadataList, Quantity, Result};
use std::path::{Path, PathBuf};

/// Bytes of a file that are looked at; images before the XML can be large.
const MAX_LEN: u64 = 64 << 20;
/// Entries that are kept.
const MAX_ENTRIES: usize = 64;
/// Characters of one value.
const MAX_VALUE: usize = 200;

/// What is found in a file: names and values.
type Found = Vec<(String, String)>;

/// Whether these are the first bytes of an `.emi` file.
pub(super) fn is_emi(bytes: &[u8]) -> bool {
    bytes.starts_with(b"JK\0\x02")
}

/// The series that belong to the `.emi` file at `path`, in order.
///
/// # Errors
/// `Io` if the directory cannot be listed.
pub(super) fn series_of(path: &Path) -> Result<Vec<PathBuf>> {
    let stem = names::stem(path);
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let unreadable = |source| Error::io("list the directory", source).with_path(directory);
    let mut found: Vec<(u32, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let candidate = path.with_file_name(entry.map_err(unreadable)?.file_name());
        if let Some((of, number)) = split_name(&candidate)
            && of == stem
            && candidate.is_file()
        {
            found.push((number, candidate));
        }
    }
    found.sort();
    Ok(found.into_iter().map(|(_, path)| path).collect())
}

/// The letters of the name, and the number, of `name_1.ser`.
fn split_name(path: &Path) -> Option<(String, u32)> {
    let extension = path.extension()?;
    let stem = names::stem(path);
    let (stem, number) = stem.rsplit_once('_')?;
    extension.eq_ignore_ascii_case("ser").then_some((stem.to_owned(), number.parse().ok()?))
}

/// The meta data in the file that was named, or in the one that belongs to the series by name.
///
/// # Errors
/// `Io` or `BadFile` if the file cannot be read or has no meta data.
pub(super) fn find(series: &Path, named: Option<&Path>) -> Result<Option<(PathBuf, Found)>> {
    let path = match named {
        Some(path) => path.to_path_buf(),
        None => {
            let Some((stem, _)) = split_name(series) else { return Ok(None) };
            let of_name = |ext: &&str| names::beside(series, &format!("{stem}.{ext}"));
            match ["emi", "EMI"].iter().map(of_name).find(|path| path.is_file()) {
                Some(path) => path,
                None => return Ok(None),
            }
        }
    };
    let found = read(&path).map_err(|error| error.with_path(&path))?;
    Ok(Some((path, found)))
}

fn read(path: &Path) -> Result<Found> {
    let storage = Storage::open(path, Backend::Buffered)?;
    if storage.len() > MAX_LEN {
        return Err(Error::limit(format!(
            "the file has {} bytes, of which no more than {MAX_LEN} are looked through",
            storage.len()
        )));
    }
    let mut bytes = vec![0; usize::try_from(storage.len()).unwrap_or(0)];
    storage.read_at(0, &mut bytes)?;
    let (open, close) = (b"<ObjectInfo>".as_slice(), b"</ObjectInfo>".as_slice());
    let start = position(&bytes, open).ok_or_else(|| {
        Error::bad_file("there is no '<ObjectInfo>' in it, so it is not the .emi file of a series")
    })?;
    let xml = bytes.get(start..).unwrap_or_default();
    let xml = xml.get(..position(xml, close).unwrap_or(xml.len())).unwrap_or_default();
    Ok(entries(&String::from_utf8_lossy(xml)))
}

fn position(bytes: &[u8], pattern: &[u8]) -> Option<usize> {
    // Patterns begin with a byte that is rare outside of XML.
    bytes.windows(pattern.len()).position(|window| window == pattern)
}

/// All labels with their values and units.
fn entries(xml: &str) -> Found {
    let mut found = Vec::new();
    for entry in xml.split("<Label>").skip(1) {
        let entry = entry.split("</Data>").next().unwrap_or_default();
        let label = entry.split("</Label>").next().unwrap_or_default();
        let (value, unit) = (element(entry, "Value"), element(entry, "Unit"));
        let text = [value, unit].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let text = text.trim();
        if label.is_empty() || text.is_empty() || text.len() > MAX_VALUE || label.len() > MAX_VALUE
        {
            continue;
        }
        found.push((label.trim().to_owned(), text.to_owned()));
        if found.len() == MAX_ENTRIES {
            break;
        }
    }
    found
}

/// The text of the first element of that name.
fn element<'t>(xml: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once('<')?.0)
}

/// What the entries tell, by the names that all formats share.
pub(super) fn facts(found: &[(String, String)]) -> MetadataList {
    let mut facts = MetadataList::new();
    for (label, text) in found {
        let number = |unit: &str, factor: f64| {
            let value = text.strip_suffix(unit)?.trim().parse::<f64>().ok()?;
            Some(value * factor)
        };
        match label.as_str() {
            "Microscope" => facts.text(Quantity::Microscope, text.as_str()),
            "High tension" => facts.positive(Quantity::AccelerationVoltage, number("kV", 1.0)),
            "Camera length" => facts.positive(Quantity::CameraLength, number("m", 1e3)),
            "Magnification" => facts.positive(Quantity::Magnification, number("x", 1.0)),
            "Stage X" => facts.number(Quantity::StageX, number("um", 1.0)),
            "Stage Y" => facts.number(Quantity::StageY, number("um", 1.0)),
            "Stage Z" => facts.number(Quantity::StageZ, number("um", 1.0)),
            "Stage A" => facts.number(Quantity::StageAlpha, number("deg", 1.0)),
            "Stage B" => facts.number(Quantity::StageBeta, number("deg", 1.0)),
            _ => {}
        }
    }
    facts
}

/// The name of a file, for messages.
pub(super) fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let split = |name: &str| split_name(Path::new(name));
        assert_eq!(split("a/scan_1.ser"), Some(("scan".into(), 1)));
        assert_eq!(split("a_b_12.SER"), Some(("a_b".into(), 12)));
        assert_eq!(split("scan.ser"), None);
        assert_eq!(split("scan_1.emi"), None);
    }

    #[test]
    fn labels_values_and_units() {
        let xml = "<ObjectInfo><Data><Label>High tension</Label><Value>200</Value><Unit>kV</Unit>\
                   </Data><Data><Label>Mode</Label><Value>TEM</Value><Unit></Unit></Data>\
                   <Data><Label>Empty</Label><Value></Value></Data><Data><Label>Cut";
        let expected = [("High tension", "200 kV"), ("Mode", "TEM")];
        assert_eq!(entries(xml), expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
