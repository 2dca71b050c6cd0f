//! The place of one mapping, which a signal handler can read while others change it.
//!
//! A sequence lock. The version is odd while the slot is in use, and even while it is free or being
//! changed; `start` and `end` belong together if the version was the same odd number before and
//! after they were read. In the words of the C++11 memory model, with R for the reader and W for the
//! writers, of which there is one at a time:
//!
//! - *What R reads is no older than the version it read first.* W stores `start` and `end` before
//!   its release increment of the version to an odd number; if R's acquire load takes its value from
//!   that increment, or from a later one of its release sequence, the two synchronize, and the
//!   stores happen before R's loads of `start` and `end`.
//! - *What R reads is no newer.* If one of R's loads takes its value from a store that W made for a
//!   later mapping, then W's release fence before that store and R's acquire fence after the load
//!   synchronize. The increment by which the slot became free is sequenced before that fence, or
//!   happens before it by the writers' lock; so it happens before R's second load of the version,
//!   which cannot read the number from before it. R finds another version, and passes on.
//!
//! Without the release fence nothing orders the increment before the stores that follow it: relaxed
//! stores may become visible first, and an acquire-release increment keeps only what stands before
//! it from being seen after it. `tests/slot.rs` has loom try every order that the model allows.

use super::atomics::{AtomicBool, AtomicUsize, Ordering, fence};

/// Numbers of a mapping; see the module.
pub(super) struct Slot {
    pub(super) version: AtomicUsize,
    pub(super) start: AtomicUsize,
    pub(super) end: AtomicUsize,
    pub(super) damaged: AtomicBool,
}

impl Slot {
    /// Whether a writer may fill it; asked by the one writer.
    pub(super) fn is_free(&self) -> bool {
        self.version.load(Ordering::Relaxed).is_multiple_of(2)
    }

    /// Fills a free slot; called by the one writer.
    pub(super) fn fill(&self, start: usize, end: usize) {
        // No reader may see the stores below together with the version before the slot became free.
        fence(Ordering::Release);
        self.damaged.store(false, Ordering::Relaxed);
        self.start.store(start, Ordering::Relaxed);
        self.end.store(end, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Frees a slot in use; called by the one writer.
    pub(super) fn free(&self) {
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    /// Marks the mapping as damaged and gives its end, if it holds `address`.
    pub(super) fn mark_damaged(&self, address: usize) -> Option<usize> {
        let before = self.version.load(Ordering::Acquire);
        let start = self.start.load(Ordering::Relaxed);
        let end = self.end.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let unchanged = self.version.load(Ordering::Relaxed) == before;
        if unchanged && !before.is_multiple_of(2) && (start..end).contains(&address) {
            self.damaged.store(true, Ordering::SeqCst);
            return Some(end);
        }
        None
    }

    /// Whether it was marked since it was filled.
    pub(super) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::SeqCst)
    }
}
