//! What a script does for one query: the code that makes the array which the picture shows.

use super::opened::call;
use super::python::{Literal, number, quoted};
use super::weights;
use crate::{
    AxisDescription, Centre, ComPart, Description, PatternChannel, PatternQuery, Query,
    ScanChannel, ScanQuery, Signed, Transform,
};
use framefold::Result;
use std::collections::BTreeSet;

/// Weights that a client sent as an array, by their number: shape and values.
pub type Arrays<'a> = &'a dyn Fn(u32) -> Option<(Vec<usize>, Vec<f32>)>;

/// One picture of a script.
#[derive(Clone, Debug, Default)]
pub(super) struct Shot {
    /// The name of its array.
    pub(super) name: String,
    /// What it shows, in words.
    pub(super) title: String,
    /// What has to be imported: module and name, below the package's.
    pub(super) imports: BTreeSet<(&'static str, &'static str)>,
    /// Names of pieces that it uses.
    pub(super) pieces: BTreeSet<&'static str>,
    /// Functions and constants of its own.
    pub(super) definitions: Vec<String>,
    /// Statements that make the array, with `ctx` and `ds`.
    pub(super) body: Vec<String>,
    /// Its axes.
    pub(super) axes: Vec<AxisDescription>,
    /// Whether it has two planes, y and x.
    pub(super) is_vector: bool,
}

impl Shot {
    /// Of one query.
    ///
    /// # Errors
    /// `InvalidArgument` if it does not fit the data set; `Limit` if an array of weights is too large.
    pub(super) fn of(
        name: &str,
        query: &Query,
        about: &Description,
        arrays: Arrays<'_>,
    ) -> Result<Self> {
        let mut shot = Shot { name: name.to_owned(), ..Shot::default() };
        match query {
            Query::Scan(query) => shot.scan(query, about, arrays)?,
            Query::Pattern(query) => shot.pattern(query, about, arrays)?,
        }
        Ok(shot)
    }

    fn scan(&mut self, query: &ScanQuery, about: &Description, arrays: Arrays<'_>) -> Result<()> {
        self.axes = last_two(&about.nav);
        let slice = index(&query.slice);
        let roi = match slice.is_empty() {
            true => String::new(),
            false => {
                self.line("roi = np.zeros(SCAN, dtype=bool)");
                self.line(format!("roi[{slice}] = True"));
                "roi=roi".to_owned()
            }
        };
        let name = self.name.clone();
        if !matches!(query.channel, ScanChannel::Own { .. }) {
            self.weights("detector", &query.detector, "FRAME", &lens(&about.sig), arrays)?;
        }
        let part = if slice.is_empty() { String::new() } else { format!("[{slice}]") };
        let of_detector = match query.detector.is_empty() {
            true => "all pixels",
            false => "the pixels of the detector",
        };
        match &query.channel {
            ScanChannel::Sum => {
                self.title = format!("Sum of {of_detector}");
                self.masks(&format!("[{name}_detector]"), &roi);
                self.line(format!("{name} = result[\"intensity\"].data[..., 0]{part}"));
            }
            ScanChannel::Mean => {
                self.title = format!("Mean of {of_detector}");
                self.masks(&format!("[{name}_detector]"), &roi);
                let weights = format!("np.abs({name}_detector()).sum()");
                self.line(format!("{name} = result[\"intensity\"].data[..., 0]{part} / {weights}"));
            }
            ScanChannel::Std | ScanChannel::Max => {
                let (class, what) = match query.channel {
                    ScanChannel::Std => ("DetectorStd", "Standard deviation"),
                    _ => ("DetectorMax", "Maximum"),
                };
                self.title = format!("{what} of {of_detector}");
                self.pieces.insert(class);
                self.imports.insert(("udf", "UDF"));
                self.run(&format!("{class}({name}_detector() != 0)"), &roi);
                self.line(format!("{name} = result[\"value\"].data{part}"));
            }
            ScanChannel::Com { part: shown, centre, rotation, flip_y } => {
                self.field(&roi, &part, (*centre, *rotation, *flip_y));
                self.com_part(*shown, of_detector);
            }
            ScanChannel::Idpc { centre, rotation, flip_y } => {
                self.title = format!("Integrated centre of mass of {of_detector}");
                self.field(&roi, &part, (*centre, *rotation, *flip_y));
                self.pieces.insert("integrated");
                self.line(format!("{name} = integrated(field)"));
            }
            ScanChannel::Own { name: function, buffer } => {
                self.own(function, buffer, &roi);
                self.line(format!("{name} = result[{}].data{part}", quoted(buffer)));
            }
        }
        self.transform(query.transform);
        Ok(())
    }

    fn com_part(&mut self, shown: ComPart, of_detector: &str) {
        let name = self.name.clone();
        let (what, code) = match shown {
            ComPart::Vector => ("Centre of mass", "field".to_owned()),
            ComPart::Magnitude => {
                ("Distance of the centre of mass", "np.hypot(field[0], field[1])".to_owned())
            }
            ComPart::Y => ("Centre of mass along y", "field[0]".to_owned()),
            ComPart::X => ("Centre of mass along x", "field[1]".to_owned()),
            ComPart::Divergence => {
                self.pieces.insert("divergence");
                ("Divergence of the centre of mass", "divergence(field)".to_owned())
            }
            ComPart::Curl => {
                self.pieces.insert("curl");
                ("Curl of the centre of mass", "curl(field)".to_owned())
            }
        };
        self.title = format!("{what} of {of_detector}");
        self.is_vector = shown == ComPart::Vector;
        self.line(format!("{name} = {code}"));
    }

    /// Makes `field`, the vectors of centres of mass.
    fn field(&mut self, roi: &str, part: &str, turned: (Centre, f64, bool)) {
        let name = self.name.clone();
        let (centre, rotation, flip_y) = turned;
        self.pieces.insert("vectors");
        self.definitions.push(format!(
            "def {name}_moments():\n    \
             \"\"\"Weights for the sum of the pixels, and of these times y and times x.\"\"\"\n    \
             weights = {name}_detector()\n    \
             y, x = np.indices((1, *FRAME)[-2:]).reshape((2, *FRAME))\n    \
             return np.stack([weights, weights * y, weights * x])"
        ));
        self.masks(&format!("{name}_moments"), roi);
        let centre = match centre {
            Centre::Mean => Literal::None,
            Centre::At(at) => Literal::Tuple(at.map(Literal::Number).to_vec()),
        };
        let arguments = [
            format!("result[\"intensity\"].data{part}"),
            "frame=FRAME".to_owned(),
            format!("centre={}", centre.code()),
            format!("rotation={}", number(rotation)),
            format!("flip_y={}", Literal::Truth(flip_y).code()),
        ];
        self.line(call("field = vectors", &arguments));
    }

    fn pattern(
        &mut self,
        query: &PatternQuery,
        about: &Description,
        arrays: Arrays<'_>,
    ) -> Result<()> {
        self.axes = last_two(&about.sig);
        let name = self.name.clone();
        let scan = lens(&about.nav);
        let slice = index(&query.slice);
        let plane = scan.get(query.slice.len()..).unwrap_or_default();
        let mut roi = String::new();
        let mut n_frames = "np.prod(SCAN)";
        if !query.region.is_empty() || !slice.is_empty() {
            self.line("roi = np.zeros(SCAN, dtype=bool)");
            let region = match query.region.is_empty() {
                true => "True".to_owned(),
                false => {
                    let shape = if slice.is_empty() { "SCAN" } else { "SCAN[-2:]" };
                    self.weights("region", &query.region, shape, plane, arrays)?;
                    format!("{name}_region() > 0")
                }
            };
            let slice = if slice.is_empty() { "..." } else { &slice };
            self.line(format!("roi[{slice}] = {region}"));
            roi = "roi=roi".to_owned();
            n_frames = "np.count_nonzero(roi)";
        }
        let of_region = if roi.is_empty() { "all frames" } else { "the frames of the region" };
        match &query.channel {
            PatternChannel::Sum | PatternChannel::Mean => {
                self.imports.insert(("udf.sum", "SumUDF"));
                self.run("SumUDF(dtype=\"float64\")", &roi);
                self.line(format!("{name} = result[\"intensity\"].data"));
                self.title = format!("Sum of {of_region}");
                if query.channel == PatternChannel::Mean {
                    self.title = format!("Mean of {of_region}");
                    if about.n_missing > 0 {
                        // Not all positions have a frame.
                        self.imports.insert(("udf.stddev", "StdDevUDF"));
                        self.run("StdDevUDF()", &roi);
                        n_frames = "np.ravel(result[\"num_frames\"].data)[0]";
                    }
                    self.line(format!("{name} = {name} / {n_frames}"));
                }
            }
            PatternChannel::Std => {
                self.title = format!("Standard deviation of {of_region}");
                self.imports.insert(("udf.stddev", "StdDevUDF"));
                self.run("StdDevUDF()", &roi);
                self.line(format!("{name} = result[\"std\"].data"));
            }
            PatternChannel::Max => {
                self.title = format!("Maximum of {of_region}");
                self.pieces.insert("FrameMax");
                self.imports.insert(("udf", "UDF"));
                self.run("FrameMax()", &roi);
                self.line(format!("{name} = result[\"value\"].data"));
            }
            PatternChannel::Own { name: function, buffer } => {
                self.own(function, buffer, &roi);
                self.line(format!("{name} = result[{}].data", quoted(buffer)));
            }
        }
        self.transform(query.transform);
        Ok(())
    }

    /// A function of the session, which the script does not know.
    fn own(&mut self, function: &str, buffer: &str, roi: &str) {
        self.title = format!("{buffer} of {function}");
        let constant = format!("{}_FUNCTION", self.name.to_uppercase());
        self.definitions.push(format!(
            "# {} is a function of the session, which this script does not know: put it here.\n\
             {constant} = None",
            quoted(function)
        ));
        let words = format!("set {constant} in this script to the function '{function}'");
        self.line(format!("if {constant} is None:\n    raise SystemExit({})", quoted(&words)));
        self.run(&constant, roi);
    }

    fn transform(&mut self, transform: Transform) {
        let (piece, what) = match transform {
            Transform::None => return,
            Transform::Fft => ("fourier", "Fourier transform"),
            Transform::Ewpc => ("cepstrum", "Cepstrum"),
        };
        self.pieces.insert(piece);
        let name = &self.name;
        let line = match self.is_vector {
            true => format!("{name} = np.stack([{piece}(plane) for plane in {name}])"),
            false => format!("{name} = {piece}({name})"),
        };
        self.line(line);
        self.title = format!("{what}: {}", self.title);
        self.axes = self.axes.iter().map(reciprocal).collect();
    }

    /// A function `NAME_WHAT` that gives the weights of shapes.
    fn weights(
        &mut self,
        what: &str,
        shapes: &[Signed],
        shape: &str,
        lens: &[usize],
        arrays: Arrays<'_>,
    ) -> Result<()> {
        let function = format!("{}_{what}", self.name);
        let code = weights::function(&function, shapes, shape, lens, arrays)?;
        self.pieces.extend(code.pieces);
        self.definitions.extend(code.definitions);
        Ok(())
    }

    fn masks(&mut self, factories: &str, roi: &str) {
        self.imports.insert(("udf.masks", "ApplyMasksUDF"));
        let udf = call(
            "ApplyMasksUDF",
            &[
                format!("mask_factories={factories}"),
                "mask_dtype=np.float64".to_owned(),
                "preferred_dtype=np.float64".to_owned(),
            ],
        );
        self.line(format!("udf = {udf}"));
        self.run("udf", roi);
    }

    fn run(&mut self, udf: &str, roi: &str) {
        let roi = if roi.is_empty() { String::new() } else { format!(", {roi}") };
        self.line(format!("result = ctx.run_udf(dataset=ds, udf={udf}{roi})"));
    }

    fn line(&mut self, line: impl Into<String>) {
        self.body.push(line.into());
    }
}

/// The lengths of axes.
pub(super) fn lens(axes: &[AxisDescription]) -> Vec<usize> {
    axes.iter().map(|axis| axis.size).collect()
}

fn index(slice: &[usize]) -> String {
    slice.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn last_two(axes: &[AxisDescription]) -> Vec<AxisDescription> {
    axes.get(axes.len().saturating_sub(2)..).unwrap_or_default().to_vec()
}

/// The axis of frequencies, 0 in the middle.
fn reciprocal(axis: &AxisDescription) -> AxisDescription {
    let scale = 1.0 / (axis.size.max(1) as f64 * axis.scale);
    AxisDescription {
        name: axis.name.clone(),
        size: axis.size,
        scale,
        offset: -((axis.size / 2) as f64) * scale,
        unit: if axis.unit.is_empty() { String::new() } else { format!("1/({})", axis.unit) },
    }
}
