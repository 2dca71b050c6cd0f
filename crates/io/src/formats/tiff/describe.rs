//! What programs write into the description of the first page: ImageJ, OME and tifffile.

use super::ifd::{Directory, tag};
use super::planes::{PlaneAxis, Planes};
use super::vendors;
use crate::headers::calibration::{Calibration, add_steps};
use crate::headers::units::{convert, is_known};
use crate::headers::xml::Element;
use framefold_core::{AxisKind, COLOUR, MetadataList, NAMES_SEPARATOR, Quantity, checked_product};

/// Texts beyond this are not looked into.
const LONGEST: usize = 16 << 20;

/// What the first page says about the stack.
#[derive(Clone, Debug, Default)]
pub(super) struct Description {
    /// Who wrote it.
    pub(super) kind: Option<&'static str>,
    /// How many frames there are, where it says so.
    n_frames: Option<u64>,
    /// How many values there are in all frames, where one page stands for all of them.
    n_values: Option<u64>,
    pub(super) metadata: MetadataList,
    /// What is odd about it.
    pub(super) warnings: Vec<String>,
    /// The axes of the stack, slowest first, with those of a frame or without them.
    axes: Option<Axes>,
    /// Which page is which plane, where it says so.
    planes: Option<Planes>,
}

#[derive(Clone, Debug)]
enum Axes {
    Nav(Vec<usize>),
    All(Vec<usize>),
}

impl Description {
    pub(super) fn read(directory: &Directory<'_>) -> Self {
        let mut found = Description::default();
        let text = directory.text(tag::DESCRIPTION).unwrap_or_default();
        found.metadata.text(Quantity::Software, directory.text(tag::SOFTWARE).as_deref());
        let when = directory.text(tag::DATE_TIME).map(|when| iso_time(&when).unwrap_or(when));
        found.metadata.text(Quantity::RecordedAt, when.as_deref());
        // MetaMorph has six numbers for each plane, and one page for all of them; programs that wrote a
        // plane of it anew may keep one of its tags.
        if let (Some(_), Some(n_planes)) =
            (directory.count_of(tag::METAMORPH), directory.count_of(tag::METAMORPH_PLANES))
        {
            found.kind = Some("MetaMorph");
            found.n_frames = Some(n_planes);
        }
        if text.len() > LONGEST {
            return found;
        }
        if text.starts_with("ImageJ=") {
            let steps = [tag::X_RESOLUTION, tag::Y_RESOLUTION].map(|tag| {
                directory.fraction(tag).filter(|&n| n > 0.0).map(|per_unit| 1.0 / per_unit)
            });
            found.imagej(&text, steps);
        } else if text.starts_with('{') {
            found.tifffile(&text);
        } else if text.contains("<OME") {
            found.ome(&text);
        }
        let maker = vendors::add(directory, &mut found.metadata, &mut found.warnings);
        found.kind = maker.or(found.kind);
        found
    }

    /// How many frames of this shape there are, where it says so.
    pub(super) fn n_frames(&self, sig_shape: &[usize]) -> Option<u64> {
        let of_values = || {
            let (n_values, of_frame) = (self.n_values?, checked_product(sig_shape)?);
            n_values.checked_div(of_frame).filter(|_| n_values.is_multiple_of(of_frame))
        };
        self.n_frames.or_else(of_values)
    }

    /// The scan shape, of frames of this shape.
    pub(super) fn nav_shape(&self, sig_shape: &[usize]) -> Option<Vec<usize>> {
        match self.axes.as_ref()? {
            Axes::Nav(nav) => Some(nav.clone()),
            Axes::All(all) => all.strip_suffix(sig_shape).map(<[usize]>::to_vec),
        }
        .filter(|nav| !nav.is_empty())
    }

    /// Lines of `name=value`.
    fn imagej(&mut self, text: &str, [x, y]: [Option<f64>; 2]) {
        self.kind = Some("ImageJ");
        let value = |name: &str| {
            let mut values = text.lines().filter_map(|line| line.split_once('='));
            values.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
        };
        let count = |name: &str| value(name).and_then(|n| n.parse::<usize>().ok());
        self.n_frames = count("images").and_then(|n| u64::try_from(n).ok());
        let numbers = |name: &str| value(name).and_then(|n| n.parse::<f64>().ok());
        let unit = |name: &str| value(name).map(unescaped);
        let lengths = unit("unit").unwrap_or_default();
        // Origins are in pixels.
        let calibration = |step: Option<f64>, origin: &str, unit: String| {
            let offset = step.zip(numbers(origin)).map(|(step, origin)| -step * origin);
            Some(Calibration { step: step?, offset, unit })
        };
        let seconds = unit("tunit").unwrap_or_else(|| "s".to_owned());
        let interval = numbers("finterval");
        let frame_time = interval.and_then(|step| convert(step, &seconds, Quantity::FrameTime));
        let times = calibration(frame_time.and(interval), "", seconds);
        let depths = unit("zunit").unwrap_or_else(|| lengths.clone());
        let depths = calibration(numbers("spacing"), "zorigin", depths);
        self.stack(
            [("frames", "time", times), ("slices", "depth", depths), ("channels", "channel", None)]
                .into_iter()
                .filter_map(|(key, name, step)| Some((count(key)?, name, step))),
        );
        self.metadata.positive(Quantity::FrameTime, frame_time);
        let rows = unit("yunit").unwrap_or_else(|| lengths.clone());
        self.steps([calibration(y, "yorigin", rows), calibration(x, "xorigin", lengths)]);
    }

    /// `{"shape": [3, 4, 128, 128]}`
    fn tifffile(&mut self, text: &str) {
        let Ok(json) = crate::headers::json::parse(text.as_bytes()) else { return };
        let Some(shape) = json.get("shape").and_then(|shape| shape.as_array()) else { return };
        let shape: Option<Vec<usize>> =
            shape.iter().map(|n| n.as_u64().and_then(|n| usize::try_from(n).ok())).collect();
        let Some(shape) = shape.filter(|shape| shape.len() > 2) else { return };
        self.kind = Some("tifffile");
        if json.get("truncated").is_some_and(|truncated| truncated == true) {
            self.n_values = checked_product(&shape);
        }
        self.axes = Some(Axes::All(shape));
    }

    /// The place in the stack of each frame, from the numbers of their pages, where the description
    /// says so: it has axes only then. `Err` says why there are no such places.
    pub(super) fn places(&mut self, pages: &[u64]) -> Option<Result<Vec<u64>, String>> {
        let planes = self.planes.take()?;
        let places = planes.places(pages);
        if places.is_err() && pages.len() == 1 && planes.n_files < 2 {
            return None; // there is nothing to arrange
        }
        if places.is_ok() {
            self.stack(
                planes.axes.into_iter().map(|PlaneAxis { n, name, step, .. }| (n, name, step)),
            );
        }
        Some(places)
    }

    /// `OME/Image/Pixels`.
    fn ome(&mut self, text: &str) {
        let Ok(root) = Element::parse(text.as_bytes()) else { return };
        let images: Vec<&Element> =
            root.children.iter().filter(|child| child.name.ends_with("Image")).collect();
        let all: Vec<&Element> = images
            .iter()
            .filter_map(|image| image.children.iter().find(|child| child.name.ends_with("Pixels")))
            .collect();
        let Some(&pixels) = all.first() else { return };
        self.kind = Some("OME");
        self.metadata
            .text(Quantity::Title, images.first().and_then(|image| image.attribute("Name")));
        let number = |name: &str| pixels.attribute(name).and_then(|n| n.parse::<f64>().ok());
        let unit = |name: &str| pixels.attribute(name).unwrap_or("µm").to_owned();
        let step = |step: &str, unit: String| {
            Some(Calibration { step: number(step)?, offset: None, unit })
        };
        let length = |letter: char| {
            step(&format!("PhysicalSize{letter}"), unit(&format!("PhysicalSize{letter}Unit")))
        };
        self.steps(['Y', 'X'].map(length));
        let seconds = pixels.attribute("TimeIncrementUnit").unwrap_or("s");
        let frame_time = number("TimeIncrement");
        let frame_time = frame_time.and_then(|step| convert(step, seconds, Quantity::FrameTime));
        self.metadata.positive(Quantity::FrameTime, frame_time);
        // From fastest to slowest, after X and Y.
        let order = pixels.attribute("DimensionOrder").unwrap_or("XYZCT");
        let colours = pixels.children.iter().find(|child| child.name.ends_with("Channel"));
        let samples = colours.and_then(|c| c.attribute("SamplesPerPixel")?.parse::<usize>().ok());
        let axes = order.chars().rev().filter(|axis| !matches!(axis, 'X' | 'Y'));
        let axes = axes.filter_map(|letter| {
            let n = pixels.attribute(&format!("Size{letter}"))?.parse::<usize>().ok()?;
            let (n, name, step) = match letter {
                'C' => (n / samples.unwrap_or(1).max(1), "channel", None),
                'Z' => (n, "depth", length('Z')),
                'T' => (n, "time", step("TimeIncrement", seconds.to_owned())),
                _ => (n, "", None),
            };
            Some(PlaneAxis { letter, n: n.max(1), name, step })
        });
        self.planes = Some(Planes::read(root.attribute("UUID"), &all, axes.collect()));
    }

    /// Says which axis of frames holds their colours. Where it is the last one, the steps of rows and
    /// columns are those of the axes before it, and no quantities: those are of the last two axes.
    pub(super) fn colours(&mut self, sig_shape: &[usize], planes: bool) {
        let &[rows, columns, _] = sig_shape else { return };
        if planes {
            let names = [COLOUR, "y", "x"].join(NAMES_SEPARATOR);
            return self.metadata.text(Quantity::FrameAxes, names.as_str());
        }
        let pixels = framefold_core::axes(&[], &[rows, columns], &self.metadata);
        (0..2).for_each(|from_last| self.metadata.forget_axis(AxisKind::Sig, from_last));
        for (axis, from_last) in pixels.into_iter().zip([2, 1]) {
            let (step, offset, unit) = (axis.scale, axis.offset, axis.unit);
            let own = framefold_core::Calibration { step, offset, unit };
            if own != framefold_core::Calibration::none() {
                self.metadata.calibrate(AxisKind::Sig, from_last, own);
            }
        }
        let names = ["y", "x", COLOUR].join(NAMES_SEPARATOR);
        self.metadata.text(Quantity::FrameAxes, names.as_str());
    }

    /// The axes of the stack, slowest first: the length, the name, and the calibration.
    fn stack(&mut self, axes: impl Iterator<Item = (usize, &'static str, Option<Calibration>)>) {
        let axes: Vec<_> = axes.filter(|(n, ..)| *n > 1).collect();
        let names: Vec<&str> = axes.iter().map(|(_, name, _)| *name).collect();
        self.metadata.text(Quantity::ScanAxes, names.join(NAMES_SEPARATOR).as_str());
        for (from_last, (_, _, axis)) in axes.iter().rev().enumerate() {
            let axis = axis.as_ref().filter(|axis| axis.step > 0.0);
            if let Some(axis) = axis.and_then(Calibration::plain) {
                self.metadata.calibrate(AxisKind::Nav, from_last, axis);
            }
        }
        self.axes = Some(Axes::Nav(axes.into_iter().map(|(n, ..)| n).collect()));
    }

    /// Rows and columns, where their units are known: others are those of prints.
    fn steps(&mut self, axes: [Option<Calibration>; 2]) {
        let known = |axis: &Calibration| axis.step > 0.0 && is_known(&axis.unit);
        add_steps(&mut self.metadata, &[], &axes.map(|axis| axis.filter(known)));
    }
}

/// ImageJ's text without its `\\u00B5` for other letters than those of ASCII.
fn unescaped(text: &str) -> String {
    let mut parts = text.split("\\u");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part.get(..4).and_then(|code| u32::from_str_radix(code, 16).ok());
        match (code.and_then(char::from_u32), part.get(4..)) {
            (Some(letter), Some(rest)) => plain.extend([letter.to_string().as_str(), rest]),
            _ => plain.extend(["\\u", part]),
        }
    }
    plain
}

/// TIFF's `2016:06:13 16:08:49` as ISO 8601 has it.
fn iso_time(when: &str) -> Option<String> {
    let pattern = b"0000:00:00 00:00:00";
    let is_time = when.len() == pattern.len()
        && when.bytes().zip(pattern).all(|(byte, wanted)| match wanted {
            b'0' => byte.is_ascii_digit(),
            other => byte == *other,
        });
    let (date, time) = when.split_once(' ').filter(|_| is_time)?;
    Some(format!("{}T{time}", date.replace(':', "-")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_are_those_of_iso_8601() {
        assert_eq!(iso_time("2016:06:13 16:08:49").as_deref(), Some("2016-06-13T16:08:49"));
        for other in ["2015/07/30 7:17", "2016:06:13", "", "2016:06:13 16:08:4x"] {
            assert_eq!(iso_time(other), None);
        }
    }

    use super::*;

    #[test]
    fn imagej_says_how_many_frames_and_how_wide_pixels_are() {
        let mut found = Description::default();
        let text = "ImageJ=1.52\nimages=6\nslices=3\nframes=2\nunit=\\u00B5m\nfinterval=0.5\n\
                    spacing=2.5\n";
        found.imagej(text, [Some(0.25), Some(0.5)]);
        assert_eq!(
            (found.n_frames(&[9, 9]), found.nav_shape(&[9, 9])),
            (Some(6), Some(vec![2, 3]))
        );
        let facts: Vec<String> = found.metadata.iter().map(|f| f.to_string()).collect();
        assert_eq!(facts, ["0.5 s", "250 nm", "500 nm", "time, depth"]);
        let axes = framefold_core::axes(&[2, 3], &[], &found.metadata);
        let axes: Vec<String> = axes.iter().map(ToString::to_string).collect();
        assert_eq!(axes, ["time: 2 × 0.5 s", "depth: 3 × 2.5 µm"]);
    }

    #[test]
    fn imagej_says_units_of_times_and_where_axes_begin() {
        let axes = |lines: &str| {
            let mut found = Description::default();
            found
                .imagej(&format!("ImageJ=1.52\nframes=2\nfinterval=20.0\n{lines}"), [Some(0.5); 2]);
            let axes = framefold_core::axes(&[2], &[4, 5], &found.metadata);
            let axes: Vec<String> = axes.iter().map(ToString::to_string).collect();
            (found.metadata.get_number(Quantity::FrameTime), axes.join("; "))
        };
        for (lines, seconds, shown) in [
            ("", Some(20.0), "time: 2 × 20 s; y: 4; x: 5"),
            ("tunit=ms", Some(0.02), "time: 2 × 20 ms; y: 4; x: 5"),
            ("tunit=\\u00B5s", Some(2e-5), "time: 2 × 20 µs; y: 4; x: 5"),
            ("tunit=hours", Some(72_000.0), "time: 2 × 20 h; y: 4; x: 5"),
            ("tunit=\\uD800 moons", None, "time: 2; y: 4; x: 5"),
        ] {
            assert_eq!(axes(lines), (seconds, shown.to_owned()));
        }
        let begin = "unit=nm\nyunit=\\u00C5\nxorigin=2\nyorigin=-4";
        let shown = "time: 2 × 20 s; y: 4 × 0.05 nm, from 0.2 nm; x: 5 × 0.5 nm, from -1 nm";
        assert_eq!(axes(begin), (Some(20.0), shown.to_owned()));
    }

    #[test]
    fn tifffile_says_the_shape() {
        let mut found = Description::default();
        found.tifffile(r#"{"shape": [3, 4, 5, 6]}"#);
        assert_eq!(found.nav_shape(&[5, 6]), Some(vec![3, 4]));
        assert_eq!(found.nav_shape(&[6, 5]), None);
        assert_eq!(found.n_frames(&[5, 6]), None);
        found.tifffile(r#"{"shape": [3, 4, 5, 6], "truncated": true}"#);
        let n_frames = |shape: &[usize]| found.n_frames(shape);
        assert_eq!((n_frames(&[5, 6]), n_frames(&[4, 5, 6])), (Some(12), Some(3)));
        assert_eq!((n_frames(&[5, 7]), n_frames(&[0])), (None, None));
    }

    #[test]
    fn steps_are_those_of_pixels_not_of_colours() {
        let shown = |found: &Description, shape: &[usize]| {
            let axes = framefold_core::axes(&[], shape, &found.metadata);
            axes.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let steps = [Some(0.25), Some(0.5)];
        for (shape, planes, expected) in [
            (&[6, 8, 3][..], false, &["y: 6 × 500 nm", "x: 8 × 250 nm", "colour: 3"][..]),
            (&[3, 6, 8], true, &["colour: 3", "y: 6 × 500 nm", "x: 8 × 250 nm"]),
            (&[6, 8], false, &["y: 6 × 500 nm", "x: 8 × 250 nm"]),
        ] {
            let mut found = Description::default();
            found.imagej("ImageJ=1.52\nunit=\\u00B5m\n", steps);
            found.colours(shape, planes);
            assert_eq!(shown(&found, shape), expected);
        }
        let mut unknown = Description::default();
        unknown.colours(&[6, 8, 4], false);
        assert_eq!(shown(&unknown, &[6, 8, 4]), ["y: 6", "x: 8", "colour: 4"]);
    }

    #[test]
    fn ome_says_the_axes() {
        let mut found = Description::default();
        found.ome(
            r#"<?xml version="1.0"?><OME><Image Name="a"><Pixels DimensionOrder="XYCZT" SizeX="7"
            SizeY="8" SizeZ="4" SizeC="1" SizeT="3" PhysicalSizeX="2" PhysicalSizeXUnit="nm"><TiffData
            IFD="0" PlaneCount="12"/></Pixels></Image></OME>"#,
        );
        let pages: Vec<u64> = (0..12).collect();
        assert_eq!(found.places(&pages), Some(Ok(pages)));
        assert_eq!(found.nav_shape(&[8, 7]), Some(vec![3, 4]));
        let facts: Vec<String> = found.metadata.iter().map(|f| f.to_string()).collect();
        assert_eq!(facts, ["2 nm", "a", "time, depth"]);
        let mut other = Description::default();
        other.ome("<OME><Image><Pixels SizeZ='4'><TiffData IFD='3'/></Pixels></Image></OME>");
        assert!(other.places(&[0, 1, 2, 3]).is_some_and(|places| places.is_err()));
        assert_eq!(other.nav_shape(&[8, 7]), None);
    }
}
