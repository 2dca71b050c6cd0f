//! The latest results of exact passes, for what is asked again in another form.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// So many results are kept.
const MOST: usize = 16;

/// Results by what they are results of, the latest last, in so many bytes at most.
#[derive(Debug)]
pub(crate) struct Kept<K, V> {
    entries: Mutex<VecDeque<(K, Arc<V>, u64)>>,
    most_bytes: u64,
}

impl<K: PartialEq, V> Kept<K, V> {
    pub(crate) fn new(most_bytes: u64) -> Self {
        Kept { entries: Mutex::default(), most_bytes }
    }

    pub(crate) fn get(&self, key: &K) -> Option<Arc<V>> {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().find(|(k, ..)| k == key).map(|(_, value, _)| value.clone())
    }

    /// The bytes of all of them.
    pub(crate) fn len_bytes(&self) -> u64 {
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.iter().map(|(.., len_bytes)| len_bytes).sum()
    }

    /// Drops all results.
    pub(crate) fn clear(&self) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Keeps a result, and drops the oldest ones for it. One that is too large is not kept.
    pub(crate) fn put(&self, key: K, value: Arc<V>, len_bytes: u64) {
        if len_bytes > self.most_bytes {
            return;
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|(k, ..)| *k != key);
        entries.push_back((key, value, len_bytes));
        let bytes = |all: &VecDeque<(K, Arc<V>, u64)>| all.iter().map(|(.., n)| n).sum::<u64>();
        while entries.len() > MOST || bytes(&entries) > self.most_bytes {
            entries.pop_front();
        }
    }
}
