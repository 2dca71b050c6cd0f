//! DM3 and DM4, the formats of Gatan's DigitalMicrograph (GMS).
//!
//! A tree of tags (`tags`), big endian but for the values; the images are arrays in it:
//!
//! | tag below `ImageList.<k>` | content |
//! |---|---|
//! | `ImageData.Data` | the pixels, in the order of bytes that the file's header gives |
//! | `ImageData.DataType` | 1 i2, 2 f4, 3 c8, 6 u1, 7 i4, 9 i1, 10 u2, 11 u4, 12 f8, 13 c16, 14 bool, 8 and 23 colours |
//! | `ImageData.Dimensions` | the lengths of the axes, **fastest first** |
//! | `ImageTags.Meta Data.Format` | `Spectrum image`: each position has a spectrum |
//! | `ImageTags.Meta Data.Data Order Swapped` | whether the pixels of a frame lie together |
//!
//! Endianness: of pixels as the header says, little in all files known. `Thumbnails.<k>.ImageIndex`
//! tells which images only show what is in the file.
//!
//! Newer versions write 4D data as (scan y, scan x, detector y, detector x), and say so by `Data
//! Order Swapped`. Older ones write (detector y, detector x, scan y, scan x), so that all scan
//! positions of a detector pixel lie together and one frame is spread over the whole file; such
//! data are read as they lie, by the reader for arrays of any axis order. Where the tag is not
//! there, 4D data and spectrum images of 3 axes are taken for transposed, all others for not.
//!
//! A list of files with images of one size makes a stack: see `stack`.
//!
//! Known writers: DigitalMicrograph 1 to 3, Nion Swift. Limits: no packed Fourier transforms; the
//! tags have to be complete, so that a file that was cut short is refused.

mod cursor;
mod images;
mod metadata;
mod single;
mod stack;
pub(crate) mod tags;

pub(crate) use single::{COLOURS, Order};

use crate::format::{Format, Prefix, Verdict};
use crate::options::OpenOptions;
use crate::options::{self, OptionKind, OptionSpec};
use framefold_core::{ByteOrder, Dataset, Error, Result};
use std::path::Path;

const SAME_OFFSET: OptionSpec = OptionSpec::new(
    "same_offset",
    OptionKind::Flag,
    "Take the pixels of all files of a stack to begin where those of the first one do, and to be \
     as many, without looking",
);

const FORCE_C_ORDER: OptionSpec = OptionSpec::new(
    "force_c_order",
    OptionKind::Flag,
    "Take axes to be in the order scan, detector, whatever the file says or leaves open",
);

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "dm",
    title: "a DigitalMicrograph file (DM3, DM4)",
    extensions: &["dm3", "dm4"],
    options: &[
        options::NAV_SHAPE,
        options::SIG_SHAPE,
        options::SYNC_OFFSET,
        options::IO_BACKEND,
        options::FILES,
        SAME_OFFSET,
        FORCE_C_ORDER,
        options::DATASET_INDEX,
    ],
    detect: &detect,
    open: &open,
};

fn detect(prefix: &Prefix<'_>) -> Verdict {
    if prefix.extension() == "gtg" {
        return Verdict::No("a .gtg file has tags like a DM file, but no image".into());
    }
    match tags::signature(prefix.bytes) {
        Some((version, order)) => {
            let order = if order == ByteOrder::Little { "little" } else { "big" };
            Verdict::Match(format!(
                "it starts as a DM file of version {version} with values in {order} endian"
            ))
        }
        None => Verdict::No(format!(
            "it starts with {}, not with the version 3 or 4 and a byte order of 0 or 1",
            prefix.describe()
        )),
    }
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    if options.files.is_empty() {
        if options.is_on(&SAME_OFFSET) {
            return Err(Error::invalid("same_offset is for a list of files")
                .with_hint("leave it out, or give the list as 'files'"));
        }
        single::open(path, options)
    } else {
        stack::open(&options.files, options)
    }
}
