//! SER and EMI, the formats of FEI's and Thermo Fisher's TIA (ES Vision).
//!
//! A `.ser` file holds elements, which are images or spectra, each with a header of its own.
//!
//! | offset | type | content |
//! |---|---|---|
//! | 0 | u2 | `49 49` |
//! | 2 | u2 | `97 01` |
//! | 4 | u2 | version: 0x0210, or 0x0220 with offsets of 8 bytes |
//! | 6 | i4 | elements: 0x4120 spectra, 0x4122 images |
//! | 10 | i4 | tags of elements: 0x4152 time, 0x4142 time and position; not used |
//! | 14 | i4 | elements that were planned |
//! | 18 | i4 | elements that are there, fewer if the scan was stopped |
//! | 22 | i4 or i8 | offset of the array of offsets of elements |
//! | 26 or 30 | i4 | axes of the scan; then for each, fastest first: i4 length, f8 f8 i4 calibration, i4 length of a text and its description, i4 length of a text and its unit |
//!
//! | spectrum | image | type | content of an element |
//! |---|---|---|---|
//! | 0 | 0 | f8 f8 i4 | calibration, once for each axis |
//! | 20 | 40 | i2 | 1 u1, 2 u2, 3 u4, 4 i1, 5 i2, 6 i4, 7 f4, 8 f8, 9 c8, 10 c16 |
//! | 22 | 42 | i4 | length; of images: width, height |
//! | 26 | 50 | | the values; **the rows of images from the lowest to the highest** |
//!
//! The array of offsets has as many places as elements were planned, then as many for their tags.
//!
//! Endianness: little. Images are delivered with their upper row first. Elements usually lie at a
//! regular distance, but need not; all of them are of the same size and type, which is checked
//! whenever one is read. The `.emi` file of the same name (`scan.emi` for `scan_1.ser`) holds meta
//! data as XML between `<ObjectInfo>` tags, and nothing else is read from it.
//!
//! Known writers: TIA 1.9 to 4, ES Vision. Limits: no elements of different sizes.

mod decode;
mod emi;
mod header;

use crate::access::Storage;
use crate::format::{Format, Prefix, Verdict};
use crate::headers::calibration::add_steps;
use crate::options::OpenOptions;
use crate::options::{self, OptionKind, OptionSpec};
use crate::readers::linear::{LinearFile, LinearSource, LinearSpec, Pixels};
use decode::ElementDecoder;
use framefold_core::{AxisKind, DataSource, Dataset, Error, MetadataList, Result, checked_product};
use header::{Element, Header};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EMIPATH: OptionSpec = OptionSpec::new(
    "emipath",
    OptionKind::Path,
    "The file of meta data that belongs to a series, where it is not named like it",
);

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "ser",
    title: "a TIA series (SER)",
    extensions: &["ser", "emi"],
    options: &[
        options::NAV_SHAPE,
        options::SIG_SHAPE,
        options::SYNC_OFFSET,
        options::IO_BACKEND,
        EMIPATH,
    ],
    detect: &detect,
    open: &open,
};

fn detect(prefix: &Prefix<'_>) -> Verdict {
    if emi::is_emi(prefix.bytes) && prefix.extension() == "emi" {
        return Verdict::Match("it starts as the .emi file of a series".into());
    }
    match header::signature(prefix.bytes) {
        Some(version) => Verdict::Match(format!(
            "it starts with the signature 49 49 97 01 and the version 0x{version:04x} of a series"
        )),
        None => Verdict::No(format!(
            "it starts with {}, not with 49 49 97 01 and the version 10 02 or 20 02",
            prefix.describe()
        )),
    }
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let mut warnings = Vec::new();
    let path = data_file(path, &mut warnings)?;
    let storage = Storage::open(&path, options.backend)?;
    let (source, n_positions) = build(&storage, &path, options, warnings)
        .map_err(|error| storage.locate(error.with_format(FORMAT.name)))?;
    let source = LinearSource::try_new(source)?;
    let lost = n_positions.saturating_sub(source.info().n_frames);
    let dataset =
        Dataset::try_new(Arc::new(source), options.nav_shape.as_deref(), options.sync_offset)?;
    Ok(dataset.with_lost_frames(lost))
}

/// The `.ser` file that is meant by the path of one, or of an `.emi` file.
fn data_file(path: &Path, warnings: &mut Vec<String>) -> Result<PathBuf> {
    let is_emi = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("emi"));
    if !is_emi {
        return Ok(path.to_path_buf());
    }
    // Fails with the right words if there is no such file.
    Storage::open(path, crate::options::Backend::Buffered)?;
    let found = emi::series_of(path)?;
    let Some(first) = found.first() else {
        return Err(Error::bad_file("there is no .ser file that belongs to this .emi file")
            .with_path(path)
            .with_hint("the data are in files named like it, with '_1.ser' at the end"));
    };
    if found.len() > 1 {
        let names: Vec<String> = found.iter().map(|path| emi::file_name(path)).collect();
        warnings.push(format!(
            "several series belong to this .emi file ({}): this is the first one; open the others \
             by their own names",
            names.join(", ")
        ));
    }
    Ok(first.clone())
}

/// The frames that are there, and how many positions the scan has.
fn build(
    storage: &Storage,
    path: &Path,
    options: &OpenOptions,
    mut warnings: Vec<String>,
) -> Result<(LinearSpec, u64)> {
    let header = Header::read(storage)?;
    let first = header.first_offset(storage)?;
    let element = Element::read(storage, &header, first)?;
    let offsets = header.offsets(storage, &element, &mut warnings)?;
    let own = &element.sig_shape;
    let sig_shape = match &options.sig_shape {
        None => own.clone(),
        Some(wanted) if checked_product(wanted) == checked_product(own) => wanted.clone(),
        Some(wanted) => {
            return Err(Error::invalid(format!(
                "sig_shape {wanted:?} does not have as many pixels as the elements in the file, \
                 which are {own:?}"
            ))
            .with_hint("leave sig_shape out: the file knows it"));
        }
    };
    let mut details = header.details();
    let mut metadata = MetadataList::new();
    match emi::find(path, options.path(&EMIPATH)) {
        Ok(Some((emi_path, found))) => {
            details.push(("EMI file".into(), emi_path.display().to_string()));
            metadata = emi::facts(&found);
            details.extend(found);
        }
        Ok(None) => details.push(("EMI file".into(), "none".into())),
        Err(error) if options.path(&EMIPATH).is_some() => return Err(error),
        Err(error) => warnings.push(format!("the .emi file is not used: {error}")),
    }
    details.extend(add_steps(&mut metadata, &header.steps(), &element.steps()));
    metadata.lay_out(AxisKind::Sig, own, &sig_shape);
    let decoder = ElementDecoder::try_new(&element, &sig_shape)?;
    let nav_shape = header.nav_shape();
    let n_positions = checked_product(&nav_shape).unwrap_or(u64::MAX);
    let spec = LinearSpec {
        format: FORMAT.name,
        files: runs(storage, &offsets),
        pixels: Pixels::Coded { decoder: Arc::new(decoder), stored: element.stored },
        sig_shape,
        nav_shape,
        metadata,
        details,
        warnings,
    };
    Ok((spec, n_positions))
}

/// Elements as runs of a regular distance; usually a single one.
fn runs(storage: &Storage, offsets: &[u64]) -> Vec<LinearFile> {
    let mut runs: Vec<LinearFile> = Vec::new();
    for (frame, &offset) in (0u64..).zip(offsets) {
        if let Some(run) = runs.last_mut() {
            let n = run.frames.end - run.frames.start;
            let distance = offset.checked_sub(run.first_pixel);
            let fits = match distance {
                Some(distance) if n == 1 => distance >= run.stride,
                Some(distance) => run.stride.checked_mul(n) == Some(distance),
                None => false,
            };
            if let (true, Some(distance)) = (fits, distance) {
                run.stride = if n == 1 { distance } else { run.stride };
                run.frames.end = frame + 1;
                continue;
            }
        }
        runs.push(LinearFile {
            storage: storage.clone(),
            frames: frame..frame + 1,
            first_pixel: offset,
            stride: 0,
        });
    }
    runs
}
