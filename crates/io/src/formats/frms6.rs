//! FRMS6: pnCCD cameras of PNDetector.
//!
//! A recording is a text file `base.hdr` and the files `base_000.frms6`, `base_001.frms6`, …; the
//! first holds dark frames, the others the scan. Little endian:
//!
//! | offset | type | content |
//! |---|---|---|
//! | 0 | u16 | 1024: bytes of this header |
//! | 2 | u16 | 64: bytes in front of each frame |
//! | 7 | u8 | 6: version |
//! | 8 | 80 bytes | name of the recording |
//! | 88, 90 | u16 | columns and rows as stored |
//! | 1020 | u32 | number of frames; 0 in older files |
//! | 1024 | | frames: 64 bytes, then columns × rows as u16 |
//!
//! A camera has two chips above each other, which are stored side by side: the left half of the
//! stored rows is the upper chip, the right half the lower one turned by 180 degrees. If the camera
//! added up rows, as the `.hdr` file tells, each is delivered that many times, so that pixels are
//! square; values are not scaled. Dark frames are averaged and subtracted unless the caller says
//! otherwise. Known writer: the software of PNDetector; no real file was at hand. Limits: numbers of
//! files must not have gaps; gain maps of MATLAB are refused.

mod dark;
mod decode;
mod gain;
mod hdr;
mod set;

use crate::format::{Format, Prefix, Verdict};
use crate::headers::geometry::{sig_shape, square_or_line};
use crate::options::{self, OptionKind, OptionSpec};
use crate::options::{Backend, OpenOptions};
use crate::readers::linear::{LinearSource, LinearSpec, Pixels};
use decode::UnfoldDecoder;
use framefold_core::{Corrections, DType, Dataset, Error, Result, StoredDType};
use hdr::Hdr;
use set::FileSet;
use std::path::Path;
use std::sync::Arc;

const GAIN_MAP_PATH: OptionSpec = OptionSpec::new(
    "gain_map_path",
    OptionKind::Path,
    "A text file with a gain map, for formats that do not bring one",
)
.with_flag("gain-map");

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "frms6",
    title: "FRMS6 of a pnCCD camera",
    extensions: &["frms6", "hdr"],
    options: &[
        options::NAV_SHAPE,
        options::SIG_SHAPE,
        options::SYNC_OFFSET,
        options::IO_BACKEND,
        options::ENABLE_CORRECTIONS,
        GAIN_MAP_PATH,
    ],
    detect: &detect,
    open: &open,
};

fn detect(prefix: &Prefix<'_>) -> Verdict {
    if set::is_frms6(prefix.bytes) {
        return Verdict::Match("it starts with 00 04 40 00 and is of version 6".into());
    }
    if hdr::is_hdr(prefix.bytes) {
        return Verdict::Match("it has a section [measurementInfo]".into());
    }
    Verdict::No(format!(
        "it starts with {}, not with 00 04 40 00, and has no section [measurementInfo]",
        prefix.describe()
    ))
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let (hdr_path, base) = set::hdr_of(path)?;
    let hdr = Hdr::read(&hdr_path)?;
    let set = FileSet::find(&hdr_path, &base, options.backend)?;
    let native = decode::native_shape(set.width, set.height, hdr.binning);
    let decoder = UnfoldDecoder::new(set.width, set.height, hdr.binning);
    let sig_shape = sig_shape(&native, options)?;
    let mut warnings = set.warnings.clone();
    let files = set.first_frames(hdr.n_frames, &mut warnings);
    let n_frames = files.last().map_or(0, |file| file.frames.end);
    let mut corrections = None;
    if options.switch(&options::ENABLE_CORRECTIONS) != Some(false) {
        match &set.dark {
            Some(file) => corrections = Some(dark::mean(file, &decoder, &sig_shape)?),
            None => warnings.push(format!(
                "there is no file '{}_000.frms6' with dark frames: none are subtracted",
                hdr_path.file_stem().unwrap_or_default().to_string_lossy()
            )),
        }
    }
    let gain = match options.path(&GAIN_MAP_PATH) {
        Some(path) => Some(gain::read(path, native, &sig_shape)?),
        None => None,
    };
    let corrections = match (corrections, gain) {
        (None, None) => None,
        (dark, gain) => Some(Corrections::try_new(&sig_shape, dark, gain, Vec::new(), true)?),
    };
    if options.nav_shape.is_none() {
        warnings.extend(hdr.doubt(n_frames, options.sync_offset));
    }
    let nav_shape = match hdr.scan {
        Some((rows, columns)) => vec![rows, columns],
        None => square_or_line(n_frames),
    };
    let source = LinearSource::try_new(LinearSpec {
        format: FORMAT.name,
        files,
        pixels: Pixels::Coded {
            decoder: Arc::new(decoder.with_shape(&sig_shape)),
            stored: StoredDType::native(DType::U16),
        },
        sig_shape,
        nav_shape,
        metadata: hdr.metadata(),
        details: hdr.details(&hdr_path),
        warnings,
    })?;
    Dataset::try_new(Arc::new(source), options.nav_shape.as_deref(), options.sync_offset)?
        .with_corrections(corrections.map(Arc::new))
}

/// Reads a whole file that is not needed again.
fn buffered(path: &Path) -> Result<crate::access::Storage> {
    crate::access::Storage::open(path, Backend::Buffered)
}

/// An error about a file that damage explains.
fn damaged(message: String) -> Error {
    Error::bad_file(message).with_hint("the file is damaged; copy the whole recording again")
}
