//! The header of a series, and those of frames.

use crate::readers::linear::frame_bytes;
use framefold_core::{ByteOrder, DType, MetadataList, Quantity, Result, StoredDType};

/// Bytes of the header of a series.
pub(super) const LEN: u64 = 256;
/// Bytes before a frame's pixels that are believed.
const MAX_FRAME_HEADER: i32 = 1 << 16;

/// What the first file says about the series.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    pub(super) version: i32,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) bits: i32,
    /// Bytes before the pixels of a frame.
    pub(super) frame_header: u64,
    frame_bytes: u64,
    binning: [i32; 2],
    pixel_nm: i32,
    voltage_kv: i32,
    magnification: i32,
}

impl Header {
    /// # Errors
    /// What is not as it should be, in words that read on after "not TVIPS: ".
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        let field = |at: usize| {
            let bytes = bytes.get(at..)?.first_chunk()?;
            Some(i32::from_le_bytes(*bytes))
        };
        let needed = |at| field(at).ok_or_else(|| format!("the file has {} bytes", bytes.len()));
        let size = needed(0)?;
        if i64::from(size) != LEN.cast_signed() {
            return Err(format!("it starts with the number {size}, not with {LEN}"));
        }
        let version = needed(4)?;
        if !matches!(version, 1 | 2) {
            return Err(format!("the version at byte 4 is {version}, not 1 or 2"));
        }
        let bits = needed(16)?;
        if !matches!(bits, 8 | 16) {
            return Err(format!(
                "it has {bits} bits per pixel by the number at byte 16, not 8 or 16"
            ));
        }
        let frame_header = if version == 1 { 12 } else { needed(48)? };
        if !(12..=MAX_FRAME_HEADER).contains(&frame_header) {
            return Err(format!(
                "each frame has a header of {frame_header} bytes by the number at byte 48, not 12 \
                 to {MAX_FRAME_HEADER}"
            ));
        }
        let length = |at: usize| {
            let length = needed(at)?;
            let valid = usize::try_from(length).ok().filter(|&length| length > 0);
            valid.ok_or_else(|| format!("the length of an axis at byte {at} is {length}"))
        };
        let (width, height) = (length(8)?, length(12)?);
        let frame_bytes = frame_bytes(&[height, width], stored(bits))
            .map_err(|error| error.message().to_owned())?;
        Ok(Header {
            version,
            width,
            height,
            bits,
            frame_header: frame_header.unsigned_abs().into(),
            frame_bytes,
            binning: [needed(28)?, needed(32)?],
            pixel_nm: needed(36)?,
            voltage_kv: needed(40)?,
            magnification: needed(44)?,
        })
    }

    pub(super) fn stored(&self) -> StoredDType {
        stored(self.bits)
    }

    /// Bytes from one frame to the next. Both parts are far from overflowing together.
    pub(super) fn record_len(&self) -> u64 {
        self.frame_bytes.saturating_add(self.frame_header)
    }

    /// What is worth showing to a person beyond the meta data.
    pub(super) fn details(&self) -> Vec<(String, String)> {
        vec![
            ("TVIPS version".to_owned(), self.version.to_string()),
            ("magnification or camera length".to_owned(), self.magnification.to_string()),
        ]
    }

    /// What this header tells, and the first bytes of that of the first frame.
    pub(super) fn metadata(&self, of_first: Option<&[u8]>) -> MetadataList {
        let mut facts = MetadataList::new();
        facts.positive(Quantity::AccelerationVoltage, f64::from(self.voltage_kv));
        let [x, y] = self.binning;
        facts.positive(Quantity::BinningX, f64::from(x));
        facts.positive(Quantity::BinningY, f64::from(y));
        facts.positive(Quantity::PixelSizeX, f64::from(self.pixel_nm) / 1000.0);
        facts.positive(Quantity::PixelSizeY, f64::from(self.pixel_nm) / 1000.0);
        facts.number(Quantity::BitDepth, f64::from(self.bits));
        facts.text(Quantity::Detector, "TVIPS");
        // Unless it is laid out as a scan.
        facts.text(Quantity::ScanAxes, "time");
        if let Some(bytes) = of_first {
            let number = |at: usize| {
                let number = f32::from_le_bytes(*bytes.get(at..)?.first_chunk()?);
                Some(f64::from(number))
            };
            facts.number(Quantity::StageX, number(28).map(|nm| nm / 1000.0));
            facts.number(Quantity::StageY, number(32).map(|nm| nm / 1000.0));
            facts.number(Quantity::StageZ, number(36).map(|nm| nm / 1000.0));
            facts.number(Quantity::StageAlpha, number(40));
            facts.number(Quantity::StageBeta, number(44));
        }
        facts
    }
}

fn stored(bits: i32) -> StoredDType {
    let dtype = if bits == 8 { DType::U8 } else { DType::U16 };
    StoredDType { dtype, order: ByteOrder::Little }
}
