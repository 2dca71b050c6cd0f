//! Output that appears under its name when it is complete, or not at all.
//!
//! | name | what |
//! |---|---|
//! | `NAME` | at any moment nothing, the old one or the new one, and that whole |
//! | `.NAME.framefold-part` | what is being written; after an exchange, what is to go |
//! | `.NAME.framefold-lock` | held by who writes: there is one at a time |
//! | `.NAME.framefold-old` | what is to go, where a file system cannot exchange two names |
//! | `.NAME.framefold-record` | what is in a part that another process can go on with |
//! | `.NAME.framefold-record-part` | the next record |
//!
//! What begins with a dot goes with who made it. Where that was killed, the next one to write the
//! same output gets the lock, and with it the right to remove the rest; an old folder without a
//! new one comes back first. A part with a record may be kept by who made it, and be taken up again by
//! the next one. Links are followed, whether they lead somewhere or not yet.

mod lock;
mod place;
mod record;
mod renames;
#[cfg(test)]
mod tests;

use framefold_core::{Error, Result};
use lock::Lock;
use place::Place;
pub(crate) use record::Record;
use renames::{exchange, rename_new, unsupported};
use std::fs::{File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What is to appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// A file. It takes the place of files only.
    File,
    /// A folder with a Zarr array, of version 2 or 3. It takes the place of files, of empty folders, and
    /// of folders that hold such an array and nothing else.
    ZarrArray,
    /// A folder with a group of Zarr arrays, of version 2 or 3. It takes the place of files, of empty
    /// folders, and of folders with nothing but Zarr's files in them.
    ZarrGroup,
}

/// A file or folder in the making, under another name beside its own. Whatever is not published is
/// removed when this is dropped, though not by a fork of the process that made it.
#[derive(Debug)]
pub struct WholeOutput {
    place: Place,
    kind: OutputKind,
    replace: bool,
    /// What is written, if it is a file.
    file: Option<File>,
    lock: Lock,
    /// Whether the part stays when this is dropped.
    kept: bool,
}

impl WholeOutput {
    /// Begins what is to be `path`, made of data from `inputs`. It gets the permissions of what it
    /// is to replace, otherwise those of anything new.
    ///
    /// # Errors
    /// `InvalidArgument` if it exists and is not to be replaced, or not by this, an input is in the
    /// way, or a pattern among them finds it, or another process is writing it; `Io`.
    pub fn create(
        path: &Path,
        kind: OutputKind,
        replace: bool,
        inputs: &[PathBuf],
    ) -> Result<Self> {
        let locked = WholeOutput::locked(path, kind, replace, inputs);
        let mut output = locked.map_err(|error| error.with_path(path))?;
        output.begin_anew()?;
        Ok(output)
    }

    /// The same, but goes on with a part that was left with a record of what is in it: such a part
    /// stays, unless it is published or [discarded](WholeOutput::discard). The record comes along.
    ///
    /// # Errors
    /// As [`WholeOutput::create`].
    pub fn resume(
        path: &Path,
        kind: OutputKind,
        replace: bool,
        inputs: &[PathBuf],
    ) -> Result<(Self, Option<String>)> {
        let locked = WholeOutput::locked(path, kind, replace, inputs);
        let mut output = locked.map_err(|error| error.with_path(path))?;
        let part = output.place.part.symlink_metadata().ok();
        let fits = part.is_some_and(|meta| match kind {
            OutputKind::File => meta.is_file(),
            _ => meta.is_dir(),
        });
        let record = output.record();
        let found = record.read().map_err(|error| output.failed(error))?.filter(|_| fits);
        if found.is_none() {
            output.begin_anew()?;
            return Ok((output, None));
        }
        if kind == OutputKind::File {
            let file = OpenOptions::new().read(true).write(true).open(&output.place.part);
            output.file = Some(file.map_err(|error| output.failed(error))?);
        }
        output.kept = true;
        Ok((output, found))
    }

    /// Takes the lock, and has an old output back that was on its way out.
    fn locked(path: &Path, kind: OutputKind, replace: bool, inputs: &[PathBuf]) -> Result<Self> {
        let place = Place::of(path)?;
        place.not_an_input(inputs)?;
        let free = |place: &Place| match replace || path.symlink_metadata().is_err() {
            true => replaceable(&place.path, kind),
            false => Err(output_exists()),
        };
        free(&place)?;
        let lock = Lock::take(&place.lock)?;
        step("locked");
        // Whatever goes wrong now, a part that was left stays.
        let output = WholeOutput { place, kind, replace, file: None, lock, kept: true };
        output.take_back()?;
        free(&output.place)?;
        Ok(output)
    }

    /// Removes what was left, and begins a new part.
    fn begin_anew(&mut self) -> Result<()> {
        self.kept = false;
        self.clear();
        self.begin().map_err(|error| self.failed(error))?;
        step("begun");
        Ok(())
    }

    /// From now on, the part stays when this is dropped, for [`WholeOutput::resume`], if there is a
    /// record of what is in it.
    pub fn keep(&mut self) {
        self.kept = self.record().exists();
    }

    /// Removes the part, also one that was to stay.
    pub fn discard(mut self) {
        self.kept = false;
    }

    /// The record of what is in the part.
    pub(crate) fn record(&self) -> Record {
        Record::of(&self.place)
    }

    /// Where it is once it is published.
    pub fn path(&self) -> &Path {
        &self.place.path
    }

    /// Where it is until it is published.
    pub fn part(&self) -> &Path {
        &self.place.part
    }

    /// Gives it the permissions of a file that it stands for, if there is one.
    pub(crate) fn take_permissions_of(&self, path: &Path) {
        if let (Ok(meta), Some(file)) = (path.metadata(), &self.file) {
            // Where that is not allowed, it keeps its own.
            let _ = file.set_permissions(meta.permissions());
        }
    }

    /// The file to write to.
    ///
    /// # Errors
    /// `Bug` if it is a folder.
    pub fn file(&self) -> Result<&File> {
        self.file.as_ref().ok_or_else(|| Error::bug("a folder cannot be written to"))
    }

    /// Gives it its name, in the place of what has it.
    ///
    /// # Errors
    /// `InvalidArgument` if something has the name by now that is not to be replaced; `Io`.
    pub fn publish(mut self) -> Result<()> {
        if let Some(file) = &self.file {
            file.sync_all().map_err(|error| self.failed(error))?;
        }
        step("written");
        let Place { path, part, .. } = &self.place;
        let done = match (self.replace, self.kind) {
            (true, OutputKind::File) => {
                replaceable(path, self.kind).map_err(|error| error.with_path(path))?;
                std::fs::rename(part, path)
            }
            _ => rename_new(part, path),
        };
        match done {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => match self.replace {
                true => self.exchange().map_err(|error| error.with_path(path))?,
                false => return Err(output_exists().with_path(path)),
            },
            done => done.map_err(|error| self.failed(error))?,
        }
        step("published");
        // What has the part's name now is what was replaced.
        self.kept = false;
        Ok(())
    }

    /// Changes places with what has the name, which then goes.
    fn exchange(&self) -> Result<()> {
        let Place { path, part, old, .. } = &self.place;
        replaceable(path, self.kind)?;
        // Where what has the name changed after this look, it gets its name back.
        match exchange(part, path) {
            Ok(()) => {
                step("exchanged");
                replaceable(part, self.kind).inspect_err(|_| {
                    let _ = exchange(part, path);
                })
            }
            Err(error) if unsupported(&error) => {
                let back = || {
                    let _ = rename_new(old, path);
                };
                rename_new(path, old).map_err(|error| self.failed(error))?;
                step("old moved away");
                replaceable(old, self.kind).inspect_err(|_| back())?;
                rename_new(part, path).map_err(|error| {
                    back();
                    self.failed(error)
                })?;
                step("new moved there");
                remove(old);
                Ok(())
            }
            Err(error) => Err(self.failed(error)),
        }
    }

    /// What a killed process moved away comes back, if there is nothing new in its place.
    fn take_back(&self) -> Result<()> {
        let Place { path, old, .. } = &self.place;
        if old.symlink_metadata().is_ok() {
            if path.symlink_metadata().is_err() {
                rename_new(old, path).map_err(|error| self.failed(error))?;
            }
            remove(old);
        }
        Ok(())
    }

    /// Removes the part, and what there is about it.
    fn clear(&self) {
        remove(&self.place.part);
        self.record().remove();
    }

    fn begin(&mut self) -> std::io::Result<()> {
        let replaced = self.place.path.symlink_metadata().ok();
        let is_folder = self.kind != OutputKind::File;
        let permissions = replaced
            .filter(|meta| if is_folder { meta.is_dir() } else { meta.is_file() })
            .map(|meta| meta.permissions());
        let part = &self.place.part;
        if is_folder {
            new_folder(part, permissions.as_ref())?;
        } else {
            self.file = Some(new_file(part, permissions.as_ref())?);
        }
        if let Some(permissions) = permissions {
            // Where that is not allowed, those of anything new, or fewer, have to do.
            let _ = match &self.file {
                Some(file) => file.set_permissions(permissions),
                None => std::fs::set_permissions(part, permissions),
            };
        }
        Ok(())
    }

    fn failed(&self, error: std::io::Error) -> Error {
        failed(error, &self.place.path)
    }
}

impl Drop for WholeOutput {
    fn drop(&mut self) {
        if self.lock.is_of_this_process() && !self.kept {
            self.clear();
        }
    }
}

/// Where what is to be `path` is until it is complete.
///
/// # Errors
/// `InvalidArgument` if `path` names nothing; `Io` if there is no such folder.
pub fn part_of(path: &Path) -> Result<PathBuf> {
    Ok(Place::of(path)?.part)
}

/// Refuses to write to one of `inputs`, to what lies within one, holds one, or has a name that a pattern among
/// them finds.
///
/// # Errors
/// `InvalidArgument` that names `path`.
pub fn keeps_inputs(path: &Path, inputs: &[PathBuf]) -> Result<()> {
    // In a folder that is not there, there are none.
    let Ok(place) = Place::of(path) else { return Ok(()) };
    place.not_an_input(inputs).map_err(|error| error.with_path(path))
}

/// Where `path` leads to, through links.
pub(crate) fn real_path(path: &Path) -> Result<PathBuf> {
    Ok(Place::of(path)?.path)
}

/// That something has the name, and stays.
pub fn output_exists() -> Error {
    Error::invalid("the output exists").with_hint(
        "choose another name, or replace it: --force on the command line, overwrite=True in Python",
    )
}

/// That the operating system refused to write `path`.
pub(crate) fn failed(error: std::io::Error, path: &Path) -> Error {
    refused("write the output", error).with_path(path)
}

/// That the operating system refused to do something, such as `write the array`, and what to do about it.
pub fn refused(action: &'static str, error: std::io::Error) -> Error {
    // The same as `framefold.results.refusals` says.
    let next_step = match error.kind() {
        ErrorKind::StorageFull => "free space on that disk, or write to another one",
        ErrorKind::QuotaExceeded => "remove files of yours on that disk, or have your quota raised",
        ErrorKind::OutOfMemory => "free memory, or write less at once",
        ErrorKind::InvalidFilename => "choose a shorter name",
        _ => "check the space on the disk and the permissions of the folder",
    };
    Error::io(action, error).with_hint(next_step)
}

#[cfg(unix)]
fn new_file(path: &Path, permissions: Option<&Permissions>) -> std::io::Result<File> {
    use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
    // Until it has its permissions, only users who may open what it replaces may open it.
    let mode = permissions.map_or(0o666, |permissions| permissions.mode() & 0o777);
    OpenOptions::new().read(true).write(true).create_new(true).mode(mode | 0o600).open(path)
}

#[cfg(not(unix))]
fn new_file(path: &Path, _permissions: Option<&Permissions>) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create_new(true).open(path)
}

#[cfg(unix)]
fn new_folder(path: &Path, permissions: Option<&Permissions>) -> std::io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
    let mode = permissions.map_or(0o777, |permissions| permissions.mode() & 0o777);
    std::fs::DirBuilder::new().mode(mode | 0o700).create(path)
}

#[cfg(not(unix))]
fn new_folder(path: &Path, _permissions: Option<&Permissions>) -> std::io::Result<()> {
    std::fs::create_dir(path)
}

/// Removes a file, a link, or a folder in which there is nothing but what is written here.
fn remove(path: &Path) {
    let is_dir = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
    // What cannot be removed stays.
    let _ = match is_dir {
        true if names(path).is_ok_and(|names| names.iter().all(|name| is_ours(name)))
            || matches!(foreign(path, 0), Ok(None)) =>
        {
            std::fs::remove_dir_all(path)
        }
        true => Ok(()),
        false => std::fs::remove_file(path),
    };
}

/// What a folder with an array of version 3 holds.
fn is_ours(name: &str) -> bool {
    name == "zarr.json" || name == "c"
}

/// What a folder with an array of version 2 holds, at its top and below.
fn is_of_version_2(name: &str) -> bool {
    name == ".zarray" || name == ".zattrs" || is_chunk(name)
}

/// The name of a chunk, or of a folder of chunks, of version 2.
fn is_chunk(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// The names in a folder, in order; of very many, some.
fn names(folder: &Path) -> std::io::Result<Vec<String>> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| {
        Ok::<_, std::io::Error>(entry?.file_name().to_string_lossy().into_owned())
    };
    let mut names: Vec<String> =
        std::fs::read_dir(folder)?.take(1000).map(name).collect::<std::io::Result<_>>()?;
    names.sort_unstable();
    Ok(names)
}

/// Refuses to replace what is neither file nor folder, a folder by a file, and folders that hold
/// anything but one array as it is written here.
fn replaceable(path: &Path, kind: OutputKind) -> Result<()> {
    let Ok(meta) = path.symlink_metadata() else { return Ok(()) };
    if meta.is_dir() {
        return match kind {
            OutputKind::File => Err(Error::invalid("the output is a folder that exists")
                .with_hint("choose another name, or remove the folder")),
            OutputKind::ZarrArray => only_an_array(path),
            OutputKind::ZarrGroup => only_zarr(path),
        };
    }
    if meta.is_file() || (meta.is_symlink() && kind == OutputKind::File) {
        return Ok(());
    }
    Err(Error::invalid("the output exists, and is neither a file nor a folder")
        .with_hint("choose another name"))
}

/// Names of a folder that an error shows.
const SHOWN: usize = 3;

fn only_an_array(path: &Path) -> Result<()> {
    let names = names(path).map_err(|error| failed(error, path))?;
    if names.is_empty() {
        return Ok(());
    }
    let node = std::fs::read(path.join("zarr.json")).ok();
    let node = node.and_then(|text| serde_json::from_slice::<serde_json::Value>(&text).ok());
    let node = node.as_ref().and_then(|node| node.get("node_type")?.as_str()).unwrap_or_default();
    let is_array = |described: &str| path.join(described).is_file();
    let other = if node == "array" && names.iter().all(|name| is_ours(name)) {
        Some(no_chunk(&path.join("c"), 0))
    } else if is_array(".zarray") && names.iter().all(|name| is_of_version_2(name)) {
        Some(foreign(path, 0))
    } else {
        None
    };
    if let Some(other) = other {
        let Some(other) = other.map_err(|error| failed(error, path))? else { return Ok(()) };
        let error = "the output exists, and has a file within that is no chunk";
        return Err(Error::invalid(format!("{error}; to replace it would remove '{other}'"))
            .with_hint("choose another name, or remove the folder yourself"));
    }
    let what = match node {
        "array" => "a Zarr array with other things beside it",
        "group" => "a Zarr group",
        _ if names.iter().any(|name| name == ".zgroup") => "a Zarr group",
        _ if names.iter().any(|name| name == ".zarray") => {
            "a Zarr array with other things beside it"
        }
        _ => "a folder without a Zarr array in it",
    };
    let (shown, more) = names.split_at(names.len().min(SHOWN));
    let dots = if more.is_empty() { "" } else { ", …" };
    Err(Error::invalid(format!(
        "the output exists, and is {what}; to replace it would remove '{}'{dots}",
        shown.join("', '")
    ))
    .with_hint("choose another name, or remove the folder yourself"))
}

/// Names of the files that describe groups and arrays of Zarr.
const DESCRIPTIONS: [&str; 5] = ["zarr.json", ".zgroup", ".zarray", ".zattrs", ".zmetadata"];

/// Refuses folders that are no group and no array of Zarr, or hold more than Zarr's files.
fn only_zarr(path: &Path) -> Result<()> {
    let names = names(path).map_err(|error| failed(error, path))?;
    let described = names.is_empty() || names.iter().any(|name| DESCRIPTIONS.contains(&&**name));
    let other = match (described, names.into_iter().next()) {
        (false, first) => first,
        (true, _) => foreign(path, 0).map_err(|error| failed(error, path))?,
    };
    match other {
        None => Ok(()),
        Some(name) => Err(Error::invalid(format!(
            "the output exists, and is a folder with more in it than Zarr's files; to replace it would remove \
             '{name}'"
        ))
        .with_hint("choose another name, or remove the folder yourself")),
    }
}

/// A file in a folder, or below it, that is none of Zarr's: neither a description nor a chunk.
fn foreign(folder: &Path, depth: usize) -> std::io::Result<Option<String>> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type()?.is_dir() && depth <= MOST_AXES {
            if let Some(found) = foreign(&entry.path(), depth + 1)? {
                return Ok(Some(found));
            }
        } else if !DESCRIPTIONS.contains(&name.as_str()) && !is_chunk(&name) {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

/// A file or folder among the chunks of an array whose name is no number, as those of chunks are.
fn no_chunk(folder: &Path, depth: usize) -> std::io::Result<Option<String>> {
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.bytes().all(|byte| byte.is_ascii_digit()) || depth > MOST_AXES {
            return Ok(Some(name));
        }
        if entry.file_type()?.is_dir()
            && let Some(found) = no_chunk(&entry.path(), depth + 1)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Folders of chunks are no deeper.
const MOST_AXES: usize = 32;

/// A moment at which tests kill the process.
#[cfg(test)]
use tests::step;

#[cfg(not(test))]
#[inline(always)]
fn step(_name: &str) {}
