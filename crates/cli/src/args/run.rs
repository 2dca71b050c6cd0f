//! Options about a run and its result.

use super::parse;
use clap::Args;
use std::num::NonZeroUsize;

/// How a reduction is run and where its result goes.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options about the run")]
pub(crate) struct RunArgs {
    /// Where the result goes: NAME.npy, .tif, .csv, .npz or .h5 (all buffers), .png or .jpg; '-' is
    /// CSV on standard output; '{stem}' stands for the name of the input file without extension,
    /// '{reduction}' for that of the reduction; a folder, FOLDER/, is FOLDER/{reduction}.h5
    #[arg(short, long, global = true, value_name = "OUT")]
    pub output: Option<String>,
    /// Replace OUT if it exists
    #[arg(short, long, global = true)]
    pub force: bool,
    /// Which result buffer to write; see 'framefold reductions'
    #[arg(short, long, global = true, value_name = "NAME")]
    pub buffer: Option<String>,
    /// Scan positions to use: a boolean NAME.npy of the scan's shape, or slices as in NumPy:
    /// '0:64,10:20' (a block), '::2' (every second row), '3,4' (one position), '0:8;3,4' (both)
    #[arg(short, long, allow_hyphen_values = true, global = true, value_name = "ROI")]
    pub roi: Option<String>,
    /// Print what would be done and why, and do not run
    #[arg(long, global = true)]
    pub explain: bool,
    /// The number of threads [default: as many as the machine has]
    #[arg(short = 'j', long, global = true, value_parser = parse::count, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// Print one JSON object per file and reduction that sums up the result
    #[arg(long, global = true)]
    pub json: bool,
    /// Print the value of the written buffer at this index; may be repeated
    #[arg(long, global = true, value_parser = parse::index, value_name = "INDEX", allow_hyphen_values = true)]
    pub probe: Vec<parse::Shape>,
    /// Print errors and what was asked for only: no progress, no warnings
    #[arg(short, long, global = true)]
    pub quiet: bool,
}
