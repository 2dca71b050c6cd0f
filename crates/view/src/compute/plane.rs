//! One number for each position of the scan, in as few bytes as they need.

use framefold::Result;
use framefold::core::{DType, memory};
use std::ops::Range;

/// Numbers, 0 until they are put in.
#[derive(Debug)]
pub(crate) enum Plane {
    U16(Vec<u16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    I64(Vec<i64>),
    F32(Vec<f32>),
}

impl Plane {
    /// The narrowest for sums of pixels of that dtype.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it.
    pub(crate) fn try_new(dtype: DType, len: usize) -> Result<Self> {
        Ok(match dtype {
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => Plane::I32(memory::zeros(len)?),
            dtype if dtype.is_float() => Plane::F32(memory::zeros(len)?),
            _ => Plane::U16(memory::zeros(len)?),
        })
    }

    /// The bytes that a number never exceeds, of sums of so many pixels.
    pub(crate) fn most_bytes(dtype: DType, n_pixels: usize) -> usize {
        match dtype {
            DType::U8 | DType::Bool if n_pixels <= 257 => 2,
            DType::U8 | DType::Bool | DType::I8 if n_pixels <= 1 << 24 => 4,
            DType::U16 if n_pixels <= 1 << 16 => 4,
            DType::I16 if n_pixels <= 1 << 15 => 4,
            dtype if dtype.is_float() => 4,
            _ => 8,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Plane::U16(values) => values.len(),
            Plane::U32(values) => values.len(),
            Plane::I32(values) => values.len(),
            Plane::I64(values) => values.len(),
            Plane::F32(values) => values.len(),
        }
    }

    pub(crate) fn size(&self) -> usize {
        match self {
            Plane::U16(_) => 2,
            Plane::U32(_) | Plane::I32(_) | Plane::F32(_) => 4,
            Plane::I64(_) => 8,
        }
    }

    /// How many bytes larger it gets to hold numbers between these.
    pub(crate) fn growth(&self, least: i64, most: i64) -> u64 {
        let size = self.size_for(least, most);
        u64::try_from(self.len() * size.saturating_sub(self.size())).unwrap_or(u64::MAX)
    }

    fn size_for(&self, least: i64, most: i64) -> usize {
        let within = |low: i64, high: i64| least >= low && most <= high;
        match self {
            Plane::U16(_) if within(0, u16::MAX.into()) => 2,
            Plane::U16(_) | Plane::U32(_) if within(0, u32::MAX.into()) => 4,
            Plane::I32(_) if within(i32::MIN.into(), i32::MAX.into()) => 4,
            Plane::F32(_) => 4,
            _ => 8,
        }
    }

    /// Puts integers from position `first` on.
    ///
    /// # Errors
    /// `Limit` if there is no memory for wider numbers.
    pub(crate) fn put(&mut self, first: usize, values: &[i64]) -> Result<()> {
        let least = values.iter().copied().min().unwrap_or(0);
        let most = values.iter().copied().max().unwrap_or(0);
        match (self.size_for(least, most), &*self) {
            (size, plane) if size == plane.size() => {}
            (4, Plane::U16(narrow)) => {
                *self = Plane::U32(memory::collected(narrow.iter().map(|&v| v.into()))?);
            }
            (_, Plane::U16(narrow)) => {
                *self = Plane::I64(memory::collected(narrow.iter().map(|&v| v.into()))?);
            }
            (_, Plane::U32(narrow)) => {
                *self = Plane::I64(memory::collected(narrow.iter().map(|&v| v.into()))?);
            }
            (_, Plane::I32(narrow)) => {
                *self = Plane::I64(memory::collected(narrow.iter().map(|&v| v.into()))?);
            }
            _ => {}
        }
        let place = first..first + values.len();
        match self {
            Plane::U16(all) => all[place].iter_mut().zip(values).for_each(|(a, &v)| *a = v as u16),
            Plane::U32(all) => all[place].iter_mut().zip(values).for_each(|(a, &v)| *a = v as u32),
            Plane::I32(all) => all[place].iter_mut().zip(values).for_each(|(a, &v)| *a = v as i32),
            Plane::I64(all) => all[place].copy_from_slice(values),
            Plane::F32(all) => all[place].iter_mut().zip(values).for_each(|(a, &v)| *a = v as f32),
        }
        Ok(())
    }

    /// Puts floating-point numbers from position `first` on, rounded.
    pub(crate) fn put_floats(&mut self, first: usize, values: &[f64]) {
        if let Plane::F32(all) = self {
            let place = first..first + values.len();
            all[place].iter_mut().zip(values).for_each(|(a, &v)| *a = v as f32);
        }
    }

    /// Adds `factor` times the numbers of these positions to `sums`.
    #[inline(always)]
    pub(crate) fn add_times(&self, positions: Range<usize>, factor: f64, sums: &mut [f64]) {
        match self {
            Plane::U16(v) => add_times(&v[positions], factor, sums, f64::from),
            Plane::U32(v) => add_times(&v[positions], factor, sums, f64::from),
            Plane::I32(v) => add_times(&v[positions], factor, sums, f64::from),
            Plane::I64(v) => add_times(&v[positions], factor, sums, |v| v as f64),
            Plane::F32(v) => add_times(&v[positions], factor, sums, f64::from),
        }
    }

    /// Adds `factor` times the numbers of these positions to `sums`, which the caller knows to be large enough.
    #[inline(always)]
    pub(crate) fn add_whole(&self, positions: Range<usize>, factor: i64, sums: &mut [i64]) {
        match self {
            Plane::U16(v) => add_whole(&v[positions], factor, sums, i64::from),
            Plane::U32(v) => add_whole(&v[positions], factor, sums, i64::from),
            Plane::I32(v) => add_whole(&v[positions], factor, sums, i64::from),
            Plane::I64(v) => add_whole(&v[positions], factor, sums, |v| v),
            Plane::F32(_) => {}
        }
    }
}

#[inline(always)]
fn add_times<T: Copy>(values: &[T], factor: f64, sums: &mut [f64], wide: impl Fn(T) -> f64) {
    for (sum, &value) in sums.iter_mut().zip(values) {
        *sum += factor * wide(value);
    }
}

#[inline(always)]
fn add_whole<T: Copy>(values: &[T], factor: i64, sums: &mut [i64], wide: impl Fn(T) -> i64) {
    let sums = sums.iter_mut().zip(values);
    match factor {
        1 => sums.for_each(|(sum, &value)| *sum += wide(value)),
        -1 => sums.for_each(|(sum, &value)| *sum -= wide(value)),
        _ => sums.for_each(|(sum, &value)| *sum += factor * wide(value)),
    }
}
