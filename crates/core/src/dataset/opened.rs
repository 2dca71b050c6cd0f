//! The files that a data set is made of.

use super::Dataset;
use crate::FileStamp;
use std::collections::HashSet;
use std::path::PathBuf;

impl Dataset {
    /// The same, made of these files: besides those of its frames, headers and what lies beside them.
    ///
    /// Each comes with what it was when it was opened.
    pub fn with_opened(self, files: impl IntoIterator<Item = (PathBuf, FileStamp)>) -> Self {
        let (opened, stamps): (Vec<_>, Vec<_>) = files.into_iter().unzip();
        Dataset { opened: opened.into(), stamps: stamps.into(), ..self }
    }

    /// All files that were opened for it, as far as that is known.
    pub fn opened(&self) -> &[PathBuf] {
        &self.opened
    }

    /// The same, whose files were found by these patterns: another file with such a path is one of them the next time.
    pub fn with_found_by(self, patterns: Vec<PathBuf>) -> Self {
        Dataset { found_by: patterns.into(), ..self }
    }

    /// What no output may replace, nor be added to: the files of its frames, all that were opened for it, folders
    /// that are read as a whole, and the patterns that files were found by; each once.
    pub fn inputs(&self) -> Vec<PathBuf> {
        let all = [&self.source.info().paths, &*self.opened, &*self.found_by];
        let mut seen = HashSet::new();
        all.into_iter().flatten().filter(|path| seen.insert(path.as_path())).cloned().collect()
    }

    /// What each of [`Dataset::opened`] was when it was opened.
    pub fn stamps(&self) -> &[FileStamp] {
        &self.stamps
    }
}
