//! When frames were recorded: what follows the pixels of each.
//!
//! | offset | type | content |
//! |---|---|---|
//! | 0 | u32 | seconds since 1970-01-01, UTC |
//! | 4 | u16 | milliseconds |
//! | 6 | u16 | microseconds, from version 5 of the format on |

use crate::access::Storage;
use crate::headers::fields::{Fields, iso_seconds};
use framefold_core::Result;
use std::fmt;

/// From 1990 to 2106: what lies outside was never filled in.
const SECONDS: std::ops::Range<i64> = 631_152_000..4_291_747_200;

/// The time of one frame, in microseconds since 1970-01-01, UTC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct TimeStamp(i64);

impl TimeStamp {
    /// Reads what is at `offset`, where `len` bytes are free for it; `None` if that is no time.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn read(
        storage: &Storage,
        offset: u64,
        len: u64,
        version: i32,
    ) -> Result<Option<Self>> {
        let needed: usize = if version >= 5 { 8 } else { 6 };
        let mut bytes = [0; 8];
        let room = storage.len().saturating_sub(offset).min(len);
        let Some(bytes) = bytes.get_mut(..needed).filter(|_| room >= needed as u64) else {
            return Ok(None);
        };
        storage.read_at(offset, bytes)?;
        Ok(Self::parse(bytes))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let fields = Fields::little(bytes);
        let seconds = fields.u32(0).map(i64::from).filter(|seconds| SECONDS.contains(seconds))?;
        // Some writers round up to a full second.
        let below = |part: u16| (part <= 1000).then_some(i64::from(part));
        let milliseconds = below(fields.u16(4)?)?;
        let microseconds = below(fields.u16(6).unwrap_or(0))?;
        Some(TimeStamp((seconds * 1000 + milliseconds) * 1000 + microseconds))
    }

    /// Seconds from `earlier` to this.
    pub(super) fn since(self, earlier: Self) -> f64 {
        (self.0 - earlier.0) as f64 * 1e-6
    }
}

/// `2015-07-01T18:41:15.775430Z`.
impl fmt::Display for TimeStamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, rest) = (self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000));
        write!(f, "{}.{rest:06}Z", iso_seconds(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_parts_that_can_be() {
        let of = |seconds: u32, milliseconds: u16, microseconds: &[u8]| {
            let mut bytes = seconds.to_le_bytes().to_vec();
            bytes.extend(milliseconds.to_le_bytes());
            bytes.extend(microseconds);
            TimeStamp::parse(&bytes)
        };
        let time = of(1_435_776_075, 775, &430u16.to_le_bytes()).unwrap();
        assert_eq!(time.to_string(), "2015-07-01T18:41:15.775430Z");
        let before = of(1_435_776_075, 770, &[]).unwrap();
        assert_eq!(before.to_string(), "2015-07-01T18:41:15.770000Z");
        assert!((time.since(before) - 0.00543).abs() < 1e-12);
        assert_eq!(of(0, 0, &[0, 0]), None);
        assert!(of(1_435_776_075, 1000, &[0, 0]).is_some());
        assert_eq!(of(1_435_776_075, 1001, &[0, 0]), None);
        assert_eq!(of(1_435_776_075, 0, &1001u16.to_le_bytes()), None);
    }
}
