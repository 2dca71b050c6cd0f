//! The ASCII header in front of every MIB frame.

use super::layout::{Depth, PixelKind, SensorLayout};
use framefold_core::Error;
use std::fmt;
use std::ops::Range;

/// The largest header length that is believed. Known writers use 384 bytes for one chip and 768
/// for four; the limit only keeps a damaged length from turning into a huge read.
pub(super) const MAX_HEADER_LEN: u64 = 64 * 1024;

/// Sequence numbers from here on are not believed, so that adding to them never overflows.
const MAX_SEQUENCE: u64 = 1 << 48;

/// Numbers of pixels along one axis above this are not believed.
const MAX_AXIS: u64 = 1 << 16;

/// What the header of one frame says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Header {
    /// Number of the frame, counted from 1 through all files of an acquisition.
    pub(super) sequence: u64,
    /// Bytes from the start of the header to the first pixel.
    pub(super) len_bytes: u64,
    /// Number of detector chips.
    pub(super) n_chips: u64,
    /// Pixels per row, as stored.
    pub(super) width: u64,
    /// Number of rows, as stored.
    pub(super) height: u64,
    /// How pixels are stored.
    pub(super) kind: PixelKind,
    /// How the chips are arranged.
    pub(super) layout: SensorLayout,
    /// Which chips were read: bit 0 is the first chip. `None` where the field is unreadable.
    pub(super) chip_select: Option<u32>,
    /// When the frame was taken, as written.
    pub(super) timestamp: String,
    /// How long the shutter was open, in seconds.
    pub(super) exposure_s: Option<f64>,
    /// The thresholds in keV; empty where the header has none.
    pub(super) thresholds_kev: Vec<f64>,
    /// Bits per counter.
    pub(super) depth: Option<Depth>,
}

/// A field of the header that does not hold what it must.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum HeaderProblem {
    /// The bytes do not start with the magic.
    Magic { found: String },
    /// The file ends inside of the header.
    Truncated { found: u64, expected: u64 },
    /// A field cannot be understood.
    Field { name: &'static str, offset: u64, found: String, expected: &'static str },
}

impl HeaderProblem {
    /// The problem as an error; `start` is where the header begins in the file.
    pub(super) fn into_error(self, start: u64) -> Error {
        let offset = match self {
            HeaderProblem::Magic { .. } | HeaderProblem::Truncated { .. } => start,
            HeaderProblem::Field { offset, .. } => start.saturating_add(offset),
        };
        let hint = match self {
            HeaderProblem::Magic { .. } => "check that this is a Merlin .mib file",
            _ => "the file is damaged or still being written; copy it again from the detector",
        };
        Error::bad_file(self.to_string()).with_format("mib").with_offset(offset).with_hint(hint)
    }
}

impl fmt::Display for HeaderProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderProblem::Magic { found } => {
                write!(f, "found '{found}', expected a frame header that starts with 'MQ1,'")
            }
            HeaderProblem::Truncated { found, expected } => {
                write!(f, "the frame header ends after {found} bytes, expected {expected}")
            }
            HeaderProblem::Field { name, found, expected, .. } => {
                write!(f, "header field '{name}' is '{found}', expected {expected}")
            }
        }
    }
}

/// Reads the header at the start of `bytes`, which may be longer than it.
pub(super) fn parse(bytes: &[u8]) -> Result<Header, HeaderProblem> {
    if !bytes.starts_with(b"MQ1,") {
        let head = bytes.get(..4).unwrap_or(bytes);
        let too_short = b"MQ1,".starts_with(head);
        return Err(if too_short {
            HeaderProblem::Truncated { found: to_u64(bytes.len()), expected: 384 }
        } else {
            HeaderProblem::Magic { found: printable(head) }
        });
    }
    // The length is needed before the end of the header is known; it is the third field.
    let mut opening = Fields::new(bytes);
    opening.next("magic", "'MQ1'")?;
    let sequence =
        opening.number("sequence number", "a decimal number below 2^48", 0..MAX_SEQUENCE)?;
    let len_bytes = opening.number(
        "header length",
        "a decimal number of bytes from 32 to 65536",
        32..MAX_HEADER_LEN + 1,
    )?;
    let Some(header) = usize::try_from(len_bytes).ok().and_then(|len| bytes.get(..len)) else {
        return Err(HeaderProblem::Truncated { found: to_u64(bytes.len()), expected: len_bytes });
    };

    let mut fields = Fields::new(header);
    for name in ["magic", "sequence number", "header length"] {
        fields.next(name, "text")?;
    }
    let n_chips = fields.number("number of chips", "a number from 1 to 64", 1..65)?;
    let axis = 1..MAX_AXIS + 1;
    let width = fields.number("width", "a number of pixels from 1 to 65536", axis.clone())?;
    let height = fields.number("height", "a number of pixels from 1 to 65536", axis)?;
    let kind = fields.parsed("pixel format", "U08, U16, U32 or R64", PixelKind::parse)?;
    let layout = fields.parsed(
        "sensor layout",
        "chips across and down, such as 1x1, 2x2, 2x2G or Nx1",
        SensorLayout::parse,
    )?;
    // What follows is for people to read, but for the depth; it varies between versions of the
    // writing software, so that nothing is required of it here.
    let rest: Vec<String> = fields.rest();
    let text = |i: usize| rest.get(i).map_or("", String::as_str);
    Ok(Header {
        sequence,
        len_bytes,
        n_chips,
        width,
        height,
        kind,
        layout,
        chip_select: u32::from_str_radix(text(0), 16).ok(),
        timestamp: text(1).to_owned(),
        exposure_s: text(2).parse().ok(),
        thresholds_kev: rest.iter().skip(6).take(8).map_while(|t| t.parse().ok()).collect(),
        depth: depth(&rest),
    })
}

/// The counter depth: the last field after the token `MQ1A`, with which the extended time stamp
/// begins. Without the token there is nothing to tell a depth from a DAC value.
fn depth(fields: &[String]) -> Option<Depth> {
    let extension = fields.iter().position(|field| field == "MQ1A")?;
    let last = fields.get(extension + 1..)?.iter().rfind(|field| !field.is_empty())?;
    Depth::from_bits(last.parse().ok()?)
}

/// Walks through the comma-separated fields and remembers where each one lies.
struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Fields { bytes, at: 0 }
    }

    /// The next field, which a comma must end, and its offset.
    fn next(
        &mut self,
        name: &'static str,
        expected: &'static str,
    ) -> Result<(u64, &'a [u8]), HeaderProblem> {
        let offset = to_u64(self.at);
        let remaining = self.bytes.get(self.at..).unwrap_or_default();
        match remaining.iter().position(|&byte| byte == b',') {
            Some(len) => {
                self.at += len + 1;
                Ok((offset, remaining.get(..len).unwrap_or_default()))
            }
            None => {
                Err(HeaderProblem::Field { name, offset, found: printable(remaining), expected })
            }
        }
    }

    /// The next field as a decimal number in `range`.
    fn number(
        &mut self,
        name: &'static str,
        expected: &'static str,
        range: Range<u64>,
    ) -> Result<u64, HeaderProblem> {
        self.parsed(name, expected, |text| {
            let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            // `parse` alone would also take a sign.
            let value = if digits { text.parse().ok() } else { None };
            value.filter(|value| range.contains(value))
        })
    }

    /// The next field, trimmed, as `parse` understands it.
    fn parsed<T>(
        &mut self,
        name: &'static str,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, HeaderProblem> {
        let (offset, field) = self.next(name, expected)?;
        std::str::from_utf8(field)
            .ok()
            .and_then(|text| parse(text.trim()))
            .ok_or_else(|| HeaderProblem::Field { name, offset, found: printable(field), expected })
    }

    /// All further fields as text; those with padding or other binary in them are left empty.
    fn rest(&self) -> Vec<String> {
        let is_text = |byte: &u8| (b' '..=b'~').contains(byte);
        self.bytes
            .get(self.at..)
            .unwrap_or_default()
            .split(|&byte| byte == b',')
            .map(|field| match std::str::from_utf8(field) {
                Ok(text) if field.iter().all(is_text) => text.trim().to_owned(),
                _ => String::new(),
            })
            .collect()
    }
}

/// `bytes` for a message: short, and without control characters.
fn printable(bytes: &[u8]) -> String {
    const LONGEST: usize = 24;
    let mut text: String =
        bytes.iter().take(LONGEST).map(|b| b.escape_ascii().to_string()).collect();
    if bytes.len() > LONGEST {
        text.push('…');
    }
    text
}

fn to_u64(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAC: &str = "3RX,011,511,000,000,000,000,000,000,175,010,200,125,100,100,093,100,099,\
                       030,128,004,255,140,128,191,179,511,511";

    /// A header as written by the detector, NUL padded to `len`.
    fn header(text: &str, len: usize) -> Vec<u8> {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(len, 0);
        bytes
    }

    fn quad() -> Vec<u8> {
        let text = format!(
            "MQ1,000007,00768,04,1024,0256,R64,  2x2G,0F,2020-05-18 16:51:49.971626,0.000555,0,0,0,\
             1.200000E+2,5.110000E+2,0.000000E+0,0.000000E+0,0.000000E+0,0.000000E+0,0.000000E+0,\
             0.000000E+0,{DAC},{DAC},{DAC},{DAC},\
             MQ1A,2020-05-18T14:51:49.971626178Z,555000ns,6,"
        );
        header(&text, 768)
    }

    #[test]
    fn a_full_header() {
        let parsed = parse(&quad()).unwrap();
        assert_eq!((parsed.sequence, parsed.len_bytes, parsed.n_chips), (7, 768, 4));
        assert_eq!((parsed.width, parsed.height), (1024, 256));
        assert_eq!((parsed.kind, parsed.depth), (PixelKind::Raw, Some(Depth::Six)));
        assert_eq!(parsed.layout, SensorLayout::Quad { gap: true });
        assert_eq!(parsed.chip_select, Some(15));
        assert_eq!(parsed.timestamp, "2020-05-18 16:51:49.971626");
        assert_eq!(parsed.exposure_s, Some(0.000_555));
        assert_eq!(parsed.thresholds_kev[..2], [120.0, 511.0]);
        assert_eq!(parsed.thresholds_kev.len(), 8);
    }

    #[test]
    fn thresholds_and_dacs_may_be_absent() {
        let text = "MQ1,000001,00384,01,0256,0256,R64,   1x1,01,2020-05-18 16:51:49.971626,0.000555,\
                    0,0,0,,MQ1A,2020-05-18T14:51:49.971626178Z,555000ns,12,";
        let parsed = parse(&header(text, 384)).unwrap();
        assert_eq!(parsed.depth, Some(Depth::Twelve));
        assert!(parsed.thresholds_kev.is_empty());
    }

    #[test]
    fn without_extension_there_is_no_depth() {
        let text = format!(
            "MQ1,000001,00384,01,0256,0256,U16,   1x1,01,18/05/2020 16:51,0.000555,0,0,0,\
             1.2E+1,5.1E+2,0,0,0,0,0,0,{DAC},"
        );
        assert_eq!(parse(&header(&text, 384)).unwrap().depth, None);
    }

    #[test]
    fn the_depth_survives_padding_with_spaces() {
        let text = "MQ1,000001,00384,01,0256,0256,R64,1x1,01,t,0.1,0,0,0,,MQ1A,t,1ns,24,";
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize(384, b' ');
        assert_eq!(parse(&bytes).unwrap().depth, Some(Depth::TwentyFour));
    }

    #[test]
    fn truncation_at_every_byte_is_an_error() {
        let whole = quad();
        for len in 0..whole.len() {
            let problem = parse(&whole[..len]).unwrap_err();
            assert!(
                !matches!(problem, HeaderProblem::Magic { .. }),
                "{len} bytes of a good header: {problem}"
            );
        }
    }

    #[test]
    fn each_bad_field_is_named_with_its_place() {
        let whole = String::from_utf8(quad()).unwrap();
        let fields: Vec<&str> = whole.split(',').collect();
        let names = [
            "magic",
            "sequence number",
            "header length",
            "number of chips",
            "width",
            "height",
            "pixel format",
            "sensor layout",
        ];
        let bad = ["", "-1", "+1", "0x10", "é", "99999999999999999999999", "1e3", "\0\0", "1 2"];
        for (i, name) in names.iter().enumerate().skip(1) {
            let offset: usize = fields[..i].iter().map(|field| field.len() + 1).sum();
            for replacement in bad {
                let mut changed = fields.clone();
                changed[i] = replacement;
                let mut bytes = changed.join(",").into_bytes();
                bytes.resize(1024, 0);
                match parse(&bytes) {
                    Err(HeaderProblem::Field { name: found, offset: at, .. }) => {
                        assert_eq!((&found, at), (name, offset as u64));
                    }
                    other => panic!("{name} = '{replacement}': {other:?}"),
                }
            }
        }
    }

    #[test]
    fn absurd_numbers_are_refused() {
        let changed = |from: &str, to: &str| {
            let text = String::from_utf8(quad()).unwrap().replacen(from, to, 1);
            parse(text.as_bytes()).unwrap_err().to_string()
        };
        assert!(changed(",00768,", ",00000,").contains("'header length' is '00000'"));
        assert!(changed(",00768,", ",99999,").contains("'header length'"));
        assert!(changed(",04,", ",00,").contains("'number of chips'"));
        assert!(changed(",1024,", ",0000,").contains("'width'"));
        assert!(changed(",0256,", ",4294967295,").contains("'height'"));
        assert!(changed("R64", "X64").contains("'pixel format' is 'X64'"));
        // A header that claims to end before its own fields.
        assert!(changed(",00768,", ",00032,").contains("'pixel format'"));
    }

    #[test]
    fn other_files_are_named_as_such() {
        let problem = parse(b"\x93NUMPY\x01\x00").unwrap_err();
        assert_eq!(problem, HeaderProblem::Magic { found: "\\x93NUM".into() });
        let error = problem.into_error(0);
        assert_eq!(error.kind(), framefold_core::ErrorKind::BadFile);
        assert!(error.to_string().contains("'MQ1,'"), "{error}");
    }
}
