//! Differences of neighbours over a whole chunk, as numcodecs stores them: the first element, and
//! then what each is more than the one before, perhaps as smaller numbers.

use super::{all_of, damaged};
use framefold_core::{ByteOrder, DType, Result, StoredDType};

/// How a chunk becomes differences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delta {
    elements: StoredDType,
    differences: StoredDType,
}

impl Delta {
    /// Differences of integers as integers, or of floats as the same floats; `None` of others.
    pub(crate) fn new(elements: StoredDType, differences: StoredDType) -> Option<Self> {
        let whole = |dtype: DType| dtype.is_integer();
        let [from, to] = [differences.dtype, elements.dtype];
        let floats = from == to && matches!(to, DType::F32 | DType::F64);
        (whole(from) && whole(to) || floats).then_some(Delta { elements, differences })
    }

    /// The bytes of as many differences as `size` bytes have elements.
    pub(super) fn size_after(&self, size: usize) -> Option<usize> {
        (size / self.elements.dtype.size()).checked_mul(self.differences.dtype.size())
    }

    /// How many times as long the elements are as the differences, rounded up.
    pub(super) fn ratio(&self) -> usize {
        self.elements.dtype.size().div_ceil(self.differences.dtype.size())
    }

    /// Adds up the differences. Integers wrap around, as they did when they were stored.
    pub(super) fn undo(&self, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let size = self.elements.dtype.size();
        if !out.len().is_multiple_of(size) {
            return Err(damaged("delta", "the chunk ends within an element"));
        }
        all_of("delta", stored.len(), self.size_after(out.len()).unwrap_or(usize::MAX))?;
        let big = self.differences.order == ByteOrder::Big;
        macro_rules! read {
            ($type:ty) => {
                stored.as_chunks().0.iter().map(|bytes| {
                    if big {
                        <$type>::from_be_bytes(*bytes)
                    } else {
                        <$type>::from_le_bytes(*bytes)
                    }
                })
            };
        }
        macro_rules! whole {
            ($type:ty) => {
                self.write(
                    read!($type).scan(0i64, |sum, n| {
                        *sum = sum.wrapping_add(n as i64);
                        Some(sum.to_le_bytes())
                    }),
                    out,
                )
            };
        }
        macro_rules! floats {
            ($type:ty) => {
                self.write(
                    read!($type).scan(None, |sum: &mut Option<$type>, n| {
                        let next = sum.map_or(n, |sum| sum + n);
                        *sum = Some(next);
                        let mut bytes = [0; 8];
                        bytes.iter_mut().zip(next.to_le_bytes()).for_each(|(to, byte)| *to = byte);
                        Some(bytes)
                    }),
                    out,
                )
            };
        }
        match self.differences.dtype {
            DType::I8 => whole!(i8),
            DType::U8 => whole!(u8),
            DType::I16 => whole!(i16),
            DType::U16 => whole!(u16),
            DType::I32 => whole!(i32),
            DType::U32 => whole!(u32),
            DType::I64 => whole!(i64),
            DType::U64 => whole!(u64),
            DType::F32 => floats!(f32),
            DType::F64 => floats!(f64),
            other => return Err(damaged("delta", &format!("differences cannot be {other}"))),
        }
        Ok(())
    }

    /// Writes elements whose lowest bytes come first, in the order of bytes that they have.
    #[expect(
        clippy::indexing_slicing,
        reason = "a cell has as many bytes as the element's dtype, at most 8"
    )]
    fn write(&self, elements: impl Iterator<Item = [u8; 8]>, out: &mut [u8]) {
        let size = self.elements.dtype.size();
        let big = self.elements.order == ByteOrder::Big;
        for (element, cell) in elements.zip(out.chunks_exact_mut(size)) {
            for (i, byte) in cell.iter_mut().enumerate() {
                *byte = element[if big { size - 1 - i } else { i }];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dtype(text: &str) -> StoredDType {
        StoredDType::parse(text).unwrap()
    }

    #[test]
    fn differences_are_added_up() {
        let delta = Delta::new(dtype("<u2"), dtype("|i1")).unwrap();
        let mut out = [0; 8];
        delta.undo(&[5, 1, 0xFE, 0x7F], &mut out).unwrap();
        assert_eq!(out, [5, 0, 6, 0, 4, 0, 131, 0]);
        let big = Delta::new(dtype(">u2"), dtype(">u2")).unwrap();
        let mut out = [0; 4];
        big.undo(&[1, 2, 0xFF, 0xFF], &mut out).unwrap();
        assert_eq!(out, [1, 2, 1, 1]);
        let floats = Delta::new(dtype("<f4"), dtype("<f4")).unwrap();
        let stored: Vec<u8> = [1.5f32, -0.25].iter().flat_map(|n| n.to_le_bytes()).collect();
        let mut out = [0; 8];
        floats.undo(&stored, &mut out).unwrap();
        assert_eq!(out[4..], 1.25f32.to_le_bytes());
    }

    #[test]
    fn chunks_of_another_length_are_damaged() {
        let delta = Delta::new(dtype("<u2"), dtype("|i1")).unwrap();
        assert!(delta.undo(&[1, 2, 3], &mut [0; 4]).is_err());
        assert!(delta.undo(&[1], &mut [0; 3]).is_err());
        assert_eq!(Delta::new(dtype("<f4"), dtype("<i2")), None);
        assert_eq!(Delta::new(dtype("<c8"), dtype("<c8")), None);
    }
}
