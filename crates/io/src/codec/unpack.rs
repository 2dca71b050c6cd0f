//! Samples of a few bits, as TIFF has them: the highest bit first, and rows filled up to whole bytes.

use super::{all_of, damaged};
use framefold_core::{ByteOrder, DType, Result, StoredDType};

/// How samples lie in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unpack {
    /// From 1 to 15.
    bits: usize,
    /// Samples of a row.
    row: usize,
    samples: StoredDType,
}

impl Unpack {
    /// Truth values, bytes or numbers of two bytes out of so many bits; `None` of others.
    pub(crate) fn new(bits: usize, row: usize, samples: StoredDType) -> Option<Self> {
        let fits = match samples.dtype {
            DType::Bool => bits == 1,
            DType::U8 => (1..8).contains(&bits),
            DType::U16 => (1..16).contains(&bits),
            _ => false,
        };
        let known = fits && row > 0 && row.checked_mul(16).is_some();
        known.then_some(Unpack { bits, row, samples })
    }

    /// Bytes of a row as it is stored.
    fn stored_row(&self) -> usize {
        (self.row * self.bits).div_ceil(8)
    }

    /// The bytes of the rows that `size` bytes are as samples.
    pub(super) fn size_after(&self, size: usize) -> Option<usize> {
        (size / (self.row * self.samples.dtype.size())).checked_mul(self.stored_row())
    }

    /// How many times as long the samples are, rounded up.
    pub(super) fn ratio(&self) -> usize {
        (self.samples.dtype.size() * 8).div_ceil(self.bits)
    }

    /// Writes the samples, in the order of bytes of the file. What is stored may be longer.
    pub(super) fn undo(&self, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let size = self.samples.dtype.size();
        if !out.len().is_multiple_of(self.row * size) {
            return Err(damaged("bits", "the chunk ends within a row"));
        }
        let needed = self.size_after(out.len()).unwrap_or(usize::MAX);
        let Some(stored) = stored.get(..needed) else {
            return all_of("bits", stored.len(), needed);
        };
        let big = self.samples.order == ByteOrder::Big;
        let rows = stored.chunks_exact(self.stored_row());
        for (stored, out) in rows.zip(out.chunks_exact_mut(self.row * size)) {
            let (mut waiting, mut n_waiting) = (0u32, 0);
            let mut bytes = stored.iter();
            for sample in out.chunks_exact_mut(size) {
                while n_waiting < self.bits {
                    waiting = waiting << 8 | u32::from(bytes.next().copied().unwrap_or(0));
                    n_waiting += 8;
                }
                n_waiting -= self.bits;
                let value = waiting >> n_waiting & ((1 << self.bits) - 1);
                let [low, high, ..] = value.to_le_bytes();
                match sample {
                    [sample] => *sample = low,
                    [first, second] if big => (*first, *second) = (high, low),
                    [first, second] => (*first, *second) = (low, high),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_begin_at_bytes() {
        let unpack = Unpack::new(4, 3, DType::U8.into()).unwrap();
        let mut out = [0; 6];
        unpack.undo(&[0x12, 0x3F, 0x45, 0x6F], &mut out).unwrap();
        assert_eq!(out, [1, 2, 3, 4, 5, 6]);
        let big = StoredDType { dtype: DType::U16, order: ByteOrder::Big };
        let unpack = Unpack::new(12, 2, big).unwrap();
        let mut out = [0; 4];
        unpack.undo(&[0xAB, 0xC1, 0x23, 0xFF], &mut out).unwrap();
        assert_eq!(out, [0x0A, 0xBC, 0x01, 0x23]);
        let mut out = [7; 9];
        let unpack = Unpack::new(1, 9, DType::Bool.into()).unwrap();
        unpack.undo(&[0b1000_0001, 0b1000_0000], &mut out).unwrap();
        assert_eq!(out, [1, 0, 0, 0, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn what_is_too_short_or_unknown_is_refused() {
        let unpack = Unpack::new(4, 3, DType::U8.into()).unwrap();
        assert!(unpack.undo(&[1, 2, 3], &mut [0; 6]).is_err());
        assert!(unpack.undo(&[1, 2, 3, 4], &mut [0; 5]).is_err());
        for (bits, dtype) in [(8, DType::U8), (0, DType::U8), (16, DType::U16), (2, DType::Bool)] {
            assert_eq!(Unpack::new(bits, 3, dtype.into()), None);
        }
    }
}
