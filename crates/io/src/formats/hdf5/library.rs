//! The door to the HDF5 library, which reads meta data and nothing else.
//!
//! It sees files through [`Storage`], like everything else here, and external links through a
//! resolver that stays within the folder of the file that was named. Whatever it makes of a damaged
//! file ends as an error: it checks what it reads, and should it panic all the same, that is caught.

use super::dense::Dense;
use super::failures::{DAMAGED, older, translate};
use super::headers::{Headers, Note};
use crate::access::Storage;
use crate::options::Backend;
use framefold_core::{Error, Result, interrupt, memory};
use hdf5_reader::group::Group;
use hdf5_reader::io::Cursor;
use hdf5_reader::storage::{Storage as LibraryStorage, StorageBuffer};
use hdf5_reader::{Dataset, ExternalLinkResolver, Hdf5File, OpenOptions};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One file, both as the library sees it and as the engine does.
#[derive(Clone)]
pub(super) struct Opened {
    pub(super) file: Hdf5File,
    pub(super) storage: Storage,
    headers: Arc<Headers>,
}

/// Why a data set cannot be reached.
pub(super) enum Unreachable {
    /// The file, or the data set in it, is not there.
    Absent(String),
    /// It must not be opened, or cannot be.
    Refused(Error),
}

impl Opened {
    /// What the library does not tell of the header at `address`.
    pub(super) fn note(&self, address: u64) -> Note {
        self.headers.note(address)
    }

    /// Bytes before the superblock, from which the library counts.
    pub(super) fn base(&self) -> u64 {
        self.storage.len().saturating_sub(self.file.storage().len())
    }

    /// Says so if the file is cut short.
    pub(super) fn cut_short(&self) -> Option<String> {
        Some(cut_short(self.headers.cut_from()?, &self.storage))
    }

    /// Whether that address says that there is nothing.
    pub(super) fn is_nowhere(&self, address: u64) -> bool {
        Cursor::is_undefined_offset(address, self.file.superblock().offset_size)
    }

    /// Adds the path to an error, and what helps, where that is known better from here.
    pub(super) fn locate(&self, error: Error) -> Error {
        self.storage.locate(explain(&self.storage, error))
    }
}

/// A file, and those that it links to.
pub(super) struct Library {
    pub(super) main: Opened,
    files: Arc<Files>,
    /// Virtual data sets that are being put together, each within the one before.
    within: Mutex<Vec<(PathBuf, u64)>>,
    n_sources: AtomicUsize,
    /// Of groups in this file, where their links to other files lead. The library looks through all
    /// links for each name, which is long where many files belong together.
    links: Mutex<HashMap<String, Arc<Targets>>>,
}

/// File and path there, for each name.
type Targets = HashMap<String, (String, String)>;

/// What helps where a file of a set is not found.
pub(super) const COPY: &str = "copy all files of the set into one folder";
/// Virtual data sets within each other.
const DEEPEST: usize = 16;
/// Sources of all virtual data sets that are opened at once.
const MOST_SOURCES: usize = 1 << 17;

/// What is known about linked files.
struct Files {
    /// Links must not leave it, unless they may lead anywhere.
    folder: PathBuf,
    anywhere: bool,
    backend: Backend,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Whether links to other files are followed at the moment.
    follows: bool,
    opened: HashMap<PathBuf, Opened>,
    /// The file that the last link led to.
    last: Option<Opened>,
    /// Why links led nowhere.
    problems: Vec<Error>,
}

impl Library {
    /// # Errors
    /// `BadFile` if it is no HDF5 file, `Io` if it cannot be read.
    pub(super) fn open(path: &Path, backend: Backend, anywhere: bool) -> Result<Self> {
        let storage = Storage::open(path, backend)?;
        let folder = path.canonicalize().ok().and_then(|path| path.parent().map(Path::to_path_buf));
        let folder = folder.unwrap_or_default();
        let files = Arc::new(Files { folder, anywhere, backend, state: Mutex::default() });
        let base = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let main = files.open(storage, base).map_err(|error| error.with_path(path))?;
        let (within, links, n_sources) = Default::default();
        Ok(Library { main, files, within, n_sources, links })
    }

    /// The group of that path, within this file.
    pub(super) fn group(&self, path: &str) -> Option<Group> {
        self.main.file.group(path).ok()
    }

    /// The group of that path, which may be behind links to other files.
    pub(super) fn group_behind(&self, path: &str) -> Option<Group> {
        self.files.lock().follows = true;
        let group = self.group(path);
        self.files.lock().follows = false;
        group
    }

    /// The data set of that path, and the file it is in; links to other files are followed.
    ///
    /// # Errors
    /// `InvalidArgument` if there is none, with what became of links on the way.
    pub(super) fn dataset(&self, path: &str) -> Result<(Dataset, Opened)> {
        let path = &plain(path);
        // Why a link leads nowhere is found out on the longer way.
        if let Some((file, target)) = self.target(path)
            && let Ok(found) = self.linked(&self.main, &file, &target)
        {
            return Ok(found);
        }
        self.find(&self.main, path).map_err(|unreachable| match unreachable {
            Unreachable::Refused(error) => error,
            Unreachable::Absent(what) => Error::invalid(what),
        })
    }

    /// Where the path leads, if it is a link to another file.
    fn target(&self, path: &str) -> Option<(String, String)> {
        let (parent, name) = path.trim_matches('/').rsplit_once('/')?;
        let lock = || self.links.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock().get(parent).cloned();
        let known = known.unwrap_or_else(|| {
            let links = self.group(parent).and_then(|group| super::links::targets(&group).ok());
            let links: Arc<Targets> = Arc::new(links.unwrap_or_default().into_iter().collect());
            lock().insert(parent.to_owned(), Arc::clone(&links));
            links
        });
        known.get(name).cloned()
    }

    /// The data set of that path in a file that `owner` names; `.` is `owner` itself.
    ///
    /// # Errors
    /// `Absent` if file or data set are not there.
    pub(super) fn linked(
        &self,
        owner: &Opened,
        file: &str,
        path: &str,
    ) -> Result<(Dataset, Opened), Unreachable> {
        if file == "." {
            return self.find(owner, path);
        }
        let base = owner.storage.path().and_then(Path::parent).unwrap_or(Path::new(""));
        let opened = self.files.follow(base, file)?;
        self.find(&opened, path)
    }

    fn find(&self, within: &Opened, path: &str) -> Result<(Dataset, Opened), Unreachable> {
        {
            let mut state = self.files.lock();
            state.last = None;
            state.follows = true;
            state.problems.clear();
        }
        let found = within.file.dataset(&plain(path));
        let mut state = self.files.lock();
        state.follows = false;
        let was_linked = state.last.is_some();
        let owner = state.last.take().unwrap_or_else(|| within.clone());
        let problems = std::mem::take(&mut state.problems);
        drop(state);
        match found {
            Ok(dataset) => Ok((dataset, owner)),
            Err(_) if !problems.is_empty() => {
                let words: Vec<&str> = problems.iter().map(Error::message).collect();
                let words = words.join("; ");
                let hint = problems.iter().find_map(Error::hint).unwrap_or(COPY);
                Err(Unreachable::Refused(
                    Error::bad_file(format!("the data set '{path}' cannot be reached: {words}"))
                        .with_hint(hint),
                ))
            }
            Err(error) if error.to_string().contains("not found") => {
                let linked = owner.storage.path().filter(|_| was_linked);
                Err(Unreachable::Absent(match linked.and_then(Path::file_name) {
                    None => format!("there is no data set '{path}' in the file"),
                    Some(name) => format!(
                        "'{path}' links to the file '{}', which has no such data set",
                        name.display()
                    ),
                }))
            }
            Err(error) => Err(Unreachable::Refused(translate(&error))),
        }
    }

    /// Notes that the virtual data set with the header at `address` is put together, until the guard goes.
    ///
    /// # Errors
    /// `BadFile` if it is part of itself, or of too many others.
    pub(super) fn enter(&self, owner: &Opened, address: u64) -> Result<Within<'_>> {
        let path = owner.storage.path().map(Path::to_path_buf).unwrap_or_default();
        let key = (path, address);
        let mut within = self.within.lock().unwrap_or_else(PoisonError::into_inner);
        if within.contains(&key) {
            return Err(Error::bad_file("a virtual data set shows parts of itself")
                .with_hint("name another data set by ds_path"));
        }
        if within.len() >= DEEPEST {
            return Err(Error::limit(format!(
                "more than {DEEPEST} virtual data sets show parts of each other"
            )));
        }
        within.push(key);
        Ok(Within(self))
    }

    /// Counts a source of a virtual data set.
    ///
    /// # Errors
    /// `Limit` if there are too many.
    pub(super) fn count_source(&self) -> Result<()> {
        if self.n_sources.fetch_add(1, Ordering::Relaxed) < MOST_SOURCES {
            return Ok(());
        }
        Err(Error::limit(format!("virtual data sets have more than {MOST_SOURCES} sources")))
    }
}

/// A path without what means nothing in it: slashes around it and next to each other, and `.`.
pub(super) fn plain(path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.collect::<Vec<_>>().join("/")
}

/// While it is there, a virtual data set is being put together.
pub(super) struct Within<'l>(&'l Library);

impl Drop for Within<'_> {
    fn drop(&mut self) {
        self.0.within.lock().unwrap_or_else(PoisonError::into_inner).pop();
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        // Files hold their resolver, which holds the files.
        let mut state = self.files.lock();
        state.opened.clear();
        state.last = None;
    }
}

impl Files {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(self: &Arc<Self>, storage: Storage, base: PathBuf) -> Result<Opened> {
        let resolver = Resolver { base, files: Arc::clone(self) };
        let options = OpenOptions::default()
            .with_chunk_cache_bytes(0)
            .with_max_read_bytes(64 << 20)
            .with_external_link_resolver(Arc::new(resolver));
        let headers = Arc::new(Headers::of(Dense::try_new(storage.clone())));
        let view = View { storage: storage.clone(), headers: Arc::clone(&headers) };
        let file = Hdf5File::from_storage_with_options(Arc::new(view), options)
            .map_err(|error| explain(&storage, translate(&error)))?;
        Ok(Opened { file, storage, headers })
    }

    /// The file that a link from a file in `base` leads to.
    fn follow(self: &Arc<Self>, base: &Path, name: &str) -> Result<Opened, Unreachable> {
        let path = self.target(base, name)?;
        if let Some(opened) = self.lock().opened.get(&path) {
            return Ok(opened.clone());
        }
        let base = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let opened = Storage::open(&path, self.backend)
            .and_then(|storage| self.open(storage, base))
            .map_err(|error| Unreachable::Refused(error.with_path(&path)))?;
        self.lock().opened.insert(path, opened.clone());
        Ok(opened)
    }

    /// Where a link leads, if it stays in the folder, or need not.
    fn target(&self, base: &Path, name: &str) -> Result<PathBuf, Unreachable> {
        let given = Path::new(name);
        if self.anywhere
            && let Ok(found) = base.join(given).canonicalize()
        {
            return Ok(found);
        }
        // Absolute paths are those of the machine that wrote the file; it may be this one.
        let relative =
            if given.is_absolute() { given.file_name().map(Path::new) } else { Some(given) };
        let path = base.join(relative.unwrap_or(given));
        let found = path.canonicalize().or_else(|_| base.join(given).canonicalize());
        let found = found.map_err(|_| {
            Unreachable::Absent(format!("it links to the file '{name}', which is not there"))
        })?;
        if !self.anywhere && !found.starts_with(&self.folder) {
            return Err(Unreachable::Refused(
                Error::bad_file(format!("it links to the file '{name}' outside of its folder"))
                    .with_hint(
                        "copy all files of the set into one folder, or set \
                         allow_external_links if you trust the file",
                    ),
            ));
        }
        Ok(found)
    }
}

/// Follows links from one file to others.
struct Resolver {
    base: PathBuf,
    files: Arc<Files>,
}

impl ExternalLinkResolver for Resolver {
    fn resolve_external_link(
        &self,
        name: &str,
    ) -> Result<Option<Hdf5File>, hdf5_reader::error::Error> {
        if !self.files.lock().follows {
            return Ok(None);
        }
        let opened = self.files.follow(&self.base, name);
        let mut state = self.files.lock();
        match opened {
            Ok(opened) => {
                state.last = Some(opened.clone());
                Ok(Some(opened.file))
            }
            Err(Unreachable::Absent(problem)) => {
                state.problems.push(Error::bad_file(problem));
                Ok(None)
            }
            Err(Unreachable::Refused(error)) => {
                state.problems.push(error);
                Ok(None)
            }
        }
    }
}

/// A file for the library.
struct View {
    storage: Storage,
    headers: Arc<Headers>,
}

impl LibraryStorage for View {
    fn len(&self) -> u64 {
        self.storage.len()
    }

    fn read_range(
        &self,
        offset: u64,
        len: usize,
    ) -> Result<StorageBuffer, hdf5_reader::error::Error> {
        if let Some(bytes) = self.headers.made(offset, len) {
            return Ok(StorageBuffer::from_vec(bytes));
        }
        let needed = u64::try_from(len).unwrap_or(u64::MAX);
        let available = self.storage.len().saturating_sub(offset);
        if needed > available {
            return Err(hdf5_reader::error::Error::UnexpectedEof { offset, needed, available });
        }
        let taken = interrupt::check().and_then(|()| memory::zeros(len));
        let mut bytes =
            taken.map_err(|error| hdf5_reader::error::Error::Other(error.to_string()))?;
        self.storage
            .read_at(offset, &mut bytes)
            .map_err(|error| hdf5_reader::error::Error::Other(error.to_string()))?;
        self.headers.look(offset, &mut bytes)?;
        Ok(StorageBuffer::from_vec(bytes))
    }
}

/// Says so where a file is damaged because it is cut short, or of another format of that name.
fn explain(storage: &Storage, error: Error) -> Error {
    let mut first = [0; 4];
    if storage.read_at(0, &mut first).is_ok()
        && let Some(other) = older(&first)
    {
        return other;
    }
    if error.hint() != Some(DAMAGED) {
        return error;
    }
    match Dense::try_new(storage.clone()).and_then(|file| file.cut_from()) {
        None => error,
        Some(end) => error.with_hint(format!("{}; copy it again", cut_short(end, storage))),
    }
}

fn cut_short(end: u64, storage: &Storage) -> String {
    let len = storage.len();
    format!("the file is cut short: of the {end} bytes that it says it has, {len} are there")
}
