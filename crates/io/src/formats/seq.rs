//! SEQ: Norpix StreamPix, as Direct Electron's older cameras write it.
//!
//! | offset | type | content |
//! |---|---|---|
//! | 0 | u32 | `0xFEED` |
//! | 4 | 24 bytes | `Norpix seq`, UTF-16 |
//! | 28 | i32 | version |
//! | 36 | 512 bytes | description, UTF-16 |
//! | 548, 552 | u32 | width, height |
//! | 556, 560 | u32 | bits of a pixel as stored, and those of them that are used |
//! | 564 | u32 | bytes of the pixels of a frame, or 0 |
//! | 568 | u32 | 100: one value for each pixel |
//! | 572 | u32 | number of frames |
//! | 580 | u32 | bytes from one frame to the next |
//! | 584 | f64 | frames per second |
//! | 620 | u32 | 0: not compressed |
//!
//! Little endian. Frames begin at byte 8192 from version 5 on, at 1024 before, whatever the header
//! says about its own length; each is its pixels, row by row, and something that begins with a
//! time stamp, see `time_stamps`. How many there are says the header where it can be right, see
//! `frames`. Files beside it bring corrections, see `sidecars`. Cameras that are read out in two
//! halves write a file for each, see `halves`. Known writers: StreamPix 6 and 8.
//! Limits: no compressed and no coloured frames.

mod bad_pixels;
mod frames;
mod halves;
mod sidecars;
mod time_stamps;

use crate::access::Storage;
use crate::format::{Format, Prefix, Verdict};
use crate::headers::fields::{Fields, read_header};
use crate::headers::geometry::{FrameCount, sig_shape, square_or_line};
use crate::options;
use crate::options::OpenOptions;
use crate::readers::linear::{LinearFile, LinearSource, LinearSpec, Pixels};
use framefold_core::{
    ByteOrder, DType, Dataset, Error, MetadataList, Quantity, Result, StoredDType,
};
use halves::Halves;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use time_stamps::TimeStamp;

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "seq",
    title: "Norpix SEQ",
    extensions: &["seq"],
    options: &[
        options::NAV_SHAPE,
        options::SIG_SHAPE,
        options::SYNC_OFFSET,
        options::IO_BACKEND,
        options::ENABLE_CORRECTIONS,
    ],
    detect: &detect,
    open: &open,
};

const MAGIC: &[u8] = &[0xED, 0xFE, 0, 0];

/// What is read of the header.
const LEN: usize = 632;

fn detect(prefix: &Prefix<'_>) -> Verdict {
    if !prefix.bytes.starts_with(MAGIC) {
        if is_xml(prefix.path) && matches!(Halves::find(prefix.path), Ok(Some(_))) {
            return Verdict::Match("it is the XML file of a movie in two halves".into());
        }
        return Verdict::No(format!("it starts with {}, not with ed fe 00 00", prefix.describe()));
    }
    match Fields::little(prefix.bytes).text_utf16(4, 24).as_str() {
        name if name.starts_with("Norpix") => {
            Verdict::Match("it starts with ed fe 00 00 and 'Norpix'".into())
        }
        name => Verdict::No(format!("it has '{}' at byte 4, not 'Norpix'", name.escape_debug())),
    }
}

fn is_xml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("xml"))
}

/// One file that is open.
#[derive(Debug)]
struct Movie {
    path: PathBuf,
    storage: Storage,
    header: Header,
    /// Images, which are frames except where halves of several are in one image.
    n_frames: u64,
    /// Images that a cut took away, if that is known.
    n_lost: Option<u64>,
    warnings: Vec<String>,
}

impl Movie {
    fn open(path: &Path, options: &OpenOptions) -> Result<Self> {
        let storage = Storage::open(path, options.backend)?;
        let header = Header::read(&storage).map_err(|error| storage.locate(error))?;
        let count = FrameCount::try_new(
            storage.len(),
            header.first_pixel,
            header.stride,
            header.frame_bytes(),
        )?;
        let mut warnings = Vec::new();
        let (n_frames, n_lost) = header
            .n_frames(&storage, count, &mut warnings)
            .map_err(|error| storage.locate(error))?;
        Ok(Movie { path: path.into(), storage, header, n_frames, n_lost, warnings })
    }
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let mut alone = None;
    if let Some(halves) = Halves::find(path)? {
        match halves.open(options)? {
            Ok(dataset) => return Ok(dataset),
            Err(reason) if is_xml(path) => {
                return Err(Error::bad_file(reason).with_hint("open one of the files in halves"));
            }
            Err(reason) => alone = Some(format!("these are halves of frames: {reason}")),
        }
    }
    let Movie { storage, header, n_frames, n_lost, mut warnings, .. } = Movie::open(path, options)?;
    warnings.splice(0..0, alone);
    let sig_shape = sig_shape(&header.sig_shape(), options)?;
    let mut metadata = header.metadata.clone();
    let mut details = header.details.clone();
    header.add_times(&storage, n_frames, &mut metadata, &mut details)?;
    // Unless it is laid out as a scan.
    metadata.text(Quantity::ScanAxes, "time");
    let mut corrections = None;
    if options.switch(&options::ENABLE_CORRECTIONS) != Some(false) {
        let found = sidecars::find(path, header.sig_shape()).map_err(|error| {
            error.with_hint("repair the file, or open the data with enable_corrections=False")
        })?;
        metadata = found.metadata_over(metadata);
        details
            .extend(found.paths.iter().map(|path| ("sidecar".into(), path.display().to_string())));
        warnings.extend(found.warnings.iter().cloned());
        // Neighbours repair them, and pixels have others in another shape.
        let found = match found.n_bad_pixels() {
            n if n > 0 && sig_shape != header.sig_shape() => {
                warnings.push(format!(
                    "the list of bad pixels is for frames of {:?} and not used for sig_shape \
                     {sig_shape:?}: {n} pixels stay as they are",
                    header.sig_shape()
                ));
                found.without_bad_pixels()
            }
            _ => found,
        };
        corrections = found.corrections(&sig_shape, &mut warnings)?;
    }
    let source = LinearSource::try_new(LinearSpec {
        format: FORMAT.name,
        files: vec![LinearFile {
            storage,
            frames: 0..n_frames,
            first_pixel: header.first_pixel,
            stride: header.stride,
        }],
        pixels: Pixels::Plain { stored: header.stored },
        sig_shape,
        nav_shape: square_or_line(n_frames),
        metadata,
        details,
        warnings,
    })?;
    Dataset::try_new(Arc::new(source), options.nav_shape.as_deref(), options.sync_offset)?
        .with_lost_frames(n_lost)
        .with_corrections(corrections.map(Arc::new))
}

/// What the header says, as far as it is of use.
#[derive(Clone, Debug)]
struct Header {
    stored: StoredDType,
    width: u32,
    height: u32,
    first_pixel: u64,
    stride: u64,
    /// How many frames there are, as the header has it.
    counted: u32,
    version: i32,
    metadata: MetadataList,
    details: Vec<(String, String)>,
}

impl Header {
    fn read(storage: &Storage) -> Result<Self> {
        let bytes = read_header(storage, "the header", 0, LEN)?;
        let fields = Fields::little(&bytes);
        let bad = |at: u64, message: String| {
            Error::bad_file(message)
                .with_offset(at)
                .with_hint("the header is damaged, or this is not a SEQ file")
        };
        let number =
            |at: usize| fields.u32(at).ok_or_else(|| Error::bug("a field beyond the header"));
        if !bytes.starts_with(MAGIC) {
            return Err(bad(0, format!("found {:#x}, expected 0xfeed", number(0)?)));
        }
        for (at, what, expected) in [(568, "image format", 100), (620, "compression", 0)] {
            let found = number(at)?;
            if found != expected {
                let hint = "export the frames uncompressed, with one value for each pixel";
                let message = format!("the {what} is {found}; only {expected} is read");
                return Err(Error::unsupported(message).with_hint(hint));
            }
        }
        let size = |name: &str, at: usize| match number(at)? {
            size @ 1..=0xFFFF => Ok(size),
            found => Err(bad(
                u64::try_from(at).unwrap_or(0),
                format!("the {name} is {found}, expected a number from 1 to 65535"),
            )),
        };
        let (width, height) = (size("width", 548)?, size("height", 552)?);
        let depth = number(556)?;
        let dtype = match depth {
            8 => DType::U8,
            16 => DType::U16,
            32 => DType::U32,
            _ => {
                return Err(bad(556, format!("pixels have {depth} bits, expected 8, 16 or 32")));
            }
        };
        let version = fields.i32(28).unwrap_or(0);
        let header = Header {
            stored: StoredDType { dtype, order: ByteOrder::Little },
            width,
            height,
            first_pixel: if version >= 5 { 8192 } else { 1024 },
            stride: u64::from(number(580)?),
            counted: number(572)?,
            version,
            metadata: metadata(&fields),
            details: vec![("file version".to_owned(), version.to_string())],
        };
        let image_bytes = u64::from(number(564)?);
        if image_bytes != 0 && image_bytes != header.frame_bytes() {
            return Err(bad(
                564,
                format!(
                    "the header says that a frame has {image_bytes} bytes of pixels, but \
                     {height} x {width} pixels of {depth} bits take {}",
                    header.frame_bytes()
                ),
            ));
        }
        if header.stride < header.frame_bytes() {
            return Err(bad(
                580,
                format!(
                    "frames are {} bytes apart, which is less than their {} bytes of pixels",
                    header.stride,
                    header.frame_bytes()
                ),
            ));
        }
        Ok(header)
    }

    fn frame_bytes(&self) -> u64 {
        let size = u64::try_from(self.stored.dtype.size()).unwrap_or(1);
        u64::from(self.width) * u64::from(self.height) * size
    }

    /// Where a frame begins.
    fn offset(&self, frame: u64) -> u64 {
        frame.saturating_mul(self.stride).saturating_add(self.first_pixel)
    }

    /// When a frame was recorded, where the file says so.
    fn time(&self, storage: &Storage, frame: u64) -> Result<Option<TimeStamp>> {
        let offset = self.offset(frame).saturating_add(self.frame_bytes());
        TimeStamp::read(storage, offset, self.stride - self.frame_bytes(), self.version)
    }

    /// Adds when the first and the last of so many frames were recorded.
    fn add_times(
        &self,
        storage: &Storage,
        n_frames: u64,
        metadata: &mut MetadataList,
        details: &mut Vec<(String, String)>,
    ) -> Result<()> {
        let Some(first) = self.time(storage, 0)? else { return Ok(()) };
        metadata.text(Quantity::RecordedAt, first.to_string().as_str());
        let last = self.time(storage, n_frames.saturating_sub(1))?;
        let Some(last) = last.filter(|_| n_frames > 1) else {
            return Ok(());
        };
        details.push(("last frame recorded at".to_owned(), last.to_string()));
        let mean = last.since(first) / (n_frames - 1) as f64;
        details.push(("mean time from frame to frame".to_owned(), format!("{mean:.6} s")));
        Ok(())
    }

    fn sig_shape(&self) -> [usize; 2] {
        [self.height, self.width].map(|axis| usize::try_from(axis).unwrap_or(usize::MAX))
    }
}

fn metadata(fields: &Fields<'_>) -> MetadataList {
    let mut facts = MetadataList::new();
    let rate = fields.f64(584).filter(|&rate| rate > 0.0);
    facts.positive(Quantity::FrameTime, rate.map(|rate| 1.0 / rate));
    facts.positive(Quantity::BitDepth, fields.u32(560).map(f64::from));
    facts.text(Quantity::Note, fields.text_utf16(36, 512).as_str());
    facts
}
