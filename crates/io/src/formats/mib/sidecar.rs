//! The `.hdr` file that describes a MIB acquisition.
//!
//! Text in an 8-bit encoding; the first line starts with `HDR`, the last one with `End`; in
//! between, one `key:<tab>value` a line. Which keys there are depends on the version of the
//! writing software; values can be padded with spaces.

use super::layout::Depth;
use framefold_core::{Error, Result, suggested_scans};

/// The largest sidecar that is believed; known ones have 2048 bytes.
pub(super) const MAX_LEN: u64 = 1 << 20;

/// A sidecar that claims more than this many times the frames that are there is not believed.
const MAX_SCAN_PER_FRAME: u64 = 1024;

/// Keys worth showing to a person, as the file spells them without what is in parentheses.
const SHOWN: &[&str] = &[
    "Time and Date Stamp",
    "Chip ID",
    "Chip Type",
    "Assembly Size",
    "Chip Mode",
    "Counter Depth",
    "Gain",
    "Sensor Bias",
    "Readout System",
    "Software Version",
];

/// What the sidecar says, as far as it is of use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sidecar {
    /// `ScanY`, `ScanX`: rows and columns of the scan.
    scan: Option<(u64, u64)>,
    /// `Frames in Acquisition`; 0 in open-ended acquisitions.
    n_frames: Option<u64>,
    /// `Frames per Trigger`.
    per_trigger: Option<u64>,
    /// `Counter Depth`.
    pub(super) depth: Option<Depth>,
    /// What is worth showing.
    pub(super) details: Vec<(String, String)>,
}

/// A suggestion for the scan shape, and what is odd about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NavSuggestion {
    pub(super) shape: Vec<usize>,
    /// Where the shape comes from, in words.
    pub(super) origin: &'static str,
    pub(super) warnings: Vec<String>,
}

/// Whether `bytes` begin like a Merlin sidecar. (Other formats use `.hdr` as well.)
pub(super) fn is_sidecar(bytes: &[u8]) -> bool {
    let first_line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    first_line.starts_with(b"HDR") && !first_line.contains(&0)
}

impl Sidecar {
    /// Parses the whole file.
    ///
    /// # Errors
    /// `BadFile` if it does not start with `HDR`. Keys that are missing or values that make no
    /// sense are no error: nothing in the file is indispensable.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self> {
        if !is_sidecar(bytes) {
            let found: String =
                bytes.iter().take(16).map(|byte| byte.escape_ascii().to_string()).collect();
            return Err(Error::bad_file(format!(
                "found '{found}', expected a first line that starts with 'HDR'"
            ))
            .with_format("mib")
            .with_offset(0)
            .with_hint("this is not the .hdr file of a Merlin acquisition"));
        }
        // Every byte is a character of Latin-1, so that a micro sign in a value does no harm.
        let text: String = bytes.iter().copied().map(char::from).collect();
        let entries: Vec<(&str, &str)> = text
            .lines()
            .skip(1)
            .take_while(|line| !line.starts_with("End"))
            .filter_map(|line| line.split_once(':'))
            .map(|(key, value)| (key.split('(').next().unwrap_or_default().trim(), value.trim()))
            .collect();
        let value = |key: &str| {
            let mut entries = entries.iter();
            entries.find(|(k, _)| k.eq_ignore_ascii_case(key)).map(|(_, value)| *value)
        };
        let number = |key: &str| value(key)?.parse::<u64>().ok();
        let details = SHOWN
            .iter()
            .filter_map(|key| Some(((*key).to_owned(), value(key)?.to_owned())))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        Ok(Sidecar {
            scan: number("ScanY").zip(number("ScanX")),
            n_frames: number("Frames in Acquisition"),
            per_trigger: number("Frames per Trigger"),
            depth: number("Counter Depth").and_then(Depth::from_bits),
            details,
        })
    }

    /// The scan shape for `n_frames` frames, which are what is really there.
    ///
    /// The scan that the file names, if the frames fit it; else triggers × frames per trigger, if
    /// there are several of each, or one axis of a single trigger; else a square, if the number of
    /// frames is one; else one axis. A square is a guess, and is said where triggers are named.
    pub(super) fn nav_shape(&self, n_frames: u64) -> NavSuggestion {
        let mut warnings = Vec::new();
        if let Some(expected) = self.n_frames.filter(|&n| n != 0 && n != n_frames) {
            warnings.push(format!(
                "the .hdr file announces {expected} frames, but there are {n_frames}; \
                 the frames that are there are used"
            ));
        }
        let scan = self.scan.filter(|&(y, x)| y > 0 && x > 0);
        if let Some((y, x)) = scan {
            match fit_scan(y, x, n_frames) {
                Some((shape, warning)) => {
                    warnings.extend(warning);
                    return NavSuggestion {
                        shape,
                        origin: "ScanY and ScanX of the .hdr file",
                        warnings,
                    };
                }
                None => warnings.push(format!(
                    "the .hdr file describes a scan of {y} x {x} positions, which {n_frames} \
                     frames do not fit; these would: {}",
                    suggested_scans(n_frames)
                )),
            }
        }
        if let Some(shape) = self.trigger_grid(n_frames) {
            return NavSuggestion {
                shape,
                origin: "frames per trigger of the .hdr file",
                warnings,
            };
        }
        let (shape, origin) = guess(n_frames);
        if let (Some(frames), [rows, columns]) = (self.per_trigger, shape.as_slice()) {
            warnings.push(format!(
                "the .hdr file does not say the scan, but {frames} frames per trigger; the \
                 {n_frames} frames are taken as {rows} x {columns} positions, as their number is a \
                 square; if they are another scan, give its nav_shape"
            ));
        }
        NavSuggestion { shape, origin, warnings }
    }

    /// Rows that were triggered one by one, or the only one. One frame per trigger tells nothing
    /// about rows.
    fn trigger_grid(&self, n_frames: u64) -> Option<Vec<usize>> {
        let columns = self.per_trigger.filter(|&n| n > 1)?;
        // An aborted scan: the acquisition that was meant is known.
        let meant = self.n_frames.filter(|&n| n > n_frames && n / MAX_SCAN_PER_FRAME <= n_frames);
        let total = [meant, Some(n_frames)].into_iter().flatten().find(|n| n % columns == 0)?;
        match total / columns {
            1 => to_shape(&[columns]),
            rows => to_shape(&[rows, columns]),
        }
    }
}

/// The scan shape where there is no sidecar.
pub(super) fn guess_nav_shape(n_frames: u64) -> NavSuggestion {
    let (shape, origin) = guess(n_frames);
    NavSuggestion { shape, origin, warnings: Vec::new() }
}

fn guess(n_frames: u64) -> (Vec<usize>, &'static str) {
    let side = n_frames.isqrt();
    let square = (side > 1 && side * side == n_frames).then(|| to_shape(&[side, side])).flatten();
    match square {
        Some(shape) => (shape, "the number of frames, which is a square"),
        None => {
            let shape = vec![usize::try_from(n_frames).unwrap_or(usize::MAX)];
            (shape, "the number of frames")
        }
    }
}

/// The scan of `y` × `x` positions, if `n_frames` frames make sense for it, and what to say
/// about frames that are missing or left over.
fn fit_scan(y: u64, x: u64, n_frames: u64) -> Option<(Vec<usize>, Option<String>)> {
    let positions = y.checked_mul(x)?;
    if positions / MAX_SCAN_PER_FRAME > n_frames {
        return None;
    }
    let shape = to_shape(&[y, x])?;
    if positions == n_frames {
        return Some((shape, None));
    }
    if n_frames > positions && n_frames.is_multiple_of(positions) {
        let repeats = n_frames / positions;
        let warning = format!(
            "there are {repeats} times as many frames as the {y} x {x} positions of the .hdr file; \
             they are taken as {repeats} scans"
        );
        return Some((to_shape(&[repeats, y, x])?, Some(warning)));
    }
    let warning = if n_frames < positions {
        format!(
            "the .hdr file describes a scan of {y} x {x} positions, but there are only {n_frames} \
             frames"
        )
    } else {
        format!(
            "the .hdr file describes a scan of {y} x {x} positions, but there are {n_frames} \
             frames; the last {} are left out unless nav_shape says otherwise",
            n_frames - positions
        )
    };
    Some((shape, Some(warning)))
}

fn to_shape(dims: &[u64]) -> Option<Vec<usize>> {
    dims.iter().map(|&dim| usize::try_from(dim).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sidecar(lines: &str) -> Sidecar {
        let text = format!("HDR,\t\r\n{lines}\r\nEnd\t      ");
        Sidecar::parse(text.as_bytes()).unwrap()
    }

    fn shape(lines: &str, n_frames: u64) -> (Vec<usize>, usize) {
        let suggestion = sidecar(lines).nav_shape(n_frames);
        (suggestion.shape, suggestion.warnings.len())
    }

    #[test]
    fn keys_and_values() {
        let parsed = sidecar(
            "Time and Date Stamp (day, mnth, yr, hr, min, s):\t15/04/2021 14:44:03\r\n\
             Chip ID:\tW556_B4\r\nCounter Depth (number):\t12 \r\nGain:\t\r\n\
             Dead Time File:\tDummy (C:\\<NUL>\\)\r\n\
             Frames in Acquisition (Number):\t 64 \r\nFrames per Trigger (Number):\t8\r\n\
             ScanX:\t16\r\nScanY:\t4",
        );
        assert_eq!(parsed.depth, Some(Depth::Twelve));
        assert_eq!((parsed.n_frames, parsed.per_trigger), (Some(64), Some(8)));
        assert_eq!(parsed.scan, Some((4, 16)));
        let shown: Vec<&str> = parsed.details.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(shown, ["Time and Date Stamp", "Chip ID", "Counter Depth"]);
        assert_eq!(parsed.details[0].1, "15/04/2021 14:44:03");
    }

    #[test]
    fn latin_1_does_no_harm() {
        let parsed =
            Sidecar::parse(b"HDR,\t\r\nGain:\t5 \xB5s\r\nScanX:\t3\r\nScanY:\t2\r\n").unwrap();
        assert_eq!(parsed.details, [("Gain".to_owned(), "5 µs".to_owned())]);
        assert_eq!(parsed.scan, Some((2, 3)));
    }

    #[test]
    fn what_follows_the_end_is_not_read() {
        let parsed = Sidecar::parse(b"HDR,\r\nEnd\t\r\nScanX:\t3\r\nScanY:\t2\r\n").unwrap();
        assert_eq!(parsed.scan, None);
    }

    #[test]
    fn other_files_are_refused() {
        for other in [&b""[..], b"[measurementInfo]\n", b"\x00\x04@\x00", b"HD"] {
            assert!(Sidecar::parse(other).is_err());
        }
        let error = Sidecar::parse(b"[measurementInfo]\n").unwrap_err().to_string();
        assert!(error.contains("'[measurementInfo'") && error.contains("'HDR'"), "{error}");
    }

    #[test]
    fn truncated_or_senseless_sidecars_are_no_error() {
        let text =
            b"HDR,\t\r\nFrames per Trigger (Number):\tmany\r\nScanX:\t-4\r\nScanY:\t2\r\nEnd\t";
        for len in 3..text.len() {
            let suggestion = Sidecar::parse(&text[..len]).unwrap().nav_shape(9);
            assert_eq!((suggestion.shape, suggestion.warnings.len()), (vec![3, 3], 0), "{len}");
        }
    }

    #[test]
    fn the_named_scan_comes_first() {
        assert_eq!(shape("ScanX:\t4\r\nScanY:\t2\r\nFrames per Trigger:\t1", 8), (vec![2, 4], 0));
        // Aborted: the positions that were not reached have no data.
        assert_eq!(shape("ScanX:\t4\r\nScanY:\t2", 7), (vec![2, 4], 1));
        assert_eq!(shape("ScanX:\t4\r\nScanY:\t2", 9), (vec![2, 4], 1));
        assert_eq!(shape("ScanX:\t4\r\nScanY:\t2", 24), (vec![3, 2, 4], 1));
    }

    #[test]
    fn lying_sidecars_lose_against_the_file() {
        assert_eq!(shape("ScanX:\t0\r\nScanY:\t2", 9), (vec![3, 3], 0));
        assert_eq!(shape("ScanX:\t999999\r\nScanY:\t999999", 9), (vec![3, 3], 1));
        assert_eq!(shape("ScanX:\t18446744073709551615\r\nScanY:\t2", 9), (vec![3, 3], 1));
        assert_eq!(
            shape("Frames in Acquisition:\t100\r\nFrames per Trigger:\t1", 9),
            (vec![3, 3], 2)
        );
    }

    #[test]
    fn frames_per_trigger_where_they_make_a_grid() {
        let lines = |n: u64, per: u64| {
            format!("Frames in Acquisition (Number):\t{n}\r\nFrames per Trigger (Number):\t{per}")
        };
        assert_eq!(shape(&lines(64, 16), 64), (vec![4, 16], 0));
        // Open-ended: only the frames themselves count.
        assert_eq!(shape(&lines(0, 16), 64), (vec![4, 16], 0));
        // Aborted in the third of four rows.
        assert_eq!(shape(&lines(64, 16), 40), (vec![4, 16], 1));
        // And at the end of it: the fourth is missing all the same.
        assert_eq!(shape(&lines(64, 16), 48), (vec![4, 16], 1));
        // More than announced, and no whole rows announced.
        assert_eq!(shape(&lines(32, 16), 48), (vec![3, 16], 1));
        assert_eq!(shape(&lines(60, 16), 48), (vec![3, 16], 1));
        // One trigger: one axis, and no square.
        assert_eq!(shape(&lines(8, 8), 8), (vec![8], 0));
        assert_eq!(shape(&lines(9, 9), 9), (vec![9], 0));
        assert_eq!(shape(&lines(16, 16), 9), (vec![16], 1));
    }

    /// The frames per trigger do not say the scan there, and a square may be another one.
    #[test]
    fn a_square_that_is_guessed_beside_triggers_has_a_warning() {
        let lines = |n: u64, per: u64| {
            format!("Frames in Acquisition (Number):\t{n}\r\nFrames per Trigger (Number):\t{per}")
        };
        assert_eq!(shape(&lines(64, 1), 64), (vec![8, 8], 1));
        assert_eq!(shape(&lines(8, 1), 8), (vec![8], 0));
        assert_eq!(shape(&lines(1, 1), 1), (vec![1], 0));
        assert_eq!(shape(&lines(0, 7), 64), (vec![8, 8], 1));
        assert_eq!(shape(&lines(u64::MAX, 15), 64), (vec![8, 8], 2));
        let warnings = sidecar(&lines(64, 1)).nav_shape(64).warnings.join("");
        for part in ["1 frames per trigger", "64 frames", "8 x 8", "nav_shape"] {
            assert!(warnings.contains(part), "{warnings}");
        }
    }

    #[test]
    fn guesses_from_the_number_of_frames() {
        assert_eq!(guess_nav_shape(65536).shape, [256, 256]);
        assert_eq!(guess_nav_shape(65537).shape, [65537]);
        assert_eq!(guess_nav_shape(1).shape, [1]);
    }
}
