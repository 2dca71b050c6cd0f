//! One of the arrays: its elements, where they lie, and how they are decoded.

use super::CsrArray;
use crate::access::Storage;
use crate::readers::linear::{normalise_in_place, swap_in_place};
use framefold_core::{ByteOrder, DType, Error, Result, StoredDType};
use std::ops::Range;

/// An array whose length is known to be a whole number of elements.
#[derive(Debug)]
pub(super) struct Array {
    what: &'static str,
    storage: Storage,
    stored: StoredDType,
    len: u64,
}

impl Array {
    /// The array `what`, of any dtype.
    pub(super) fn try_new(what: &'static str, array: CsrArray) -> Result<Self> {
        let CsrArray { storage, stored } = array;
        let size = size_of_element(stored);
        let (len, rest) = (storage.len() / size, storage.len() % size);
        if rest != 0 {
            let error = Error::bad_file(format!(
                "{what} of {stored} take {size} bytes each, but the array is {} bytes long, which \
                 is {rest} too many",
                storage.len()
            ))
            .with_offset(len * size)
            .with_hint("check the dtype, or copy the file again");
            return Err(storage.locate(error));
        }
        Ok(Array { what, storage, stored, len })
    }

    /// The array `what`, of integers.
    pub(super) fn integers(what: &'static str, array: CsrArray) -> Result<Self> {
        if !array.stored.dtype.is_integer() {
            return Err(Error::invalid(format!(
                "{what} have to be integers, not {}",
                array.stored.dtype
            )));
        }
        Array::try_new(what, array)
    }

    pub(super) fn storage(&self) -> &Storage {
        &self.storage
    }

    pub(super) fn stored(&self) -> StoredDType {
        self.stored
    }

    /// The number of elements.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Bytes of one element.
    pub(super) fn size(&self) -> u64 {
        size_of_element(self.stored)
    }

    /// These elements where they lie, as they are stored.
    pub(super) fn lent(&self, elements: Range<u64>) -> Option<&[u8]> {
        let size = self.size();
        self.storage.bytes(elements.start.checked_mul(size)?..elements.end.checked_mul(size)?)
    }

    /// The bytes of these elements: lent, or read into `buffer`.
    fn bytes<'a>(&'a self, elements: Range<u64>, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        if self.storage.lends() {
            let outside = || self.error(elements.start, "elements lie outside of their array");
            return self.lent(elements.clone()).ok_or_else(outside);
        }
        let n = elements.end.saturating_sub(elements.start);
        let len = n.checked_mul(self.size()).and_then(|len| usize::try_from(len).ok());
        let len = len.ok_or_else(|| Error::limit("a sparse tile does not fit in memory"))?;
        buffer.resize(len, 0);
        self.storage.read_at(elements.start.saturating_mul(self.size()), buffer)?;
        Ok(buffer)
    }

    /// Writes integers from element `first` on to `out`; those that `T` cannot hold become
    /// `instead`.
    pub(super) fn read_integers<T: Index>(
        &self,
        first: u64,
        out: &mut [T],
        instead: T,
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        let bytes = self.bytes(first..first.saturating_add(to_u64(out.len())), buffer)?;
        decode(self.stored, bytes, out, instead);
        Ok(())
    }

    /// Writes elements from `first` on to all of `out`, in native byte order; truth values become
    /// 0 and 1.
    pub(super) fn read_elements(
        &self,
        first: u64,
        out: &mut [u8],
        buffer: &mut Vec<u8>,
    ) -> Result<()> {
        if self.storage.lends() {
            let n = to_u64(out.len()) / self.size();
            out.copy_from_slice(self.bytes(first..first.saturating_add(n), buffer)?);
        } else {
            self.storage.read_at(first.saturating_mul(self.size()), out)?;
        }
        swap_in_place(self.stored, out);
        normalise_in_place(self.stored, out);
        Ok(())
    }

    /// One integer, whatever its dtype.
    pub(super) fn integer(&self, element: u64) -> Result<i128> {
        let mut out = [0i128];
        self.read_integers(element, &mut out, i128::MAX, &mut Vec::new())?;
        Ok(out[0])
    }

    /// An error about `element`: names the file and the place in it.
    pub(super) fn error(&self, element: u64, message: impl Into<String>) -> Error {
        let error = Error::bad_file(message).with_offset(element.saturating_mul(self.size()));
        self.storage.locate(error)
    }

    /// The same with what was found and what was expected of an integer.
    pub(super) fn unexpected(&self, element: u64, expected: &str) -> Error {
        match self.integer(element) {
            Ok(found) => {
                let message = format!("found {found} among the {}, expected {expected}", self.what);
                self.error(element, message)
            }
            Err(error) => error,
        }
    }
}

fn size_of_element(stored: StoredDType) -> u64 {
    to_u64(stored.dtype.size())
}

pub(super) fn to_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// What integers of a file can become.
pub(super) trait Index:
    Copy
    + TryFrom<u8>
    + TryFrom<u16>
    + TryFrom<u32>
    + TryFrom<u64>
    + TryFrom<i8>
    + TryFrom<i16>
    + TryFrom<i32>
    + TryFrom<i64>
{
}

impl Index for u32 {}
impl Index for u64 {}
impl Index for i128 {}

fn decode<T: Index>(stored: StoredDType, bytes: &[u8], out: &mut [T], instead: T) {
    macro_rules! each {
        ($type:ty) => {
            match stored.order {
                ByteOrder::Little => fill(bytes, out, instead, <$type>::from_le_bytes),
                ByteOrder::Big => fill(bytes, out, instead, <$type>::from_be_bytes),
            }
        };
    }
    match stored.dtype {
        DType::U8 => each!(u8),
        DType::U16 => each!(u16),
        DType::U32 => each!(u32),
        DType::U64 => each!(u64),
        DType::I8 => each!(i8),
        DType::I16 => each!(i16),
        DType::I32 => each!(i32),
        DType::I64 => each!(i64),
        // Arrays of other dtypes are refused when they are opened.
        _ => out.fill(instead),
    }
}

fn fill<const N: usize, S, T: TryFrom<S> + Copy>(
    bytes: &[u8],
    out: &mut [T],
    instead: T,
    read: impl Fn([u8; N]) -> S,
) {
    for (out, bytes) in out.iter_mut().zip(bytes.as_chunks::<N>().0) {
        *out = T::try_from(read(*bytes)).unwrap_or(instead);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_of_every_dtype_and_order() {
        for dtype in DType::all().filter(|dtype| dtype.is_integer()) {
            for order in [ByteOrder::Little, ByteOrder::Big] {
                let stored = StoredDType { dtype, order };
                let bytes: Vec<u8> = [5i64, -1, 100]
                    .into_iter()
                    .flat_map(|n| {
                        let mut bytes = n.to_le_bytes()[..dtype.size()].to_vec();
                        if order == ByteOrder::Big {
                            bytes.reverse();
                        }
                        bytes
                    })
                    .collect();
                let signed = dtype.code().starts_with('i');
                let mut wide = [0u64; 3];
                decode(stored, &bytes, &mut wide, u64::MAX);
                let largest = u64::MAX >> (64 - 8 * dtype.size());
                assert_eq!(wide, [5, if signed { u64::MAX } else { largest }, 100], "{stored}");
                let mut narrow = [0u32; 3];
                decode(stored, &bytes, &mut narrow, u32::MAX);
                let largest = u32::try_from(largest).unwrap_or(u32::MAX);
                assert_eq!(narrow, [5, if signed { u32::MAX } else { largest }, 100], "{stored}");
            }
        }
    }
}
