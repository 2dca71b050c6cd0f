//! The subcommands, one file each.

mod convert;
mod formats;
mod info;
mod reductions;
mod run;
#[cfg(feature = "view")]
mod view;

pub(crate) use convert::convert;
pub(crate) use formats::formats;
pub(crate) use info::info;
pub(crate) use reductions::reductions;
pub(crate) use run::run;
#[cfg(feature = "view")]
pub(crate) use view::{colormaps, view};

use crate::terminal::is_broken_pipe;
use crate::{app, exit};
use framefold::{ErrorKind, Result};
use std::path::{Path, PathBuf};

/// Does `work` for each file. A file that fails is reported and the others are still done; the
/// exit code is that of the first failure. Cancelling stops at once.
fn for_each_file(files: &[PathBuf], mut work: impl FnMut(&Path) -> Result<()>) -> Result<u8> {
    let mut code = exit::SUCCESS;
    for file in files {
        match work(file).map_err(|error| error.with_path(file)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::Cancelled || is_broken_pipe(&error) => {
                return Err(error);
            }
            Err(error) => {
                let failed = app::report(&error);
                if code == exit::SUCCESS {
                    code = failed;
                }
            }
        }
    }
    Ok(code)
}

/// A shape as Python writes it: `(128, 128)`.
fn tuple(dims: &[usize]) -> String {
    let dims: Vec<String> = dims.iter().map(ToString::to_string).collect();
    let comma = if dims.len() == 1 { "," } else { "" };
    format!("({}{comma})", dims.join(", "))
}
