//! Writing results: one file per format, chosen by the extension of the output's name.

mod atomic;
mod csv;
mod drawing;
mod hdf5;
mod jpg;
mod npy;
mod npz;
mod panel;
mod png;
mod tif;

pub(crate) use drawing::PictureStyle;
pub(crate) use npz::Extra;
pub use tif::{TiffLabels, TiffStep, write_tiff};

use crate::field::Field;
use framefold::core::memory;
use framefold::{Cancel, Error, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// A picture is made where there is memory for so many bytes for each value: as numbers, in order,
/// as colours, and enlarged.
const DRAWN_BYTES: u64 = 64;

/// The name of standard output.
const STANDARD_OUTPUT: &str = "-";

/// The place of the input's name in the output's.
const STEM: &str = "{stem}";

/// The formats that results can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Npy,
    Npz,
    Tif,
    Png,
    Jpg,
    Csv,
    Hdf5,
}

impl Format {
    fn of(path: &Path) -> Result<Self> {
        if path.as_os_str() == STANDARD_OUTPUT {
            return Ok(Format::Csv);
        }
        let extension = path.extension().map(|e| e.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            Some("npy") => Ok(Format::Npy),
            Some("npz") => Ok(Format::Npz),
            Some("tif" | "tiff") => Ok(Format::Tif),
            Some("png") => Ok(Format::Png),
            Some("jpg" | "jpeg") => Ok(Format::Jpg),
            Some("csv") => Ok(Format::Csv),
            Some("h5" | "hdf5") => Ok(Format::Hdf5),
            Some(other) => Err(format!("'.{other}' is not a format for results")),
            None => Err("the output's name has no extension".to_owned()),
        }
        .map_err(|what| {
            Error::invalid(what).with_path(path).with_hint(
                "use .npy, .npz, .h5, .tif, .csv, .png or .jpg, or - for CSV on standard output",
            )
        })
    }
}

/// A place for a result, checked before anything is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    path: PathBuf,
    format: Format,
    force: bool,
}

impl Target {
    /// The target for each of `files`: `template` with `{stem}` replaced.
    ///
    /// # Errors
    /// `InvalidArgument` if a name cannot be written to, or two files would share one.
    pub(crate) fn for_files(template: &str, files: &[PathBuf], force: bool) -> Result<Vec<Self>> {
        let mut targets: Vec<Target> = Vec::with_capacity(files.len());
        for file in files {
            let stem = file.file_stem().map_or_else(OsString::new, OsString::from);
            let path = PathBuf::from(template.replace(STEM, &stem.to_string_lossy()));
            if targets.iter().any(|other| other.path == path) {
                let error = Error::invalid("several input files would be written to this output")
                    .with_path(path);
                return Err(if template.contains(STEM) {
                    error.with_hint("run files of the same name one by one")
                } else {
                    error.with_hint("put {stem} into the output's name: -o '{stem}.png'")
                });
            }
            targets.push(Target::try_new(path, force)?);
        }
        Ok(targets)
    }

    fn try_new(path: PathBuf, force: bool) -> Result<Self> {
        let format = Format::of(&path)?;
        if path.as_os_str() == STANDARD_OUTPUT {
            return Ok(Target { path, format, force });
        }
        if path.is_dir() {
            return Err(Error::invalid("the output is a directory")
                .with_path(path)
                .with_hint("name a file in it"));
        }
        if !force && path.symlink_metadata().is_ok() {
            return Err(framefold::io::output_exists().with_path(&path));
        }
        let folder = atomic::folder(&path);
        if !folder.is_dir() {
            return Err(Error::invalid("the output's directory does not exist")
                .with_path(folder)
                .with_hint("create it first"));
        }
        Ok(Target { path, format, force })
    }

    /// Where the result goes.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether all buffers are written, not only one.
    pub(crate) fn takes_all(&self) -> bool {
        matches!(self.format, Format::Npz | Format::Hdf5)
    }

    /// Whether it is standard output.
    pub(crate) fn is_standard_output(&self) -> bool {
        self.path.as_os_str() == STANDARD_OUTPUT
    }

    /// Refuses to replace one of the files that are read.
    ///
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn check_not_input(&self, inputs: &[PathBuf]) -> Result<()> {
        let Ok(target) = self.path.canonicalize() else { return Ok(()) };
        if inputs.iter().filter_map(|input| input.canonicalize().ok()).any(|i| i == target) {
            return Err(Error::invalid("the output is one of the input files")
                .with_path(&self.path)
                .with_hint("choose another name for the result"));
        }
        Ok(())
    }

    /// Writes the result: all `fields` and `extras` where the format takes them, otherwise `main`.
    /// Gives what a reader of the file should know, for pictures: what the colours mean.
    ///
    /// The file appears under its name when it is complete; if anything fails before, or `cancel`
    /// is set, it does not appear.
    ///
    /// # Errors
    /// `Unsupported` if the format cannot hold the result; `Limit` if the picture would be too
    /// large; `Io`; `Cancelled`.
    pub(crate) fn write(
        &self,
        fields: &[Field],
        main: &Field,
        extras: &[Extra],
        style: &PictureStyle,
        cancel: &Cancel,
    ) -> Result<Option<String>> {
        if matches!(self.format, Format::Tif | Format::Png | Format::Jpg) {
            let n_values = u64::try_from(main.array.values().len()).unwrap_or(u64::MAX);
            memory::check(n_values.saturating_mul(DRAWN_BYTES))?;
        }
        if self.is_standard_output() {
            return csv::write(&mut std::io::stdout().lock(), main).map(|()| None);
        }
        let written = match self.format {
            Format::Csv => {
                atomic::write(&self.path, self.force, cancel, |out| csv::write(out, main))
                    .map(|()| None)
            }
            Format::Hdf5 => {
                hdf5::write(&self.path, self.force, cancel, style, fields, extras).map(|()| None)
            }
            Format::Jpg => {
                let (picture, caption) = drawing::draw(main, style)?;
                atomic::write(&self.path, self.force, cancel, |out| jpg::write(out, &picture))
                    .map(|()| Some(caption))
            }
            Format::Npy => {
                let array = main.with_nan()?;
                atomic::write(&self.path, self.force, cancel, |out| npy::write(out, &array))
                    .map(|()| None)
            }
            Format::Npz => {
                atomic::write(&self.path, self.force, cancel, |out| npz::write(out, fields, extras))
                    .map(|()| None)
            }
            Format::Tif => atomic::write(&self.path, self.force, cancel, |out| {
                tif::write(out, main, &tif::labels_of(main, &style.title))
            })
            .map(|()| None),
            Format::Png => {
                let (picture, caption) = drawing::draw(main, style)?;
                atomic::write(&self.path, self.force, cancel, |out| {
                    png::write(out, &picture, &caption)
                })
                .map(|()| Some(caption))
            }
        };
        written.map_err(|error| error.with_path(&self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_are_filled_in() {
        let folder = tempfile::tempdir().unwrap();
        let template = folder.path().join("{stem}-sum.npy");
        let files = [PathBuf::from("x/a.mib"), PathBuf::from("b.mib")];
        let targets = Target::for_files(template.to_str().unwrap(), &files, false).unwrap();
        assert_eq!(targets[0].path(), folder.path().join("a-sum.npy"));
        assert_eq!(targets[1].path(), folder.path().join("b-sum.npy"));
    }

    #[test]
    fn clashes_are_found_before_anything_runs() {
        let files = [PathBuf::from("x/a.mib"), PathBuf::from("y/a.mib")];
        for (template, hint) in [("out.png", "{stem}"), ("{stem}.png", "one by one")] {
            let error = Target::for_files(template, &files, false).unwrap_err();
            assert!(error.to_string().contains(hint), "{error}");
        }
    }

    #[test]
    fn impossible_names_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let existing = folder.path().join("there.npy");
        std::fs::write(&existing, "x").unwrap();
        let target = |name: &str, force| Target::try_new(folder.path().join(name), force);
        assert!(target("there.npy", false).is_err());
        assert!(target("there.npy", true).is_ok());
        assert!(target("x.docx", false).is_err());
        assert!(Target::try_new("-".into(), false).unwrap().is_standard_output());
        assert!(target("noextension", false).is_err());
        assert!(target("nowhere/x.npy", false).is_err());
        assert_eq!(target("X.TIFF", false).unwrap().format, Format::Tif);
        assert!(target("there.npy", true).unwrap().check_not_input(&[existing]).is_err());
    }
}
