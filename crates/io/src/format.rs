//! What a format is to those who look for the one of a file: a name, a look at the first bytes, and
//! a way to open. The table of all of them is in `formats`; what is here, the formats know.

use crate::options::{OpenOptions, OptionSpec};
use framefold_core::{Dataset, Error, Result};
use std::path::Path;

/// One format: what the registry knows about it.
pub struct Format {
    /// The short name, as callers spell it.
    pub name: &'static str,
    /// What it is, in a few words.
    pub title: &'static str,
    /// Its usual file extensions: lower case, without the dot.
    pub extensions: &'static [&'static str],
    /// Its options, all of them: others are refused.
    pub options: &'static [OptionSpec],
    /// Says whether a file is of this format, from its first bytes and its path. Called once per
    /// detection. Reads little more itself: a mark that lies elsewhere, what is in a folder. Of a
    /// folder, there are no first bytes, and `len` is 0.
    pub detect: &'static DetectFn,
    /// Opens a file as this format. Called after options without use were refused.
    pub open: &'static OpenFn,
}

/// See [`Format::detect`].
pub type DetectFn = dyn Fn(&Prefix<'_>) -> Verdict + Send + Sync;

/// See [`Format::open`].
pub type OpenFn = dyn Fn(&Path, &OpenOptions) -> Result<Dataset> + Send + Sync;

impl Format {
    /// Whether it has an option of that name.
    pub fn takes(&self, option: &str) -> bool {
        self.options.iter().any(|spec| spec.name == option)
    }
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Format").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The number of bytes from the start of a file that detection looks at.
pub const PREFIX_LEN: usize = 4096;

/// What detection gets to see of a file.
#[derive(Clone, Copy, Debug)]
pub struct Prefix<'a> {
    /// The file.
    pub path: &'a Path,
    /// Its first bytes: [`PREFIX_LEN`] of them, or all if there are fewer.
    pub bytes: &'a [u8],
    /// Its length.
    pub len: u64,
}

impl Prefix<'_> {
    /// The first bytes, up to eight, for messages: `'MQ1,0000'` or `89 50 4e 47`.
    pub fn describe(&self) -> String {
        let start = self.bytes.get(..8).unwrap_or(self.bytes);
        if !start.is_empty() && start.iter().all(|b| b.is_ascii_graphic() || *b == b' ') {
            format!("'{}'", String::from_utf8_lossy(start))
        } else {
            let hex: Vec<String> = start.iter().map(|b| format!("{b:02x}")).collect();
            format!("bytes {}", hex.join(" "))
        }
    }

    /// The extension of the path: lower case, empty if there is none.
    pub fn extension(&self) -> String {
        self.path.extension().map(|e| e.to_string_lossy().to_lowercase()).unwrap_or_default()
    }
}

/// Whether a file is of some format, and why; reasons read on after "it is X: " or "not X: ".
#[derive(Debug)]
pub enum Verdict {
    /// It is.
    Match(String),
    /// It is not.
    No(String),
    /// It cannot be said, and no other format is asked, such as after Ctrl-C: this is what opening ends with.
    Failed(Error),
}
