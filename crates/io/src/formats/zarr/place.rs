//! Where an array and its groups are: in folders, or in a zip archive that stands for one.

use crate::access::archive::Archive;
use crate::access::enclosure::Enclosure;
use crate::headers::fields::read_small;
use crate::headers::json;
use framefold_core::{Error, Result};
use serde_json::Value;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longer descriptions are none.
const LONGEST: u64 = 64 << 20;

/// A folder, or what looks like one.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// A folder, within another one that its files do not leave.
    Folder(PathBuf, Enclosure),
    /// The names of members that begin with this text, which is empty or ends in a slash.
    Archive(Arc<Archive>, String),
}

impl Place {
    /// What is within, under a name that may have slashes.
    pub(super) fn join(&self, name: impl AsRef<Path>) -> Place {
        let name = name.as_ref();
        match self {
            Place::Folder(path, around) => Place::Folder(path.join(name), around.clone()),
            Place::Archive(archive, prefix) if name.as_os_str().is_empty() => {
                Place::Archive(archive.clone(), prefix.clone())
            }
            Place::Archive(archive, prefix) => {
                Place::Archive(archive.clone(), format!("{prefix}{}/", name.display()))
            }
        }
    }

    /// What is around it.
    pub(super) fn parent(&self) -> Option<Place> {
        match self {
            Place::Folder(path, around) => {
                let parent = path.parent()?.to_path_buf();
                let outermost = path.as_path() == around.folder();
                let around = if outermost { around.parent()? } else { around.clone() };
                Some(Place::Folder(parent, around))
            }
            Place::Archive(archive, prefix) => {
                let (outer, _) = prefix.trim_end_matches('/').rsplit_once('/')?;
                Some(Place::Archive(archive.clone(), format!("{outer}/")))
            }
        }
    }

    /// Whether it has that name.
    pub(super) fn is_called(&self, name: &str) -> bool {
        match self {
            Place::Folder(path, _) => path.ends_with(name),
            Place::Archive(_, prefix) => {
                prefix.trim_end_matches('/').rsplit('/').next() == Some(name)
            }
        }
    }

    /// The file to name in messages: the one called `name`, or the archive.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        match self {
            Place::Folder(path, _) => path.join(name),
            Place::Archive(archive, _) => {
                archive.storage().path().unwrap_or(Path::new("")).to_path_buf()
            }
        }
    }

    /// The JSON of that name; `None` if there is none.
    ///
    /// # Errors
    /// `BadFile` if it is no JSON, or outside of the folder; `InvalidArgument` if it is no regular
    /// file: a named pipe would be waited for for ever.
    pub(super) fn json(&self, name: &str) -> Result<Option<Value>> {
        let path = self.file(name);
        let text = match self {
            Place::Folder(_, around) => {
                around.check(&path)?;
                if std::fs::metadata(&path).is_err() {
                    return Ok(None);
                }
                read_small(&path, LONGEST)?
            }
            Place::Archive(archive, prefix) => {
                let name = format!("{prefix}{name}");
                let Some(member) = archive.get(&name) else { return Ok(None) };
                archive.read(&name, member, LONGEST)?
            }
        };
        json::parse(&text)
            .map(Some)
            .map_err(|error| Error::bad_file(format!("this is no JSON: {error}")).with_path(&path))
    }

    /// Where it really is.
    pub(super) fn real(&self) -> Option<PathBuf> {
        match self {
            Place::Folder(path, _) => path.canonicalize().ok(),
            Place::Archive(..) => None,
        }
    }

    /// Whether it is a link.
    pub(super) fn is_link(&self) -> bool {
        matches!(self, Place::Folder(path, _) if path.is_symlink())
    }

    /// The names of at most `most` folders within, and of links to folders, in order.
    pub(super) fn folders(&self, most: usize) -> Vec<OsString> {
        match self {
            Place::Folder(path, _) => {
                let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
                let mut names: Vec<OsString> = entries
                    .filter_map(|entry| {
                        let entry = entry.ok()?;
                        let kind = entry.file_type().ok()?;
                        let is_folder = kind.is_dir() || kind.is_symlink() && entry.path().is_dir();
                        is_folder.then(|| entry.file_name())
                    })
                    .take(most)
                    .collect();
                names.sort();
                names
            }
            Place::Archive(archive, prefix) => {
                archive.folders(prefix, most).into_iter().map(OsString::from).collect()
            }
        }
    }
}
