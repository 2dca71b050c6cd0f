//! The header of an MRC file.

use super::{agard, fei};
use crate::access::Storage;
use crate::headers::fields::{Fields, read_header};
use framefold_core::{
    AxisKind, ByteOrder, Calibration, DType, Error, MetadataList, Quantity, Result, StoredDType,
};
use std::fmt;

const LEN: usize = 1024;

/// The number that says that IMOD wrote the file.
const IMOD_STAMP: i32 = 1_146_047_817;

/// The largest number of pixels along an axis that is believed.
const MAX_AXIS: i32 = 1 << 20;

/// What the header says, as far as it is of use.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    pub(super) stored: StoredDType,
    /// The number of images that the header promises, at least 1.
    pub(super) n_images: u64,
    columns: u32,
    rows: u32,
    mode: i32,
    extended_bytes: u64,
    extended_type: String,
    /// Whether the extended header has records of older microscopes of FEI.
    is_agard: bool,
    /// Width and height of a pixel in nm, 0 if not known.
    step_nm: (f64, f64),
    /// From one section of a volume to the next, in nm; 0 for other images.
    depth_nm: f64,
    label: String,
}

impl Header {
    /// Reads the header from the start of a file.
    ///
    /// # Errors
    /// `BadFile` if the file is too short, or a number in it cannot be; `Unsupported` for modes
    /// that are not read; `Io`.
    pub(super) fn read(storage: &Storage) -> Result<Self> {
        Self::parse(&read_header(storage, "the header", 0, LEN)?)
    }

    /// Takes what is of use out of the first 1024 bytes.
    ///
    /// # Errors
    /// As [`Header::read`].
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        let big_endian = is_big_endian(bytes);
        let fields = Fields::new(bytes.get(..LEN).unwrap_or(bytes), big_endian);
        let number = |name: &str, at: usize| {
            fields.i32(at).ok_or_else(|| {
                Error::bad_file(format!("the file ends before the {name} in its header"))
                    .with_offset(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
                    .with_hint("the file is truncated; copy it again")
            })
        };
        let axis = |name: &str, at: usize| {
            let found = number(name, at)?;
            u32::try_from(found).ok().filter(|_| (1..=MAX_AXIS).contains(&found)).ok_or_else(|| {
                Error::bad_file(format!(
                    "the {name} is {found}, expected a number from 1 to {MAX_AXIS}"
                ))
                .with_offset(u64::try_from(at).unwrap_or(0))
                .with_hint("the header is damaged, or this is not an MRC file")
            })
        };
        let columns = axis("number of columns", 0)?;
        let rows = axis("number of rows", 4)?;
        let n_images = number("number of images", 8)?;
        let n_images = u64::try_from(n_images).ok().filter(|&n| n > 0).ok_or_else(|| {
            Error::bad_file(format!("the number of images is {n_images}, expected 1 or more"))
                .with_offset(8)
                .with_hint("the header is damaged, or nothing was recorded")
        })?;
        let mode = number("mode", 12)?;
        let imod = fields.i32(152) == Some(IMOD_STAMP);
        let unsigned = imod && fields.i32(156).is_some_and(|flags| flags & 1 == 0);
        let order = if big_endian { ByteOrder::Big } else { ByteOrder::Little };
        let stored = StoredDType { dtype: dtype_of(mode, unsigned)?, order };
        let extended = number("size of the extended header", 92)?;
        let extended_bytes = u64::try_from(extended).map_err(|_| {
            Error::bad_file(format!("the extended header has {extended} bytes, expected 0 or more"))
                .with_offset(92)
                .with_hint("the header is damaged")
        })?;
        let step_nm = |samples: usize, size: usize| {
            let samples = fields.i32(samples).filter(|&n| n > 0).map_or(0.0, f64::from);
            // Some programs leave what is no number of this world where nothing is known.
            let size = fields.f32(size).filter(|size| size.is_normal()).map_or(0.0, f64::from);
            if samples > 0.0 && size > 0.0 { size / samples / 10.0 } else { 0.0 }
        };
        let space_group = fields.i32(88).unwrap_or(0);
        let is_volume = n_images > 1
            && (1..=230).contains(&space_group)
            && fields.i32(36).is_some_and(|samples| u64::try_from(samples) == Ok(n_images));
        let has_label = fields.i32(220).is_some_and(|n| n > 0);
        Ok(Header {
            stored,
            n_images,
            columns,
            rows,
            mode,
            extended_bytes,
            extended_type: fields.text(104, 4),
            is_agard: agard::is_named(&fields),
            step_nm: (step_nm(28, 40), step_nm(32, 44)),
            // Of images that are no volume, most programs leave the size of a pixel there.
            depth_nm: if is_volume { step_nm(36, 48) } else { 0.0 },
            label: if has_label { fields.text(224, 80) } else { String::new() },
        })
    }

    /// Lets the caller say whether pixels of 8 bits have a sign, which files do not tell reliably.
    ///
    /// # Errors
    /// `InvalidArgument` for dtypes and byte orders that the file's pixels cannot have.
    pub(super) fn use_dtype(&mut self, wanted: Option<StoredDType>) -> Result<()> {
        let Some(wanted) = wanted else { return Ok(()) };
        // That of this machine is also that of dtypes without one.
        if !wanted.is_native() && wanted.order != self.stored.order {
            return Err(Error::invalid(format!(
                "the byte order of dtype {} is not that of the file",
                wanted.dtype
            ))
            .with_hint("leave dtype out"));
        }
        let of_bytes = matches!(wanted.dtype, DType::I8 | DType::U8);
        if wanted.dtype == self.stored.dtype || (self.mode == 0 && of_bytes) {
            self.stored.dtype = wanted.dtype;
            return Ok(());
        }
        let expected = if self.mode == 0 { "int8 or uint8" } else { self.stored.dtype.name() };
        Err(Error::invalid(format!(
            "dtype {} does not fit pixels of mode {}, which are {expected}",
            wanted.dtype, self.mode
        ))
        .with_hint("leave dtype out"))
    }

    /// Where the first image begins.
    pub(super) fn first_pixel(&self) -> u64 {
        1024u64.saturating_add(self.extended_bytes)
    }

    /// Bytes of one image.
    pub(super) fn frame_bytes(&self) -> u64 {
        let size = u64::try_from(self.stored.dtype.size()).unwrap_or(1);
        // Each axis has at most 20 bits.
        u64::from(self.columns) * u64::from(self.rows) * size
    }

    pub(super) fn sig_shape(&self) -> [usize; 2] {
        [self.rows, self.columns].map(|axis| usize::try_from(axis).unwrap_or(usize::MAX))
    }

    /// What this header says, and the extended one in `storage`.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn metadata(&self, storage: &Storage) -> Result<MetadataList> {
        let mut facts = MetadataList::new();
        let there = storage.len().saturating_sub(1024).min(self.extended_bytes);
        if usize::try_from(there).is_ok_and(|there| there >= fei::LEN) {
            let mut bytes = vec![0; fei::LEN];
            storage.read_at(1024, &mut bytes)?;
            if let Some(record) = fei::Record::parse(&self.extended_type, &bytes) {
                record.add_to(&mut facts);
            }
        }
        facts.positive(Quantity::ImageStepX, self.step_nm.0);
        facts.positive(Quantity::ImageStepY, self.step_nm.1);
        if self.is_agard && there == agard::LEN_ALL {
            let mut bytes = [0; agard::LEN];
            storage.read_at(1024, &mut bytes)?;
            agard::add(&Fields::new(&bytes, self.stored.order == ByteOrder::Big), &mut facts);
        }
        if self.depth_nm > 0.0 {
            facts.text(Quantity::ScanAxes, "depth");
            let (step, unit) = (self.depth_nm, "nm".to_owned());
            facts.calibrate(AxisKind::Nav, 0, Calibration { step, offset: 0.0, unit });
        }
        facts.text(Quantity::Title, self.label.as_str());
        Ok(facts)
    }

    pub(super) fn details(&self) -> Vec<(String, String)> {
        let mut details = vec![("MRC mode".to_owned(), self.mode.to_string())];
        if self.extended_bytes > 0 {
            let kind =
                if self.extended_type.is_empty() { "of unknown type" } else { &self.extended_type };
            let text = format!("{kind}, {} bytes", self.extended_bytes);
            details.push(("extended header".to_owned(), text));
        }
        details
    }
}

/// "3 images of 4 x 8 pixels in mode 2".
impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (rows, columns) = (self.rows, self.columns);
        write!(f, "{} images of {rows} x {columns} pixels in mode {}", self.n_images, self.mode)
    }
}

/// The byte order that the stamp says; that in which the mode is a known one if there is no stamp.
fn is_big_endian(bytes: &[u8]) -> bool {
    match bytes.get(212..214) {
        Some([0x44, 0x44 | 0x41]) => false,
        Some([0x11, 0x11]) => true,
        _ => {
            let known = |big: bool| {
                let mode = Fields::new(bytes, big).i32(12);
                mode.is_some_and(|mode| (0..=255).contains(&mode))
            };
            known(true) && !known(false)
        }
    }
}

fn dtype_of(mode: i32, unsigned: bool) -> Result<DType> {
    let refused = |what: &str| {
        Err(Error::unsupported(format!("images of mode {mode} ({what}) are not read"))
            .with_offset(12)
            .with_hint("convert the file, with IMOD's newstack for instance"))
    };
    match mode {
        0 if unsigned => Ok(DType::U8),
        0 => Ok(DType::I8),
        1 => Ok(DType::I16),
        2 => Ok(DType::F32),
        4 => Ok(DType::C64),
        6 => Ok(DType::U16),
        12 => Ok(DType::F16),
        3 => refused("complex numbers of 16-bit integers"),
        16 => refused("three bytes of colours for a pixel"),
        101 => refused("4 bits for a pixel"),
        // Thousands are the number of a compressor.
        1000..10_000 => refused("compressed, by MRCZ"),
        _ => Err(Error::bad_file(format!(
            "the mode is {mode}, expected one of 0, 1, 2, 4, 6 and 12"
        ))
        .with_offset(12)
        .with_hint("the header is damaged, or this is not an MRC file")),
    }
}
