//! The reductions and their parameters, as the table of reductions has them.

use super::list;
use crate::npy_input::read_npy;
use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{
    Arg, ArgAction, ArgGroup, ArgMatches, Command, FromArgMatches, Subcommand, value_parser,
};
use framefold::core::Udf;
use framefold::kernels::{
    DefaultValue, GivenArray, Parameter, ParameterKind, Parameters, REDUCTIONS, Reduction, Value,
};
use framefold::{Dataset, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Reductions with their parameters and the files to run them over, in one pass.
#[derive(Clone, Debug)]
pub(crate) struct ReductionArgs {
    /// The reductions: one, or those of a list.
    pub items: Vec<Item>,
    /// The files to run over.
    pub files: Vec<PathBuf>,
}

/// A reduction with its parameters.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// Its row in the table.
    pub reduction: &'static Reduction,
    /// What it is called among the results of one call.
    pub name: String,
    /// How it was written.
    pub text: String,
    /// The buffer to write, if the list says which.
    pub buffer: Option<String>,
    parameters: Parameters,
    /// Files with further parameters, and the parameters that they hold.
    arrays: Vec<(&'static str, PathBuf)>,
}

/// The name of the files to run over, among the arguments.
const FILES: &str = "files";

impl Item {
    /// The reduction for a data set, and what is odd about it: virtual detectors depend on the shape
    /// of its frames.
    ///
    /// # Errors
    /// `InvalidArgument` if parameters do not fit; errors of files with parameters.
    pub(crate) fn udf(&self, dataset: &Dataset) -> Result<(Arc<dyn Udf>, Vec<String>)> {
        let mut parameters = self.parameters.clone();
        for (name, path) in &self.arrays {
            let given = GivenArray { array: read_npy(path)?, path: Some(path.clone()) };
            parameters.set(name, Value::Arrays(vec![given]))?;
        }
        let sig_shape = dataset.shape().sig();
        let doubts = parameters.doubts(sig_shape)?;
        Ok((self.reduction.build(parameters, sig_shape)?, doubts))
    }

    /// The files with its parameters.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        self.arrays.iter().map(|(_, path)| path.as_path())
    }

    pub(super) fn try_new(row: &'static Reduction, matches: &ArgMatches) -> Result<Self> {
        let mut parameters = Parameters::new(row);
        let mut arrays = Vec::new();
        for parameter in row.parameters {
            // Options of data sets may have the same names as parameters, but not as options.
            let (name, Some(option)) = (parameter.name, parameter.option) else { continue };
            match parameter.kind {
                ParameterKind::Switch if given(matches, option).next() == Some(&true) => {
                    parameters.set(name, Value::Switch(true))?;
                }
                ParameterKind::Switch => {}
                ParameterKind::Arrays | ParameterKind::Array => {
                    arrays.extend(given::<PathBuf>(matches, option).map(|p| (name, p.clone())));
                }
                ParameterKind::DType
                | ParameterKind::Number
                | ParameterKind::Radius
                | ParameterKind::Disks
                | ParameterKind::Rings
                | ParameterKind::Counts => {
                    for value in given::<Value>(matches, option) {
                        parameters.set(name, value.clone())?;
                    }
                }
            }
        }
        let name = row.name.to_owned();
        Ok(Item { reduction: row, text: name.clone(), name, buffer: None, parameters, arrays })
    }

    /// Gives a parameter.
    ///
    /// # Errors
    /// As [`Parameters::set`].
    pub(super) fn set(&mut self, name: &str, value: Value) -> Result<()> {
        self.parameters.set(name, value)
    }
}

/// The values of an option, if there is one.
fn given<'a, T: Clone + Send + Sync + 'static>(
    matches: &'a ArgMatches,
    option: &str,
) -> impl Iterator<Item = &'a T> {
    matches.try_get_many::<T>(option).ok().flatten().into_iter().flatten()
}

impl FromArgMatches for ReductionArgs {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let Some((name, matches)) = matches.subcommand() else {
            return Err(clap::Error::raw(ErrorKind::MissingSubcommand, "there is no reduction"));
        };
        let items = match REDUCTIONS.iter().find(|row| row.name == name) {
            Some(row) => Item::try_new(row, matches).map(|item| vec![item]),
            None => list::items(name, matches),
        };
        let files = matches.get_many(FILES).into_iter().flatten().cloned().collect();
        items
            .map(|items| ReductionArgs { items, files })
            .map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, error.to_string()))
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for ReductionArgs {
    fn augment_subcommands(command: Command) -> Command {
        command
            .subcommand_value_name("REDUCTION")
            .subcommand_help_heading("Reductions")
            .subcommand_required(true)
            .subcommands(REDUCTIONS.iter().map(|row| subcommand(row).arg(files())))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        REDUCTIONS.iter().any(|row| row.name == name || row.alias == Some(name))
    }
}

/// The files to run over.
pub(super) fn files() -> Arg {
    Arg::new(FILES)
        .required(true)
        .num_args(1..)
        .value_name("FILE")
        .value_parser(value_parser!(PathBuf))
        .help("The files to run over, one after the other")
}

/// The command of a reduction, without files.
pub(super) fn subcommand(row: &'static Reduction) -> Command {
    let command = Command::new(row.name)
        .about(sentence(row.summary))
        .visible_aliases(row.alias)
        .args(row.parameters.iter().filter_map(argument));
    let one_of = row.parameters.iter().filter(|p| p.default == DefaultValue::OneOfThese);
    let names: Vec<&str> = one_of.filter_map(|parameter| parameter.option).collect();
    match names.is_empty() {
        true => command,
        false => {
            command.group(ArgGroup::new("one of these").args(names).required(true).multiple(true))
        }
    }
}

/// The option of a parameter, if it has one.
pub(super) fn argument(parameter: &'static Parameter) -> Option<Arg> {
    let help = sentence(parameter.help);
    let option = parameter.option?;
    let argument = Arg::new(option).long(option);
    if parameter.kind == ParameterKind::Switch {
        return Some(argument.action(ArgAction::SetTrue).help(help));
    }
    let argument = match parameter.default {
        DefaultValue::Is(text) => argument.default_value(text).help(help),
        DefaultValue::Found(words) => argument.help(format!("{help} [default: {words}]")),
        DefaultValue::Nothing | DefaultValue::OneOfThese => argument.help(help),
    };
    let kind = parameter.kind;
    let parser = match kind {
        ParameterKind::Arrays | ParameterKind::Array => value_parser!(PathBuf),
        _ => ValueParser::new(move |text: &str| kind.parse(text)),
    };
    Some(
        argument
            .value_name(value_name(parameter))
            .value_parser(parser)
            .allow_negative_numbers(kind == ParameterKind::Number)
            .action(if kind.is_list() { ArgAction::Append } else { ArgAction::Set }),
    )
}

/// What stands for the value in the help.
fn value_name(parameter: &Parameter) -> &'static str {
    match (parameter.kind, parameter.unit) {
        (ParameterKind::DType, _) => "DTYPE",
        (ParameterKind::Number | ParameterKind::Radius, Some("px")) => "PX",
        (ParameterKind::Number | ParameterKind::Radius, Some("degrees")) => "DEGREES",
        (ParameterKind::Number | ParameterKind::Radius, _) => "NUMBER",
        (ParameterKind::Switch, _) => "SWITCH",
        (ParameterKind::Disks, _) => "[CY,CX,]R",
        (ParameterKind::Rings, _) => "[CY,CX,]RI,RO",
        (ParameterKind::Arrays | ParameterKind::Array, _) => "NAME.npy",
        (ParameterKind::Counts, _) => "N,…",
    }
}

/// With a capital, as other lines of the help begin.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
