//! What all clients of one viewer share: the data set, who opens and exports, and the threads that work.

mod files;
mod opener;
mod pool;

pub use files::Files;
pub use opener::{Entry, EntryKind, Listing, Loaded, Opener, ScanChoice};
pub(crate) use pool::{Class, Pool};

use crate::export::Opened;
use crate::{Viewer, ViewerOptions};
use framefold::{Error, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// How many data sets may be open at once: one for each client that looks at something else.
const MAX_VIEWERS: usize = 8;

/// 256 colours for values from low to high, or for directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Colormap {
    /// Its name.
    pub name: String,
    /// Red, green and blue.
    pub colours: Vec<[u8; 3]>,
}

/// What a host has besides a data set.
#[derive(Clone, Default)]
pub struct HostOptions {
    /// How much each viewer may use.
    pub viewer: ViewerOptions,
    /// What clients colour pictures with, the default first.
    pub colormaps: Vec<Colormap>,
    /// What clients show first: an object that another client has sent with a script.
    pub state: Option<Value>,
}

/// A data set that is shown.
#[derive(Debug)]
pub struct Shown {
    /// Answers queries.
    pub viewer: Viewer,
    /// How a script opens it.
    pub opened: Opened,
    /// The number of the file, if there is a list of files.
    file: Option<String>,
}

impl Shown {
    /// What opens it again.
    fn choice(&self) -> Choice {
        (self.file.clone(), self.opened.scan().clone())
    }

    /// What a client sends with `open` to see it again.
    pub(crate) fn said(&self) -> Value {
        let (file, ScanChoice { nav_shape, sync_offset }) = self.choice();
        json!({ "file": file, "nav_shape": nav_shape, "sync_offset": sync_offset })
    }
}

/// What all clients of one viewer share.
pub struct ViewerHost {
    opener: Box<dyn Opener>,
    options: HostOptions,
    /// What a new client sees: what was opened last.
    current: Mutex<Arc<Shown>>,
    /// How scans are laid out where clients do not say it.
    usual: ScanChoice,
    /// All that some client still looks at.
    open: Mutex<Vec<Weak<Shown>>>,
    pool: Pool,
}

/// What was opened: the number of the file, if it was said, and how the scan is laid out.
type Choice = (Option<String>, ScanChoice);

/// What a client wants to see.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Wanted {
    /// The number of a file; none is the one that is shown.
    pub(crate) file: Option<String>,
    /// What that file is called, where a number that was noted may stand for another one since.
    pub(crate) name: Option<String>,
    /// How the scan is laid out.
    #[serde(flatten)]
    pub(crate) scan: ScanChoice,
}

impl ViewerHost {
    /// Opens what `opener` opens if nothing else is said.
    ///
    /// # Errors
    /// Those of opening.
    pub fn try_new(opener: Box<dyn Opener>, options: HostOptions) -> Result<Arc<Self>> {
        let choice = (None, ScanChoice::default());
        let first = shown(opener.as_ref(), &choice, &options)?;
        Ok(Arc::new(ViewerHost {
            opener,
            options,
            usual: first.opened.scan().clone(),
            open: Mutex::new(vec![Arc::downgrade(&first)]),
            current: Mutex::new(first),
            pool: Pool::new(),
        }))
    }

    /// What a new client sees.
    pub fn current(&self) -> Arc<Shown> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Opens a file, by its number, or the one that `now` shows, with a scan of some shape.
    ///
    /// # Errors
    /// Those of opening; `InvalidArgument` if the file is called otherwise than it should be; `Limit` if clients look
    /// at too many data sets.
    pub(crate) fn open(&self, now: &Shown, wanted: Wanted) -> Result<Arc<Shown>> {
        let Wanted { file, name, scan } = wanted;
        let choice = (file.or_else(|| now.file.clone()), scan.or(&self.usual));
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|shown| shown.strong_count() > 0);
        let shown = match known(&open, &choice) {
            Some(known) => known,
            // Before the file is read.
            None if open.len() >= MAX_VIEWERS => return Err(too_many(open.len())),
            None => {
                let shown = shown(self.opener.as_ref(), &choice, &self.options)?;
                open.push(Arc::downgrade(&shown));
                shown
            }
        };
        let found = shown.viewer.name();
        if let Some(name) = name.filter(|name| name != found) {
            return Err(Error::invalid(format!("'{name}' was expected, but this is '{found}'"))
                .with_hint("open the file by the list of files"));
        }
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = shown.clone();
        Ok(shown)
    }

    /// Who opens files.
    pub fn opener(&self) -> &dyn Opener {
        self.opener.as_ref()
    }

    /// What it has besides a data set.
    pub fn options(&self) -> &HostOptions {
        &self.options
    }

    pub(crate) fn pool(&self) -> &Pool {
        &self.pool
    }
}

fn shown(opener: &dyn Opener, choice: &Choice, options: &HostOptions) -> Result<Arc<Shown>> {
    let Loaded { name, file, dataset, opened, own } =
        opener.open(choice.0.as_deref(), &choice.1)?;
    let mut options = options.viewer.clone();
    options.own = own.or(options.own);
    let viewer = Viewer::try_new(name, dataset, options)?;
    Ok(Arc::new(Shown { viewer, opened, file }))
}

/// What is open of that choice; a file that was replaced since is opened anew.
fn known(open: &[Weak<Shown>], choice: &Choice) -> Option<Arc<Shown>> {
    let mut open = open.iter().filter_map(Weak::upgrade);
    open.find(|shown| shown.choice() == *choice && shown.viewer.is_unchanged())
}

fn too_many(n: usize) -> Error {
    Error::limit(format!("{n} data sets are open already"))
        .with_hint("close some of the pages that show others")
}

impl fmt::Debug for ViewerHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ViewerHost").finish_non_exhaustive()
    }
}
