//! TVIPS, the format of the cameras of TVIPS with EMTools and EM-Menu.
//!
//! A series is spread over files `name_000.tvips`, `name_001.tvips` and so on. The first one begins
//! with a header; all of them are records of a frame each.
//!
//! | offset | type | header of the series |
//! |---|---|---|
//! | 0 | i4 | its size: 256 |
//! | 4 | i4 | version: 1 or 2 |
//! | 8, 12 | i4 | width and height in pixels |
//! | 16 | i4 | bits per pixel: 8 or 16 |
//! | 20, 24 | i4 | offset on the detector, x and y |
//! | 28, 32 | i4 | binning, x and y |
//! | 36 | i4 | size of a pixel in nm |
//! | 40 | i4 | acceleration voltage in kV |
//! | 44 | i4 | magnification or camera length |
//! | 48 | i4 | bytes before the pixels of each frame (version 2; in version 1 they are 12) |
//!
//! | offset | type | before the pixels of a frame |
//! |---|---|---|
//! | 0 | u4 | number of the frame, through all files |
//! | 4, 8 | u4 | time: seconds since 1970, and milliseconds |
//! | 28, 32, 36 | f4 | position of the stage in nm (version 2, as all that follows) |
//! | 40, 44 | f4 | tilt of the stage in degrees |
//! | 68, 72 | f4 | position in the scan, x and y; only in headers of 76 bytes and more |
//!
//! Endianness: little, pixels too, which are unsigned. The scan shape and the first frame of the
//! scan follow from the positions, see `scan`.
//!
//! Known writers: EMTools and EM-Menu 4 and 5; rosettasciio. Limits: none of the other fields of
//! frames are used. No stream of an instrument was at hand: proved on files of other writers.

mod header;
mod scan;
mod set;

use crate::format::{Format, Prefix, Verdict};
use crate::options;
use crate::options::OpenOptions;
use crate::readers::linear::{LinearFile, LinearSource, LinearSpec, Pixels};
use framefold_core::{AxisKind, Dataset, Error, Result, checked_product};
use header::Header;
use std::path::Path;
use std::sync::Arc;

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "tvips",
    title: "a TVIPS series",
    extensions: &["tvips"],
    options: &[
        options::NAV_SHAPE,
        options::SIG_SHAPE,
        options::SYNC_OFFSET,
        options::IO_BACKEND,
        options::DISABLE_GLOB,
    ],
    detect: &detect,
    open: &open,
};

fn detect(prefix: &Prefix<'_>) -> Verdict {
    match Header::parse(prefix.bytes) {
        Ok(header) => Verdict::Match(format!(
            "it starts with the header of a series of version {} with frames of {} x {} pixels of \
             {} bits",
            header.version, header.height, header.width, header.bits
        )),
        // Only the first file of a series has a signature.
        Err(_)
            if prefix.extension() == "tvips" && set::number(prefix.path).is_some_and(|n| n > 0) =>
        {
            Verdict::Match("it is named as a file that continues a series".into())
        }
        Err(problem) => Verdict::No(problem),
    }
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let set = set::find(path, options)?;
    let header = &set.header;
    let own = [header.height, header.width];
    let sig_shape = match &options.sig_shape {
        None => own.to_vec(),
        Some(wanted) if checked_product(wanted) == checked_product(&own) => wanted.clone(),
        Some(wanted) => {
            return Err(Error::invalid(format!(
                "sig_shape {wanted:?} does not have as many pixels as the frames in the file, \
                 which are {own:?}"
            ))
            .with_path(path)
            .with_hint("leave sig_shape out: the file knows it"));
        }
    };
    let scan = scan::find(&set)?;
    let mut details = header.details();
    details.push(("files".to_owned(), set.files.len().to_string()));
    details.push(("scan shape from".to_owned(), scan.origin.to_owned()));
    let files = set.files.iter().map(|file| LinearFile {
        storage: file.storage.clone(),
        frames: file.frames.clone(),
        first_pixel: file.first_record + header.frame_header,
        stride: header.record_len(),
    });
    let mut metadata = header.metadata(set.frame_header(0, 0..48)?.as_deref());
    metadata.lay_out(AxisKind::Sig, &own, &sig_shape);
    let source = LinearSource::try_new(LinearSpec {
        format: FORMAT.name,
        files: files.collect(),
        pixels: Pixels::Plain { stored: header.stored() },
        sig_shape,
        nav_shape: scan.shape,
        metadata,
        details,
        warnings: set.warnings,
    })?;
    // What the caller says counts, be it 0.
    let found = if options.fixed_sync || options.sync_offset != 0 {
        options.sync_offset
    } else {
        scan.sync_offset
    };
    Dataset::try_new(Arc::new(source), options.nav_shape.as_deref(), found)
}
