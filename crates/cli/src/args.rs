//! What the command line accepts.

mod convert;
mod data;
mod parse;
mod picture;
mod reduction;
mod run;

pub(crate) use convert::{ConvertArgs, ConvertTo};
pub(crate) use data::DataArgs;
pub(crate) use picture::PictureArgs;
pub(crate) use reduction::ReductionArgs;
pub(crate) use run::RunArgs;

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Runs map-reduce functions over stacks of detector frames.
#[derive(Debug, Parser)]
#[command(name = "framefold", version, after_help = crate::exit::help_text())]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what files are: format, shapes, dtype, missing frames, and why framefold thinks so
    Info(Box<InfoArgs>),
    /// Run a reduction over files and write its result as an array or a picture
    Run(Box<RunCommand>),
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
    use clap::CommandFactory;

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
    fn the_help_lists_exit_codes() {
        let help = Cli::command().render_long_help().to_string();
        for (code, meaning) in crate::exit::EXIT_CODES {
            assert!(help.contains(&format!("  {code} ")) && help.contains(meaning), "{help}");
        }
    }
}
