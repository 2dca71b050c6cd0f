//! What the viewer leaves to those who use it: opening files, and making files of what is seen.

use crate::{Query, Viewer};
use framefold::{Cancel, Dataset, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How a scan is laid out, where that is not as the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ScanChoice {
    /// The shape of the scan.
    pub nav_shape: Option<Vec<usize>>,
    /// How many frames come before the first position, or, below 0, how many positions before the first frame.
    pub sync_offset: Option<i64>,
}

/// A data set that was opened.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// What to call it.
    pub name: String,
    /// The data set.
    pub dataset: Dataset,
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
    /// Whether there is more than is told.
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

/// A file that was made of what is seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedFile {
    /// Its name.
    pub name: String,
    /// Its type, as browsers say it.
    pub media_type: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

/// Makes files of what is seen. Is called from any thread, by several at once.
pub trait Exporter: Send + Sync {
    /// The exact answer to `query` as a file of `format`.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such format; those of answering and writing.
    fn export(
        &self,
        viewer: &Viewer,
        query: &Query,
        format: &str,
        cancel: &Cancel,
    ) -> Result<ExportedFile>;

    /// The `script` or `notebook` that makes the same pictures.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such form.
    fn script(
        &self,
        viewer: &Viewer,
        form: &str,
        queries: &[Query],
        state: &Value,
    ) -> Result<ExportedFile>;
}
