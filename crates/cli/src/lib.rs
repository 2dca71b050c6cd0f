//! The `framefold` command: detector files through reductions to arrays and pictures.
//!
//! It is a library with a tiny binary on top, so that other front ends (the Python wheel's console
//! script) run the very same code: [`run`] takes the arguments and gives the exit code. It knows
//! no Python, computes nothing itself, and touches no output file before its contents are
//! complete: results are written to a temporary file that is renamed at the end.
//!
//! [`render`] turns arrays into colours; it is made of pure functions and can be used by itself.
//!
//! ```
//! assert_eq!(framefold_cli::run(["framefold", "formats"]), 0);
//! assert_eq!(framefold_cli::run(["framefold", "no-such-command"]), 2);
//! ```
#![forbid(unsafe_code)]

mod app;
mod args;
mod blocks;
mod command;
mod corrections;
mod exit;
mod field;
mod interrupt;
mod nearest;
mod npy_input;
mod numbers;
mod output;
mod progress;
pub mod render;
mod roi;
mod summary;
mod terminal;

pub use app::run;
pub use exit::{EXIT_CODES, exit_code};
pub use nearest::nearest;
pub use roi::parse_roi;

use std::path::PathBuf;

/// A data set with the corrections that the command line's options of these names say.
///
/// # Errors
/// Those of reading the arrays; `InvalidArgument` if they do not fit the frames.
pub fn corrected(
    dataset: framefold::Dataset,
    dark: Option<PathBuf>,
    gain: Option<PathBuf>,
    bad_pixels: Option<String>,
) -> framefold::Result<framefold::Dataset> {
    corrections::GivenCorrections { dark, gain, bad_pixels }.apply(dataset)
}

/// The colour maps of the viewer, the default first.
#[cfg(feature = "view")]
pub fn viewer_colormaps() -> Vec<framefold_view::Colormap> {
    command::colormaps()
}
