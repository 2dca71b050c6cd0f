//! BLO: blockfiles of NanoMEGAS' ASTAR and TopSpin.
//!
//! Little endian; some programs offer to write big endian, which shows in the number at byte 6.
//!
//! | offset | type | content |
//! |---|---|---|
//! | 0 | 6 bytes | `IMGBLO` |
//! | 6 | u16 | `0x0102`, or `0x0103` since 2023 |
//! | 8 | u32 | where the preview begins: NX × NY bytes |
//! | 12 | u32 | where the frames begin |
//! | 16 | u32 | flags, of unknown meaning |
//! | 20 | u16 | width and height of a frame in pixels |
//! | 22 | u16 | rotation of patterns |
//! | 24, 26 | u16 | NX, NY: columns and rows of the scan |
//! | 28 | u16 | rotation of the scan, 1/100 deg |
//! | 30, 38 | f64 | scan step in x and y, nm |
//! | 46 | u32 | beam energy, V |
//! | 50 | u16 | 100 × pixels per cm |
//! | 52 | u32 | camera length, 1/10 mm |
//! | 56 | f64 | date, in days since 1899-12-30 |
//! | 64, 128 | f64 | centring (8 numbers), distortion (14 numbers) |
//! | 240 | text | a note; in `0x0103` with lines such as `Blo Bit Depth: 16 bits` |
//!
//! Each frame is `AA 55`, its number as u32, and its pixels, row by row: u8, or u16 where the note
//! says 16 bits. Known writers: ASTAR, TopSpin, HyperSpy. Limits: files that say another depth
//! than 8 or 16 bits are refused.

mod header;

use crate::access::Storage;
use crate::format::{Format, Prefix, Verdict};
use crate::headers::fields::{Fields, read_header};
use crate::headers::geometry::{FrameCount, sig_shape};
use crate::options::OpenOptions;
use crate::options::{self, OptionKind, OptionSpec};
use crate::readers::linear::{FrameMark, LinearFile, LinearSource, LinearSpec, Pixels};
use framefold_core::{AxisKind, Dataset, Error, Result, StoredDType};
use header::{FRAME_HEADER, Header, MAGIC};
use std::path::Path;
use std::sync::Arc;

const ENDIANESS: OptionSpec = OptionSpec::new(
    // The spelling is that of the reference.
    "endianess",
    OptionKind::ByteOrder,
    "The byte order, which the header shows by itself: a file of the other one is refused",
)
.with_flag("byte-order");

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "blo",
    title: "a NanoMEGAS blockfile (BLO)",
    extensions: &["blo"],
    options: &[
        options::NAV_SHAPE,
        options::SIG_SHAPE,
        options::SYNC_OFFSET,
        options::IO_BACKEND,
        ENDIANESS,
    ],
    detect: &detect,
    open: &open,
};

fn detect(prefix: &Prefix<'_>) -> Verdict {
    if prefix.bytes.starts_with(MAGIC) {
        Verdict::Match("it starts with 'IMGBLO'".into())
    } else {
        Verdict::No(format!("it starts with {}, not with 'IMGBLO'", prefix.describe()))
    }
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let storage = Storage::open(path, options.backend)?;
    let header = Header::read(&storage, options.byte_order(&ENDIANESS))?;
    let stored = StoredDType { dtype: header.dtype, order: header.order };
    let count = FrameCount::try_new(
        storage.len(),
        header.first_frame,
        header.record_bytes(),
        header.record_bytes(),
    )?;
    let (n_frames, warning) = count.promised(header.n_positions(), header.record_bytes());
    check_frame(&storage, &header, 0)?;
    check_frame(&storage, &header, n_frames - 1)?;
    let sig_shape = sig_shape(&header.sig_shape(), options)?;
    let mut metadata = header.metadata();
    metadata.lay_out(AxisKind::Sig, &header.sig_shape(), &sig_shape);
    let source = LinearSource::try_new(LinearSpec {
        format: FORMAT.name,
        files: vec![LinearFile {
            storage,
            frames: 0..n_frames,
            first_pixel: header.first_frame.saturating_add(FRAME_HEADER),
            stride: header.record_bytes(),
        }],
        pixels: Pixels::Plain { stored },
        sig_shape,
        nav_shape: header.nav_shape(),
        metadata,
        details: header.details(),
        warnings: warning.into_iter().collect(),
    })?
    // In a big-endian file, the two bytes may be exchanged.
    .with_mark(FrameMark {
        before: FRAME_HEADER,
        any_of: &[&[0xAA, 0x55], &[0x55, 0xAA]],
        expected: "aa 55",
    });
    let dataset =
        Dataset::try_new(Arc::new(source), options.nav_shape.as_deref(), options.sync_offset)?;
    Ok(dataset.with_lost_frames(header.n_positions().saturating_sub(n_frames)))
}

/// Looks for the mark in front of a frame, which is elsewhere if a size in the header is wrong.
fn check_frame(storage: &Storage, header: &Header, frame: u64) -> Result<()> {
    let start = frame
        .checked_mul(header.record_bytes())
        .and_then(|offset| offset.checked_add(header.first_frame))
        .ok_or_else(|| Error::bad_file("a frame lies beyond what a file can hold"))?;
    let bytes = read_header(storage, "the header of a frame", start, 6)?;
    match Fields::little(&bytes).u16(0) {
        // In a big-endian file, the two bytes may be exchanged.
        Some(0x55AA | 0xAA55) => Ok(()),
        found => Err(Error::bad_file(format!(
            "found the bytes {:02x?} in front of a frame, expected aa 55",
            found.unwrap_or(0).to_le_bytes()
        ))
        .with_offset(start)
        .with_frame(frame)
        .with_hint("the file is damaged, or its header is wrong about sizes or bits")),
    }
}
