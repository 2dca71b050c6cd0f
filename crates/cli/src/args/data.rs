//! Options about the file: its format and what it does not say itself.
//!
//! They are those of all formats, made from the table of formats.

use super::parse;
use crate::corrections::GivenCorrections;
use clap::builder::{
    PathBufValueParser, PossibleValuesParser, StringValueParser, TypedValueParser,
};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use framefold::core::Orientation;
use framefold::io::{self, Calibrate, OptionKind, OptionSpec, OptionValue};
use framefold::stages;
use framefold::{Dataset, OpenOptions, open_as};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

const HEADING: &str = "Options about the file";
const AXES: &str = "Options about axes";
const SCAN_STEP: &str = "scan_step";
const PIXEL_SIZE: &str = "pixel_size";
const ROTATION: &str = "rotation";
const CENTRE: &str = "centre";
const NAMES: &str = "axis_names";
const FLIP: &str = "flip";
const TRANSPOSE: &str = "transpose";
const STAGES: &str = "Options about frames";
const STAGE: &str = "stage";
const DARK: &str = "dark";
const GAIN: &str = "gain";
const BAD_PIXELS: &str = "bad_pixels";
/// The switch for corrections that come with the file.
const OF_FILE: &str = "option corrections";
/// The stages that have options of their own.
const OWN_STAGES: [&str; 2] = ["bin", "crop"];

/// What may be said about a file beyond its path.
#[derive(Clone, Debug)]
pub(crate) struct DataArgs {
    /// The format; see 'framefold formats'
    pub format: String,
    /// Whether all files that are named are one stack.
    stack: bool,
    options: OpenOptions,
    orientation: Orientation,
    calibrate: Calibrate,
    corrections: GivenCorrections,
    /// Each as text, in the order in which they are applied.
    stages: Vec<String>,
}

impl DataArgs {
    /// What to open: each file by itself, or the first one with all the others.
    pub(crate) fn inputs<'f>(&self, files: &'f [PathBuf]) -> &'f [PathBuf] {
        if self.stack { files.get(..1).unwrap_or(files) } else { files }
    }

    /// Opens one of `files` as `format`, with frames turned, axes as the options say, corrections, and all stages.
    ///
    /// # Errors
    /// Those of opening; `InvalidArgument` if what is said of frames and axes does not fit.
    pub(crate) fn open(
        &self,
        format: &str,
        file: &Path,
        files: &[PathBuf],
    ) -> framefold::Result<Dataset> {
        self.open_with(format, file, &self.open_options(files))
    }

    /// The same, with other options for opening.
    ///
    /// # Errors
    /// As [`DataArgs::open`].
    pub(crate) fn open_with(
        &self,
        format: &str,
        file: &Path,
        options: &OpenOptions,
    ) -> framefold::Result<Dataset> {
        self.staged(self.corrected(format, file, options)?)
    }

    /// The same before stages.
    ///
    /// # Errors
    /// As [`DataArgs::open`].
    pub(crate) fn corrected(
        &self,
        format: &str,
        file: &Path,
        options: &OpenOptions,
    ) -> framefold::Result<Dataset> {
        let dataset = open_as(format, file, options)?;
        let dataset = self.calibrate.apply(io::orient(dataset, self.orientation)?)?;
        self.corrections.apply(dataset)
    }

    /// What stages make of that.
    ///
    /// # Errors
    /// As [`DataArgs::open`].
    pub(crate) fn staged(&self, dataset: Dataset) -> framefold::Result<Dataset> {
        self.stages.iter().try_fold(dataset, |dataset, text| framefold::pipe(dataset, text))
    }

    /// How frames are turned, what is said of axes, and the stages as text.
    #[cfg(feature = "view")]
    pub(crate) fn changes(&self) -> (Orientation, &Calibrate, &[String]) {
        (self.orientation, &self.calibrate, &self.stages)
    }

    /// What is corrected after frames are turned, and before stages.
    pub(crate) fn corrections(&self) -> &GivenCorrections {
        &self.corrections
    }

    /// The options for opening one of `files`.
    pub(crate) fn open_options(&self, files: &[PathBuf]) -> OpenOptions {
        let files = if self.stack { files.to_vec() } else { Vec::new() };
        OpenOptions { files, ..self.options.clone() }
    }
}

/// The options of all formats, each once; a stack's files are the ones that are named.
fn specs() -> Vec<OptionSpec> {
    io::all_options().into_iter().filter(|spec| spec.kind != OptionKind::Paths).collect()
}

fn arg(id: &'static str, long: &'static str, help: &'static str) -> Arg {
    Arg::new(id).long(long).help(help).global(true).help_heading(HEADING)
}

/// What may be said of axes.
fn args_of_axes() -> Vec<Arg> {
    let parsed = |text: &str| framefold::io::parse_steps(text).map_err(|error| error.to_string());
    let parsed = StringValueParser::new().try_map(move |text| parsed(&text));
    let number = |text: String| parse::finite(&text);
    let numbers = |text: String| parse::numbers(&text);
    let names = |text: String| -> Result<Vec<String>, String> {
        Ok(text.split(',').map(|name| name.trim().to_owned()).collect())
    };
    let turns = [
        arg(
            FLIP,
            "flip",
            "Reverse the rows (y) or columns (x) of frames, or both, after '--transpose'",
        )
        .value_name("AXES")
        .value_parser(["y", "x", "yx"]),
        arg(TRANSPOSE, "transpose", "Swap rows and columns of frames").action(ArgAction::SetTrue),
    ];
    let steps = [
        arg(
            SCAN_STEP,
            "scan-step",
            "The step of the scan with its unit, or one for each axis: 0.5nm",
        )
        .value_name("STEP")
        .value_parser(parsed.clone()),
        arg(
            PIXEL_SIZE,
            "pixel-size",
            "The size of a pixel with its unit: 1.2mrad, '0.1 1/nm', 0.5eV",
        )
        .value_name("SIZE")
        .value_parser(parsed),
        arg(ROTATION, "rotation", "The rotation of the scan in degrees")
            .value_name("DEGREES")
            .value_parser(StringValueParser::new().try_map(number)),
        arg(CENTRE, "centre", "The pixel at which the axes of a frame have the value 0: CY,CX")
            .value_name("PIXEL")
            .value_parser(StringValueParser::new().try_map(numbers)),
        arg(NAMES, "names", "The names of all axes, those of the scan first: scan_y,scan_x,ky,kx")
            .value_name("NAMES")
            .value_parser(StringValueParser::new().try_map(names)),
    ];
    let steps = steps.into_iter().map(|arg| arg.allow_hyphen_values(true));
    turns.into_iter().chain(steps).map(|arg| arg.help_heading(AXES)).collect()
}

/// What is done to raw pixels.
fn args_of_corrections() -> Vec<Arg> {
    let file = |id: &'static str, what| arg(id, id, what).value_name("FILE.npy");
    let dark = "Subtract this from each frame, before all stages: an array of the shape of a frame";
    let gain = "Multiply each frame with this, after '--dark': an array of the shape of a frame";
    let bad = "Put the mean of the good pixels around it in the place of each of these: Y,X;Y,X, slices as in \
               --roi, or an array in which they are not 0";
    let path = || PathBufValueParser::new();
    let bad = arg(BAD_PIXELS, "bad-pixels", bad).value_name("PIXELS").allow_hyphen_values(true);
    let all = [file(DARK, dark).value_parser(path()), file(GAIN, gain).value_parser(path()), bad];
    all.into_iter().map(|arg| arg.conflicts_with(OF_FILE).help_heading(STAGES)).collect()
}

/// What makes other frames of the frames of a file.
fn args_of_stages() -> Vec<Arg> {
    let own = stages::STAGES.iter().filter(|row| OWN_STAGES.contains(&row.name));
    let own = own.map(|row| {
        let help = format!("The same as --stage '{} …': {}", row.name, row.summary);
        Arg::new(row.name).long(row.name).global(true).help(help).value_name(row.value)
    });
    let known = stages::STAGES.iter().map(|row| format!("'{} {}'", row.name, row.value));
    let known = known.collect::<Vec<_>>().join(", ");
    let any = Arg::new(STAGE).long(STAGE).global(true).value_name("STAGE").help(format!(
        "Make other frames of the frames, before all else, in the order in which stages are given: {known}"
    ));
    let all = own.chain([any]);
    all.map(|arg| arg.action(ArgAction::Append).allow_hyphen_values(true).help_heading(STAGES))
        .collect()
}

/// The stages that were given, as text, in the order in which they were given.
fn given_stages(matches: &ArgMatches) -> Vec<String> {
    let mut given: Vec<(usize, String)> = Vec::new();
    for id in OWN_STAGES.into_iter().chain([STAGE]) {
        let values = matches.get_many::<String>(id).into_iter().flatten();
        for (index, value) in matches.indices_of(id).into_iter().flatten().zip(values) {
            let name = if id == STAGE { String::new() } else { format!("{id} ") };
            given.push((index, name + value));
        }
    }
    given.sort();
    given.into_iter().map(|(_, text)| text).collect()
}

/// The argument of an option, and of a switch that which turns it off.
fn args_of(spec: OptionSpec) -> Vec<Arg> {
    let plain = arg(id_of(&spec), named(&spec, |name| name), spec.help);
    let parsed = StringValueParser::new()
        .try_map(move |text| spec.parse(&text).map_err(|error| error.to_string()));
    let valued = |name: &'static str| plain.clone().value_name(name).value_parser(parsed.clone());
    let chosen = |words: &'static [&'static str]| {
        let parser = PossibleValuesParser::new(words)
            .try_map(move |text| spec.parse(&text).map_err(|error| error.to_string()));
        plain.clone().value_parser(parser)
    };
    let mut one = match spec.kind {
        OptionKind::Flag => return vec![plain.action(ArgAction::SetTrue)],
        OptionKind::Switch { off } => {
            let off_flag = named(&spec, |name| format!("no-{name}"));
            let off = arg(off_id(&spec), off_flag, off);
            let off = off.action(ArgAction::SetTrue);
            return vec![plain.action(ArgAction::SetTrue).conflicts_with(off_id(&spec)), off];
        }
        OptionKind::Choice(choices) => chosen(choices).value_name("CHOICE"),
        OptionKind::ByteOrder => chosen(&["little", "big"]).value_name("ORDER"),
        OptionKind::Shape => valued("SHAPE"),
        OptionKind::Count => valued("N"),
        OptionKind::Bytes => valued("BYTES"),
        OptionKind::Integer => valued("N").allow_negative_numbers(true),
        OptionKind::Number => valued("X").allow_negative_numbers(true),
        OptionKind::DType => valued("DTYPE"),
        OptionKind::Written => valued("VALUE").allow_hyphen_values(true),
        OptionKind::Path => {
            let parser = PathBufValueParser::new().map(OptionValue::Path);
            plain.value_name("FILE").value_parser(parser)
        }
        _ => valued("NAME"),
    };
    if let Some(default) = spec.default {
        one = one.default_value(default);
    }
    vec![one]
}

/// What the argument of an option is called here, unlike arguments that are none.
fn id_of(spec: &OptionSpec) -> &'static str {
    named(spec, |name| format!("option {name}"))
}

/// What turns a switch off.
fn off_id(spec: &OptionSpec) -> &'static str {
    named(spec, |name| format!("option no {name}"))
}

/// Something that is called after an option, for as long as the program runs: there are a few
/// dozen of them.
fn named(spec: &OptionSpec, make: impl FnOnce(String) -> String) -> &'static str {
    static NAMES: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let name = make(spec.flag_name());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = names.get(name.as_str()) {
        return known;
    }
    let name: &'static str = name.leak();
    names.insert(name);
    name
}

impl Args for DataArgs {
    fn augment_args(command: Command) -> Command {
        let format = arg("format", "format", "The format; see 'framefold formats'");
        let stack = arg(
            "stack",
            "stack",
            "Read all files that are named as one stack, in the order in which they are named",
        );
        command
            .arg(format.default_value("auto").value_name("NAME"))
            .args(specs().into_iter().flat_map(args_of))
            .args(args_of_axes())
            .args(args_of_corrections())
            .args(args_of_stages())
            .arg(stack.action(ArgAction::SetTrue))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for DataArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut options = OpenOptions::default();
        for spec in specs() {
            let value = match spec.kind {
                OptionKind::Flag => matches.get_flag(id_of(&spec)).then_some(true),
                OptionKind::Switch { .. } if matches.get_flag(off_id(&spec)) => Some(false),
                OptionKind::Switch { .. } => matches.get_flag(id_of(&spec)).then_some(true),
                _ => None,
            };
            let value = match spec.kind {
                OptionKind::Flag | OptionKind::Switch { .. } => value.map(OptionValue::Switch),
                _ => matches.get_one::<OptionValue>(id_of(&spec)).cloned(),
            };
            if let Some(value) = value {
                options
                    .set(&spec, value)
                    .map_err(|error| Error::raw(clap::error::ErrorKind::ValueValidation, error))?;
            }
        }
        let steps = |id| matches.get_one::<Vec<(f64, String)>>(id).cloned().unwrap_or_default();
        let calibrate = Calibrate {
            scan_step: steps(SCAN_STEP),
            pixel_size: steps(PIXEL_SIZE),
            rotation: matches.get_one::<f64>(ROTATION).copied(),
            centre: matches.get_one::<Vec<f64>>(CENTRE).cloned().unwrap_or_default(),
            names: matches.get_one::<Vec<String>>(NAMES).cloned().unwrap_or_default(),
        };
        let format = matches.get_one::<String>("format").cloned();
        let format = format.unwrap_or_else(|| "auto".to_owned());
        let flip = matches.get_one::<String>(FLIP).map(String::as_str);
        let orientation = Orientation::of_options(flip, matches.get_flag(TRANSPOSE))
            .map_err(|error| Error::raw(clap::error::ErrorKind::ValueValidation, error))?;
        let stack = matches.get_flag("stack");
        let file = |id| matches.get_one::<PathBuf>(id).cloned();
        let bad_pixels = matches.get_one::<String>(BAD_PIXELS).cloned();
        let corrections = GivenCorrections { dark: file(DARK), gain: file(GAIN), bad_pixels };
        let stages = given_stages(matches);
        Ok(DataArgs { format, stack, options, orientation, calibrate, corrections, stages })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
