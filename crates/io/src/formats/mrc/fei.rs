//! What the extended headers of Thermo Fisher say about an image.
//!
//! They begin with `FEI1` or `FEI2` as the header's extended type: a record for each image, of 768 or
//! 888 bytes as it says itself, little endian, without gaps:
//!
//! | offset | type | what | marked by |
//! |---|---|---|---|
//! | 0 | i32 | bytes of the record | |
//! | 8, 297, 490 | u32 | bit masks 1, 2 and 3: which fields mean something | |
//! | 12 | f64 | days since 1899-12-30 | 1.0 |
//! | 20, 52, 68 | 16 bytes | microscope, program, its version | 1.1, 1.3, 1.4 |
//! | 84 | f64 | voltage in V | 1.5 |
//! | 100, 108 | f64 | tilts in degrees | 1.7, 1.8 |
//! | 116, 124, 132 | f64 | stage in m | 1.9 to 1.11 |
//! | 220 | f64 | defocus in m, of images without a scan | 1.22 |
//! | 244 | i32 | 1 for images without a scan, 2 for scans | 1.25 |
//! | 289, 301 | f64 | magnification, camera length in m | 1.31, 2.0 |
//! | 329 | f64 | convergence angle in rad | 2.4 |
//! | 419 | f64 | exposure in s, of cameras | 2.16 |
//! | 427, 431 | i32 | binning, of cameras | 2.17, 2.18 |
//! | 435, 519 | 16 bytes | camera, detector of a scan | 2.19, 3.7 |
//!
//! Fields and their order are those of the specification for `FEI1` and `FEI2`, as package mrcfile has
//! them; which bit marks which was checked with a file of Velox.

use crate::headers::fields::{Fields, iso_date};
use framefold_core::{MetadataList, Quantity};

/// The bytes of a record that are looked at.
pub(super) const LEN: usize = 768;

const MASKS: [usize; 3] = [8, 297, 490];

/// What the first record says.
pub(super) struct Record<'a>(Fields<'a>);

impl<'a> Record<'a> {
    /// The record at the start of an extended header, if it is one.
    pub(super) fn parse(kind: &str, bytes: &'a [u8]) -> Option<Self> {
        let fields = Fields::little(bytes.get(..LEN)?);
        let len = fields.i32(0)?;
        (matches!(kind, "FEI1" | "FEI2") && matches!(len, 768 | 888)).then_some(Record(fields))
    }

    /// Adds what it says about the microscope.
    pub(super) fn add_to(&self, facts: &mut MetadataList) {
        facts.text(Quantity::RecordedAt, self.f64(1, 0, 12).and_then(iso_date).as_deref());
        facts.text(Quantity::Microscope, self.text(1, 1, 20).as_deref());
        let version = self.text(1, 4, 68).unwrap_or_default();
        let program = self.text(1, 3, 52).map(|name| format!("{name} {version}"));
        facts.text(Quantity::Software, program.as_deref());
        facts.positive(Quantity::AccelerationVoltage, self.scaled(1, 5, 84, 1e-3));
        facts.number(Quantity::StageAlpha, self.f64(1, 7, 100));
        facts.number(Quantity::StageBeta, self.f64(1, 8, 108));
        facts.number(Quantity::StageX, self.scaled(1, 9, 116, 1e6));
        facts.number(Quantity::StageY, self.scaled(1, 10, 124, 1e6));
        facts.number(Quantity::StageZ, self.scaled(1, 11, 132, 1e6));
        facts.positive(Quantity::Magnification, self.f64(1, 31, 289));
        facts.positive(Quantity::CameraLength, self.scaled(2, 0, 301, 1e3));
        facts.positive(Quantity::ConvergenceAngle, self.scaled(2, 4, 329, 1e3));
        if let Some(detector) = self.text(3, 7, 519) {
            facts.text(Quantity::Detector, detector.as_str());
            return;
        }
        // Scans say in these what a camera was set to that saw nothing of them.
        facts.text(Quantity::Detector, self.text(2, 19, 435).as_deref());
        facts.positive(Quantity::ExposureTime, self.f64(2, 16, 419));
        facts.positive(Quantity::BinningX, self.i32(2, 17, 427).map(f64::from));
        facts.positive(Quantity::BinningY, self.i32(2, 18, 431).map(f64::from));
        if self.i32(1, 25, 244) == Some(1) {
            facts.number(Quantity::Defocus, self.scaled(1, 22, 220, 1e9));
        }
    }

    /// Whether a field means something.
    fn has(&self, mask: usize, bit: u32) -> bool {
        let mask = MASKS.get(mask - 1).and_then(|&at| self.0.u32(at));
        mask.is_some_and(|mask| mask >> bit & 1 == 1)
    }

    fn f64(&self, mask: usize, bit: u32, at: usize) -> Option<f64> {
        self.0.f64(at).filter(|_| self.has(mask, bit))
    }

    fn scaled(&self, mask: usize, bit: u32, at: usize, scale: f64) -> Option<f64> {
        self.f64(mask, bit, at).map(|value| value * scale)
    }

    fn i32(&self, mask: usize, bit: u32, at: usize) -> Option<i32> {
        self.0.i32(at).filter(|_| self.has(mask, bit))
    }

    fn text(&self, mask: usize, bit: u32, at: usize) -> Option<String> {
        Some(self.0.text(at, 16)).filter(|text| !text.is_empty() && self.has(mask, bit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::MetadataValue;

    fn record() -> Vec<u8> {
        let mut bytes = vec![0; LEN];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, &768i32.to_le_bytes());
        put(8, &u32::MAX.to_le_bytes());
        put(84, &200e3f64.to_le_bytes());
        put(220, &2e-6f64.to_le_bytes());
        put(244, &1i32.to_le_bytes());
        put(419, &0.5f64.to_le_bytes());
        put(435, b"Camera");
        put(519, b"HAADF");
        bytes
    }

    fn facts(bytes: &[u8]) -> MetadataList {
        let mut facts = MetadataList::new();
        Record::parse("FEI1", bytes).unwrap().add_to(&mut facts);
        facts
    }

    #[test]
    fn fields_count_where_their_bit_is_set() {
        let mut bytes = record();
        let number = |bytes: &[u8], quantity| match facts(bytes).get(quantity) {
            Some(MetadataValue::Number(value)) => Some(*value),
            _ => None,
        };
        assert_eq!(number(&bytes, Quantity::AccelerationVoltage), Some(200.0));
        assert_eq!(number(&bytes, Quantity::Defocus), Some(2000.0));
        assert_eq!(number(&bytes, Quantity::ExposureTime), None);
        bytes[297..301].fill(0xFF);
        assert_eq!(number(&bytes, Quantity::ExposureTime), Some(0.5));
        let detector = |bytes: &[u8]| match facts(bytes).get(Quantity::Detector) {
            Some(MetadataValue::Text(text)) => text.clone(),
            _ => String::new(),
        };
        assert_eq!(detector(&bytes), "Camera");
        bytes[490] = 1 << 7;
        assert_eq!(detector(&bytes), "HAADF");
        assert_eq!(number(&bytes, Quantity::ExposureTime), None);
        assert_eq!(number(&bytes, Quantity::Defocus), None);
        bytes[8] = !(1 << 5);
        assert_eq!(number(&bytes, Quantity::AccelerationVoltage), None);
    }

    #[test]
    fn anything_else_is_no_record() {
        let bytes = record();
        assert!(Record::parse("SERI", &bytes).is_none());
        assert!(Record::parse("FEI2", &bytes[..LEN - 1]).is_none());
        assert!(Record::parse("FEI2", &[0; LEN]).is_none());
    }
}
