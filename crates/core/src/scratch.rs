//! Reusable, aligned memory for one tile.

use crate::{Error, Owner, Result, SharedBytes};
use bytemuck::{Pod, Zeroable};
use std::sync::Arc;

/// The unit of allocation: one cache line, aligned as one.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl SharedBytes for Vec<Line> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }
}

/// A growing buffer, aligned to 64 bytes, that is reused from tile to tile.
///
/// A clone of its [`Scratch::owner`] keeps the present contents: the next
/// [`Scratch::prepare`] then takes fresh memory instead of overwriting what is still in use.
#[derive(Default)]
pub struct Scratch {
    lines: Arc<Vec<Line>>,
}

impl Scratch {
    /// An empty buffer; nothing is allocated.
    pub fn new() -> Self {
        Scratch::default()
    }

    /// `len_bytes` bytes for writing. Their contents are unspecified.
    ///
    /// # Errors
    /// `Limit` if there is no memory for so many.
    pub fn prepare(&mut self, len_bytes: usize) -> Result<&mut [u8]> {
        let n_lines = len_bytes.div_ceil(64);
        let kept = Arc::get_mut(&mut self.lines).is_some_and(|lines| lines.len() >= n_lines);
        if !kept {
            // Memory without another owner is freed first.
            self.lines = Arc::default();
            // Zeroed by the system page by page, when a page is first written: a damaged file may
            // claim far more than there will be.
            let lines = crate::memory::zeros(n_lines).map_err(|_| too_large(len_bytes))?;
            self.lines = Arc::new(lines);
        }
        match Arc::get_mut(&mut self.lines) {
            Some(lines) => Ok(&mut bytemuck::cast_slice_mut(lines.as_mut_slice())[..len_bytes]),
            None => Err(Error::bug("a buffer that was made just now is shared")),
        }
    }

    /// The bytes last prepared and written (the whole buffer, which may be longer).
    pub fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self.lines.as_slice())
    }

    /// A handle that keeps the present contents alive and unchanged.
    pub fn owner(&self) -> Owner {
        self.lines.clone()
    }
}

fn too_large(len_bytes: usize) -> Error {
    Error::limit(format!("there is no memory for a tile of {len_bytes} bytes"))
        .with_hint("run with fewer workers, or check the shape of the data set")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reused_unless_somebody_looks_at_it() {
        let mut scratch = Scratch::new();
        scratch.prepare(100).unwrap().fill(7);
        let first = scratch.bytes().as_ptr();
        scratch.prepare(64).unwrap();
        assert_eq!(scratch.bytes().as_ptr(), first);

        scratch.prepare(100).unwrap().fill(7);
        let held = scratch.owner();
        scratch.prepare(100).unwrap().fill(9);
        assert_ne!(scratch.bytes().as_ptr(), first);
        assert_eq!(held.bytes()[0], 7);
    }

    #[test]
    fn what_no_memory_can_hold_is_an_error() {
        let mut scratch = Scratch::new();
        scratch.prepare(100).unwrap();
        let error = scratch.prepare(isize::MAX as usize).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Limit);
        assert!(error.message().contains("9223372036854775807 bytes"), "{error}");
        assert_eq!(scratch.prepare(100).unwrap().len(), 100);
    }

    #[test]
    fn memory_is_aligned() {
        let mut scratch = Scratch::new();
        scratch.prepare(1).unwrap();
        assert_eq!(scratch.bytes().as_ptr() as usize % 64, 0);
    }
}
