//! SPE: WinView, WinSpec and LightField, programs for cameras of Princeton Instruments.
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 10 | 4 | f32: exposure time in s |
//! | 20 | 10 | text: date, as `22Jul2015` |
//! | 42 | 2 | u16: columns |
//! | 108 | 2 | i16: dtype of pixels: 0 f4, 1 i4, 2 i2, 3 u2, 5 f8, 6 u1, 8 u4 |
//! | 172 | 7 | text: time, as `094018` |
//! | 656 | 2 | u16: rows |
//! | 678 | 8 | u64: offset of the XML at the end, from version 3 on |
//! | 1446 | 4 | i32: frames |
//! | 1510 | 2 | i16: regions of the sensor, up to version 2; 0 for one |
//! | 1992 | 4 | f32: version |
//! | 2996 | 4 | `67 45 23 01` |
//! | 4100 | | pixels, frame after frame |
//!
//! Endianness: little. From version 3 on, the XML gives the number of frames and the bytes from one
//! to the next, which may hold more than pixels. Known writers: WinView 2.5, LightField. Limits: one
//! region of the sensor.

use crate::access::Storage;
use crate::format::{Format, Prefix, Verdict};
use crate::headers::fields::{Fields, read_header};
use crate::headers::geometry;
use crate::headers::geometry::FrameCount;
use crate::headers::xml::{self, Element};
use crate::options;
use crate::options::OpenOptions;
use crate::readers::linear::frame_bytes;
use crate::readers::linear::{LinearFile, LinearSource, LinearSpec, Pixels};
use framefold_core::{
    ByteOrder, DType, Dataset, Error, MetadataList, Quantity, Result, StoredDType,
};
use std::path::Path;
use std::sync::Arc;

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "spe",
    title: "an SPE file of WinView or LightField",
    extensions: &["spe"],
    options: &[options::NAV_SHAPE, options::SIG_SHAPE, options::SYNC_OFFSET, options::IO_BACKEND],
    detect: &detect,
    open: &open,
};

const HEADER: usize = 4100;
const MAGIC_AT: usize = 2996;
const MAGIC: [u8; 4] = [0x67, 0x45, 0x23, 0x01];

fn detect(prefix: &Prefix<'_>) -> Verdict {
    if prefix.bytes.get(MAGIC_AT..).is_some_and(|bytes| bytes.starts_with(&MAGIC)) {
        Verdict::Match(format!("WinView's mark is at byte {MAGIC_AT}"))
    } else {
        Verdict::No(format!("WinView's mark 67 45 23 01 is not at byte {MAGIC_AT}"))
    }
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let storage = Storage::open(path, options.backend)?;
    let bytes = read_header(&storage, "the header", 0, HEADER)?;
    let fields = Fields::little(&bytes);
    let wrong = |what: String, at: u64| {
        let error = Error::bad_file(what).with_path(path).with_offset(at);
        error.with_hint("the file is damaged, or not an SPE file; copy it again")
    };
    if !bytes.get(MAGIC_AT..).is_some_and(|bytes| bytes.starts_with(&MAGIC)) {
        let at = u64::try_from(MAGIC_AT).unwrap_or(0);
        return Err(wrong(format!("the mark 67 45 23 01 is not at byte {MAGIC_AT}"), at));
    }
    let dtype = match fields.i16(108) {
        Some(0) => DType::F32,
        Some(1) => DType::I32,
        Some(2) => DType::I16,
        Some(3) => DType::U16,
        Some(5) => DType::F64,
        Some(6) => DType::U8,
        Some(8) => DType::U32,
        other => {
            return Err(Error::unsupported(format!(
                "pixels of type {} are not known; 0 to 3, 5, 6 and 8 are",
                other.unwrap_or(0)
            ))
            .with_path(path)
            .with_offset(108));
        }
    };
    let stored = StoredDType { dtype, order: ByteOrder::Little };
    let axis = |at: usize| usize::from(fields.u16(at).unwrap_or(0));
    let mut native = [axis(656), axis(42)];
    let version = fields.f32(1992).unwrap_or(0.0);
    let footer = (version >= 3.0).then(|| Footer::read(&storage, &fields)).transpose()?;
    if footer.is_none() && fields.i16(1510).is_some_and(|n_regions| n_regions > 1) {
        return Err(several_regions(&storage, 1510));
    }
    if let Some(shape) = footer.as_ref().and_then(|footer| footer.shape) {
        native = shape;
    }
    if native.contains(&0) {
        return Err(wrong(format!("frames cannot have the shape {native:?}"), 42));
    }
    let frame = frame_bytes(&native, stored).map_err(|e| wrong(e.message().to_owned(), 42))?;
    let stride = footer.as_ref().map_or(frame, |footer| footer.stride);
    if stride < frame {
        return Err(wrong(format!("frames of {frame} bytes are {stride} bytes apart"), 678));
    }
    let start = u64::try_from(HEADER).unwrap_or(0);
    let end = footer.as_ref().map_or(storage.len(), |footer| footer.at.min(storage.len()));
    let count = FrameCount::try_new(end, start, stride, frame).map_err(|e| e.with_path(path))?;
    let promised = match &footer {
        Some(footer) => Some(footer.n_frames),
        None => fields.i32(1446).and_then(|n| u64::try_from(n).ok()),
    };
    let (n_frames, warning) = match promised.filter(|&n| n > 0) {
        Some(promised) => count.promised(promised, stride),
        None => (count.n_frames, count.warning(stride)),
    };
    let lost = count.lost(promised.unwrap_or(0));
    let positions = n_frames + lost;
    let source = LinearSource::try_new(LinearSpec {
        format: FORMAT.name,
        files: vec![LinearFile { storage, frames: 0..n_frames, first_pixel: start, stride }],
        pixels: Pixels::Plain { stored },
        sig_shape: geometry::sig_shape(&native, options)?,
        nav_shape: vec![usize::try_from(positions).map_err(|_| Error::limit("too many frames"))?],
        metadata: metadata(&fields),
        details: vec![("SPE version".to_owned(), format!("{version}"))],
        warnings: warning.into_iter().collect(),
    })?;
    let dataset =
        Dataset::try_new(Arc::new(source), options.nav_shape.as_deref(), options.sync_offset)?;
    let is_known = count.lost_by_a_cut(promised.unwrap_or(0)).is_some();
    Ok(dataset.with_lost_frames(is_known.then_some(lost)))
}

fn metadata(fields: &Fields<'_>) -> MetadataList {
    let mut list = MetadataList::new();
    list.positive(Quantity::ExposureTime, fields.f32(10).map(f64::from));
    // Unless it is laid out as a scan.
    list.text(Quantity::ScanAxes, "time");
    let (date, time) = (fields.text(20, 10), fields.text(172, 7));
    list.text(Quantity::RecordedAt, format!("{date} {time}").as_str());
    let comments: Vec<String> = (0..5).map(|i| fields.text(200 + 80 * i, 80)).collect();
    let comments: Vec<&str> =
        comments.iter().map(String::as_str).filter(|c| !c.is_empty()).collect();
    // WinView keeps its own settings in the last ones.
    let texts: Vec<&str> =
        comments.into_iter().filter(|c| c.contains(char::is_alphabetic)).collect();
    list.text(Quantity::Note, texts.join("; ").as_str());
    list
}

fn several_regions(storage: &Storage, at: u64) -> Error {
    let error = Error::unsupported("the frames have several regions of the sensor");
    let error = error.with_offset(at).with_hint("export one region into a file of its own");
    storage.locate(error)
}

/// What the XML says about frames.
struct Footer {
    at: u64,
    n_frames: u64,
    stride: u64,
    /// Rows and columns.
    shape: Option<[usize; 2]>,
}

impl Footer {
    /// # Errors
    /// `BadFile` if it is not there, no XML, or says nothing of frames; without it, it is not known how
    /// far apart they are. `Unsupported` for several regions.
    fn read(storage: &Storage, fields: &Fields<'_>) -> Result<Footer> {
        let at = fields.i64(678).map_or(0, i64::cast_unsigned);
        let bad =
            |what: String| {
                storage.locate(Error::bad_file(what).with_offset(678).with_hint(
                    "copy the file again, or save it again with the program that wrote it",
                ))
            };
        let len = storage.len().saturating_sub(at);
        if at == 0 || len == 0 || len > xml::MAX_LEN {
            return Err(bad(format!(
                "files of this version end with a description in XML, here at byte {at}; the file \
                 has {} bytes",
                storage.len()
            )));
        }
        let bytes = read_header(storage, "the XML", at, usize::try_from(len).unwrap_or(0))?;
        let root = Element::parse(&bytes).map_err(|error| storage.locate(error))?;
        let blocks = root.all("DataBlock");
        let of = |kind: &'static str| {
            blocks.iter().filter(move |block| block.attribute("type") == Some(kind))
        };
        let nothing = || bad("the description in XML does not say where frames are".to_owned());
        let frame = of("Frame").next().ok_or_else(nothing)?;
        let number = |element: &Element, name: &str| element.attribute(name)?.parse::<u64>().ok();
        let n_regions = of("Region").map(|region| number(region, "count").unwrap_or(1));
        if n_regions.fold(0, u64::saturating_add) > 1 {
            return Err(several_regions(storage, at));
        }
        let (Some(n_frames), Some(stride)) = (number(frame, "count"), number(frame, "stride"))
        else {
            return Err(nothing());
        };
        let axis =
            |name: &str| number(of("Region").next()?, name).and_then(|n| usize::try_from(n).ok());
        let shape = axis("height").zip(axis("width")).map(|(height, width)| [height, width]);
        Ok(Footer { at, n_frames, stride, shape })
    }
}
