//! The header of a BLO file.

use crate::access::Storage;
use crate::headers::fields::{Fields, iso_date, read_header};
use framefold_core::{
    AxisKind, ByteOrder, Calibration, DType, Error, MetadataList, Quantity, Result,
};

/// What a file starts with.
pub(super) const MAGIC: &[u8] = b"IMGBLO";

/// Bytes in front of the pixels of each frame.
pub(super) const FRAME_HEADER: u64 = 6;

const LEN: usize = 240;

/// The longest note that is read; it ends where the preview begins, at 4096 usually.
const MAX_NOTE: u64 = 1 << 20;

/// What the header says, as far as it is of use.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    pub(super) order: ByteOrder,
    pub(super) dtype: DType,
    /// Where the header of the first frame begins.
    pub(super) first_frame: u64,
    version: u16,
    edge: u16,
    columns: u16,
    rows: u16,
    note: String,
    metadata: MetadataList,
}

impl Header {
    /// Reads the header in the given byte order, or in the one that its version shows.
    ///
    /// # Errors
    /// `BadFile` if it is too short or has a number that cannot be; `Unsupported` if pixels have
    /// neither 8 nor 16 bits; `Io`.
    pub(super) fn read(storage: &Storage, order: Option<ByteOrder>) -> Result<Self> {
        let start = read_header(storage, "the magic", 0, MAGIC.len())?;
        if start != MAGIC {
            return Err(Error::bad_file(format!(
                "found '{}', expected 'IMGBLO'",
                start.escape_ascii()
            ))
            .with_offset(0)
            .with_hint("this is not a BLO file"));
        }
        let bytes = read_header(storage, "the header", 0, LEN)?;
        let big_endian = match order {
            Some(order) => order == ByteOrder::Big,
            None => matches!(Fields::new(&bytes, true).u16(6), Some(0x0102 | 0x0103)),
        };
        let fields = Fields::new(&bytes, big_endian);
        let complete = || Error::bug("a field beyond the header");
        let version = fields.u16(6).ok_or_else(complete)?;
        if !matches!(version, 0x0102 | 0x0103) {
            return Err(Error::bad_file(format!(
                "found version {version:#06x}, expected 0x0102 or 0x0103"
            ))
            .with_offset(6)
            .with_hint("if the byte order was given (endianess), leave it out"));
        }
        let preview = fields.u32(8).ok_or_else(complete)?;
        let first_frame = u64::from(fields.u32(12).ok_or_else(complete)?);
        let size = |name: &str, at: usize| match fields.u16(at) {
            None | Some(0) => Err(Error::bad_file(format!("the {name} is 0, expected 1 or more"))
                .with_offset(u64::try_from(at).unwrap_or(0))
                .with_hint("the header is damaged, or the recording was never started")),
            Some(size) => Ok(size),
        };
        let edge = size("size of a frame", 20)?;
        let (columns, rows) = (size("number of columns", 24)?, size("number of rows", 26)?);
        let header_end = u64::try_from(LEN).unwrap_or(0);
        if first_frame < header_end {
            return Err(Error::bad_file(format!(
                "frames begin at byte {first_frame}, expected {LEN} or more: after the header"
            ))
            .with_offset(12)
            .with_hint("the header is damaged"));
        }
        if first_frame > storage.len() {
            return Err(Error::bad_file(format!(
                "frames begin at byte {first_frame}, but the file has {} bytes",
                storage.len()
            ))
            .with_offset(12)
            .with_hint("the file is truncated or still being written; copy it again"));
        }
        let note_end = u64::from(preview).min(first_frame);
        let note_len = note_end.saturating_sub(header_end).min(MAX_NOTE);
        let note_len = usize::try_from(note_len).unwrap_or(0);
        let note = read_header(storage, "the note", header_end, note_len)?;
        let note = Fields::little(&note).text(0, note_len);
        let dtype = if version == 0x0103 { dtype_of(&note)? } else { DType::U8 };
        Ok(Header {
            order: if big_endian { ByteOrder::Big } else { ByteOrder::Little },
            dtype,
            first_frame,
            version,
            edge,
            columns,
            rows,
            metadata: metadata(&fields, &note),
            note,
        })
    }

    /// Bytes from one frame to the next.
    pub(super) fn record_bytes(&self) -> u64 {
        let size = u64::try_from(self.dtype.size()).unwrap_or(1);
        FRAME_HEADER + u64::from(self.edge) * u64::from(self.edge) * size
    }

    /// The number of frames that the scan has.
    pub(super) fn n_positions(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.columns)
    }

    pub(super) fn nav_shape(&self) -> Vec<usize> {
        vec![usize::from(self.rows), usize::from(self.columns)]
    }

    pub(super) fn sig_shape(&self) -> [usize; 2] {
        [usize::from(self.edge); 2]
    }

    pub(super) fn metadata(&self) -> MetadataList {
        self.metadata.clone()
    }

    pub(super) fn details(&self) -> Vec<(String, String)> {
        vec![("file version".to_owned(), format!("{:#06x}", self.version))]
    }
}

/// The dtype that the note of a new file tells; 8 bits if it says nothing.
fn dtype_of(note: &str) -> Result<DType> {
    let depth = note.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.trim().eq_ignore_ascii_case("blo bit depth").then(|| value.trim())
    });
    let number = depth.map(|value| value.split_whitespace().next().unwrap_or(""));
    match number {
        None | Some("8") => Ok(DType::U8),
        Some("16") => Ok(DType::U16),
        Some(_) => Err(Error::unsupported(format!(
            "the note says 'Blo Bit Depth: {}'; only 8 and 16 bits are known",
            depth.unwrap_or("")
        ))
        .with_hint("please report the file, so that its format can be learned")),
    }
}

fn metadata(fields: &Fields<'_>, note: &str) -> MetadataList {
    let mut facts = MetadataList::new();
    facts.positive(Quantity::ScanStepX, fields.f64(30));
    facts.positive(Quantity::ScanStepY, fields.f64(38));
    facts.number(Quantity::ScanRotation, fields.u16(28).map(|angle| f64::from(angle) / 100.0));
    facts.positive(
        Quantity::AccelerationVoltage,
        fields.u32(46).map(|volts| f64::from(volts) / 1000.0),
    );
    let per_cm = fields.u16(50).filter(|&n| n > 0).map(|n| f64::from(n) / 100.0);
    facts.positive(Quantity::PixelSizeX, per_cm.map(|n| 1e4 / n));
    facts.positive(Quantity::PixelSizeY, per_cm.map(|n| 1e4 / n));
    for from_last in 0..2 {
        let calibration =
            |n: f64| Calibration { step: 1.0 / n, offset: 0.0, unit: "cm".to_owned() };
        if let Some(n) = per_cm {
            facts.calibrate(AxisKind::Sig, from_last, calibration(n));
        }
    }
    facts.positive(Quantity::CameraLength, fields.u32(52).map(|length| f64::from(length) / 10.0));
    facts.text(Quantity::RecordedAt, fields.f64(56).and_then(iso_date).as_deref());
    facts.text(Quantity::Note, note);
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_tells_the_bits() {
        let note = |value: &str| dtype_of(&format!("Line: 1\r\nBlo Bit Depth: {value}\r\n"));
        assert_eq!(note("16 bits").unwrap(), DType::U16);
        assert_eq!(note("8 bits").unwrap(), DType::U8);
        assert_eq!(dtype_of("nothing").unwrap(), DType::U8);
        assert!(note("12 bits").unwrap_err().message().contains("12 bits"));
    }
}
