//! What is in a part, for those who go on with it.

use super::place::Place;
use std::fs::File;
use std::io::{ErrorKind, Read, Result, Write};
use std::path::PathBuf;

/// A small file beside a part, which is replaced as a whole.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    path: PathBuf,
    new: PathBuf,
}

impl Record {
    pub(super) fn of(place: &Place) -> Self {
        Record { path: place.record.clone(), new: place.new_record.clone() }
    }

    /// Its text; none, if there is no record.
    pub(super) fn read(&self) -> Result<Option<String>> {
        // It names all files of the data set, which may be very many.
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
    }

    pub(super) fn exists(&self) -> bool {
        self.path.symlink_metadata().is_ok()
    }

    /// Has it say this, once that is on the disk.
    pub(crate) fn write(&self, text: &str) -> Result<()> {
        let mut file = File::create(&self.new)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        std::fs::rename(&self.new, &self.path)
    }

    pub(super) fn remove(&self) {
        for path in [&self.new, &self.path] {
            // What cannot be removed stays, and fits no part.
            let _ = std::fs::remove_file(path);
        }
    }
}
