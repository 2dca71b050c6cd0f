//! How a data set was opened, so that a script can open it again.

use super::corrected::Corrected;
use super::python::{Literal, path_of, quoted};
use crate::ScanChoice;
use framefold::core::{ByteOrder, StoredDType};
use framefold::io::{self, OptionValue};
use framefold::{OpenOptions, core::Orientation};
use std::path::Path;

/// The formats that LiberTEM has under the same names.
const IN_LIBERTEM: &[&str] = &[
    "blo", "dm", "empad", "frms6", "hdf5", "k2is", "mib", "mrc", "npy", "raw", "raw_csr", "seq",
    "ser", "tvips",
];

/// How files are read, which makes no difference to what is in them; LiberTEM takes other values.
const WITHOUT_EFFECT: &[&str] = &["files", "io_backend", "num_partitions"];

/// Where a data set is from, and what was done to its frames.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Opened {
    /// The format, as `Context.load` takes it.
    format: String,
    /// The file, or the files of a stack; `None` of what is in memory.
    path: Option<Literal>,
    /// Arguments of `Context.load`.
    options: Vec<(String, Literal)>,
    /// How the scan is laid out, as far as options say it.
    scan: ScanChoice,
    /// Methods of the data set that were called after that, as source code.
    changes: Vec<String>,
    /// What was corrected, and after how many of these.
    corrected: Option<(Corrected, usize)>,
    /// What a script does not do again, in words.
    unknown: Vec<String>,
    /// The same, where the script would then see other frames.
    missing: Vec<String>,
}

impl Opened {
    /// A file that was opened as `format`, the name in the table of formats and not `auto`.
    pub fn file(format: &str, path: &Path, options: &OpenOptions) -> Self {
        let row = io::formats().into_iter().find(|row| row.name == format);
        let specs = row.map(|row| row.options).unwrap_or_default();
        let given = specs.iter().filter(|spec| !WITHOUT_EFFECT.contains(&spec.name));
        let given = given.filter_map(|spec| Some((spec.name, literal(options.get(spec.name)?)?)));
        let files = match &options.files[..] {
            [] => path_of(path),
            files => Literal::List(files.iter().map(|file| path_of(file)).collect()),
        };
        Opened {
            format: format.to_owned(),
            path: Some(files),
            options: given.map(|(name, value)| (name.to_owned(), value)).collect(),
            scan: ScanChoice::of(options),
            ..Opened::default()
        }
    }

    /// Data that are in memory, or come from somewhere else that a script cannot name.
    pub fn memory(format: &str) -> Self {
        Opened { format: format.to_owned(), ..Opened::default() }
    }

    /// What Python was given: any arguments of `Context.load`.
    pub fn python(format: &str, path: Literal, options: Vec<(String, Literal)>) -> Self {
        let known = |(name, _): &(String, Literal)| !WITHOUT_EFFECT.contains(&name.as_str());
        let options = options.into_iter().filter(known).collect();
        Opened { format: format.to_owned(), path: Some(path), options, ..Opened::default() }
    }

    /// The same with another value of an option.
    #[must_use]
    pub fn with(mut self, name: &str, value: Literal) -> Self {
        self.options.retain(|(known, _)| known != name);
        self.options.push((name.to_owned(), value));
        self
    }

    /// The same with a scan that is laid out in another way, as far as `scan` says it.
    #[must_use]
    pub fn laid_out(mut self, scan: &ScanChoice) -> Self {
        if let Some(shape) = &scan.nav_shape {
            self.scan.nav_shape = Some(shape.clone());
            self = self.with("nav_shape", Literal::shape(shape));
        }
        if let Some(offset) = scan.sync_offset {
            self.scan.sync_offset = Some(offset);
            self = self.with("sync_offset", Literal::Integer(offset));
        }
        self
    }

    /// The same with frames that were turned.
    #[must_use]
    pub fn oriented(mut self, orientation: Orientation) -> Self {
        let flip = match (orientation.flip_y, orientation.flip_x) {
            (false, false) => None,
            (true, false) => Some("y"),
            (false, true) => Some("x"),
            (true, true) => Some("yx"),
        };
        let flip = flip.map(|axes| format!("flip={}", quoted(axes)));
        let transpose = orientation.transpose.then(|| "transpose=True".to_owned());
        let all: Vec<String> = flip.into_iter().chain(transpose).collect();
        if !all.is_empty() {
            self.changes.push(format!("orient({})", all.join(", ")));
        }
        self
    }

    /// The same with frames that a stage made, written as text.
    #[must_use]
    pub fn piped(mut self, stage: &str) -> Self {
        self.changes.push(format!("pipe({})", quoted(stage)));
        self
    }

    /// The same with frames that were corrected, in the place of corrections that came with the file.
    #[must_use]
    pub fn corrected(mut self, corrected: Corrected) -> Self {
        self.corrected = Some((corrected, self.changes.len()));
        self
    }

    /// The same with something that a script does not do again: "what options say of axes".
    #[must_use]
    pub fn unknown(mut self, words: &str) -> Self {
        self.unknown.push(words.to_owned());
        self
    }

    /// The same with something without which a script would see other frames: "corrections that were given …".
    #[must_use]
    pub fn missing(mut self, words: &str) -> Self {
        self.missing.push(words.to_owned());
        self
    }

    /// How the scan is laid out, where that was said.
    pub(crate) fn scan(&self) -> &ScanChoice {
        &self.scan
    }

    /// What keeps LiberTEM from opening it.
    pub(super) fn only_here(&self) -> Option<String> {
        if !self.changes.is_empty() {
            return Some("frames are turned, or made by stages".to_owned());
        }
        let known = self.path.is_none() || IN_LIBERTEM.contains(&self.format.as_str());
        (!known).then(|| format!("it does not read the format '{}'", self.format))
    }

    /// Lines that make `ds` of `ctx`; the scan has the shape `nav`.
    pub(super) fn code(&self, nav: &[usize]) -> Vec<String> {
        let mut lines: Vec<String> = self
            .unknown
            .iter()
            .map(|words| format!("# Not in this script: {}", quoted(words)))
            .collect();
        match &self.path {
            None => {
                let what = "the data were no file: put DATA = ... into this script";
                lines.push(format!("if DATA is None:\n    raise SystemExit({})", quoted(what)));
                // Of lines, the last axis alone is that of a frame.
                let mut arguments =
                    ["\"memory\"", "data=DATA", "sig_dims=len(FRAME)"].map(str::to_owned).to_vec();
                let options = self.options.iter();
                arguments.extend(options.map(|(name, value)| format!("{name}={}", value.code())));
                lines.push(call("ds = ctx.load", &arguments));
            }
            Some(path) => {
                let mut arguments = vec![quoted(&self.format), format!("path={}", path.code())];
                let shape = self.has_own_scan_shape().then(|| Literal::shape(nav));
                let shape = shape.map(|shape| ("nav_shape".to_owned(), shape));
                for (name, value) in self.options.iter().chain(&shape) {
                    arguments.push(format!("{name}={}", value.code()));
                }
                lines.push(call("ds = ctx.load", &arguments));
            }
        }
        let changed = |changes: &[String]| -> Vec<String> {
            changes.iter().map(|change| format!("ds = ds.{change}")).collect()
        };
        match &self.corrected {
            None => lines.extend(changed(&self.changes)),
            Some((corrected, place)) => {
                let (before, after) = self.changes.split_at((*place).min(self.changes.len()));
                lines.extend(changed(before));
                lines.extend(corrected.code());
                if !self.corrects_runs() {
                    lines.push("ds = ds.pipe(corrections)".to_owned());
                }
                lines.extend(changed(after));
            }
        }
        for words in &self.missing {
            let words = format!("put this into the script, and take this line out: {words}");
            lines.push(format!("raise SystemExit({})", quoted(&words)));
        }
        lines
    }

    /// Whether there are corrections at all, for which a class has to be imported.
    pub(super) fn has_corrections(&self) -> bool {
        self.corrected.is_some()
    }

    /// Whether runs are given `corrections`. Stages have to see corrected frames.
    pub(super) fn corrects_runs(&self) -> bool {
        self.corrected.as_ref().is_some_and(|(_, place)| *place == self.changes.len())
    }

    /// Whether it has to be given a name for an array.
    pub(super) fn is_in_memory(&self) -> bool {
        self.path.is_none()
    }

    /// Whether the scan shape is said, so that other programs see the same where a file suggests several.
    fn has_own_scan_shape(&self) -> bool {
        let row = io::formats().into_iter().find(|row| row.name == self.format);
        let given = self.options.iter().any(|(name, _)| name == "nav_shape" || name == "sig_dims");
        // Stages make other scans, too.
        row.is_some_and(|row| row.takes("nav_shape")) && !given && self.changes.is_empty()
    }
}

/// A call, on one line if it is short.
pub(super) fn call(function: &str, arguments: &[String]) -> String {
    let line = format!("{function}({})", arguments.join(", "));
    if line.len() <= 96 {
        return line;
    }
    format!("{function}(\n    {},\n)", arguments.join(",\n    "))
}

/// The value of an option; `None` of kinds that are not known here.
fn literal(value: OptionValue) -> Option<Literal> {
    Some(match value {
        OptionValue::Shape(lens) => Literal::shape(&lens),
        OptionValue::Count(n) => {
            i64::try_from(n).map_or(Literal::Number(n as f64), Literal::Integer)
        }
        OptionValue::Integer(n) => Literal::Integer(n),
        OptionValue::Number(n) => Literal::Number(n),
        OptionValue::Text(text) => Literal::Text(text),
        OptionValue::DType(dtype) => Literal::Text(dtype_code(dtype)),
        OptionValue::ByteOrder(ByteOrder::Little) => Literal::Text("<".to_owned()),
        OptionValue::ByteOrder(ByteOrder::Big) => Literal::Text(">".to_owned()),
        OptionValue::Switch(on) => Literal::Truth(on),
        OptionValue::Path(path) => path_of(&path),
        OptionValue::Paths(paths) => {
            Literal::List(paths.iter().map(|path| path_of(path)).collect())
        }
        _ => return None,
    })
}

/// As NumPy's type strings are: `>u2`.
fn dtype_code(dtype: StoredDType) -> String {
    let order = match (dtype.dtype.size(), dtype.order) {
        (1, _) => "|",
        (_, ByteOrder::Little) => "<",
        (_, ByteOrder::Big) => ">",
    };
    format!("{order}{}", dtype.dtype.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(opened: &Opened) -> String {
        opened.code(&[2, 3]).join("\n")
    }

    #[test]
    fn what_was_given_is_given_again() {
        let options = OpenOptions {
            nav_shape: Some(vec![2, 3]),
            sig_shape: Some(vec![8, 8]),
            sync_offset: -4,
            backend: io::Backend::Buffered,
            ..OpenOptions::default()
        };
        let dtype = StoredDType::parse(">u2").unwrap();
        let opened = Opened::file("raw", Path::new("/a\"b.bin"), &options.with("dtype", dtype));
        let code = code(&opened);
        assert!(
            code.starts_with("ds = ctx.load(\n    \"raw\",\n    path=\"/a\\\"b.bin\",\n"),
            "{code}"
        );
        for part in ["nav_shape=(2, 3)", "sig_shape=(8, 8)", "sync_offset=-4", "dtype=\">u2\""] {
            assert!(code.contains(part), "{part} is not in {code}");
        }
        assert!(!code.contains("backend"), "{code}");
        assert_eq!(opened.only_here(), None);
    }

    #[test]
    fn the_scan_shape_is_said_where_the_format_takes_one() {
        let opened = Opened::file("mib", Path::new("/a.mib"), &OpenOptions::default());
        assert_eq!(code(&opened), "ds = ctx.load(\"mib\", path=\"/a.mib\", nav_shape=(2, 3))");
        let scan = ScanChoice { nav_shape: Some(vec![6]), sync_offset: None };
        let again = opened.clone().laid_out(&scan);
        assert_eq!(code(&again), "ds = ctx.load(\"mib\", path=\"/a.mib\", nav_shape=(6,))");
        let piped =
            opened.piped("bin 2").oriented(Orientation { flip_y: true, ..Default::default() });
        assert_eq!(
            code(&piped),
            "ds = ctx.load(\"mib\", path=\"/a.mib\")\nds = ds.pipe(\"bin 2\")\nds = ds.orient(flip=\"y\")"
        );
        assert!(piped.only_here().unwrap().contains("stages"));
    }

    #[test]
    fn corrections_are_made_before_stages_and_by_runs_without() {
        let gain =
            Corrected { frame: vec![8, 8], dark: None, gain: Some("/gain.npy".into()), bad: None };
        let opened = Opened::file("mib", Path::new("/a.mib"), &OpenOptions::default());
        let plain = opened.clone().corrected(gain.clone());
        assert!(plain.corrects_runs() && plain.only_here().is_none());
        assert!(code(&plain).ends_with("corrections = CorrectionSet(gain=np.load(\"/gain.npy\"))"));
        let turned = opened.oriented(Orientation { flip_y: true, ..Default::default() });
        let piped = turned.corrected(gain).piped("bin 2");
        assert!(piped.has_corrections() && !piped.corrects_runs());
        assert!(
            code(&piped).ends_with(
                "ds = ds.orient(flip=\"y\")\ncorrections = CorrectionSet(gain=np.load(\"/gain.npy\"))\n\
                 ds = ds.pipe(corrections)\nds = ds.pipe(\"bin 2\")"
            ),
            "{}",
            code(&piped)
        );
    }

    #[test]
    fn data_in_memory_are_asked_for() {
        let opened = Opened::memory("memory").unknown("corrections\nof the run");
        let code = code(&opened);
        assert!(code.contains("data=DATA"), "{code}");
        assert!(code.starts_with("# Not in this script: \"corrections\\nof the run\"\n"), "{code}");
        assert!(
            Opened::file("zarr", Path::new("a"), &OpenOptions::default()).only_here().is_some()
        );
    }
}
