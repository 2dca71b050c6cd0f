//! The `.hdr` file of a recording: text with a section `[measurementInfo]`.
//!
//! | key | example | meaning |
//! |---|---|---|
//! | `stemimagesize` | `128x64` | shape of the scan, in the order in which it is written |
//! | `readoutmode` | `"bin: 4, windowing: 1 x 1 "` | how many rows the camera added up |
//! | `signalframes` | `8192` | number of frames |
//! | `darkframes`, `gain` | | shown only |
//! | `dwelltimemicroseconds` | `1000` | time for a frame |
//!
//! Which of the two numbers of `stemimagesize` counts rows was never seen in a file of a scan that
//! is not square. They are taken as rows, then columns, as the reference takes them.

use super::damaged;
use crate::headers::fields::read_small;
use framefold_core::{MetadataList, Quantity, Result};
use std::path::Path;

const SECTION: &str = "[measurementInfo]";

const MAX_LEN: u64 = 1 << 20;

/// The largest number of positions that is believed.
const MAX_POSITIONS: usize = 1 << 40;

/// What the file says, as far as it is of use.
#[derive(Clone, Debug)]
pub(super) struct Hdr {
    /// How many rows of the camera are in one of the file: 1, 2 or 4.
    pub(super) binning: usize,
    /// Rows and columns of the scan.
    pub(super) scan: Option<(usize, usize)>,
    /// The number of frames, if it is said.
    pub(super) n_frames: Option<u64>,
    entries: Vec<(String, String)>,
}

/// Whether a file begins like one.
pub(super) fn is_hdr(prefix: &[u8]) -> bool {
    let text = String::from_utf8_lossy(prefix);
    text.lines().any(|line| line.trim().eq_ignore_ascii_case(SECTION))
}

impl Hdr {
    /// # Errors
    /// `BadFile` if the section or the readout mode is not there or makes no sense; `Io`.
    pub(super) fn read(path: &Path) -> Result<Self> {
        let bytes = read_small(path, MAX_LEN)?;
        Self::parse(&String::from_utf8_lossy(&bytes)).map_err(|error| error.with_path(path))
    }

    fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines().map(str::trim);
        if !lines.any(|line| line.eq_ignore_ascii_case(SECTION)) {
            return Err(damaged(format!("there is no section {SECTION}")));
        }
        let entries: Vec<(String, String)> = lines
            .take_while(|line| !line.starts_with('['))
            .filter(|line| !line.starts_with([';', '#']))
            .filter_map(|line| line.split_once(['=', ':']))
            .map(|(key, value)| (key.trim().to_lowercase(), value.trim().to_owned()))
            .collect();
        let mut hdr = Hdr { binning: 1, scan: None, n_frames: None, entries };
        let mode = hdr.value("readoutmode").unwrap_or("");
        let binning = mode.trim_matches('"').split(',').find_map(|part| {
            let (key, value) = part.split_once(':')?;
            (key.trim() == "bin").then(|| value.trim().parse::<usize>().ok())?
        });
        hdr.binning = binning.filter(|binning| [1, 2, 4].contains(binning)).ok_or_else(|| {
            damaged(format!(
                "readoutmode is '{mode}', expected 'bin: 1', 'bin: 2' or 'bin: 4' in it"
            ))
        })?;
        hdr.scan = hdr.value("stemimagesize").and_then(|size| {
            let (rows, columns) = size.trim_matches('"').split_once(['x', 'X'])?;
            let rows = rows.trim().parse::<usize>().ok().filter(|&n| n > 0)?;
            let columns = columns.trim().parse::<usize>().ok().filter(|&n| n > 0)?;
            rows.checked_mul(columns).filter(|&n| n <= MAX_POSITIONS)?;
            Some((rows, columns))
        });
        hdr.n_frames = hdr.value("signalframes").and_then(|n| n.parse().ok()).filter(|&n| n > 0);
        Ok(hdr)
    }

    fn value(&self, key: &str) -> Option<&str> {
        self.entries.iter().find(|(found, _)| found == key).map(|(_, value)| value.as_str())
    }

    /// A word about a scan that cannot be read, or is too small for so many frames, of which `sync_offset` are
    /// skipped.
    pub(super) fn doubt(&self, n_frames: u64, sync_offset: i64) -> Option<String> {
        let none = ["", "0", "0x0"];
        let size = self.value("stemimagesize").filter(|size| !none.contains(&size.trim()))?;
        let Some((rows, columns)) = self.scan else {
            return Some(format!(
                "the .hdr file says that the scan is '{size}' (stemimagesize), expected as in '64x128'; \
                 give nav_shape"
            ));
        };
        let n_positions = u64::try_from(rows.saturating_mul(columns)).unwrap_or(u64::MAX);
        let more = i128::from(n_frames) - i128::from(sync_offset) - i128::from(n_positions);
        let more = Some(more).filter(|&more| more > 0)?;
        Some(format!(
            "the .hdr file says that the scan is {size}, and there are {n_frames} frames: the last \
             {more} are not shown; if it is another scan, give nav_shape"
        ))
    }

    /// Rows that were added up are delivered as many times: a pixel of a frame is one of the camera.
    pub(super) fn metadata(&self) -> MetadataList {
        let mut facts = MetadataList::new();
        let dwell = self.value("dwelltimemicroseconds").and_then(|text| text.parse::<f64>().ok());
        facts.positive(Quantity::FrameTime, dwell.map(|us| us / 1e6));
        facts.text(Quantity::Detector, "pnCCD");
        facts
    }

    pub(super) fn details(&self, path: &Path) -> Vec<(String, String)> {
        let mut details = vec![("sidecar".to_owned(), path.display().to_string())];
        for key in ["stemimagesize", "readoutmode", "darkframes", "signalframes", "gain"] {
            if let Some(value) = self.value(key) {
                details.push((key.to_owned(), value.to_owned()));
            }
        }
        details
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[other]\nsignalframes = 9\n[measurementInfo]\ndarkframes=3\n\
        dwelltimemicroseconds = 1000\ngain=1\nsignalframes = 6\nstemimagesize = 2x3\n\
        readoutmode = \"bin: 4, windowing: 1 x 1 \"\n[more]\nsignalframes = 8\n";

    #[test]
    fn keys_of_the_section() {
        let hdr = Hdr::parse(TEXT).unwrap();
        assert_eq!((hdr.binning, hdr.scan, hdr.n_frames), (4, Some((2, 3)), Some(6)));
        assert!(is_hdr(TEXT.as_bytes()) && !is_hdr(b"HDR,\t\r\n"));
        assert_eq!(hdr.details(Path::new("a.hdr")).len(), 6);
        assert_eq!(hdr.metadata().get(Quantity::BinningY), None);
    }

    #[test]
    fn what_cannot_be_understood() {
        for (from, to) in [
            ("[measurementInfo]", "[info]"),
            ("bin: 4", "bin: 3"),
            ("bin: 4", "x"),
            ("readout", ""),
        ] {
            assert!(Hdr::parse(&TEXT.replace(from, to)).is_err(), "{from} {to}");
        }
        for size in ["0x3", "3", "ax3", "99999999999x99999999999", "-2x3"] {
            let hdr = Hdr::parse(&TEXT.replace("2x3", size)).unwrap();
            assert_eq!(hdr.scan, None, "{size}");
            assert!(hdr.doubt(6, 0).is_some_and(|doubt| doubt.contains(&format!("'{size}'"))));
        }
        let doubt = |text: &str, n, offset| Hdr::parse(text).unwrap().doubt(n, offset);
        for (n, offset) in [(5, 0), (6, 0), (8, 2), (7, 1), (5, -1)] {
            assert_eq!(doubt(TEXT, n, offset), None, "{n} {offset}");
        }
        for (n, offset) in [(8, 0), (9, 1), (6, -2)] {
            let doubt = doubt(TEXT, n, offset).unwrap();
            assert!(doubt.contains("the last 2 are not shown"), "{n} {offset}");
        }
        assert_eq!(doubt(&TEXT.replace("stemimagesize", "size"), 8, 0), None);
        assert_eq!(doubt(&TEXT.replace("2x3", "0x0"), 8, 0), None);
    }
}
