//! K2IS, the raw data of Gatan's K2 IS camera.
//!
//! A set is one `.gtg` file and eight `.bin` files, `name_1.bin` to `name_8.bin`: one for each
//! sector of the detector, which is 256 columns wide. All of them have a part of every frame.
//! A `.bin` file is a sequence of blocks of 22360 bytes; it can begin with part of one.
//!
//! | offset | type | content of a block |
//! |---|---|---|
//! | 0 | u4 | `FF FF 00 55` |
//! | 9 | u1 | bit 0: the shutter is active |
//! | 16 | u4 | number of the block, the same in all sectors |
//! | 20, 22 | u2 | width and height of a sector: 256 and 1860 |
//! | 24 | u4 | number of the frame; it can jump and start anew |
//! | 28 – 34 | u2 | first x, first y, last x, last y of the block in the sector |
//! | 36 | u4 | bytes of the block: 22360 |
//! | 40 | | 930 rows of 16 pixels of 12 bits |
//!
//! Endianness: big in headers. Pixels: three bytes `b0 b1 b2` hold two, `b0 | (b1 & 15) << 8` and
//! `b1 >> 4 | b2 << 4`. The 32 blocks of a sector and frame come in a fixed order: the upper half
//! of the sector first, each half from right to left. Frames are 1860 × 2048 pixels of u2; the
//! rows from 1792 on and the outermost columns are not exposed.
//!
//! The `.gtg` file has the tags of a DM file (`dm::tags`) without an image. `SI Dimensions.Size Y`
//! and `Size X` are the scan shape; where they are not there, the set is a series in time.
//!
//! How sectors are aligned is said in `sync`, and how lost blocks are found in `sector`: frames of
//! which a block is not in the files are missing. Frames before the shutter became active are skipped.
//! The shutter's flag comes one frame late, so that position p of a scan is frame p + S − 1 for a
//! `sync_offset` S of 1 or more, which is by default the number of frames before the first one with
//! the flag. Series begin at the first frame with the flag, and S counts frames from the first one.
//!
//! Known writer: DigitalMicrograph with the K2 IS. Limits: no K3; blocks whose header is damaged but
//! that are in their place give an error when they are read. Of real data, the pixels of one block were
//! at hand: everything else is proved on sets that the tests write.

mod block;
mod reader;
mod sector;
mod set;
mod source;
mod sync;
mod unpack;

use crate::format::{Format, Prefix, Verdict};
use crate::formats::dm;
use crate::formats::dm::tags;
use crate::options;
use crate::options::OpenOptions;
use framefold_core::{Dataset, Error, Result, checked_product};
use set::FileSet;
use source::K2Source;
use std::path::Path;
use std::sync::Arc;

/// Rows and columns of a frame.
const FRAME: [usize; 2] = [1860, 2048];

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "k2is",
    title: "raw data of a K2 IS (gtg, bin)",
    extensions: &["gtg", "bin"],
    options: &[options::NAV_SHAPE, options::SIG_SHAPE, options::SYNC_OFFSET, options::IO_BACKEND],
    detect: &detect,
    open: &open,
};

fn detect(prefix: &Prefix<'_>) -> Verdict {
    if prefix.extension() == "gtg" && tags::signature(prefix.bytes).is_some() {
        return Verdict::Match("it has tags like a DM file, and the ending .gtg".into());
    }
    if block::Header::parse(prefix.bytes).is_some() {
        return Verdict::Match(
            "it starts with FF FF 00 55 and the header of a block of 256 x 1860 pixels".into(),
        );
    }
    // A file can begin within a block; its name and its neighbours tell then.
    if prefix.extension() == "bin" && set::has_neighbours(prefix.path) {
        return Verdict::Match("it is one of 8 numbered .bin files beside a .gtg file".into());
    }
    Verdict::No(format!(
        "it starts with {}, not with a block (FF FF 00 55), and is no .gtg file",
        prefix.describe()
    ))
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let set = set::find(path, options)?;
    let tags = dm::tags::Tags::read(&crate::access::Storage::open(
        &set.gtg,
        crate::options::Backend::Buffered,
    )?)
    .map_err(|error| error.with_path(&set.gtg).with_format(FORMAT.name))?;
    let mut sectors = sync::align(&set)?;
    let n_frames = sectors.n_frames;
    let flagged = sectors.first_with_shutter()?;
    let scan = scan_shape(&tags);
    let mut warnings = sectors.warnings.clone();
    let skipped = flagged.unwrap_or_else(|| {
        warnings
            .push("the shutter is active in no frame: frames are counted from the first".into());
        0
    });
    let asked = (options.fixed_sync || options.sync_offset != 0).then_some(options.sync_offset);
    let wanted = asked.unwrap_or_else(|| i64::try_from(skipped).unwrap_or(0));
    let nav_shape = match &scan {
        Some(shape) => shape.clone(),
        None => vec![usize::try_from(n_frames - skipped).unwrap_or(usize::MAX)],
    };
    // See above: the flag comes late, but there is nothing before the first frame.
    let sync_offset = if scan.is_some() && wanted > 0 { wanted - 1 } else { wanted };
    let sig_shape = match &options.sig_shape {
        None => FRAME.to_vec(),
        Some(wanted) if checked_product(wanted) == checked_product(&FRAME) => wanted.clone(),
        Some(wanted) => {
            return Err(Error::invalid(format!(
                "sig_shape {wanted:?} does not have as many pixels as the frames, which are \
                 {FRAME:?}"
            ))
            .with_path(path)
            .with_hint("leave sig_shape out"));
        }
    };
    let details = details(&set, scan.is_some(), skipped, n_frames);
    let source = K2Source::new(&set, sectors, sig_shape, nav_shape, details, warnings);
    Dataset::try_new(Arc::new(source), options.nav_shape.as_deref(), sync_offset)
}

/// The scan shape, if the set is a scan.
fn scan_shape(tags: &tags::Tags) -> Option<Vec<usize>> {
    let length = |path: &[&str]| {
        let length = tags.root().integer(path)?;
        usize::try_from(length).ok().filter(|&length| length > 0)
    };
    Some(vec![length(&["SI Dimensions", "Size Y"])?, length(&["SI Dimensions", "Size X"])?])
}

fn details(set: &FileSet, is_scan: bool, skipped: u64, n_frames: u64) -> Vec<(String, String)> {
    let kind = if is_scan { "scan" } else { "series in time" };
    [
        ("gtg file", set.gtg.display().to_string()),
        ("kind", kind.to_owned()),
        ("complete frames", n_frames.to_string()),
        ("frames before the shutter's flag", skipped.to_string()),
    ]
    .map(|(name, text)| (name.to_owned(), text))
    .to_vec()
}
