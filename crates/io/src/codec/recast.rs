//! Elements stored as those of another dtype, perhaps scaled: numcodecs' `astype`, `fixedscaleoffset`,
//! and `quantize` where it stores shorter floats.

use super::{all_of, damaged};
use framefold_core::{ByteOrder, DType, F16, Result, StoredDType};

/// How elements became other ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Recast {
    elements: StoredDType,
    stored: StoredDType,
    /// What they were multiplied with, after what was taken away from them.
    scale_offset: Option<(f64, f64)>,
}

// Numbers from a file are only ever compared to find out whether two arrays are stored alike.
impl Eq for Recast {}

impl Recast {
    /// Numbers in which nothing depends on the machine that reads them; `None` of others.
    pub(crate) fn new(
        elements: StoredDType,
        stored: StoredDType,
        scale_offset: Option<(f64, f64)>,
    ) -> Option<Self> {
        let known = |dtype: DType| dtype.is_integer() || matches!(dtype, DType::F32 | DType::F64);
        // Half-precision numbers would be scaled in half precision.
        let half = stored.dtype == DType::F16 && scale_offset.is_none();
        let finite = scale_offset.is_none_or(|(scale, offset)| {
            let narrow = |n: f64| stored.dtype != DType::F32 || (n as f32).is_finite();
            scale != 0.0 && [scale, offset].iter().all(|&n| n.is_finite() && narrow(n))
        });
        (known(elements.dtype) && (known(stored.dtype) || half) && finite).then_some(Recast {
            elements,
            stored,
            scale_offset,
        })
    }

    /// The bytes of as many stored elements as `size` bytes have elements.
    pub(super) fn size_after(&self, size: usize) -> Option<usize> {
        (size / self.elements.dtype.size()).checked_mul(self.stored.dtype.size())
    }

    /// How many times as long the elements are as the stored ones, rounded up.
    pub(super) fn ratio(&self) -> usize {
        self.elements.dtype.size().div_ceil(self.stored.dtype.size())
    }

    /// Makes the elements of the stored ones.
    pub(super) fn undo(&self, stored: &[u8], out: &mut [u8]) -> Result<()> {
        if !out.len().is_multiple_of(self.elements.dtype.size()) {
            return Err(damaged("astype", "the chunk ends within an element"));
        }
        all_of("astype", stored.len(), self.size_after(out.len()).unwrap_or(usize::MAX))?;
        let big = self.stored.order == ByteOrder::Big;
        macro_rules! read {
            ($type:ty) => {{
                let numbers = stored.as_chunks().0.iter().map(|bytes| match big {
                    true => <$type>::from_be_bytes(*bytes),
                    false => <$type>::from_le_bytes(*bytes),
                });
                self.write(numbers, out)
            }};
        }
        let done = match self.stored.dtype {
            DType::U8 => read!(u8),
            DType::U16 => read!(u16),
            DType::U32 => read!(u32),
            DType::U64 => read!(u64),
            DType::I8 => read!(i8),
            DType::I16 => read!(i16),
            DType::I32 => read!(i32),
            DType::I64 => read!(i64),
            DType::F32 => read!(f32),
            DType::F64 => read!(f64),
            _ => {
                let numbers = stored.as_chunks().0.iter().map(|bytes| match big {
                    true => F16::from_be_bytes(*bytes).to_f32(),
                    false => F16::from_le_bytes(*bytes).to_f32(),
                });
                self.write(numbers, out)
            }
        };
        done.ok_or_else(|| {
            let text = format!("a number cannot be {}", self.elements.dtype);
            damaged("astype", &text)
        })
    }

    /// `None` if a number is none of the elements' dtype.
    fn write<T: Number>(&self, numbers: impl Iterator<Item = T>, out: &mut [u8]) -> Option<()> {
        let dtype = self.elements.dtype;
        match (self.scale_offset, dtype) {
            (None, DType::F32) => self.put(numbers.map(|n| Some(n.to_f32())), out),
            (None, DType::F64) => self.put(numbers.map(|n| Some(n.to_f64())), out),
            (None, _) => self.put(numbers.map(|n| n.to_integer(dtype)), out),
            (Some((scale, offset)), DType::F32) => {
                self.put(numbers.map(|n| Some(n.scaled(scale, offset) as f32)), out)
            }
            (Some((scale, offset)), DType::F64) => {
                self.put(numbers.map(|n| Some(n.scaled(scale, offset))), out)
            }
            (Some((scale, offset)), _) => {
                self.put(numbers.map(|n| n.scaled(scale, offset).to_integer(dtype)), out)
            }
        }
    }

    /// Writes the lowest bytes of each, in the order of bytes that the elements have.
    fn put<T: Bytes>(
        &self,
        numbers: impl Iterator<Item = Option<T>>,
        out: &mut [u8],
    ) -> Option<()> {
        let size = self.elements.dtype.size();
        let big = self.elements.order == ByteOrder::Big;
        for (number, cell) in numbers.zip(out.chunks_exact_mut(size)) {
            cell.copy_from_slice(number?.low_bytes().get(..size)?);
            if big {
                cell.reverse();
            }
        }
        Some(())
    }
}

/// What is stored.
trait Number: Copy {
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;

    /// As that integer: bits beyond it are lost of integers; floats have to be within it.
    fn to_integer(self, dtype: DType) -> Option<i64>;

    /// In double precision, and in single precision where that is what is stored.
    fn scaled(self, scale: f64, offset: f64) -> f64 {
        self.to_f64() / scale + offset
    }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Number for $type {
            #[inline(always)]
            fn to_f32(self) -> f32 {
                self as f32
            }

            #[inline(always)]
            fn to_f64(self) -> f64 {
                self as f64
            }

            #[inline(always)]
            fn to_integer(self, _: DType) -> Option<i64> {
                Some(self as i64)
            }
        }
    )*};
}
integers!(u8, u16, u32, u64, i8, i16, i32, i64);

impl Number for f64 {
    fn to_f32(self) -> f32 {
        self as f32
    }

    fn to_f64(self) -> f64 {
        self
    }

    fn to_integer(self, dtype: DType) -> Option<i64> {
        let bits = u32::try_from(dtype.size() * 8).ok()?;
        let signed = matches!(dtype, DType::I8 | DType::I16 | DType::I32 | DType::I64);
        let (least, end) = match signed {
            true => (-(1i128 << (bits - 1)), 1i128 << (bits - 1)),
            false => (0, 1i128 << bits),
        };
        let kept = self.trunc();
        // Powers of two are exact.
        (kept >= least as f64 && kept < end as f64).then_some(kept as i128 as i64)
    }
}

impl Number for f32 {
    fn to_f32(self) -> f32 {
        self
    }

    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    fn to_integer(self, dtype: DType) -> Option<i64> {
        f64::from(self).to_integer(dtype)
    }

    fn scaled(self, scale: f64, offset: f64) -> f64 {
        f64::from(self / scale as f32 + offset as f32)
    }
}

/// What is written, lowest byte first.
trait Bytes: Copy {
    fn low_bytes(self) -> [u8; 8];
}

impl Bytes for i64 {
    #[inline(always)]
    fn low_bytes(self) -> [u8; 8] {
        self.to_le_bytes()
    }
}

impl Bytes for f64 {
    #[inline(always)]
    fn low_bytes(self) -> [u8; 8] {
        self.to_le_bytes()
    }
}

impl Bytes for f32 {
    #[inline(always)]
    fn low_bytes(self) -> [u8; 8] {
        u64::from(self.to_bits()).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dtype(text: &str) -> StoredDType {
        StoredDType::parse(text).unwrap()
    }

    fn recast(elements: &str, stored: &str, scale: Option<(f64, f64)>) -> Option<Recast> {
        Recast::new(dtype(elements), dtype(stored), scale)
    }

    #[test]
    fn numbers_are_scaled_back() {
        let recast = recast("<f4", "|u1", Some((10.0, 1000.0))).unwrap();
        let mut out = [0; 8];
        recast.undo(&[0, 2], &mut out).unwrap();
        assert_eq!(out[..4], 1000f32.to_le_bytes());
        assert_eq!(out[4..], 1000.2f32.to_le_bytes());
    }

    #[test]
    fn integers_lose_what_does_not_fit_and_floats_are_refused() {
        let mut out = [0; 1];
        recast("|i1", "<u2", None).unwrap().undo(&[0x80, 0x01], &mut out).unwrap();
        assert_eq!(out, [0x80]);
        let floats = recast(">u2", ">f4", None).unwrap();
        let mut out = [0; 2];
        floats.undo(&258.9f32.to_be_bytes(), &mut out).unwrap();
        assert_eq!(out, [1, 2]);
        for beyond in [65536.0f32, -1.0, f32::NAN] {
            assert!(floats.undo(&beyond.to_be_bytes(), &mut out).is_err(), "{beyond}");
        }
        let mut out = [0; 8];
        let largest = 18_446_744_073_709_549_568.0f64;
        recast("<u8", "<f8", None).unwrap().undo(&largest.to_le_bytes(), &mut out).unwrap();
        assert_eq!(u64::from_le_bytes(out), largest as u64);
    }

    #[test]
    fn chunks_of_another_length_are_damaged_and_other_dtypes_unknown() {
        let halves = recast("<f4", "<f2", None).unwrap();
        assert!(halves.undo(&[0; 3], &mut [0; 8]).is_err());
        assert!(halves.undo(&[0; 2], &mut [0; 3]).is_err());
        assert_eq!(recast("<f4", "<f2", Some((1.0, 0.0))), None);
        assert_eq!(recast("<f4", "<c8", None), None);
        assert_eq!(recast("<f2", "<f4", None), None);
        assert_eq!(recast("<f4", "|u1", Some((0.0, 0.0))), None);
        assert_eq!(recast("<f4", "<f4", Some((1e300, 0.0))), None);
    }
}
