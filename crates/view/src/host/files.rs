//! The files that a viewer may open: those that were named, and those in one folder.
//!
//! Clients call files by numbers from a list that they got; they never say a name. What leads out of the folder,
//! by a link, is neither listed nor opened.

use super::{Entry, EntryKind, Listing, Loaded, Opener, ScanChoice};
use crate::export::Opened;
use framefold::{Dataset, Error, Result};
use std::collections::HashMap;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// How many entries of a folder are listed.
const MAX_ENTRIES: usize = 2000;
/// How many numbers there may be.
const MAX_NUMBERS: usize = 200_000;
/// Folders that are a data set.
const DATA_FOLDERS: [&str; 2] = ["zarr", "zspy"];

/// Opens a file whose scan is laid out in some way.
type OpenFile = dyn Fn(&Path, &ScanChoice) -> Result<(Dataset, Opened)> + Send + Sync;

/// An [`Opener`] of files.
pub struct Files {
    named: Vec<PathBuf>,
    /// Without links.
    root: Option<PathBuf>,
    open: Box<OpenFile>,
    numbers: Mutex<Numbers>,
}

/// What is known by a number, each by its place.
#[derive(Default)]
struct Numbers {
    paths: Vec<PathBuf>,
    places: HashMap<PathBuf, usize>,
}

impl Files {
    /// Opens `named`, of which the first is shown if nothing else is said, and what is in `root`, with `open`.
    ///
    /// # Errors
    /// `InvalidArgument` if nothing is named; `Io` if the folder is not there.
    pub fn try_new(
        named: Vec<PathBuf>,
        root: Option<&Path>,
        open: impl Fn(&Path, &ScanChoice) -> Result<(Dataset, Opened)> + Send + Sync + 'static,
    ) -> Result<Self> {
        if named.is_empty() {
            return Err(Error::invalid("there is no file to view"));
        }
        let root = root.map(folder).transpose()?;
        Ok(Files { named, root, open: Box::new(open), numbers: Mutex::default() })
    }

    /// The path that a number stands for, as it is now.
    fn path_of(&self, id: &str) -> Result<PathBuf> {
        let unknown = || {
            Error::invalid(format!("there is no file with the number '{id}'"))
                .with_hint("ask for the list of files again")
        };
        let (kind, place) = id.split_at_checked(1).ok_or_else(unknown)?;
        let place: usize = place.parse().map_err(|_| unknown())?;
        match kind {
            "n" => self.named.get(place).cloned().ok_or_else(unknown),
            "r" => {
                let numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
                let path = numbers.paths.get(place).cloned().ok_or_else(unknown)?;
                drop(numbers);
                // It may have become a link since it was listed.
                self.below_root(&path).ok_or_else(unknown)
            }
            _ => Err(unknown()),
        }
    }

    /// Where `path` leads, if that is in the folder.
    fn below_root(&self, path: &Path) -> Option<PathBuf> {
        let real = fs::canonicalize(path).ok()?;
        real.starts_with(self.root.as_ref()?).then_some(real)
    }

    fn number_of(&self, path: PathBuf) -> Result<String> {
        let mut numbers = self.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = numbers.places.get(&path) {
            return Ok(format!("r{place}"));
        }
        let place = numbers.paths.len();
        if place >= MAX_NUMBERS {
            return Err(Error::limit(format!("more than {MAX_NUMBERS} files were listed")));
        }
        numbers.paths.push(path.clone());
        numbers.places.insert(path, place);
        Ok(format!("r{place}"))
    }

    /// What may be opened to begin with.
    fn first(&self) -> Result<Listing> {
        let named = self.named.iter().enumerate().map(|(place, path)| Entry {
            id: format!("n{place}"),
            name: name(path),
            kind: EntryKind::File,
            bytes: fs::metadata(path).map_or(0, |meta| meta.len()),
        });
        let mut entries: Vec<Entry> = named.collect();
        if let Some(root) = &self.root {
            let id = self.number_of(root.clone())?;
            entries.push(Entry { id, name: name(root), kind: EntryKind::Folder, bytes: 0 });
        }
        Ok(Listing { entries, ..Listing::default() })
    }

    fn entry(&self, entry: &DirEntry) -> Result<Option<Entry>> {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with('.') {
            return Ok(None);
        }
        let Some(path) = self.below_root(&entry.path()) else { return Ok(None) };
        let Ok(meta) = fs::metadata(&path) else { return Ok(None) };
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let kind = match (meta.is_file(), meta.is_dir()) {
            (true, _) => EntryKind::File,
            (_, true) if DATA_FOLDERS.contains(&ending) => EntryKind::File,
            (_, true) => EntryKind::Folder,
            // Pipes and devices.
            _ => return Ok(None),
        };
        let bytes = if meta.is_file() { meta.len() } else { 0 };
        Ok(Some(Entry { id: self.number_of(path)?, name, kind, bytes }))
    }
}

impl Opener for Files {
    fn open(&self, file: Option<&str>, scan: &ScanChoice) -> Result<Loaded> {
        let file = file.unwrap_or("n0");
        let path = self.path_of(file)?;
        let (dataset, opened) = (self.open)(&path, scan).map_err(|error| error.with_path(&path))?;
        let file = Some(file.to_owned());
        Ok(Loaded { name: name(&path), file, dataset, opened, own: None })
    }

    fn files(&self, folder: Option<&str>) -> Result<Listing> {
        let Some(id) = folder else { return self.first() };
        let path = self.path_of(id)?;
        // Named files are no folders.
        let (true, Some(root)) = (id.starts_with('r'), &self.root) else {
            return Err(Error::invalid(format!("'{}' is no folder", name(&path))));
        };
        let failed = |error| Error::io("read the folder", error).with_path(&path);
        let mut found = Vec::new();
        for entry in fs::read_dir(&path).map_err(failed)? {
            found.push(entry.map_err(failed)?);
            // Sorting takes memory, too.
            if found.len() > 50 * MAX_ENTRIES {
                break;
            }
        }
        found.sort_by_key(DirEntry::file_name);
        let mut entries = Vec::new();
        let more = found.len() > MAX_ENTRIES;
        for each in found.iter().take(MAX_ENTRIES) {
            entries.extend(self.entry(each)?);
        }
        let parent = (path != *root).then(|| path.parent().map(Path::to_owned)).flatten();
        let parent = parent.map(|parent| self.number_of(parent)).transpose()?;
        Ok(Listing { name: name(&path), parent, entries, more })
    }
}

/// The folder, without links.
fn folder(path: &Path) -> Result<PathBuf> {
    let failed = |error| Error::io("find the folder", error).with_path(path);
    let real = fs::canonicalize(path).map_err(failed)?;
    match real.is_dir() {
        true => Ok(real),
        false => Err(Error::invalid("it is no folder").with_path(path)),
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
