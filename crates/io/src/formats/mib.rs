//! Merlin MIB, the format of the Medipix3 detectors of Quantum Detectors.
//!
//! A file is a bare sequence of frames, each an ASCII header followed by its pixels; there is no
//! header for the file. All frames of an acquisition have the same size.
//!
//! | bytes | content |
//! |---|---|
//! | 0 – 3 | `MQ1,` |
//! | 4 – L-1 | comma-separated fields, padded with NUL or spaces (table below) |
//! | L – L+P-1 | pixels |
//!
//! | field | example | meaning |
//! |---|---|---|
//! | 1 | `000001` | sequence number, from 1, counts on through all files of an acquisition |
//! | 2 | `00384` | L: 384 for one chip, 768 for four |
//! | 3 | `01` | number of chips |
//! | 4, 5 | `0256` | width and height in pixels, as stored |
//! | 6 | `U08` | pixel format: `U08`, `U16`, `U32`, or `R64` (raw) |
//! | 7 | `   2x2` | layout of the sensor, with `G` where pixels are inserted between the chips |
//! | 8 | `0F` | the chips that were read: a bit mask, hexadecimal |
//! | 9, 10 | | time stamp; shutter time in seconds |
//! | 11 – 13 | `0,0,0` | counter, colour mode, gain mode |
//! | … | | 8 thresholds in keV, then `3RX` and the DACs of each chip; all may be absent |
//! | last | `MQ1A,…,…,12` | extended time stamp, shutter time in ns, **bits per counter** |
//!
//! Byte order: big endian. `U08` holds 1-bit and 6-bit counters, `U16` 12-bit ones, `U32` 24-bit
//! ones, in rows from top to bottom as written. `R64` is what the chips sent:
//!
//! | bits | pixels in 8 bytes | bytes of a frame | dtype |
//! |---|---|---|---|
//! | 1 | 64 | width × height / 8 | uint8 |
//! | 6 | 8 | width × height | uint8 |
//! | 12 | 4 | width × height × 2 | uint16 |
//! | 24 | two images of 12 bits, the upper half first; the header's width counts both | width × height × 2 | uint32 |
//!
//! The first pixel is in the least significant place of a word of 8 bytes. A stored row of a
//! quad detector is one row of each chip: bottom right, bottom left, top right, top left; the
//! bottom chips are turned by 180 degrees. With a region of interest, fewer rows are stored of
//! each chip, by the same rule: 1024 × 32 makes 512 × 64.
//!
//! A `.hdr` file of text can lie next to the data; it names the scan shape, see `sidecar`. Long
//! acquisitions are spread over several files, see `set`.
//!
//! Known writer: the Merlin software of Quantum Detectors, 0.67 and later. Limits: no raw frames
//! of chips in one row, of only some chips, or of four chips with 24 bits; no `U01` and `U64`;
//! frames lost while recording are noticed but not put in their place.

mod decode;
mod file;
mod geometry;
mod header;
mod layout;
mod set;
mod sidecar;

use crate::access::Storage;
use crate::format::{Format, Prefix, Verdict};
use crate::options::OpenOptions;
use crate::options::{self, OptionKind, OptionSpec};
use crate::readers::linear::{FrameMark, LinearFile, LinearSource, LinearSpec, Pixels};
use decode::RawDecoder;
use framefold_core::{Dataset, Error, MetadataList, Quantity, Result, checked_product};
use geometry::Geometry;
use layout::{PixelKind, SensorLayout};
use set::FileSet;
use std::path::Path;
use std::sync::Arc;

const QUAD_GAP: OptionSpec = OptionSpec::new(
    "quad_gap",
    OptionKind::Choice(&["omit", "insert"]),
    "What to do about the gap between the chips of a quad detector where the file has no pixels \
     for it: let the chips touch, or insert empty rows and columns",
)
.with_default("omit");

fn inserts_gap(options: &OpenOptions) -> bool {
    options.text(&QUAD_GAP) == Some("insert")
}

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "mib",
    title: "Merlin MIB",
    extensions: &["mib", "hdr"],
    options: &[
        options::NAV_SHAPE,
        options::SIG_SHAPE,
        options::SYNC_OFFSET,
        options::IO_BACKEND,
        options::DISABLE_GLOB,
        QUAD_GAP,
    ],
    detect: &detect,
    open: &open,
};

fn detect(prefix: &Prefix<'_>) -> Verdict {
    if sidecar::is_sidecar(prefix.bytes) {
        return Verdict::Match("it starts with 'HDR', as the .hdr file of an acquisition".into());
    }
    if !prefix.bytes.starts_with(b"MQ1,") {
        return Verdict::No(format!(
            "it starts with {}, neither with 'MQ1,' nor with 'HDR'",
            prefix.describe()
        ));
    }
    Verdict::Match(match header::parse(prefix.bytes) {
        Ok(header) => format!(
            "it starts with the header 'MQ1' of a frame of {} x {} pixels in format {}",
            header.width, header.height, header.kind
        ),
        // No other format begins like this: opening it says what is wrong.
        Err(problem) => format!("it starts with 'MQ1,', but {problem}"),
    })
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    open_located(path, options).map_err(|error| error.with_path(path).with_format(FORMAT.name))
}

fn open_located(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let set = set::find(path, options)?;
    let Some(geometry) = set.files.first().map(|file| file.geometry) else {
        return Err(Error::bug("a set without files"));
    };
    let sig_shape = sig_shape(&geometry, options)?;
    let pixels = match geometry.raw {
        None => Pixels::Plain { stored: geometry.dtype },
        Some(layout) => Pixels::Coded {
            decoder: Arc::new(RawDecoder::try_new(layout, &sig_shape)?),
            stored: geometry.dtype,
        },
    };
    let n_frames = set.n_frames();
    let suggestion = match &set.sidecar {
        Some((_, sidecar)) => sidecar.nav_shape(n_frames),
        None => sidecar::guess_nav_shape(n_frames),
    };
    let details = details(&set, suggestion.origin);
    let mut warnings = set.warnings.clone();
    if options.nav_shape.is_none() {
        warnings.extend(suggestion.warnings);
    }
    warnings.extend(useless_gap(&set, options));
    let source = LinearSource::try_new(LinearSpec {
        format: FORMAT.name,
        files: storages(&set, &geometry, options)?,
        pixels,
        sig_shape,
        nav_shape: suggestion.shape,
        metadata: metadata(&set),
        details,
        warnings,
    })?
    .with_mark(FrameMark {
        before: geometry.header_bytes,
        any_of: &[b"MQ1"],
        expected: "the 'MQ1' of its header",
    });
    Dataset::try_new(Arc::new(source), options.nav_shape.as_deref(), options.sync_offset)
}

/// Opens every file of the set for good.
///
/// Sets are found by reading headers; should a file have been exchanged since, it is too short
/// for its frames, which is an error, or is read as if it had not been.
fn storages(set: &FileSet, geometry: &Geometry, options: &OpenOptions) -> Result<Vec<LinearFile>> {
    let open_one = |file| -> Result<LinearFile> {
        let file: &file::MibFile = file;
        Ok(LinearFile {
            storage: Storage::open(&file.path, options.backend)?,
            frames: set.frames_of(file),
            first_pixel: geometry.header_bytes,
            stride: geometry.stride_bytes(),
        })
    };
    set.files.iter().map(open_one).collect()
}

/// The shape of a frame: as the file has it, or as the caller wants the same cells.
fn sig_shape(geometry: &Geometry, options: &OpenOptions) -> Result<Vec<usize>> {
    let Some(wanted) = &options.sig_shape else {
        return Ok(geometry.sig_shape.to_vec());
    };
    if checked_product(wanted) == checked_product(&geometry.sig_shape) {
        return Ok(wanted.clone());
    }
    Err(Error::invalid(format!(
        "sig_shape {wanted:?} does not have as many pixels as the frames in the file, which are \
         {} x {}",
        geometry.sig_shape[0], geometry.sig_shape[1]
    ))
    .with_hint("leave sig_shape out: the file knows it"))
}

/// A word about a gap that was asked for where there is none to insert.
fn useless_gap(set: &FileSet, options: &OpenOptions) -> Option<String> {
    let header = &set.files.first()?.header;
    let fits = header.kind == PixelKind::Raw
        && header.n_chips == 4
        && header.layout == SensorLayout::Quad { gap: true };
    (inserts_gap(options) && !fits).then(|| {
        format!(
            "quad_gap changes nothing here: it is for raw frames (R64) of layout 2x2G, and these \
             are {} of layout {}",
            header.kind, header.layout
        )
    })
}

/// What the header of the first frame tells.
fn metadata(set: &FileSet) -> MetadataList {
    let mut facts = MetadataList::new();
    if let Some(file) = set.files.first() {
        let header = &file.header;
        facts.positive(Quantity::ExposureTime, header.exposure_s);
        facts.number(Quantity::BitDepth, header.depth.map(|depth| depth.bits() as f64));
        facts.number(Quantity::Threshold, header.thresholds_kev.first().copied());
        facts.text(Quantity::Detector, "Merlin");
        // `2021-04-15 14:44:05.18`, or as older software had it: `15/04/2021 14:44:03`.
        let iso = header.timestamp.as_bytes().get(4) == Some(&b'-');
        let time =
            if iso { header.timestamp.replacen(' ', "T", 1) } else { header.timestamp.clone() };
        facts.text(Quantity::RecordedAt, time.as_str());
    }
    facts
}

/// What else is worth showing to a person.
fn details(set: &FileSet, nav_origin: &str) -> Vec<(String, String)> {
    let mut details = Vec::new();
    let mut add = |key: &str, value: String| details.push((key.to_owned(), value));
    if let Some(file) = set.files.first() {
        let header = &file.header;
        add("pixel format", header.kind.to_string());
        add("detector chips", header.n_chips.to_string());
        add("sensor layout", header.layout.to_string());
    }
    add("files", set.files.len().to_string());
    add("scan shape from", nav_origin.to_owned());
    match &set.sidecar {
        Some((path, sidecar)) => {
            add("sidecar", path.display().to_string());
            details.extend(sidecar.details.iter().cloned());
        }
        None => add("sidecar", "none".to_owned()),
    }
    details
}
