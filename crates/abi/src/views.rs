//! Parts of result buffers.

use crate::tile::slice;
use crate::{DType, Element, Failure, raw};
use std::marker::PhantomData;

/// Of each buffer that a function declared, in that order, what a call is about. Buffers that are only results
/// are there in [`crate::Function::results`] alone, and private ones are not among its results.
pub struct Views<'a> {
    raw: &'a [raw::View],
}

impl<'a> Views<'a> {
    /// # Safety
    /// The views are as the header says, and nothing else uses what they show for `'a`.
    pub(crate) unsafe fn new(raw: *const raw::View, n: usize) -> Self {
        // SAFETY: as the caller says.
        Views { raw: unsafe { slice(raw, n) } }
    }

    /// The number of buffers.
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// All of them: `let [image, counts] = views.take()?`.
    ///
    /// # Errors
    /// If there are more or fewer.
    #[inline]
    pub fn take<const N: usize>(&mut self) -> Result<[AnyView<'_>; N], Failure> {
        let all: &[raw::View; N] = self.raw.try_into().map_err(|_| {
            Failure::new(format!("{N} buffers were expected, and there are {}", self.raw.len()))
        })?;
        // Each view is given once, for as long as `self` is borrowed.
        Ok(all.map(|raw| AnyView { raw, _of: PhantomData }))
    }

    /// The view of buffer number `i`, to be read.
    ///
    /// # Errors
    /// If there is none, it is of another type, or it has gaps.
    pub fn read<T: Element>(&self, i: usize) -> Result<&[T], Failure> {
        let raw = self.raw.get(i).ok_or_else(|| {
            Failure::new(format!("there is no buffer {i}, but {}", self.raw.len()))
        })?;
        let view = AnyView { raw: *raw, _of: PhantomData }.of::<T>()?;
        let len = view.len();
        view.check_gaps()?;
        // SAFETY: as the header says; views that can be written to are not given out meanwhile.
        Ok(unsafe { slice(view.data, len) })
    }

    /// Copies all entries, which are rows of frames.
    pub(crate) fn copy_from(&mut self, source: &Views<'_>) {
        for (to, from) in self.raw.iter().zip(source.raw) {
            // SAFETY: as the header says; both are whole rows without gaps, and of one shape.
            unsafe {
                let len: usize = slice(from.shape, from.n_dims).iter().product();
                let size = DType(from.dtype).size();
                to.data.cast::<u8>().copy_from_nonoverlapping(from.data.cast(), len * size);
            }
        }
    }
}

/// The view of a buffer whose type is to be said.
pub struct AnyView<'a> {
    raw: raw::View,
    _of: PhantomData<&'a mut [u8]>,
}

impl<'a> AnyView<'a> {
    /// The type of its entries.
    pub fn dtype(&self) -> DType {
        DType(self.raw.dtype)
    }

    /// The view, as one of `T`.
    ///
    /// # Errors
    /// If it is of another type.
    #[inline]
    pub fn of<T: Element>(self) -> Result<View<'a, T>, Failure> {
        if self.dtype() != T::DTYPE {
            let (found, expected) = (self.dtype(), T::DTYPE);
            return Err(Failure::new(format!("a buffer of {found} was used as one of {expected}")));
        }
        // SAFETY: as the header says.
        let (shape, strides) = unsafe {
            (slice(self.raw.shape, self.raw.n_dims), slice(self.raw.strides, self.raw.n_dims))
        };
        Ok(View { data: self.raw.data.cast(), shape, strides, _of: PhantomData })
    }
}

/// The view of a buffer.
pub struct View<'a, T> {
    data: *mut T,
    shape: &'a [usize],
    /// In bytes.
    strides: &'a [isize],
    _of: PhantomData<&'a mut [T]>,
}

impl<T: Element> View<'_, T> {
    /// Its axes: those of the frames or the part of the frame, and what was declared as extra.
    pub fn shape(&self) -> &[usize] {
        self.shape
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of the last axes lie in C order without gaps, and their entries.
    fn trailing(&self) -> (usize, usize) {
        let mut len = 1;
        for (n, (&axis, &stride)) in self.shape.iter().zip(self.strides).rev().enumerate() {
            if axis != 1 && stride != (len * size_of::<T>()) as isize {
                return (n, len);
            }
            len *= axis;
        }
        (self.shape.len(), len)
    }

    fn check_gaps(&self) -> Result<(), Failure> {
        if self.trailing().0 == self.shape.len() || self.is_empty() {
            return Ok(());
        }
        Err(Failure::new(format!(
            "a buffer of shape {:?} has gaps (strides of {:?} bytes): set `contiguous` in `requirements`",
            self.shape, self.strides
        )))
    }

    /// All entries in C order.
    ///
    /// # Errors
    /// If it has gaps: views of `sig` buffers may, where `requirements` does not say `contiguous`.
    #[inline]
    pub fn as_mut_slice(&mut self) -> Result<&mut [T], Failure> {
        self.check_gaps()?;
        let len = self.len();
        if len == 0 {
            return Ok(&mut []);
        }
        // SAFETY: as the header says; they lie one after the other, and are borrowed from `self`.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.data, len) })
    }

    /// The same entries in the same order, in pieces that have no gaps; works for all views.
    pub fn pieces_mut(&mut self) -> impl Iterator<Item = &mut [T]> {
        let (n_trailing, len) = self.trailing();
        let outer = &self.shape[..self.shape.len() - n_trailing];
        let strides = &self.strides[..outer.len()];
        let n_pieces = if len == 0 { 0 } else { outer.iter().product::<usize>() };
        let data = self.data;
        (0..n_pieces).map(move |mut flat| {
            let mut offset = 0;
            for (&axis, &stride) in outer.iter().zip(strides).rev() {
                offset += (flat % axis) as isize * stride;
                flat /= axis;
            }
            // SAFETY: as the header says; no entry is in two pieces, and each is given once.
            unsafe { std::slice::from_raw_parts_mut(data.byte_offset(offset), len) }
        })
    }
}
