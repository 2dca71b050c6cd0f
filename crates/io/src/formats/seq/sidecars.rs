//! The files that belong to a SEQ file: dark frame, gain map, bad pixels.
//!
//! | name, for `scan.seq` | content |
//! |---|---|
//! | `scan.seq.dark.mrc` or `scan.dark.mrc` | an image that is subtracted |
//! | `scan.seq.gain.mrc` or `scan.gain.mrc` | an image that is multiplied with |
//! | `scan.seq.Config.Metadata.xml` and `scan.seq.metadata` | lists of bad pixels, and the part of the camera that was read |

use super::bad_pixels;
use crate::access::names;
use crate::formats::mrc;
use crate::headers::fields::read_small;
use crate::headers::xml::{self, Element};
use framefold_core::{
    Corrections, DType, Error, MetadataList, NativeArray, Quantity, Result, TypedVec,
};
use std::path::{Path, PathBuf};

/// The largest binary file of meta data that is believed.
const MAX_METADATA: u64 = 16 << 20;

/// What the files beside a SEQ file bring.
#[derive(Debug, Default)]
pub(super) struct Sidecars {
    dark: Option<NativeArray>,
    gain: Option<NativeArray>,
    /// Flat cells of the frame.
    excluded: Vec<usize>,
    metadata: MetadataList,
    /// The files that are used.
    pub(super) paths: Vec<PathBuf>,
    pub(super) warnings: Vec<String>,
}

/// Looks for the files that belong to the SEQ file at `path`, whose frames have `sig_shape`.
///
/// # Errors
/// `BadFile`, `Unsupported` or `Io` if one of them cannot be read, or an image in it does not have
/// the shape of a frame. To leave it out instead would give other numbers than it is there for.
pub(super) fn find(path: &Path, sig_shape: [usize; 2]) -> Result<Sidecars> {
    let mut found = Sidecars::default();
    let beside = |ends: &[&str]| {
        let mut names = bases(path).into_iter().flat_map(|base| {
            ends.iter()
                .map(move |end| names::beside(path, &format!("{base}{end}")))
                .collect::<Vec<_>>()
        });
        // What cannot be read, such as a link that leads nowhere, is an error when it is read.
        names.find(|candidate| candidate.symlink_metadata().is_ok())
    };
    for (what, ends, plane) in [
        ("dark frame", [".seq.dark.mrc", ".dark.mrc"], &mut found.dark),
        ("gain map", [".seq.gain.mrc", ".gain.mrc"], &mut found.gain),
    ] {
        if let Some(path) = beside(&ends) {
            *plane = Some(image(what, &path, sig_shape)?);
            found.paths.push(path);
        }
    }
    let xml_path = beside(&[".seq.Config.Metadata.xml"]);
    let (Some(xml_path), binary) = (xml_path, beside(&[".seq.metadata"])) else {
        return Ok(found);
    };
    let bytes = read_small(&xml_path, xml::MAX_LEN)?;
    let root = Element::parse(&bytes).map_err(|error| error.with_path(&xml_path))?;
    found.metadata = metadata(&root);
    if let Some(binary) = binary {
        let bytes = read_small(&binary, MAX_METADATA)?;
        let excluded = bad_pixels::find(&root, &bytes, sig_shape, &mut found.warnings);
        found.excluded = excluded.map_err(|error| error.with_path(&xml_path))?;
        found.paths.push(binary);
    }
    found.paths.push(xml_path);
    Ok(found)
}

/// The letters of the name without `.seq`, and without the second one that some names have.
fn bases(path: &Path) -> Vec<String> {
    let letters = path.file_name().map(names::letters).unwrap_or_default();
    let mut name = letters.as_str();
    let mut bases = Vec::new();
    for _ in 0..2 {
        match name.len().checked_sub(4).and_then(|at| name.split_at_checked(at)) {
            Some((base, end)) if end.eq_ignore_ascii_case(".seq") && !base.is_empty() => {
                bases.push(base.to_owned());
                name = base;
            }
            _ => break,
        }
    }
    if bases.is_empty() {
        bases.push(name.to_owned());
    }
    bases
}

fn image(what: &str, path: &Path, sig_shape: [usize; 2]) -> Result<NativeArray> {
    let image = mrc::read_image(path)?;
    if image.shape() == sig_shape && image.dtype() != DType::C64 {
        return Ok(image);
    }
    Err(Error::bad_file(format!(
        "the {what} has shape {:?} and dtype {}, but frames have shape {sig_shape:?} and are real",
        image.shape(),
        image.dtype()
    ))
    .with_path(path)
    .with_format("seq"))
}

impl Sidecars {
    /// All that is to be applied to frames of `sig_shape`, which may be another shape for the
    /// same pixels where none of them is bad; `None` if there is nothing.
    ///
    /// # Errors
    /// `InvalidArgument` if an image has values that cannot be used.
    pub(super) fn corrections(
        self,
        sig_shape: &[usize],
        warnings: &mut Vec<String>,
    ) -> Result<Option<Corrections>> {
        let plane = |array: Option<NativeArray>| -> Result<Option<NativeArray>> {
            let values: Option<TypedVec> = array.map(NativeArray::into_values);
            values.map(|values| NativeArray::try_new(sig_shape, values)).transpose()
        };
        let (dark, gain) = (plane(self.dark)?, plane(self.gain)?);
        if dark.is_none() && gain.is_none() && self.excluded.is_empty() {
            return Ok(None);
        }
        let lonely = Corrections::try_new(sig_shape, None, None, self.excluded.clone(), false);
        if let Err(error) = lonely {
            warnings.push(format!("{}; they are left as they are", error.message()));
        }
        Corrections::try_new(sig_shape, dark, gain, self.excluded, true).map(Some)
    }

    /// How many pixels of a frame are bad.
    pub(super) fn n_bad_pixels(&self) -> usize {
        self.excluded.len()
    }

    /// All but the bad pixels.
    pub(super) fn without_bad_pixels(self) -> Self {
        Sidecars { excluded: Vec::new(), ..self }
    }

    /// These facts, which win, and the others.
    pub(super) fn metadata_over(&self, mut facts: MetadataList) -> MetadataList {
        for fact in self.metadata.iter() {
            facts.insert(fact.clone());
        }
        facts
    }
}

fn metadata(root: &Element) -> MetadataList {
    let mut facts = MetadataList::new();
    let value = |name: &str| root.path(&["FileInfo", name])?.attribute("Value");
    let float = |name: &str| value(name)?.parse::<f64>().ok();
    facts.text(Quantity::Detector, value("CameraType"));
    facts.positive(Quantity::AccelerationVoltage, float("HT"));
    facts.positive(Quantity::CountsPerElectron, float("ADUPerElectron"));
    facts.positive(Quantity::BinningX, float("ImageBinning"));
    facts.positive(Quantity::BinningY, float("ImageBinning"));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_their_extension_once_or_twice() {
        assert_eq!(bases(Path::new("/a/scan.seq")), ["scan"]);
        assert_eq!(bases(Path::new("scan.seq.SEQ")), ["scan.seq", "scan"]);
        assert_eq!(bases(Path::new("scan.bin")), ["scan.bin"]);
        assert_eq!(bases(Path::new(".seq")), [".seq"]);
    }
}
