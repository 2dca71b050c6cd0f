//! Options about writing data in another format.

use super::DataArgs;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// `framefold convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// The file to read
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// The format to write
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub to: ConvertTo,
    /// The file to write: NAME.toml; the arrays NAME.indptr, NAME.indices and NAME.data appear
    /// beside it
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// Keep pixels above X, which is 0 or more, and NaN [default: all that are not 0]
    #[arg(long, allow_negative_numbers = true, value_name = "X")]
    pub threshold: Option<f64>,
    /// Replace the output if it exists
    #[arg(long)]
    pub force: bool,
    /// Print one JSON object that sums up what was written
    #[arg(long)]
    pub json: bool,
    /// Print errors only: no progress, no warnings, no summary
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    pub data: DataArgs,
}

/// Formats that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConvertTo {
    /// Sparse frames: a TOML file and three arrays
    #[value(name = "raw_csr")]
    RawCsr,
}
