//! What clients take away: arrays as files, and scripts that make the same pictures again.
//!
//! All of it is a pure function of what a session knows; names of files, of axes and of functions become
//! texts in scripts, never code.

mod array;
mod corrected;
mod drawing;
mod opened;
mod pieces;
mod python;
mod script;
mod shots;
mod state;
mod titles;
mod weights;
mod zarr;

pub use array::{ArrayFormat, Exported};
pub use corrected::{Bad, Corrected};
pub use drawing::Tables;
pub use opened::Opened;
pub use python::Literal;
pub use script::{Script, ScriptForm};
pub use shots::Arrays;
pub(crate) use titles::{axes, title};

/// A file for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileMade {
    /// Its name: letters, digits, `.`, `_` and `-` only.
    pub name: String,
    /// What it is.
    pub media_type: &'static str,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// What names of files begin with: the name of a data set without its ending, and without what file systems
/// or shells may not like.
fn stem(name: &str) -> String {
    let name = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let kept = |c: char| if c.is_ascii_alphanumeric() || "_-.".contains(c) { c } else { '_' };
    let name: String = name.chars().map(kept).take(64).collect();
    match name.trim_start_matches(['.', '-']) {
        "" => "data".to_owned(),
        name => name.to_owned(),
    }
}
