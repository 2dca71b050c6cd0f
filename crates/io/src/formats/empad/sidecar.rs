//! The `.xml` file of an EMPAD recording.
//!
//! | element | meaning |
//! |---|---|
//! | `raw_file`, attribute `filename` | the file with the frames; may be an absolute path of another system |
//! | `type` | `scan` (also if it is not there) or `series` |
//! | `scan_parameters` of mode `acquire`, `scan_resolution_x`, `_y` | columns and rows of the scan |
//! | the same of mode `search` | some files were recorded with these instead |
//! | `pix_x`, `pix_y` | columns and rows, in old files |
//! | `count`, `scan_parameters/series_count` | the length of a series |
//!
//! Files were found whose numbers do not agree with each other. The one is taken that agrees with
//! the size of the `.raw` file, and its name is the last to be asked.

use crate::headers::geometry::square_or_line;
use crate::headers::xml::Element;
use framefold_core::{Error, MetadataList, Quantity, Result, suggested_scans};

/// A scan of more than this many times the frames that are there is not believed.
const MAX_SCAN_PER_FRAME: u64 = 1024;

/// What the sidecar says, as far as it is of use.
#[derive(Debug)]
pub(super) struct Sidecar {
    /// The name of the file with the frames, without folders.
    pub(super) raw_name: String,
    metadata: MetadataList,
    /// Width and height of what a whole scan covers, in metres.
    field_of_view: Option<[f64; 2]>,
    is_series: bool,
    /// Shapes of the scan and where each comes from, the best first.
    scans: Vec<(Vec<u64>, &'static str)>,
}

/// A suggestion for the scan shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NavSuggestion {
    pub(super) shape: Vec<usize>,
    /// Where the shape comes from, in words.
    pub(super) origin: &'static str,
    /// Whether it is but a guess from the number of frames.
    pub(super) guessed: bool,
    pub(super) warning: Option<String>,
}

impl NavSuggestion {
    pub(super) fn exact(shape: &[u64], origin: &'static str) -> Self {
        let shape = shape.iter().map(|&n| usize::try_from(n).unwrap_or(usize::MAX)).collect();
        NavSuggestion { shape, origin, guessed: false, warning: None }
    }
}

/// Whether a file begins like a sidecar.
pub(super) fn is_sidecar(prefix: &[u8]) -> bool {
    let text = String::from_utf8_lossy(prefix);
    let start = text.trim_start_matches('\u{feff}').trim_start();
    start.starts_with('<')
        && (text.contains("<raw_file")
            || (start.starts_with("<root") && text.contains("<reconstructions")))
}

impl Sidecar {
    /// Takes what is of use out of the file.
    ///
    /// # Errors
    /// `BadFile` if it names no file with frames.
    pub(super) fn new(root: &Element) -> Result<Self> {
        let filename = root.child("raw_file").and_then(|element| element.attribute("filename"));
        let raw_name = filename.and_then(|name| name.rsplit(['/', '\\']).next()).unwrap_or("");
        if raw_name.is_empty() || raw_name == ".." || raw_name == "." {
            return Err(Error::bad_file(
                "there is no element 'raw_file' whose attribute 'filename' names the file with \
                 the frames",
            )
            .with_hint("this is not the XML file of an EMPAD recording"));
        }
        let is_series = root.child("type").is_some_and(|kind| kind.text() == "series");
        Ok(Sidecar {
            raw_name: raw_name.to_owned(),
            metadata: metadata(root),
            field_of_view: field_of_view(root),
            is_series,
            scans: if is_series { series(root) } else { scans(root, raw_name) },
        })
    }

    /// What it tells of a scan of that shape: no steps of one that is guessed.
    pub(super) fn metadata(&self, scan: &NavSuggestion) -> MetadataList {
        let mut facts = self.metadata.clone();
        let field_of_view = self.field_of_view.filter(|_| !scan.guessed);
        if self.is_series {
            facts.text(Quantity::ScanAxes, "series");
        } else if let (&[rows, columns], Some([x, y])) = (scan.shape.as_slice(), field_of_view) {
            // Positions are as far apart in either direction: it is the longer one that fills the field.
            let longest = rows.max(columns) as f64;
            facts.positive(Quantity::ScanStepX, x / longest * 1e9);
            facts.positive(Quantity::ScanStepY, y / longest * 1e9);
        }
        facts
    }

    /// The scan shape for `n_frames` frames, which are what is really there.
    pub(super) fn nav_shape(&self, n_frames: u64) -> NavSuggestion {
        let what = if self.is_series { "series" } else { "scan" };
        suggest(&self.scans, n_frames, &format!("the XML file describes a {what} of"))
    }
}

/// The scan shape of a `.raw` file without a sidecar: many have it in their names.
pub(super) fn nav_shape_by_name(raw_name: &str, n_frames: u64) -> NavSuggestion {
    let shape = shape_in_name(raw_name).map(|(y, x)| vec![y, x]);
    let shape = shape.filter(|shape| !shape.contains(&0));
    let scans: Vec<_> = shape.map(|shape| (shape, "the name of the file")).into_iter().collect();
    suggest(&scans, n_frames, "the name of the file tells of a scan of")
}

/// The first of the shapes that has `n_frames` positions, or else the first one, if that many of
/// its positions are plausible; `found` is how a warning about it begins.
fn suggest(scans: &[(Vec<u64>, &'static str)], n_frames: u64, found: &str) -> NavSuggestion {
    let product = |shape: &[u64]| shape.iter().try_fold(1u64, |n, &axis| n.checked_mul(axis));
    let fits = |(shape, _): &&(Vec<u64>, &'static str)| product(shape) == Some(n_frames);
    if let Some((shape, origin)) = scans.iter().find(fits) {
        return NavSuggestion::exact(shape, origin);
    }
    let by_number = |warning| NavSuggestion {
        shape: square_or_line(n_frames),
        origin: "the number of frames",
        guessed: true,
        warning,
    };
    let Some((shape, origin)) = scans.first() else { return by_number(None) };
    let positions = product(shape).unwrap_or(u64::MAX);
    if n_frames < positions && positions / MAX_SCAN_PER_FRAME <= n_frames {
        let warning = format!("{found} {shape:?}, but there are only {n_frames} frames");
        return NavSuggestion { warning: Some(warning), ..NavSuggestion::exact(shape, origin) };
    }
    by_number(Some(format!(
        "{found} {shape:?}, which {n_frames} frames do not fit; these would: {}",
        suggested_scans(n_frames)
    )))
}

/// The shapes that the file of a scan names.
fn scans(root: &Element, raw_name: &str) -> Vec<(Vec<u64>, &'static str)> {
    let of_mode = |mode: &str| {
        let mut all = root.children.iter();
        let found = all.find(|child| {
            child.name == "scan_parameters" && child.attribute("mode") == Some(mode)
        })?;
        pair(found, "scan_resolution_y", "scan_resolution_x")
    };
    [
        (of_mode("acquire"), "the scan parameters of the XML file"),
        (of_mode("search"), "the search parameters of the XML file"),
        (pair(root, "pix_y", "pix_x"), "pix_x and pix_y of the XML file"),
        (shape_in_name(raw_name), "the name of the .raw file"),
    ]
    .into_iter()
    .filter_map(|(shape, origin)| shape.map(|(y, x)| (vec![y, x], origin)))
    .filter(|(shape, _)| !shape.contains(&0))
    .collect()
}

fn series(root: &Element) -> Vec<(Vec<u64>, &'static str)> {
    [&["count"][..], &["scan_parameters", "series_count"]]
        .into_iter()
        .filter_map(|path| number(root.path(path)?.text()))
        .filter(|&n| n > 0)
        .map(|n| (vec![n], "the length of the series in the XML file"))
        .collect()
}

fn pair(element: &Element, y: &str, x: &str) -> Option<(u64, u64)> {
    Some((number(element.child(y)?.text())?, number(element.child(x)?.text())?))
}

/// A whole number; some files write them as `128.0`.
fn number(text: &str) -> Option<u64> {
    text.strip_suffix(".0").unwrap_or(text).parse().ok()
}

/// Rows and columns in a name such as `scan_x128_y64.raw`.
fn shape_in_name(name: &str) -> Option<(u64, u64)> {
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let of_axis = |axis: char| {
        let mut parts = stem.rsplit('_');
        parts.find_map(|part| part.strip_prefix(axis)?.parse::<u64>().ok())
    };
    Some((of_axis('y')?, of_axis('x')?))
}

/// The width and the height of the whole field that is scanned, in metres.
fn field_of_view(root: &Element) -> Option<[f64; 2]> {
    let measured = root.child("iom_measurements")?;
    if let Some(newer) = measured.child("full_scan_field_of_view") {
        let number = |name: &str| newer.child(name)?.text().parse::<f64>().ok();
        let factor = number("scale_factor").filter(|&factor| factor > 0.0).unwrap_or(1.0);
        return Some([number("x")? / factor, number("y")? / factor]);
    }
    let older = measured.child("optics.get_full_scan_field_of_view")?.text();
    let (x, y) = older.trim_matches(['[', ']', '(', ')']).split_once(',')?;
    Some([x.trim().parse().ok()?, y.trim().parse().ok()?])
}

fn metadata(root: &Element) -> MetadataList {
    let mut facts = MetadataList::new();
    let text = |path: &[&str]| root.path(path).map(Element::text);
    let float = |path: &[&str]| text(path)?.parse::<f64>().ok();
    let measured =
        |names: [&str; 2]| names.into_iter().find_map(|name| float(&["iom_measurements", name]));
    facts.text(Quantity::Detector, "EMPAD");
    facts.text(Quantity::Title, root.attribute("name"));
    facts.text(Quantity::Software, text(&["software_version"]));
    let time = root.child("timestamp").and_then(|time| time.attribute("isoformat"));
    facts.text(Quantity::RecordedAt, time);
    facts.positive(Quantity::ExposureTime, float(&["exposure_time"]).map(|ms| ms / 1e3));
    let volts = measured(["source.get_voltage", "high_voltage"]);
    facts.positive(Quantity::AccelerationVoltage, volts.map(|volts| volts / 1e3));
    let length = measured(["optics.get_cameralength", "nominal_camera_length"]);
    facts.positive(Quantity::CameraLength, length.map(|metres| metres * 1e3));
    let angle = float(&["iom_measurements", "calibrated_diffraction_angle"]);
    facts.positive(Quantity::AngleStepX, angle.map(|radian| radian * 1e3));
    facts.positive(Quantity::AngleStepY, angle.map(|radian| radian * 1e3));
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sidecar(inner: &str) -> Sidecar {
        let text =
            format!("<root name='a'><raw_file filename='C:\\x\\s_x4_y3.raw'/>{inner}</root>");
        Sidecar::new(&Element::parse(text.as_bytes()).unwrap()).unwrap()
    }

    const SCAN: &str = "<scan_parameters mode='search'><scan_resolution_x>2</scan_resolution_x>\
        <scan_resolution_y>5</scan_resolution_y></scan_parameters>\
        <scan_parameters mode='acquire'><scan_resolution_x>8.0</scan_resolution_x>\
        <scan_resolution_y>7</scan_resolution_y></scan_parameters>";

    #[test]
    fn the_shape_that_fits_the_file_is_taken() {
        let scan = sidecar(SCAN);
        assert_eq!(scan.raw_name, "s_x4_y3.raw");
        for (n_frames, shape) in [(56, vec![7, 8]), (10, vec![5, 2]), (12, vec![3, 4])] {
            let suggestion = scan.nav_shape(n_frames);
            assert_eq!((suggestion.shape, suggestion.warning), (shape, None), "{n_frames}");
        }
        let aborted = scan.nav_shape(50);
        assert_eq!(aborted.shape, [7, 8]);
        assert!(aborted.warning.unwrap().contains("only 50 frames"));
        let more = scan.nav_shape(64);
        assert_eq!((more.shape, more.warning.is_some()), (vec![8, 8], true));
    }

    #[test]
    fn old_files_and_series() {
        let old = sidecar("<pix_x>5</pix_x><pix_y>2</pix_y>");
        assert_eq!(old.nav_shape(10).shape, [2, 5]);
        let series = sidecar("<type>series</type><count>9</count>");
        assert_eq!(series.nav_shape(9).shape, [9]);
        let nested = "<type>series</type><scan_parameters><series_count>9</series_count>\
                      </scan_parameters>";
        assert_eq!(sidecar(nested).nav_shape(9).shape, [9]);
    }

    #[test]
    fn steps_follow_from_the_field_of_view() {
        let steps_of = |fov: &str, scan: NavSuggestion| {
            let text = format!("<iom_measurements>{fov}</iom_measurements>");
            let facts = sidecar(&text).metadata(&scan);
            [Quantity::ScanStepY, Quantity::ScanStepX].map(|step| facts.get_number(step))
        };
        let steps = |fov: &str, shape: &[u64]| steps_of(fov, NavSuggestion::exact(shape, ""));
        let older = "<optics.get_full_scan_field_of_view>[4e-06, 4e-06]\
                     </optics.get_full_scan_field_of_view>";
        let newer = "<full_scan_field_of_view><scale_factor>0.5</scale_factor><x>1e-06</x>\
                     <y>1e-06</y></full_scan_field_of_view>";
        let about = |found: [Option<f64>; 2], expected: f64| {
            found.iter().all(|step| step.is_some_and(|step| (step / expected - 1.0).abs() < 1e-12))
        };
        assert!(about(steps(older, &[4, 4]), 1000.0));
        assert!(about(steps(newer, &[64, 32]), 31.25));
        // Each axis has its own side of the field.
        let oblong = newer.replace("<y>1e-06", "<y>2e-06");
        let [y, x] = steps(&oblong, &[64, 32]);
        assert!(about([y, y], 62.5) && about([x, x], 31.25));
        assert_eq!(steps(older, &[16]), [None, None]);
        let guessed = suggest(&[(vec![3, 4], "")], 16, "");
        assert_eq!((guessed.shape.as_slice(), guessed.guessed), (&[4, 4][..], true));
        assert_eq!(steps_of(older, guessed), [None, None]);
        for odd in [
            "",
            "<full_scan_field_of_view/>",
            "<full_scan_field_of_view><x>a</x><y>1</y>\
                     </full_scan_field_of_view>",
        ] {
            assert_eq!(steps(odd, &[4, 4]), [None, None], "{odd}");
        }
    }

    #[test]
    fn absurd_numbers_are_not_believed() {
        for number in ["0", "-4", "99999999", "18446744073709551615", "x"] {
            let scan = sidecar(&format!("<type>series</type><count>{number}</count>"));
            assert_eq!(scan.nav_shape(9).shape, [3, 3], "{number}");
        }
    }

    #[test]
    fn a_file_must_be_named() {
        for text in
            ["<root/>", "<root><raw_file/></root>", "<root><raw_file filename='a/..'/></root>"]
        {
            assert!(Sidecar::new(&Element::parse(text.as_bytes()).unwrap()).is_err(), "{text}");
        }
    }

    #[test]
    fn shapes_in_names() {
        assert_eq!(shape_in_name("scan_x128_y64.raw"), Some((64, 128)));
        assert_eq!(shape_in_name("x4_y2"), Some((2, 4)));
        assert_eq!(shape_in_name("scan_x128.raw"), None);
        assert_eq!(shape_in_name("scan_xa_y2.raw"), None);
    }
}
