//! Steps and units in TIFF files, where other programs look for them.
//!
//! | where | what | read by |
//! |---|---|---|
//! | `XResolution`, `YResolution` | pixels per unit | ImageJ, and most others |
//! | `ImageDescription` | `unit=`, `xorigin=` … as ImageJ writes them | ImageJ, tifffile, Bio-Formats |
//! | `ImageDescription` | OME-XML, in files that are named `.ome.tif` | Bio-Formats, tifffile, napari |
//!
//! ImageJ's steps have no sign, and its origins are in pixels. OME-XML knows units of length; all axes are in
//! an annotation there, with any unit.

use framefold_core::{DType, Error, Result};
use std::fmt::Write as _;
use tiff::encoder::Rational;

/// What is said of the pages of a file.
#[derive(Clone, Debug, Default)]
pub struct TiffLabels {
    /// What is shown.
    pub title: String,
    /// The axis from row to row, if it is calibrated.
    pub y: Option<TiffStep>,
    /// The axis along rows, if it is calibrated.
    pub x: Option<TiffStep>,
    /// Whether to describe it by OME-XML.
    pub ome: bool,
}

/// Where the pixels of an axis are: `offset + i * scale`.
#[derive(Clone, Debug, PartialEq)]
pub struct TiffStep {
    /// The unit.
    pub unit: String,
    /// The distance of neighbours.
    pub scale: f64,
    /// The place of the first one.
    pub offset: f64,
}

/// Units of length in OME-XML, and how else they are written.
const LENGTHS: [(&str, &[&str]); 7] = [
    ("m", &[]),
    ("cm", &[]),
    ("mm", &[]),
    ("µm", &["um", "μm", "micron"]),
    ("nm", &[]),
    ("pm", &[]),
    ("Å", &["A", "Angstrom", "angstrom"]),
];

impl TiffLabels {
    /// Pixels per unit along x and y, where one of them is known, and a fraction of TIFF holds it.
    pub(super) fn resolution(&self) -> Option<(Rational, Rational)> {
        let one = |step: &Option<TiffStep>| step.as_ref().and_then(|step| per_unit(step.scale));
        match (one(&self.x), one(&self.y)) {
            (None, None) => None,
            (x, y) => Some((x.unwrap_or(PIXEL), y.unwrap_or(PIXEL))),
        }
    }

    /// The description of a file of `n_leading` × `n_channels` pages, in ASCII.
    ///
    /// # Errors
    /// `Unsupported` if OME-XML has no such dtype.
    pub(super) fn description(
        &self,
        (height, width): (usize, usize),
        (n_leading, n_channels): (usize, usize),
        dtype: DType,
    ) -> Result<String> {
        match self.ome {
            true => self.ome_xml((height, width), (n_leading, n_channels), dtype),
            false => Ok(self.imagej(n_leading, n_channels)),
        }
    }

    /// As ImageJ writes it.
    fn imagej(&self, n_leading: usize, n_channels: usize) -> String {
        let mut text = "ImageJ=1.54f\n".to_owned();
        if n_leading * n_channels > 1 {
            let _ = writeln!(text, "images={}", n_leading * n_channels);
            for (name, n) in [("channels", n_channels), ("slices", n_leading)] {
                if n > 1 {
                    let _ = writeln!(text, "{name}={n}");
                }
            }
            text.push_str("hyperstack=true\nmode=grayscale\n");
        }
        let unit = |step: &TiffStep| match step.unit.as_str() {
            "" => "pixel".to_owned(),
            unit => escaped(unit, |c| format!("\\u{:04X}", u32::from(c))),
        };
        let held = |step: &&TiffStep| per_unit(step.scale).is_some();
        let (x, y) = (self.x.as_ref().filter(held), self.y.as_ref().filter(held));
        if x.is_some() || y.is_some() {
            let (of_x, of_y) =
                (x.map_or("pixel".to_owned(), unit), y.map_or("pixel".to_owned(), unit));
            let _ = writeln!(text, "unit={of_x}");
            if of_y != of_x {
                let _ = writeln!(text, "yunit={of_y}");
            }
        }
        for (name, step) in [("xorigin", x), ("yorigin", y)] {
            if let Some(step) = step.filter(|step| step.offset != 0.0) {
                let _ = writeln!(text, "{name}={}", -step.offset / step.scale);
            }
        }
        text
    }

    fn ome_xml(
        &self,
        (height, width): (usize, usize),
        (n_leading, n_channels): (usize, usize),
        dtype: DType,
    ) -> Result<String> {
        let kind = match dtype {
            DType::U8 | DType::Bool => "uint8",
            DType::U16 => "uint16",
            DType::U32 => "uint32",
            DType::I8 => "int8",
            DType::I16 => "int16",
            DType::I32 => "int32",
            DType::F16 | DType::F32 => "float",
            DType::F64 => "double",
            other => {
                return Err(Error::unsupported(format!("OME-TIFF has no {other}"))
                    .with_hint("write .tif, or convert the result first"));
            }
        };
        let mut sizes = String::new();
        let mut facts = String::new();
        for (name, step) in [("X", &self.x), ("Y", &self.y)] {
            let Some(step) = step else { continue };
            let known = LENGTHS
                .iter()
                .find(|(unit, others)| *unit == step.unit || others.contains(&step.unit.as_str()));
            if let Some((unit, _)) = known {
                let (scale, unit) = (step.scale.abs(), xml(unit));
                let _ = write!(
                    sizes,
                    " PhysicalSize{name}=\"{scale}\" PhysicalSize{name}Unit=\"{unit}\""
                );
            }
            let values = [
                ("Scale", step.scale.to_string()),
                ("Offset", step.offset.to_string()),
                ("Unit", step.unit.clone()),
            ];
            for (what, value) in values {
                let _ = write!(facts, "<M K=\"{name}{what}\">{}</M>", xml(&value));
            }
        }
        let channels: String = (0..n_channels)
            .map(|i| format!("<Channel ID=\"Channel:0:{i}\" SamplesPerPixel=\"1\"/>"))
            .collect();
        let (refers, annotation) = match facts.is_empty() {
            true => ("", String::new()),
            false => (
                "<AnnotationRef ID=\"Annotation:0\"/>",
                format!(
                    "<StructuredAnnotations><MapAnnotation ID=\"Annotation:0\" \
                     Namespace=\"framefold/axes\"><Value>{facts}</Value></MapAnnotation>\
                     </StructuredAnnotations>"
                ),
            ),
        };
        let big_endian = cfg!(target_endian = "big");
        Ok(format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\
             <OME xmlns=\"http://www.openmicroscopy.org/Schemas/OME/2016-06\" \
             xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" \
             xsi:schemaLocation=\"http://www.openmicroscopy.org/Schemas/OME/2016-06 \
             http://www.openmicroscopy.org/Schemas/OME/2016-06/ome.xsd\" Creator=\"framefold\">\
             <Image ID=\"Image:0\" Name=\"{title}\">\
             <Pixels ID=\"Pixels:0\" DimensionOrder=\"XYCZT\" Type=\"{kind}\" \
             BigEndian=\"{big_endian}\" SizeX=\"{width}\" SizeY=\"{height}\" \
             SizeC=\"{n_channels}\" SizeZ=\"{n_leading}\" SizeT=\"1\"{sizes}>\
             {channels}<TiffData/></Pixels>{refers}</Image>{annotation}</OME>",
            title = xml(&self.title),
        ))
    }
}

/// One pixel a pixel.
const PIXEL: Rational = Rational { n: 1, d: 1 };

/// `1 / scale` as the fraction of 32-bit numbers that is closest to it, by its continued fraction.
/// `None` if it is beyond all of them, and for 0 and what is not finite.
fn per_unit(scale: f64) -> Option<Rational> {
    let value = scale.abs().recip();
    let most = u64::from(u32::MAX);
    if !(1.0 / most as f64..=most as f64).contains(&value) {
        return None;
    }
    let (mut before, mut last) = ((0_u64, 1_u64), (1_u64, 0_u64));
    let mut rest = value;
    loop {
        // Casts of what is too large saturate.
        let whole = rest.floor() as u64;
        let next = (
            whole.saturating_mul(last.0).saturating_add(before.0),
            whole.saturating_mul(last.1).saturating_add(before.1),
        );
        if next.0 > most || next.1 > most {
            break;
        }
        (before, last) = (last, next);
        let error = last.0 as f64 / last.1 as f64 - value;
        rest = (rest - rest.floor()).recip();
        if error.abs() <= 1e-14 * value || !rest.is_finite() {
            break;
        }
    }
    Some(match last {
        // Closer to the end of the range than the next fraction.
        (_, 0) => Rational { n: u32::MAX, d: 1 },
        (0, _) => Rational { n: 1, d: u32::MAX },
        (n, d) => Rational { n: u32::try_from(n).ok()?, d: u32::try_from(d).ok()? },
    })
}

fn escaped(text: &str, other: impl Fn(char) -> String) -> String {
    text.chars().map(|c| if c.is_ascii() && c != '\n' { c.into() } else { other(c) }).collect()
}

/// A text as it stands in XML, in ASCII.
fn xml(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    escaped(&text, |c| format!("&#{};", u32::from(c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(unit: &str, scale: f64, offset: f64) -> Option<TiffStep> {
        Some(TiffStep { unit: unit.into(), scale, offset })
    }

    #[test]
    fn fractions_are_those_of_the_decimal_numbers() {
        for (scale, n, d) in [(0.5, 2, 1), (0.22, 50, 11), (12.0, 1, 12), (-3.0, 1, 3)] {
            let found = per_unit(scale).unwrap();
            assert_eq!((found.n, found.d), (n, d), "{scale}");
        }
        for scale in [1.0 / 3.0, 1e-7 / 3.0, 1e5 / 3.0, std::f64::consts::PI] {
            let found = per_unit(scale).unwrap();
            let read = f64::from(found.d) / f64::from(found.n);
            assert!((read / scale - 1.0).abs() < 1e-12, "{scale}: {read}");
        }
        let ends = [1.0 / f64::from(u32::MAX), f64::from(u32::MAX)];
        assert_eq!(
            ends.map(|end| per_unit(end).map(|found| (found.n, found.d))),
            [Some((u32::MAX, 1)), Some((1, u32::MAX))]
        );
        for scale in [0.0, 1e-12, 1e12, 4_294_967_296.0, f64::INFINITY, f64::NAN] {
            assert!(per_unit(scale).is_none(), "{scale}");
        }
    }

    #[test]
    fn steps_that_no_fraction_holds_are_pixels() {
        let mut labels = TiffLabels {
            title: String::new(),
            y: step("1/m", 5e9, 1e9),
            x: step("1/nm", 1e-12, 0.0),
            ome: false,
        };
        assert!(labels.resolution().is_none());
        let text = labels.description((3, 4), (1, 1), DType::F32).unwrap();
        assert_eq!(text, "ImageJ=1.54f\n");
        labels.y = step("nm", 0.5, 0.0);
        let (x, y) = labels.resolution().unwrap();
        assert_eq!([(x.n, x.d), (y.n, y.d)], [(1, 1), (2, 1)]);
        let text = labels.description((3, 4), (1, 1), DType::F32).unwrap();
        assert_eq!(text, "ImageJ=1.54f\nunit=pixel\nyunit=nm\n");
    }

    #[test]
    fn descriptions_are_ascii_and_say_what_is_known() {
        let mut labels = TiffLabels {
            title: "a < \"b\"".into(),
            y: step("Å", 0.5, 0.0),
            x: step("mrad", -2.0, 3.0),
            ome: false,
        };
        let text = labels.description((3, 4), (1, 1), DType::F32).unwrap();
        assert_eq!(text, "ImageJ=1.54f\nunit=mrad\nyunit=\\u00C5\nxorigin=1.5\n");
        labels.ome = true;
        let text = labels.description((3, 4), (2, 5), DType::F32).unwrap();
        assert!(text.is_ascii());
        for part in [
            "Name=\"a &lt; &quot;b&quot;\"",
            "PhysicalSizeY=\"0.5\" PhysicalSizeYUnit=\"&#197;\"",
            "SizeX=\"4\" SizeY=\"3\" SizeC=\"5\" SizeZ=\"2\"",
            "<M K=\"XScale\">-2</M><M K=\"XOffset\">3</M><M K=\"XUnit\">mrad</M>",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        assert!(!text.contains("PhysicalSizeX"));
        assert!(labels.description((3, 4), (1, 1), DType::U64).is_err());
    }
}
