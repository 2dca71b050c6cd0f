//! Numbers, texts and dates at known places of a header.

use crate::access::Storage;
use framefold_core::{Error, Result};

/// The bytes of a header. Places past its end hold nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    big_endian: bool,
}

macro_rules! numbers {
    ($($name:ident $type:ty),*) => {$(
        #[doc = concat!("The `", stringify!($type), "` at this offset.")]
        pub(crate) fn $name(&self, at: usize) -> Option<$type> {
            let bytes = *self.bytes.get(at..)?.first_chunk()?;
            let of = if self.big_endian { <$type>::from_be_bytes } else { <$type>::from_le_bytes };
            Some(of(bytes))
        }
    )*};
}

#[allow(dead_code, reason = "a header need not hold every type of number")]
impl<'a> Fields<'a> {
    /// A header whose numbers are little endian.
    pub(crate) fn little(bytes: &'a [u8]) -> Self {
        Fields { bytes, big_endian: false }
    }

    /// A header whose numbers are in that order.
    pub(crate) fn new(bytes: &'a [u8], big_endian: bool) -> Self {
        Fields { bytes, big_endian }
    }

    numbers!(u8 u8, u16 u16, u32 u32, i16 i16, i32 i32, i64 i64, f32 f32, f64 f64);

    /// The text of at most `len` bytes at this offset, up to the first NUL, without space around
    /// it. Each byte is a character of Latin-1.
    pub(crate) fn text(&self, at: usize, len: usize) -> String {
        let field = self.bytes.get(at..).unwrap_or_default();
        let field = field.get(..len).unwrap_or(field);
        let text = field.iter().take_while(|&&byte| byte != 0).copied().map(char::from);
        text.collect::<String>().trim().to_owned()
    }

    /// As [`Fields::text`], in UTF-16.
    pub(crate) fn text_utf16(&self, at: usize, len: usize) -> String {
        let units = (at..at.saturating_add(len)).step_by(2).map_while(|at| self.u16(at));
        let units = char::decode_utf16(units.take_while(|&unit| unit != 0));
        let text: String = units.map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
        text.trim().to_owned()
    }
}

/// Reads the header of `len` bytes that begins at `start`.
///
/// # Errors
/// `BadFile` that says what is missing if the file is too short; `Io`.
pub(crate) fn read_header(
    storage: &Storage,
    what: &str,
    start: u64,
    len: usize,
) -> Result<Vec<u8>> {
    let available = storage.len().saturating_sub(start);
    if u64::try_from(len).map_or(true, |len| len > available) {
        return Err(storage.locate(
            Error::bad_file(format!("{what} takes {len} bytes, but only {available} are there"))
                .with_offset(start)
                .with_hint("the file is truncated, or not what it claims to be; copy it again"),
        ));
    }
    let mut bytes = vec![0; len];
    storage.read_at(start, &mut bytes)?;
    Ok(bytes)
}

/// Reads a whole file of text or of few numbers that belongs to a data file.
///
/// # Errors
/// `BadFile` if it has more than `limit` bytes; `Io`.
pub(crate) fn read_small(path: &std::path::Path, limit: u64) -> Result<Vec<u8>> {
    let storage = Storage::open(path, crate::options::Backend::Buffered)?;
    let len = storage.len();
    if len > limit {
        return Err(Error::bad_file(format!(
            "the file has {len} bytes, expected at most {limit} of what describes other data"
        ))
        .with_path(path)
        .with_hint("this is not the file that its name promises"));
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    storage.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// The date of a spreadsheet, in days since 1899-12-30, as `2014-12-13T14:32:01`.
pub(crate) fn iso_date(serial: f64) -> Option<String> {
    // From 1927 to 2173: what lies outside was never filled in.
    if !(10_000.0..100_000.0).contains(&serial) {
        return None;
    }
    let seconds = (serial * 86_400.0).round() as i64;
    Some(iso_seconds(seconds - 25_569 * 86_400))
}

/// Seconds since 1970-01-01, as `2014-12-13T14:32:01`. Years are those that a file may have.
pub(crate) fn iso_seconds(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 0000-03-01: years that end with the day that only some of them have.
    let days = days.saturating_add(719_468);
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day_of_month = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!(
        "{:04}-{month:02}-{day_of_month:02}T{:02}:{:02}:{:02}",
        era * 400 + year + next,
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// A number of `width` bytes, little endian.
pub(crate) fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(width)?)?;
    Some(bytes.iter().rev().fold(0, |number, &byte| (number << 8) | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_count_from_1899() {
        // NumPy: datetime64('1899-12-30') + days.
        assert_eq!(iso_date(25_569.0).unwrap(), "1970-01-01T00:00:00");
        assert_eq!(iso_date(36_585.0).unwrap(), "2000-02-29T00:00:00");
        assert_eq!(iso_date(36_586.5).unwrap(), "2000-03-01T12:00:00");
        assert_eq!(iso_date(45_657.999_988_425_93).unwrap(), "2024-12-31T23:59:59");
        assert_eq!(iso_date(0.0), None);
        assert_eq!(iso_date(f64::NAN), None);
        assert_eq!(iso_seconds(1_435_776_075), "2015-07-01T18:41:15");
        assert_eq!(iso_seconds(951_782_400), "2000-02-29T00:00:00");
    }

    #[test]
    fn numbers_in_both_orders() {
        let bytes = [1, 2, 3, 4, 0, 0, 0x80, 0x3f];
        let (little, big) = (Fields::little(&bytes), Fields::new(&bytes, true));
        assert_eq!((little.u16(0), big.u16(0)), (Some(0x0201), Some(0x0102)));
        assert_eq!((little.f32(4), little.u32(5), little.u8(8)), (Some(1.0), None, None));
        assert_eq!(little.f64(usize::MAX), None);
    }

    #[test]
    fn texts_end_at_nul_or_with_the_field() {
        assert_eq!(Fields::little(b"  a\xb5b \0rest").text(0, 8), "aµb");
        assert_eq!(Fields::little(b"abc").text(1, 100), "bc");
        assert_eq!(Fields::little(b"abc").text(7, 1), "");
        assert_eq!(Fields::little(b"N\0o\0\x01").text_utf16(0, 24), "No");
        assert_eq!(Fields::little(b"\x00\xd8a\0").text_utf16(0, 4), "\u{fffd}a");
    }
}
