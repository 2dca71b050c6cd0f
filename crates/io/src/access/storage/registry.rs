//! The live mappings, in a form that a signal handler can search.
//!
//! A list of blocks of slots that only ever grows. The handler takes no lock and never waits: a mapping
//! whose page just faulted is in use by the faulting thread, so its own slot cannot change during
//! the search, and any slot that does change belongs to another thread.

mod atomics {
    pub(super) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
}
mod slot;

use atomics::{AtomicBool, AtomicUsize, Ordering};
use slot::Slot;
use std::ptr;
use std::sync::atomic::AtomicPtr;
use std::sync::{Mutex, PoisonError};

const SLOTS_PER_BLOCK: usize = 64;

struct Block {
    slots: [Slot; SLOTS_PER_BLOCK],
    next: AtomicPtr<Block>,
}

impl Block {
    const fn new() -> Self {
        Block {
            slots: [const {
                Slot {
                    version: AtomicUsize::new(0),
                    start: AtomicUsize::new(0),
                    end: AtomicUsize::new(0),
                    damaged: AtomicBool::new(false),
                }
            }; SLOTS_PER_BLOCK],
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn next(&self) -> Option<&'static Block> {
        // SAFETY: the pointer is null or came from `Box::leak`, and was published only after the
        // block was complete.
        unsafe { self.next.load(Ordering::Acquire).as_ref() }
    }
}

static FIRST: Block = Block::new();

/// Serialises writers; the handler never takes it.
static WRITERS: Mutex<()> = Mutex::new(());

/// A mapping that is guarded until this is dropped.
pub(super) struct Registration(&'static Slot);

/// Guards the mapping of `len` bytes at address `start`.
pub(super) fn register(start: usize, len: usize) -> Registration {
    let _writer = WRITERS.lock().unwrap_or_else(PoisonError::into_inner);
    let slot = free_slot();
    slot.fill(start, start.saturating_add(len));
    Registration(slot)
}

/// The block that the last free slot was in: with many mappings, all before it are in use.
static RECENT: AtomicPtr<Block> = AtomicPtr::new(ptr::null_mut());

/// A slot that is free. Called by the one writer.
fn free_slot() -> &'static Slot {
    // SAFETY: the pointer is null or that of a block, and blocks live for ever.
    let recent = unsafe { RECENT.load(Ordering::Relaxed).as_ref() }.unwrap_or(&FIRST);
    let (mut block, mut from_start) = (recent, ptr::eq(recent, &raw const FIRST));
    loop {
        if let Some(slot) = block.slots.iter().find(|slot| slot.is_free()) {
            RECENT.store(ptr::from_ref(block).cast_mut(), Ordering::Relaxed);
            return slot;
        }
        block = match block.next() {
            Some(next) => next,
            // What was freed before it is found on a second way through.
            None if !from_start => {
                from_start = true;
                &FIRST
            }
            None => {
                let new: &'static mut Block = Box::leak(Box::new(Block::new()));
                let new: *mut Block = new;
                block.next.store(new, Ordering::Release);
                // SAFETY: just leaked, so it lives for ever; only shared references follow.
                unsafe { &*new }
            }
        };
    }
}

impl Registration {
    /// Whether part of the mapping turned out to be missing.
    pub(super) fn is_damaged(&self) -> bool {
        self.0.is_damaged()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let _writer = WRITERS.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.free();
    }
}

/// Marks the mapping that holds `address` as damaged and gives its end, if it is one of ours.
///
/// Called from the signal handler: touches nothing but atomics.
pub(super) fn mark_damaged(address: usize) -> Option<usize> {
    let mut block = Some(&FIRST);
    while let Some(present) = block {
        if let Some(end) = present.slots.iter().find_map(|slot| slot.mark_damaged(address)) {
            return Some(end);
        }
        block = present.next();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_mappings_than_one_block_holds() {
        // Addresses in the first page are never mapped.
        let held: Vec<_> = (0..200).map(|i| register(1 + i * 4, 4)).collect();
        assert_eq!(mark_damaged(1 + 150 * 4 + 3), Some(1 + 151 * 4));
        for (i, registration) in held.iter().enumerate() {
            assert_eq!(registration.is_damaged(), i == 150);
        }
        drop(held);
        assert_eq!(mark_damaged(1 + 150 * 4), None);
        let again = register(1 + 150 * 4, 4);
        assert!(!again.is_damaged());
    }
}
