//! How much memory an input may take.

use cap::Cap;
use std::alloc::System;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts what is allocated, and refuses what goes beyond the limit.
///
/// Code that asks whether there is enough memory learns that there is not; any other ends the
/// process, which is what a finding looks like.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// What any input may take: chunks, caches and tiles of the size that readers choose themselves.
const BASE: usize = 96 << 20;
/// And for each of its bytes: no compression in use makes much more of one.
const PER_BYTE: usize = 1100;

/// The limit is one of the whole process.
static IN_USE: Mutex<()> = Mutex::new(());

/// A limit on memory, until it is dropped; there is one at a time.
#[derive(Debug)]
pub struct Memory {
    _alone: MutexGuard<'static, ()>,
}

impl Memory {
    /// Allows as much as an input of that many bytes has a right to, beyond what is in use now.
    pub fn for_input(len: usize) -> Self {
        let alone = IN_USE.lock().unwrap_or_else(PoisonError::into_inner);
        // libFuzzer's own allocations are not counted, nor those of C libraries.
        let limit = ALLOCATOR.allocated() + BASE + PER_BYTE * len;
        // A limit below what is in use is refused; that cannot be.
        let _ = ALLOCATOR.set_limit(limit);
        Memory { _alone: alone }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _ = ALLOCATOR.set_limit(usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_limit_is_refused() {
        let memory = Memory::for_input(10);
        assert!(Vec::<u8>::new().try_reserve_exact(BASE + (1 << 20)).is_err());
        drop(memory);
        assert!(Vec::<u8>::new().try_reserve_exact(BASE + (1 << 20)).is_ok());
    }
}
