//! What the viewer leaves to those who use it: opening files.

use crate::Own;
use crate::export::Opened;
use framefold::{Dataset, OpenOptions, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How a scan is laid out, where that is not as the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ScanChoice {
    /// The shape of the scan.
    pub nav_shape: Option<Vec<usize>>,
    /// How many frames come before the first position, or, below 0, how many positions before the first frame.
    pub sync_offset: Option<i64>,
}

impl ScanChoice {
    /// What options say of it.
    pub(crate) fn of(options: &OpenOptions) -> Self {
        let is_said = options.fixed_sync || options.sync_offset != 0;
        ScanChoice {
            nav_shape: options.nav_shape.clone(),
            sync_offset: is_said.then_some(options.sync_offset),
        }
    }

    /// With what `usual` says where this says nothing.
    pub(super) fn or(self, usual: &ScanChoice) -> Self {
        ScanChoice {
            nav_shape: self.nav_shape.or_else(|| usual.nav_shape.clone()),
            sync_offset: self.sync_offset.or(usual.sync_offset),
        }
    }
}

/// A data set that was opened.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What to call it.
    pub name: String,
    /// The number by which it can be opened again, if there is a list of files.
    pub file: Option<String>,
    /// The data set.
    pub dataset: Dataset,
    /// How a script opens it.
    pub opened: Opened,
    /// Functions that run over it; if there are none, those of the options of the host.
    pub own: Option<Arc<dyn Own>>,
}

/// Opens what a viewer may show, and nothing else. Is called from any thread, by several at once.
pub trait Opener: Send + Sync {
    /// Opens the file with that number, or the one that is shown if nothing else is said. Reads no pixel.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no file with that number; those of opening.
    fn open(&self, file: Option<&str>, scan: &ScanChoice) -> Result<Loaded>;

    /// What may be opened: what is in the folder with that number, or the files to begin with.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no folder with that number; those of reading it.
    fn files(&self, folder: Option<&str>) -> Result<Listing>;
}

/// What may be opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// What to call the folder.
    pub name: String,
    /// The number of the folder above, if that may be seen.
    pub parent: Option<String>,
    /// What is in it, by name.
    pub entries: Vec<Entry>,
    /// Whether there are more entries than these.
    pub more: bool,
}

/// A file or a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// What it is called by in messages.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// What it is.
    pub kind: EntryKind,
    /// Its size in bytes.
    pub bytes: u64,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryKind {
    /// It may be opened.
    File,
    /// Others are in it.
    Folder,
}
