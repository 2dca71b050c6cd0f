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
/// The number that follows it first where files have these names already, or else the next one: a
/// descriptor that is replaced keeps its arrays until its place is taken, and what belongs to
/// others, such as `NAME.2.toml`, stays.
const SECOND: usize = 2;

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
        let arrays = |number: usize| {
            ENDINGS.map(|ending| {
                let mut name = OsString::from(stem);
                if number >= SECOND {
                    name.push(format!(".{number}"));
                }
                name.push(ending);
                path.with_file_name(name)
            })
        };
        let is_there = |path: &PathBuf| path.symlink_metadata().is_ok();
        let mut number = SECOND - 1;
        while force && arrays(number).iter().any(is_there) {
            number += 1;
        }
        let chosen = arrays(number);
        let old = if force { names_in(path) } else { None };
        let old = old.and_then(|names| {
            let own = arrays(number_of(names.first()?, stem)?);
            let same = own.iter().zip(&names).all(|(own, name)| own.file_name() == Some(name));
            same.then_some(own)
        });
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
        // Arrays take the place of nothing.
        let replaces = self.force && i == Self::DESCRIPTOR;
        let whole = WholeOutput::create(target, OutputKind::File, replaces, &self.inputs)
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

/// The names of the arrays of the descriptor at `path`, if there is one.
fn names_in(path: &Path) -> Option<[OsString; 3]> {
    let descriptor = read_text(path).and_then(|text| Descriptor::parse(&text)).ok()?;
    let Descriptor { row_pointers, columns, values, .. } = descriptor;
    Some([row_pointers, columns, values].map(|file| file.name.into_os_string()))
}

/// The number in the name of row pointers that are called as they are here.
fn number_of(name: &OsStr, stem: &OsStr) -> Option<usize> {
    let number = name.to_str()?.strip_prefix(stem.to_str()?)?.strip_suffix(ENDINGS[0])?;
    match number {
        "" => Some(SECOND - 1),
        number => number.strip_prefix('.')?.parse().ok(),
    }
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
