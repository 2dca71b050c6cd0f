//! How far the work in the background is, for those who want to know.

use serde::Serialize;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The pass over all data that makes answers quick.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Background {
    /// What it does.
    pub state: BackgroundState,
    /// The part of the frames that is read, from 0 to 1.
    pub done: f64,
}

/// What the pass in the background does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BackgroundState {
    /// Nothing: no picture was asked for yet, or the data are so few that none is needed.
    #[default]
    None,
    /// It reads.
    Working,
    /// All is in memory.
    Done,
    /// It was stopped.
    Stopped,
    /// It met an error, which is this.
    Failed(String),
}

/// Called with each change; whether it wants to be called again.
type Watch = Box<dyn Fn(&Background) -> bool + Send>;

/// The latest, and those who watch.
#[derive(Default)]
pub(crate) struct Watched {
    latest: Mutex<Background>,
    watches: Mutex<Vec<Watch>>,
}

impl Watched {
    pub(crate) fn latest(&self) -> Background {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Watch>> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, watch: Watch) {
        self.lock().push(watch);
    }

    pub(crate) fn tell(&self, now: Background) {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner) = now.clone();
        // Not while they are called: one may add another.
        let mut called = std::mem::take(&mut *self.lock());
        called.retain(|watch| watch(&now));
        let mut watches = self.lock();
        called.append(&mut watches);
        *watches = called;
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.latest.fmt(f)
    }
}
