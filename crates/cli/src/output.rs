//! Writing results: one file per format, chosen by the extension of the output's name.

mod atomic;
mod csv;
mod drawing;
mod hdf5;
mod jpg;
mod npz;
mod panel;
mod png;
mod tif;

pub(crate) use atomic::NewFolder;
pub(crate) use drawing::PictureStyle;
pub(crate) use npz::Extra;

use crate::field::Field;
use framefold::core::memory;
use framefold::io::WholeOutput;
use framefold::{Error, Result};
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A picture is made where there is memory for so many bytes for each value: as numbers, in order,
/// as colours, and enlarged.
const DRAWN_BYTES: u64 = 64;

/// The name of standard output.
const STANDARD_OUTPUT: &str = "-";

/// The place of the input's name in the output's.
const STEM: &str = "{stem}";

/// The place of the reduction's name.
const REDUCTION: &str = "{reduction}";

/// The files that make a folder an array or group of Zarr.
const ZARR: [&str; 3] = ["zarr.json", ".zarray", ".zgroup"];

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

/// A result that was written.
#[derive(Debug)]
pub(crate) struct Written {
    /// What a reader of the file should know, for pictures: what the colours mean.
    pub caption: Option<String>,
    whole: Option<WholeOutput>,
}

impl Written {
    /// Lets the file appear under its name.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` if something has the name by now.
    pub(crate) fn publish(self) -> Result<Option<String>> {
        if let Some(whole) = self.whole {
            whole.publish()?;
        }
        Ok(self.caption)
    }
}

impl Target {
    /// The targets for each of `files` and each of the reductions `names`: `template` with `{stem}`
    /// and `{reduction}` replaced. A folder stands for an HDF5 file in it for each.
    ///
    /// # Errors
    /// `InvalidArgument` if a name cannot be written to, or two results would share one.
    pub(crate) fn for_all(
        template: &str,
        files: &[PathBuf],
        names: &[&str],
        force: bool,
    ) -> Result<Vec<Vec<Self>>> {
        let template = &in_folder(template, files.len());
        if names.len() > 1 && !template.contains(REDUCTION) {
            let to = if template == STANDARD_OUTPUT { "standard output" } else { "one output" };
            let what = format!("{} reductions would be written to {to}", names.len());
            return Err(Error::invalid(what).with_path(template).with_hint(
                "name a folder, as in -o out/, or files in it: -o 'out/{reduction}.png'",
            ));
        }
        let mut all: Vec<Target> = Vec::with_capacity(files.len() * names.len());
        for file in files {
            let stem = file.file_stem().map_or_else(OsString::new, OsString::from);
            for name in names {
                let of_reduction = template.replace(REDUCTION, name);
                let parts: Vec<&OsStr> = of_reduction.split(STEM).map(OsStr::new).collect();
                let path = PathBuf::from(parts.join(stem.as_os_str()));
                if all.iter().any(|other| other.path == path) {
                    return Err(clash(path, template));
                }
                let target = Target::try_new(path, force, template.contains(REDUCTION))?;
                target.check_place(files)?;
                all.push(target);
            }
        }
        Ok(all.chunks(names.len().max(1)).map(<[Target]>::to_vec).collect())
    }

    /// If `in_new_folder`, the folder of the file can be one that is made for it.
    fn try_new(path: PathBuf, force: bool, in_new_folder: bool) -> Result<Self> {
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
        let is_new = in_new_folder && folder.symlink_metadata().is_err();
        let there = if is_new { atomic::folder(&folder) } else { folder };
        if !there.is_dir() {
            return Err(Error::invalid("the output's directory does not exist")
                .with_path(there)
                .with_hint("create it first"));
        }
        Ok(Target { path, format, force })
    }

    /// Refuses a place among what is read, and in Zarr, whose folders hold nothing else.
    ///
    /// # Errors
    /// `InvalidArgument`.
    fn check_place(&self, inputs: &[PathBuf]) -> Result<()> {
        let folder = atomic::folder(&self.path);
        if self.is_standard_output() {
            return Ok(());
        }
        let error = |what: &str, place: &Path| {
            let error = Error::invalid(format!("the output would be in {what}"));
            Err(error.with_path(place).with_hint("choose a place outside of it for the result"))
        };
        // If the folder is a new one, it will be in the one above it.
        let real = folder.canonicalize().ok();
        if real.is_some() && inputs.iter().any(|input| input.canonicalize().ok() == real) {
            return error("a folder that is read", &folder);
        }
        let there = real.or_else(|| atomic::folder(&folder).canonicalize().ok());
        let is_zarr = |at: &&Path| ZARR.iter().any(|name| at.join(name).is_file());
        match there.as_deref().and_then(|there| there.ancestors().find(is_zarr)) {
            Some(zarr) => error("a Zarr array or group", zarr),
            None => Ok(()),
        }
    }

    /// Makes the folder of the file, if it is to be made; it goes with what this gives if it is
    /// empty then.
    ///
    /// # Errors
    /// `Io`.
    pub(crate) fn make_folder(&self) -> Result<Option<NewFolder>> {
        let folder = atomic::folder(&self.path);
        if folder.is_dir() { Ok(None) } else { atomic::make_folder(&folder) }
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

    /// Writes the result: all `fields` and `extras` where the format takes them, otherwise `main`.
    /// The file appears under its name when what this gives is published, and not at all otherwise.
    ///
    /// # Errors
    /// `Unsupported` if the format cannot hold the result; `Limit` if the picture would be too
    /// large; `Io`.
    pub(crate) fn write(
        &self,
        fields: &[Field],
        main: &Field,
        extras: &[Extra],
        style: &PictureStyle,
    ) -> Result<Written> {
        if matches!(self.format, Format::Tif | Format::Png | Format::Jpg) {
            let n_values = u64::try_from(main.array.values().len()).unwrap_or(u64::MAX);
            memory::check(n_values.saturating_mul(DRAWN_BYTES))?;
        }
        if self.is_standard_output() {
            csv::write(&mut std::io::stdout().lock(), main)
                .map_err(|error| error.with_path("standard output"))?;
            return Ok(Written { caption: None, whole: None });
        }
        let (path, force) = (&self.path, self.force);
        let mut caption = None;
        let whole = match self.format {
            Format::Csv => atomic::write(path, force, |out| csv::write(out, main)),
            Format::Hdf5 => hdf5::write(path, force, style, fields, extras),
            Format::Jpg => {
                let (picture, meaning) = drawing::draw(main, style)?;
                caption = Some(meaning);
                atomic::write(path, force, |out| jpg::write(out, &picture))
            }
            Format::Npy => {
                let array = main.with_nan()?;
                atomic::write(path, force, |out| framefold::io::write_npy(out, &array))
            }
            Format::Npz => atomic::write(path, force, |out| npz::write(out, fields, extras)),
            Format::Tif => atomic::write(path, force, |out| {
                tif::write(out, main, &tif::labels_of(main, &style.title))
            }),
            Format::Png => {
                let (picture, meaning) = drawing::draw(main, style)?;
                let whole = atomic::write(path, force, |out| png::write(out, &picture, &meaning));
                caption = Some(meaning);
                whole
            }
        };
        let whole = Some(whole.map_err(|error| error.with_path(path))?);
        Ok(Written { caption, whole })
    }
}

/// Refuses to replace one of the files that are read.
///
/// # Errors
/// `InvalidArgument`.
pub(crate) fn check_not_inputs<'p>(
    outputs: impl IntoIterator<Item = &'p Path>,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> Result<()> {
    let inputs: HashSet<PathBuf> =
        inputs.into_iter().filter_map(|input| input.canonicalize().ok()).collect();
    let is_input =
        |output: &&Path| output.canonicalize().is_ok_and(|output| inputs.contains(&output));
    match outputs.into_iter().find(is_input) {
        Some(output) => Err(Error::invalid("the output is one of the input files")
            .with_path(output)
            .with_hint("choose another name for the result")),
        None => Ok(()),
    }
}

/// A name for each reduction in a folder, where `template` is one.
fn in_folder(template: &str, n_files: usize) -> String {
    if !template.ends_with(std::path::is_separator) && !Path::new(template).is_dir() {
        return template.to_owned();
    }
    let name = match n_files > 1 && !template.contains(STEM) {
        true => format!("{STEM}-{REDUCTION}.h5"),
        false => format!("{REDUCTION}.h5"),
    };
    Path::new(template).join(name).to_string_lossy().into_owned()
}

/// Two results that would be written to `path`.
fn clash(path: PathBuf, template: &str) -> Error {
    let error =
        Error::invalid("several input files would be written to this output").with_path(path);
    match template.contains(STEM) {
        true => error.with_hint("run files of the same name one by one"),
        false => error.with_hint("put {stem} into the output's name: -o '{stem}.png'"),
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
        let targets = Target::for_all(template.to_str().unwrap(), &files, &["sum"], false).unwrap();
        assert_eq!(targets[0][0].path(), folder.path().join("a-sum.npy"));
        assert_eq!(targets[1][0].path(), folder.path().join("b-sum.npy"));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn stems_that_are_not_utf_8_are_filled_in_as_they_are() {
        use std::os::unix::ffi::OsStrExt;
        let named = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
        let files = [named(b"x/\xff.mib"), named(b"x/\xfe.mib")];
        let targets = Target::for_all("{stem}-{reduction}.npy", &files, &["sum"], false).unwrap();
        let found = targets.iter().flatten().map(Target::path);
        assert_eq!(found.collect::<Vec<_>>(), [named(b"\xff-sum.npy"), named(b"\xfe-sum.npy")]);
    }

    #[test]
    fn folders_get_a_file_for_each_reduction() {
        let folder = tempfile::tempdir().unwrap();
        let at = |rest: &str| format!("{}/{rest}", folder.path().to_str().unwrap());
        let files = [PathBuf::from("x/a.mib"), PathBuf::from("b.mib")];
        for (template, files, names) in [
            ("", &files[..1], [&["sum.h5", "ring-2.h5"][..], &[]]),
            ("new/", &files[..1], [&["new/sum.h5", "new/ring-2.h5"], &[]]),
            ("", &files, [&["a-sum.h5", "a-ring-2.h5"], &["b-sum.h5", "b-ring-2.h5"]]),
            ("{stem}/", &files, [&["a/sum.h5", "a/ring-2.h5"], &["b/sum.h5", "b/ring-2.h5"]]),
            ("new/{reduction}.png", &files[..1], [&["new/sum.png", "new/ring-2.png"], &[]]),
        ] {
            let targets = Target::for_all(&at(template), files, &["sum", "ring-2"], false).unwrap();
            let expected: Vec<Vec<String>> = names
                .iter()
                .map(|names| names.iter().map(|name| at(name)).collect())
                .filter(|names: &Vec<_>| !names.is_empty())
                .collect();
            let found: Vec<Vec<String>> = targets
                .iter()
                .map(|each| each.iter().map(|t| t.path().to_str().unwrap().to_owned()).collect())
                .collect();
            assert_eq!(found, expected, "{template}");
        }
        for (template, words) in [
            ("all.npz", "2 reductions would be written to one output"),
            ("-", "2 reductions would be written to standard output"),
            ("no/no/{reduction}.npy", "directory does not exist"),
            ("{reduction}", "has no extension"),
        ] {
            let template = if template == "-" { "-".to_owned() } else { at(template) };
            let error = Target::for_all(&template, &files[..1], &["sum", "ring-2"], false);
            let error = error.unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn clashes_are_found_before_anything_runs() {
        let files = [PathBuf::from("x/a.mib"), PathBuf::from("y/a.mib")];
        for (template, hint) in [("out.png", "{stem}"), ("{stem}.png", "one by one")] {
            let error = Target::for_all(template, &files, &["sum"], false).unwrap_err();
            assert!(error.to_string().contains(hint), "{error}");
        }
    }

    #[test]
    fn impossible_names_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let existing = folder.path().join("there.npy");
        std::fs::write(&existing, "x").unwrap();
        let target = |name: &str, force| Target::try_new(folder.path().join(name), force, false);
        assert!(target("there.npy", false).is_err());
        assert!(target("there.npy", true).is_ok());
        assert!(target("x.docx", false).is_err());
        assert!(Target::try_new("-".into(), false, false).unwrap().is_standard_output());
        assert!(target("noextension", false).is_err());
        assert!(target("nowhere/x.npy", false).is_err());
        assert_eq!(target("X.TIFF", false).unwrap().format, Format::Tif);
        let other = folder.path().join("other.npy");
        let check = |output: &Path| check_not_inputs([output], [&*existing, &*other]);
        assert!(check(&existing).is_err());
        assert!(check(&other).is_ok());
    }
}
