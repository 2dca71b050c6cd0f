//! Reusable, aligned memory for one tile.

use crate::{Error, Owner, Result, SharedBytes};
use bytemuck::{Pod, Zeroable};
use std::sync::Arc;

/// As an allocation begins on a cache line.
const ALIGNMENT: usize = 64;

/// The unit of allocation. Aligned no further, since the standard library writes zeros into memory of
/// a larger alignment, where the system would clear pages when they are first touched.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(16))]
struct Unit([u8; 16]);

/// Memory, of which the bytes from the first cache line on are used.
#[derive(Default)]
struct Units(Vec<Unit>);

impl Units {
    /// Room for `len_bytes` bytes, cleared by the system page by page.
    fn zeros(len_bytes: usize) -> Result<Self> {
        let n_units = len_bytes.saturating_add(ALIGNMENT).div_ceil(size_of::<Unit>());
        crate::memory::zeros(n_units).map(Units)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut self.0);
        let skipped = bytes.as_ptr().align_offset(ALIGNMENT).min(bytes.len());
        &mut bytes[skipped..]
    }
}

impl SharedBytes for Units {
    fn bytes(&self) -> &[u8] {
        let bytes: &[u8] = bytemuck::cast_slice(&self.0);
        let skipped = bytes.as_ptr().align_offset(ALIGNMENT).min(bytes.len());
        &bytes[skipped..]
    }
}

/// A growing buffer, aligned to 64 bytes, that is reused from tile to tile.
///
/// A clone of its [`Scratch::owner`] keeps the present contents: the next
/// [`Scratch::prepare`] then takes fresh memory instead of overwriting what is still in use.
#[derive(Default)]
pub struct Scratch {
    units: Arc<Units>,
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
        let kept = Arc::get_mut(&mut self.units).is_some_and(|u| u.bytes_mut().len() >= len_bytes);
        if !kept {
            // Memory without another owner is freed first.
            self.units = Arc::default();
            // A damaged file may claim far more than there will be: nothing is touched here.
            self.units = Arc::new(Units::zeros(len_bytes).map_err(|_| too_large(len_bytes))?);
        }
        match Arc::get_mut(&mut self.units) {
            Some(units) => Ok(&mut units.bytes_mut()[..len_bytes]),
            None => Err(Error::bug("a buffer that was made just now is shared")),
        }
    }

    /// The bytes last prepared and written (the whole buffer, which may be longer).
    pub fn bytes(&self) -> &[u8] {
        self.units.bytes()
    }

    /// A handle that keeps the present contents alive and unchanged.
    pub fn owner(&self) -> Owner {
        self.units.clone()
    }
}

fn too_large(len_bytes: usize) -> Error {
    Error::limit(format!("there is no memory for a tile of {len_bytes} bytes")).with_hint(
        "run with fewer workers, cut the data set into more partitions (num_partitions) if a \
             function takes whole ones, or check the shape of the data set",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_reused_unless_views_of_it_exist() {
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

    #[cfg(target_os = "linux")]
    #[test]
    fn what_is_claimed_is_not_touched() {
        let resident = || {
            let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
            pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
        };
        let before = resident();
        let mut scratch = Scratch::new();
        let bytes = scratch.prepare(1 << 30).unwrap();
        assert_eq!((bytes.len(), bytes[0], bytes[(1 << 30) - 1]), (1 << 30, 0, 0));
        assert!(resident() < before + (256 << 20), "the memory was touched");
    }

    #[test]
    fn memory_is_aligned() {
        let mut scratch = Scratch::new();
        scratch.prepare(1).unwrap();
        assert_eq!(scratch.bytes().as_ptr() as usize % 64, 0);
    }
}
