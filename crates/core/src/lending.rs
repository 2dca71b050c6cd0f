//! Memory that is lent beyond a call, with the proof that it stays.
//!
//! A NumPy array that shows a tile outlives the tile. What keeps its memory is an [`Owner`], and that
//! the memory is the owner's is not claimed but checked, by address, when a tile is made
//! ([`LentBytes`]): no safe code can make an array that dangles.

use crate::{Error, Result};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Memory that others may look at for as long as they hold on to it: a mapped file, a buffer, a
/// NumPy array.
///
/// Implementers return the same bytes on every call; a shorter slice gives errors. That the bytes
/// neither go nor change while an [`Owner`] exists is no promise but what the signature
/// says: the slice lives as long as the borrow of `self`, and no code can take an [`Arc`] apart that
/// another one shares.
pub trait SharedBytes: Send + Sync {
    /// The bytes.
    fn bytes(&self) -> &[u8];
}

impl SharedBytes for Vec<u8> {
    fn bytes(&self) -> &[u8] {
        self
    }
}

/// Keeps memory alive and unchanged for those who hold on to a view of it.
pub type Owner = Arc<dyn SharedBytes>;

/// Bytes together with their owner: what may be shown beyond the life of a tile.
#[derive(Clone)]
pub struct LentBytes {
    owner: Owner,
    range: Range<usize>,
}

impl LentBytes {
    /// `bytes` as part of the memory of `owner`.
    ///
    /// # Errors
    /// `Bug` if they lie elsewhere: then nothing keeps them alive.
    pub fn try_new(bytes: &[u8], owner: Owner) -> Result<Self> {
        if bytes.is_empty() {
            return Ok(LentBytes { owner, range: 0..0 });
        }
        let all = owner.bytes();
        let start = bytes.as_ptr().addr().checked_sub(all.as_ptr().addr());
        let range = start.and_then(|start| Some(start..start.checked_add(bytes.len())?));
        match range.filter(|range| range.end <= all.len()) {
            Some(range) => Ok(LentBytes { owner, range }),
            None => Err(Error::bug(format!(
                "{} bytes were lent that lie outside of their owner's {}",
                bytes.len(),
                all.len()
            ))),
        }
    }

    /// The bytes, as their owner has them; none at all if the owner broke its word and has fewer
    /// than it had.
    pub fn bytes(&self) -> &[u8] {
        self.owner.bytes().get(self.range.clone()).unwrap_or_default()
    }
}

impl fmt::Debug for LentBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LentBytes({:?})", self.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn only_what_an_owner_has_can_be_lent() {
        let owner = Arc::new(vec![1u8, 2, 3, 4]);
        let part = LentBytes::try_new(&owner[1..3], owner.clone()).unwrap();
        assert_eq!(part.bytes(), [2, 3]);
        // The memory outlives all but the part itself.
        drop(owner);
        assert_eq!(part.bytes(), [2, 3]);

        let other: Owner = Arc::new(vec![0u8; 2]);
        let local = [2u8, 3];
        assert_eq!(LentBytes::try_new(&local, other).unwrap_err().kind(), crate::ErrorKind::Bug);
        let whole = Arc::new(vec![0u8; 8]);
        let beyond = LentBytes::try_new(&whole[..], Arc::new(vec![0u8; 4])).unwrap_err();
        assert!(beyond.message().contains("outside of their owner's 4"), "{beyond}");
        assert!(LentBytes::try_new(&[], whole).unwrap().bytes().is_empty());
    }

    /// Has fewer bytes from the moment when the test sets the flag.
    struct Fickle(Vec<u8>, AtomicBool);

    impl SharedBytes for Fickle {
        fn bytes(&self) -> &[u8] {
            if self.1.load(Ordering::Relaxed) { &[] } else { &self.0 }
        }
    }

    #[test]
    fn an_owner_that_breaks_its_word_leaves_nothing_to_see() {
        let owner = Arc::new(Fickle(vec![7; 4], AtomicBool::new(false)));
        let lent = LentBytes::try_new(&owner.0[2..], owner.clone()).unwrap();
        assert_eq!(lent.bytes(), [7, 7]);
        owner.1.store(true, Ordering::Relaxed);
        assert!(lent.bytes().is_empty());
    }
}
