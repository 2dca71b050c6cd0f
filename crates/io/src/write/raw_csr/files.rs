//! A descriptor and three arrays that appear together when all are complete, or not at all.

use crate::formats::raw_csr::{Descriptor, read_text};
use crate::write::whole::{OutputKind, WholeOutput, failed, real_path};
use framefold_core::{Error, Result};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// What follows the descriptor's name in those of row pointers, columns and values.
const ENDINGS: [&str; 3] = [".indptr", ".indices", ".data"];
/// What follows it first. A descriptor that is replaced keeps its arrays until its place is taken, so
/// those of the new one have the other names.
const VARIANTS: [&str; 2] = ["", ".2"];

/// Where a descriptor and its arrays are to appear.
pub(super) struct Outputs {
    paths: [PathBuf; 4],
    /// Arrays of the descriptor that is to be replaced.
    old: Option<[PathBuf; 3]>,
    force: bool,
    inputs: Vec<PathBuf>,
}

/// One file, under a temporary name. It is removed unless it is published.
pub(super) struct Output {
    writer: BufWriter<File>,
    whole: WholeOutput,
    target: PathBuf,
}

impl Outputs {
    pub(super) const DESCRIPTOR: usize = 0;
    pub(super) const ROW_POINTERS: usize = 1;
    pub(super) const COLUMNS: usize = 2;
    pub(super) const VALUES: usize = 3;

    /// Plans a descriptor at `path`, of data from the files `inputs`. Nothing is written yet.
    ///
    /// # Errors
    /// `InvalidArgument` if `path` names no file, one of the files exists and is not to be
    /// replaced, or is an input.
    pub(super) fn try_new(path: &Path, force: bool, inputs: &[PathBuf]) -> Result<Self> {
        // Arrays lie beside the descriptor, not beside a link to it.
        let real = if force && path.is_symlink() { Some(real_path(path)?) } else { None };
        let path = real.as_deref().unwrap_or(path);
        let Some(stem) = path.file_stem().filter(|_| path.extension().is_some()) else {
            return Err(Error::invalid("the output's name has no extension")
                .with_path(path)
                .with_hint("call it NAME.toml; the arrays get names that begin with NAME"));
        };
        let arrays = |variant: &str| {
            ENDINGS.map(|ending| {
                let mut name = OsString::from(stem);
                name.push(variant);
                name.push(ending);
                path.with_file_name(name)
            })
        };
        let mut chosen = arrays(VARIANTS[0]);
        let mut old = None;
        if force {
            let used = names_in(path);
            let is_used =
                |path: &PathBuf| path.file_name().is_some_and(|n| used.contains(&n.into()));
            let (free, taken): (Vec<_>, Vec<_>) = VARIANTS
                .map(arrays)
                .into_iter()
                .partition(|paths: &[PathBuf; 3]| !paths.iter().any(is_used));
            chosen = free.into_iter().next().unwrap_or(chosen);
            old = taken.into_iter().find(|paths| *paths != chosen);
        }
        let [row_pointers, columns, values] = chosen;
        let paths = [path.to_path_buf(), row_pointers, columns, values];
        let inputs: Vec<PathBuf> =
            inputs.iter().filter_map(|input| input.canonicalize().ok()).collect();
        for path in paths.iter().chain(old.iter().flatten()) {
            if path.canonicalize().is_ok_and(|path| inputs.contains(&path)) {
                return Err(Error::invalid("the output is one of the input files")
                    .with_path(path)
                    .with_hint("choose another name"));
            }
            if !force && path.symlink_metadata().is_ok() {
                return Err(crate::write::whole::output_exists().with_path(path));
            }
        }
        Ok(Outputs { paths, old, force, inputs })
    }

    /// The names of row pointers, columns and values, as the descriptor has them.
    ///
    /// # Errors
    /// `InvalidArgument` if they are not Unicode.
    pub(super) fn array_names(&self) -> Result<[&str; 3]> {
        let name = |i: usize| {
            let name = self.paths.get(i).and_then(|path| path.file_name()?.to_str());
            name.ok_or_else(|| {
                Error::invalid("the output's name cannot be written to a TOML file")
                    .with_hint("choose a name that is valid Unicode")
            })
        };
        Ok([name(Self::ROW_POINTERS)?, name(Self::COLUMNS)?, name(Self::VALUES)?])
    }

    /// Begins the `i`-th file.
    pub(super) fn create(&self, i: usize) -> Result<Output> {
        let target = self.paths.get(i).ok_or_else(|| Error::bug("there is no such output"))?;
        let whole = WholeOutput::create(target, OutputKind::File, self.force, &self.inputs)
            .map_err(|error| error.with_path(target))?;
        if let Some(old) = self.old.as_ref().and_then(|old| old.get(i.checked_sub(1)?)) {
            whole.take_permissions_of(old);
        }
        let file = whole.file()?.try_clone().map_err(|error| failed(error, target))?;
        let writer = BufWriter::with_capacity(1 << 18, file);
        Ok(Output { writer, whole, target: target.clone() })
    }

    /// Gives all files their names, the descriptor's last; if that fails, none stays.
    pub(super) fn publish(self, descriptor: Output, arrays: [Output; 3]) -> Result<Vec<PathBuf>> {
        let mut published: Vec<PathBuf> = Vec::new();
        for output in arrays.into_iter().chain([descriptor]) {
            let target = output.target.clone();
            match output.publish() {
                Ok(()) => published.push(target),
                Err(error) => {
                    for path in published {
                        // The first error counts.
                        let _ = std::fs::remove_file(path);
                    }
                    return Err(error);
                }
            }
        }
        for path in self.old.iter().flatten() {
            // Nothing leads to them any more.
            let _ = std::fs::remove_file(path);
        }
        Ok(self.paths.to_vec())
    }
}

/// The arrays that the descriptor at `path` leads to, if there is one.
fn names_in(path: &Path) -> Vec<OsString> {
    let descriptor = read_text(path).and_then(|text| Descriptor::parse(&text));
    let Ok(Descriptor { row_pointers, columns, values, .. }) = descriptor else { return vec![] };
    let files = [row_pointers, columns, values];
    files.iter().filter_map(|file| file.name.file_name()).map(OsStr::to_owned).collect()
}

impl Output {
    pub(super) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.writer.write_all(bytes).map_err(|error| failed(error, &self.target))
    }

    /// Brings the file to the disk, and holds its length against what it should be.
    pub(super) fn complete(&mut self, len_bytes: u64) -> Result<()> {
        let target = &self.target;
        self.writer.flush().map_err(|error| failed(error, target))?;
        let file = self.writer.get_ref();
        file.sync_all().map_err(|error| failed(error, target))?;
        let found = file.metadata().map_err(|error| failed(error, target))?.len();
        if found == len_bytes {
            return Ok(());
        }
        let message = format!("{len_bytes} bytes were written, but the file has {found}");
        Err(failed(std::io::Error::other(message), target))
    }

    fn publish(self) -> Result<()> {
        let Output { writer, whole, target } = self;
        drop(writer);
        whole.publish().map_err(|error| error.with_path(&target))
    }
}
