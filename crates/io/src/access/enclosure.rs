//! The folder that names within a data set do not leave.
//!
//! A data set of several files names them itself: by links, or in a text. Its author could
//! otherwise show its user any file that the user can read, and have it passed on.

use framefold_core::{Error, Result};
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// A folder, and whether what it holds may lead out of it.
#[derive(Clone, Debug)]
pub(crate) struct Enclosure {
    folder: Arc<Path>,
    /// The folder without links; `None` if names may lead anywhere.
    real: Option<Arc<Path>>,
}

impl Enclosure {
    /// The folder is what the user named, so links on the way to it are the user's own.
    ///
    /// # Errors
    /// `Io` if it is not there.
    pub(crate) fn new(folder: &Path, anywhere: bool) -> Result<Self> {
        let real = if anywhere {
            None
        } else {
            let present = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            let real = present.canonicalize();
            Some(real.map_err(|error| Error::io("find the folder", error).with_path(folder))?)
        };
        Ok(Enclosure { folder: folder.into(), real: real.map(Arc::from) })
    }

    /// The folder around it, under the same rule; `None` if there is none.
    pub(crate) fn parent(&self) -> Option<Self> {
        Self::new(self.folder.parent()?, self.real.is_none()).ok()
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Confirms that a file, if it is there, lies in the folder.
    ///
    /// # Errors
    /// `BadFile` if it does not; `Io`.
    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        let Some(real) = &self.real else { return Ok(()) };
        if path.strip_prefix(&self.folder).is_ok_and(|rest| self.is_plain(rest)) {
            return Ok(());
        }
        match path.canonicalize() {
            Ok(found) if found.starts_with(real) => Ok(()),
            Ok(_) => Err(Error::bad_file(format!(
                "it lies outside of the folder '{}' that leads to it",
                self.folder.display()
            ))
            .with_path(path)
            .with_hint(
                "copy it into the folder, or set allow_external_links if you trust the data",
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Error::io("find the file", error).with_path(path)),
        }
    }

    /// Whether a way within the folder goes down only, and over no link.
    fn is_plain(&self, rest: &Path) -> bool {
        let mut place = PathBuf::from(&*self.folder);
        rest.components().all(|component| {
            let Component::Normal(name) = component else { return false };
            place.push(name);
            // What is not there leads nowhere.
            !place.symlink_metadata().is_ok_and(|found| found.is_symlink())
        })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn ways_out_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("inside");
        std::fs::create_dir_all(inside.join("deep")).unwrap();
        std::fs::create_dir_all(dir.path().join("insider")).unwrap();
        for name in ["inside/a", "inside/deep/b", "secret", "insider/c"] {
            std::fs::write(dir.path().join(name), name).unwrap();
        }
        symlink("a", inside.join("to-a")).unwrap();
        symlink("../secret", inside.join("to-secret")).unwrap();
        symlink("..", inside.join("up")).unwrap();
        symlink("../nothing", inside.join("to-nothing")).unwrap();
        symlink(&inside, dir.path().join("named")).unwrap();
        let secret = dir.path().join("secret").display().to_string();
        let refused =
            ["to-secret", "up/secret", "../secret", "deep/../../secret", "../insider/c", &secret];
        for folder in [&inside, &dir.path().join("named"), &inside.join("deep/..")] {
            let enclosure = Enclosure::new(folder, false).unwrap();
            let within = folder.join("a").canonicalize().unwrap().display().to_string();
            for name in ["a", "deep/b", "to-a", "not-there", "to-nothing", "up/inside/a", &within] {
                enclosure.check(&folder.join(name)).unwrap();
            }
            for name in refused {
                let error = enclosure.check(&folder.join(name)).unwrap_err();
                assert!(error.to_string().contains("outside of the folder"), "{name}: {error}");
                Enclosure::new(folder, true).unwrap().check(&folder.join(name)).unwrap();
            }
        }
        let around = Enclosure::new(&inside, false).unwrap().parent().unwrap();
        around.check(&dir.path().join("secret")).unwrap();
        assert!(Enclosure::new(Path::new(""), false).is_ok());
        assert!(Enclosure::new(&inside.join("nothing"), false).is_err());
    }
}
