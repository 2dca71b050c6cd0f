//! Reusable, aligned memory for one tile.

use crate::Owner;
use bytemuck::{Pod, Zeroable};
use std::sync::Arc;

/// The unit of allocation: one cache line, aligned as one.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

/// A growing buffer, aligned to 64 bytes, that is reused from tile to tile.
///
/// Whoever clones its [`Scratch::owner`] keeps the present contents: the next
/// [`Scratch::prepare`] then takes fresh memory instead of overwriting what somebody still sees.
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
    pub fn prepare(&mut self, len_bytes: usize) -> &mut [u8] {
        let n_lines = len_bytes.div_ceil(64);
        let kept = Arc::get_mut(&mut self.lines).is_some_and(|lines| lines.len() >= n_lines);
        if !kept {
            self.lines = Arc::new(vec![Line::zeroed(); n_lines]);
        }
        match Arc::get_mut(&mut self.lines) {
            Some(lines) => &mut bytemuck::cast_slice_mut(lines.as_mut_slice())[..len_bytes],
            // Unreachable: the buffer was either unshared or made anew just now.
            None => &mut [],
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reused_unless_somebody_looks_at_it() {
        let mut scratch = Scratch::new();
        scratch.prepare(100).fill(7);
        let first = scratch.bytes().as_ptr();
        scratch.prepare(64);
        assert_eq!(scratch.bytes().as_ptr(), first);

        scratch.prepare(100).fill(7);
        let held = scratch.owner();
        scratch.prepare(100).fill(9);
        assert_ne!(scratch.bytes().as_ptr(), first);
        let lines = held.downcast::<Vec<Line>>().unwrap();
        assert_eq!(lines[0].0[0], 7);
    }

    #[test]
    fn memory_is_aligned() {
        let mut scratch = Scratch::new();
        scratch.prepare(1);
        assert_eq!(scratch.bytes().as_ptr() as usize % 64, 0);
    }
}
