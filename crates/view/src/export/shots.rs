//! What a script does for one query: the code that makes the array which the picture shows.

use super::opened::call;
use super::python::{Literal, number, quoted};
use super::titles::{axes, title};
use super::weights;
use crate::compute::com::Aspects;
use crate::{
    AxisDescription, Centre, ComPart, Description, PatternChannel, PatternQuery, Query,
    ScanChannel, ScanQuery, Signed, Transform,
};
use framefold::Result;
use std::collections::BTreeSet;

/// Weights that a client sent as an array, by their number: shape and values.
pub type Arrays<'a> = &'a dyn Fn(u64) -> Option<(Vec<usize>, Vec<f32>)>;

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
    /// How long steps and pixels are along y.
    aspects: Aspects,
    /// Whether runs are given `corrections`.
    corrected: bool,
    /// Whether pixels may be NaN or infinite.
    of_floats: bool,
}

impl Shot {
    /// Of one query; its runs are given `corrections` if it is `corrected`.
    ///
    /// # Errors
    /// `InvalidArgument` if it does not fit the data set; `Limit` if an array of weights is too large.
    pub(super) fn of(
        name: &str,
        query: &Query,
        about: &Description,
        arrays: Arrays<'_>,
        corrected: bool,
    ) -> Result<Self> {
        let query = &query.sliced(about.nav.len());
        let mut shot = Shot {
            name: name.to_owned(),
            aspects: Aspects::of(&about.nav, &about.sig),
            corrected,
            of_floats: corrected
                || !["bool", "int", "uint"].iter().any(|of| about.dtype.starts_with(of)),
            title: title(query),
            axes: axes(query, about),
            ..Shot::default()
        };
        match query {
            Query::Scan(query) => shot.scan(query, about, arrays)?,
            Query::Pattern(query) => shot.pattern(query, about, arrays)?,
        }
        Ok(shot)
    }

    fn scan(&mut self, query: &ScanQuery, about: &Description, arrays: Arrays<'_>) -> Result<()> {
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
        match &query.channel {
            ScanChannel::Sum => {
                self.masks(&format!("[{name}_detector]"), &roi);
                self.line(format!("{name} = result[\"intensity\"].data[..., 0]{part}"));
            }
            ScanChannel::Mean => {
                self.masks(&format!("[{name}_detector]"), &roi);
                let weights = format!("np.abs({name}_detector()).sum()");
                self.line(format!("{name} = result[\"intensity\"].data[..., 0]{part} / {weights}"));
            }
            ScanChannel::Std | ScanChannel::Max => {
                let class = match query.channel {
                    ScanChannel::Std => "DetectorStd",
                    _ => "DetectorMax",
                };
                self.pieces.insert(class);
                self.imports.insert(("udf", "UDF"));
                self.run(&format!("{class}({name}_detector() != 0)"), &roi);
                self.line(format!("{name} = result[\"value\"].data{part}"));
            }
            ScanChannel::Com { part: shown, centre, rotation, flip_y } => {
                self.field(&roi, &part, about.sig.len() == 1, (*centre, *rotation, *flip_y));
                self.com_part(*shown);
            }
            ScanChannel::Idpc { centre, rotation, flip_y } => {
                self.field(&roi, &part, about.sig.len() == 1, (*centre, *rotation, *flip_y));
                self.pieces.insert("integrated");
                let step = self.step();
                self.line(format!("{name} = integrated(field, {step})"));
            }
            ScanChannel::Own { name: function, buffer } => {
                self.own(function, buffer, "SCAN", &roi);
                if !part.is_empty() {
                    self.line(format!("{name} = {name}{part}"));
                }
            }
        }
        self.transform(query.transform);
        Ok(())
    }

    fn com_part(&mut self, shown: ComPart) {
        let name = self.name.clone();
        let code = match shown {
            ComPart::Vector => "field".to_owned(),
            ComPart::Magnitude => "np.hypot(field[0], field[1])".to_owned(),
            ComPart::Y => "field[0]".to_owned(),
            ComPart::X => "field[1]".to_owned(),
            ComPart::Divergence => {
                self.pieces.insert("divergence");
                format!("divergence(field, {})", self.step())
            }
            ComPart::Curl => {
                self.pieces.insert("curl");
                format!("curl(field, {})", self.step())
            }
        };
        self.is_vector = shown == ComPart::Vector;
        self.line(format!("{name} = {code}"));
    }

    /// The argument of pieces that says how long a step of the scan is along y.
    fn step(&self) -> String {
        format!("step={}", number(self.aspects.scan))
    }

    /// Makes `field`, the vectors of centres of mass.
    fn field(&mut self, roi: &str, part: &str, of_lines: bool, turned: (Centre, f64, bool)) {
        let name = self.name.clone();
        let (centre, rotation, flip_y) = turned;
        self.pieces.insert("vectors");
        let (words, indices, all) = match of_lines {
            true => ("times x", "x = np.arange(*FRAME)", "weights, weights * x"),
            false => (
                "times y and times x",
                "y, x = np.indices(FRAME)",
                "weights, weights * y, weights * x",
            ),
        };
        self.definitions.push(format!(
            "def {name}_moments():\n    \
             \"\"\"Weights for the sum of the pixels, and of these {words}.\"\"\"\n    \
             weights = {name}_detector()\n    {indices}\n    return np.stack([{all}])"
        ));
        self.masks(&format!("{name}_moments"), roi);
        let centre = match centre {
            Centre::Mean => Literal::None,
            Centre::At(at) => Literal::Tuple(at.map(Literal::Number).to_vec()),
        };
        let arguments = [
            format!("result[\"intensity\"].data{part}"),
            "frame=FRAME".to_owned(),
            format!("pixel={}", number(self.aspects.frame)),
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
        let name = self.name.clone();
        let scan = lens(&about.nav);
        let slice = index(&query.slice);
        let plane = scan.get(query.slice.len()..).unwrap_or_default();
        let mut roi = String::new();
        let mut n_frames = "np.prod(SCAN)";
        // Functions of the session run over all positions, whatever is drawn.
        let of_all = matches!(query.channel, PatternChannel::Own { .. })
            || (query.region.is_empty() && slice.is_empty());
        if !of_all {
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
        let (udf, buffer) = match &query.channel {
            PatternChannel::Sum | PatternChannel::Mean => {
                self.imports.insert(("udf.sum", "SumUDF"));
                ("SumUDF(dtype=\"float64\")", "intensity")
            }
            PatternChannel::Std => {
                self.imports.insert(("udf.stddev", "StdDevUDF"));
                ("StdDevUDF()", "std")
            }
            PatternChannel::Max => {
                self.pieces.insert("FrameMax");
                self.imports.insert(("udf", "UDF"));
                ("FrameMax()", "value")
            }
            PatternChannel::Own { name: function, buffer } => {
                self.own(function, buffer, "FRAME", &roi);
                self.transform(query.transform);
                return Ok(());
            }
        };
        self.run(udf, &roi);
        self.line(format!("{name} = result[{}].data", quoted(buffer)));
        if about.n_missing > 0 {
            // Not all positions have a frame, and perhaps none of these.
            if query.channel != PatternChannel::Std {
                self.imports.insert(("udf.stddev", "StdDevUDF"));
                self.run("StdDevUDF()", &roi);
            }
            self.line("n_frames = np.ravel(result[\"num_frames\"].data)[0]");
            self.line(format!("{name} = np.where(n_frames > 0, {name}, np.nan)"));
            n_frames = "n_frames";
        }
        if query.channel == PatternChannel::Mean {
            self.line(format!("{name} = {name} / {n_frames}"));
        }
        self.transform(query.transform);
        Ok(())
    }

    /// A picture of a function of the session, which the script does not know.
    fn own(&mut self, function: &str, channel: &str, shape: &str, roi: &str) {
        let constant = format!("{}_FUNCTION", self.name.to_uppercase());
        self.definitions.push(format!(
            "# {} is a function of the session, which this script does not know: put it here.\n\
             {constant} = None",
            quoted(function)
        ));
        let words = format!("set {constant} in this script to the function '{function}'");
        self.line(format!("if {constant} is None:\n    raise SystemExit({})", quoted(&words)));
        self.run(&constant, roi);
        self.pieces.insert("entry_of");
        let (buffer, entry) = entry_of(channel);
        let name = &self.name;
        self.line(format!("{name} = entry_of(result[{}], {shape}, {entry})", quoted(buffer)));
    }

    fn transform(&mut self, transform: Transform) {
        let piece = match transform {
            Transform::None => return,
            Transform::Fft => "fourier",
            Transform::Ewpc => "cepstrum",
        };
        self.pieces.insert(piece);
        let name = &self.name;
        let line = match self.is_vector {
            true => format!("{name} = np.stack([{piece}(plane) for plane in {name}])"),
            false => format!("{name} = {piece}({name})"),
        };
        self.line(line);
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
        let mut arguments = vec![
            format!("mask_factories={factories}"),
            "mask_dtype=np.float64".to_owned(),
            "preferred_dtype=np.float64".to_owned(),
        ];
        if self.of_floats {
            // Pixels without weight do not count, not even NaN and infinite ones.
            arguments.push("use_sparse=\"scipy.sparse\"".to_owned());
        }
        self.line(format!("udf = {}", call("ApplyMasksUDF", &arguments)));
        self.run("udf", roi);
    }

    fn run(&mut self, udf: &str, roi: &str) {
        let mut arguments = vec!["dataset=ds".to_owned(), format!("udf={udf}")];
        if !roi.is_empty() {
            arguments.push(roi.to_owned());
        }
        if self.corrected {
            arguments.push("corrections=corrections".to_owned());
        }
        self.line(call("result = ctx.run_udf", &arguments));
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

/// The name of a buffer, and the number of an entry, which channels say where there are several: `intensity[1]`.
fn entry_of(channel: &str) -> (&str, usize) {
    let entry = channel.strip_suffix(']').and_then(|text| text.rsplit_once('['));
    entry.and_then(|(name, i)| Some((name, i.parse().ok()?))).unwrap_or((channel, 0))
}
