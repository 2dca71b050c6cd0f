//! Decoded chunks that are kept, the oldest of which makes room for the next.

use crate::codec::check_memory;
use framefold_core::{Result, Scratch};
use std::collections::{HashMap, VecDeque};

/// A chunk: the number of its segment, and its number there.
pub(super) type Key = (usize, u64);

/// Decoded chunks of one reader.
pub(super) struct Cache {
    slots: Vec<Slot>,
    free: Vec<usize>,
    by_key: HashMap<Key, usize>,
    oldest_first: VecDeque<(Key, usize)>,
    bytes: usize,
}

struct Slot {
    memory: Scratch,
    len: usize,
}

impl Cache {
    pub(super) fn new() -> Self {
        Cache {
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            oldest_first: VecDeque::new(),
            bytes: 0,
        }
    }

    /// Where the chunk is, if it is kept.
    pub(super) fn find(&self, key: Key) -> Option<usize> {
        self.by_key.get(&key).copied()
    }

    /// The memory of a slot, and how much of it is in use.
    pub(super) fn get(&self, slot: usize) -> Option<(&Scratch, usize)> {
        self.slots.get(slot).map(|slot| (&slot.memory, slot.len))
    }

    /// Decodes a chunk of `len` bytes into memory of its own and keeps it. Others are dropped until
    /// all fit `budget` together.
    ///
    /// # Errors
    /// Those of `decode`, and `Limit` if there is no memory for it; nothing is kept then.
    pub(super) fn insert(
        &mut self,
        key: Key,
        len: usize,
        budget: usize,
        decode: impl FnOnce(&mut [u8]) -> Result<()>,
    ) -> Result<usize> {
        while self.bytes.saturating_add(len) > budget {
            let Some((key, slot)) = self.oldest_first.pop_front() else { break };
            self.by_key.remove(&key);
            self.bytes -= self.slots.get(slot).map_or(0, |slot| slot.len);
            self.free.push(slot);
        }
        // Of several that made room for this one, one is used again.
        for spare in self.free.iter().skip(1) {
            if let Some(slot) = self.slots.get_mut(*spare) {
                slot.memory = Scratch::new();
            }
        }
        let slot = self.free.first().copied().unwrap_or(self.slots.len());
        if slot == self.slots.len() {
            self.slots.push(Slot { memory: Scratch::new(), len: 0 });
            self.free.insert(0, slot);
        }
        if let Some(slot) = self.slots.get_mut(slot) {
            check_memory(len)?;
            decode(slot.memory.prepare(len)?)?;
            slot.len = len;
        }
        self.free.swap_remove(0);
        self.bytes += len;
        self.by_key.insert(key, slot);
        self.oldest_first.push_back((key, slot));
        Ok(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::Error;

    #[test]
    fn the_oldest_makes_room_and_its_memory_is_used_again() {
        let mut cache = Cache::new();
        let write = |value| {
            move |out: &mut [u8]| -> Result<()> {
                out.fill(value);
                Ok(())
            }
        };
        for i in 0..10 {
            let slot = cache.insert((0, i), 100, 300, write(i as u8)).unwrap();
            assert!(slot < 3);
            assert_eq!(cache.find((0, i)), Some(slot));
        }
        for i in 0..10 {
            match cache.find((0, i)) {
                None => assert!(i < 7),
                Some(slot) => {
                    let (memory, len) = cache.get(slot).unwrap();
                    assert_eq!(
                        (memory.bytes()[0], memory.bytes()[99], len),
                        (i as u8, i as u8, 100)
                    );
                }
            }
        }
        // One that needs the room of all.
        cache.insert((1, 0), 300, 300, write(9)).unwrap();
        assert!((0..10).all(|i| cache.find((0, i)).is_none()));
        // One beyond the budget is kept alone; one that fails is not.
        cache.insert((1, 1), 400, 300, write(9)).unwrap();
        assert!(cache.find((1, 0)).is_none());
        assert!(cache.insert((1, 2), 10, 300, |_| Err(Error::limit("no"))).is_err());
        assert!(cache.find((1, 2)).is_none());
        let slot = cache.insert((1, 3), 10, 300, write(3)).unwrap();
        assert_eq!(cache.get(slot).unwrap().1, 10);
    }
}
