//! What the command line accepts.

mod convert;
mod data;
mod list;
mod parse;
mod picture;
mod reduction;
mod run;
#[cfg(feature = "view")]
mod view;

pub(crate) use convert::{ConvertArgs, ConvertTo};
pub(crate) use data::DataArgs;
pub(crate) use picture::PictureArgs;
pub(crate) use reduction::{Item, ReductionArgs};
pub(crate) use run::RunArgs;
#[cfg(feature = "view")]
pub(crate) use view::{ServeArgs, ViewArgs};

use crate::nearest::nearest;
use clap::error::{ContextKind, ContextValue};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use std::ffi::OsString;
use std::path::PathBuf;

/// Runs map-reduce functions over stacks of detector frames.
#[derive(Debug, Parser)]
#[command(name = "framefold", version, after_help = format!("{OWN}\n\n{}", crate::exit::help_text()))]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// What `args` ask for, the program's name first.
    ///
    /// # Errors
    /// What is wrong with them, or the help that they ask for.
    pub(crate) fn of(args: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let args = behind_the_reduction(args.into_iter().collect());
        let mut command =
            Cli::command().mut_subcommand("run", |run| run.subcommands(list::commands(&args)));
        let matches = command.try_get_matches_from_mut(&args);
        let mut matches = matches
            .map_err(|error| with_nearest(with_command(error, &command, &args), &command))?;
        let name = matches.subcommand_name().map(str::to_owned);
        Cli::from_arg_matches_mut(&mut matches).map_err(|error| {
            let own = name.and_then(|name| command.find_subcommand_mut(name));
            match own {
                Some(own) => error.format(own),
                None => error.format(&mut command),
            }
        })
    }
}

/// The arguments, with those between `run` and the reduction behind the reduction, so that all options
/// count as they stand: a parser has an own order, and own rules, on each side of a subcommand.
fn behind_the_reduction(mut args: Vec<OsString>) -> Vec<OsString> {
    let Some(words) = args.get(1..).filter(|words| words.first().is_some_and(|w| w == "run"))
    else {
        return args;
    };
    let options = DataArgs::augment_args(RunArgs::augment_args(clap::Command::new("run")));
    let options = PictureArgs::augment_args(options).allow_external_subcommands(true);
    // What is wrong is said where all arguments are parsed.
    let Ok(matches) = options.try_get_matches_from(words) else { return args };
    let Some((name, rest)) = matches.subcommand() else { return args };
    let n_behind = rest.get_many::<OsString>("").map_or(0, |behind| behind.len());
    let reduction = args.len().saturating_sub(n_behind + 1);
    if name != "help"
        && let Some(moved) = args.get_mut(2..=reduction)
    {
        moved.rotate_right(1);
    }
    args
}

/// The error, with the command that it is about, which those of wrong values do not say.
fn with_command(mut error: clap::Error, command: &clap::Command, args: &[OsString]) -> clap::Error {
    if error.get(ContextKind::Usage).is_none() {
        let (mut usage, mut at) = ("Usage: framefold".to_owned(), command);
        for word in args.iter().skip(1).map_while(|word| word.to_str()) {
            let Some(below) = at.find_subcommand(word) else { break };
            (usage, at) = (format!("{usage} {word}"), below);
        }
        error.insert(ContextKind::Usage, ContextValue::StyledStr(usage.into()));
    }
    error
}

/// The error, with those subcommands as similar to a word that are the nearest ones. `command` is any
/// above the one that has them.
pub(crate) fn with_nearest(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let path = crate::app::command_of(&error);
    let below = |command: &'_ clap::Command, name: &str| command.find_subcommand(name).cloned();
    let own = path.iter().skip(1).try_fold(command.clone(), |command, name| below(&command, name));
    let own = own.unwrap_or_else(|| command.clone());
    let names =
        own.get_subcommands().filter(|each| !each.is_hide_set()).map(clap::Command::get_name);
    let similar: Vec<String> = nearest(word, names).into_iter().map(str::to_owned).collect();
    error.remove(ContextKind::SuggestedSubcommand);
    if !similar.is_empty() {
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(similar));
    }
    error
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what files are: format, shapes, dtype, missing frames, and why framefold thinks so
    Info(Box<InfoArgs>),
    /// Run a reduction over files and write its result as an array or a picture
    Run(Box<RunCommand>),
    /// Look at files in a browser: pictures that follow the pointer, of data larger than memory
    #[cfg(feature = "view")]
    View(Box<ViewArgs>),
    /// Write data in another format, such as sparse frames
    Convert(Box<ConvertArgs>),
    /// List the file formats
    Formats(ListArgs),
    /// List the reductions
    Reductions(ListArgs),
}

/// `framefold info`.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// The files to look at
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub data: DataArgs,
    /// Print one JSON object per file
    #[arg(long)]
    pub json: bool,
}

/// `framefold run`.
#[derive(Debug, Args)]
#[command(after_help = LISTS)]
pub(crate) struct RunCommand {
    #[command(subcommand)]
    pub reduction: ReductionArgs,
    #[command(flatten)]
    pub run: RunArgs,
    #[command(flatten)]
    pub data: DataArgs,
    #[command(flatten)]
    pub picture: PictureArgs,
}

/// How several reductions are asked for.
pub(crate) const LISTS: &str = "\
Several reductions in one pass over the data: framefold run sum,com,\"ring 18,50\" FILE -o out/
  An item is written as the command of its reduction, without files: \"com --cy 32 --cx 32\". A comma
  before a number belongs to a parameter, any other one ends an item. \"disk R\" and \"ring RI,RO\" are
  short for \"masks --disk R\" and \"masks --ring RI,RO\".

Functions of your own, with the command of the Python package: framefold run MODULE:NAME FILE
  Its options, such as -p and --resume: framefold run MODULE:NAME --help";

/// What the Python package adds to the commands.
const OWN: &str = "\
With the command of the Python package, for functions of your own in Python:
  check  Check a function of a module: 'framefold check --help'
  run    Run it: 'framefold run MODULE:NAME --help'";

/// `framefold formats` and `framefold reductions`.
#[derive(Debug, Args)]
pub(crate) struct ListArgs {
    /// Print one JSON object per entry
    #[arg(long)]
    pub json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn options_may_stand_before_and_after_the_reduction() {
        for line in [
            "framefold run sum a.mib b.mib -o {stem}.npy --nav-shape 4,5",
            "framefold run --nav-shape 4,5 -o {stem}.npy sum a.mib b.mib",
        ] {
            let cli = Cli::try_parse_from(line.split(' ')).unwrap();
            let Command::Run(command) = cli.command else { panic!("{line}") };
            let options = command.data.open_options(&[]);
            assert_eq!(options.nav_shape.as_deref(), Some(&[4, 5][..]));
            assert_eq!(command.reduction.files.len(), 2);
            assert!(command.run.output.is_some());
        }
    }

    #[test]
    fn an_option_of_another_reduction_is_refused() {
        assert!(Cli::try_parse_from(["framefold", "run", "sum", "a.mib", "--cy", "3"]).is_err());
        assert!(Cli::try_parse_from(["framefold", "run", "com", "a.mib", "--cy", "3"]).is_ok());
    }

    #[test]
    fn a_list_stands_where_a_reduction_does() {
        let line = |words: &[&str]| Cli::of(words.iter().map(OsString::from));
        let names =
            [&["framefold", "run", "--names"][..], &["sum,com", "sum,max", "a.mib"]].concat();
        let Command::Run(command) = line(&names).unwrap().command else { panic!() };
        let items: Vec<&str> = command.reduction.items.iter().map(|i| i.reduction.name).collect();
        assert_eq!(items, ["sum", "max"]);
        assert_eq!(command.reduction.files, ["a.mib".into()] as [PathBuf; 1]);
        let one = ["framefold", "run", "-j", "2", "ring 18,50", "a.mib", "-o", "a.npy"];
        let Command::Run(command) = line(&one).unwrap().command else { panic!() };
        assert_eq!(command.reduction.items[0].reduction.name, "masks");
        assert_eq!(command.run.output.as_deref(), Some("a.npy"));
        let error = line(&["framefold", "run", "sum,comm", "a.mib"]).unwrap_err();
        assert!(error.to_string().contains("Usage: framefold run"), "{error}");
    }

    #[test]
    fn the_help_lists_exit_codes() {
        let help = Cli::command().render_long_help().to_string();
        for (code, meaning) in crate::exit::EXIT_CODES {
            assert!(help.contains(&format!("  {code} ")) && help.contains(meaning), "{help}");
        }
    }
}
