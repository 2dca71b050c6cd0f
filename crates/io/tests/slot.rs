//! The sequence lock of the guard's registry, in every order that the memory model allows.

#![cfg(unix)]

mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
}
#[path = "../src/access/storage/registry/slot.rs"]
mod slot;

use atomics::{AtomicBool, AtomicUsize};
use loom::sync::Arc;
use loom::thread;
use slot::Slot;

fn empty() -> Arc<Slot> {
    Arc::new(Slot {
        version: AtomicUsize::new(0),
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        damaged: AtomicBool::new(false),
    })
}

#[test]
fn the_ends_of_two_mappings_are_never_taken_together() {
    loom::model(|| {
        let slot = empty();
        slot.fill(100, 200);
        let shared = slot.clone();
        let writer = thread::spawn(move || {
            shared.free();
            assert!(shared.is_free());
            shared.fill(300, 400);
        });
        // Between the two: only a read of the start of one and the end of the other finds it.
        assert_eq!(slot.mark_damaged(250), None);
        writer.join().unwrap();
        assert!(!slot.is_damaged());
        assert_eq!(slot.mark_damaged(350), Some(400));
    });
}

#[test]
fn the_mapping_of_the_faulting_thread_is_found_while_others_change() {
    loom::model(|| {
        let (own, other) = (empty(), empty());
        own.fill(100, 200);
        other.fill(300, 400);
        let shared = other.clone();
        let writer = thread::spawn(move || {
            shared.free();
            shared.fill(500, 600);
        });
        assert_eq!(other.mark_damaged(150), None);
        assert_eq!(own.mark_damaged(150), Some(200));
        writer.join().unwrap();
        assert!(own.is_damaged() && !other.is_damaged());
    });
}
