//! The data of a call.

use crate::function::Host;
use crate::{DType, Element, Failure, raw};
use std::slice::from_raw_parts;

/// No elements may have a null pointer.
///
/// # Safety
/// So many are there for `'a`, and nothing writes to them.
pub(crate) unsafe fn slice<'a, T>(data: *const T, len: usize) -> &'a [T] {
    if len == 0 {
        return &[];
    }
    // SAFETY: as the caller says.
    unsafe { from_raw_parts(data, len) }
}

/// The same cells of frames that follow each other among those selected.
#[derive(Clone, Copy)]
pub struct Tile<'a> {
    pub(crate) raw: &'a raw::Tile,
    pub(crate) host: Host<'a>,
}

macro_rules! places {
    ($($type:ident),*) => {$(
        impl<'a> $type<'a> {
            /// The number of frames.
            pub fn depth(&self) -> usize {
                self.raw.depth
            }

            /// The type of the cells.
            pub fn dtype(&self) -> DType {
                DType(self.raw.dtype)
            }

            /// The first cell on each axis of the frame.
            pub fn origin(&self) -> &'a [usize] {
                // SAFETY: what the host gives is as the header says, for as long as it is borrowed.
                unsafe { slice(self.raw.sig_origin, self.raw.n_sig) }
            }

            /// The number of cells on each axis of the frame.
            pub fn shape(&self) -> &'a [usize] {
                // SAFETY: as above.
                unsafe { slice(self.raw.sig_shape, self.raw.n_sig) }
            }

            /// The number of cells of a frame that the tile has.
            pub fn frame_len(&self) -> usize {
                self.shape().iter().product()
            }

            /// The number of its first frame among those selected.
            pub fn first_frame(&self) -> usize {
                self.raw.first_frame
            }

            /// The number of its first frame among those of the partition.
            pub fn first_in_partition(&self) -> usize {
                self.raw.first_in_partition
            }

            /// The number of the part of the frame.
            pub fn slice_index(&self) -> usize {
                self.raw.slice_index
            }

            /// Whether the run was cancelled. A call that takes long may then return
            /// [`Failure::cancelled`].
            pub fn is_cancelled(&self) -> bool {
                self.host.is_cancelled()
            }

            fn check<T: Element>(&self) -> Result<(), Failure> {
                if T::DTYPE == self.dtype() {
                    return Ok(());
                }
                let (found, expected) = (self.dtype(), T::DTYPE);
                Err(Failure::new(format!(
                    "the tile is of {found}, and was used as one of {expected}: ask for the dtype in \
                     `requirements`, or look at the dtype of the tile"
                )))
            }
        }
    )*};
}
places!(Tile, Rows);

impl<'a> Tile<'a> {
    /// The frames in order: of each, its cells in C order.
    ///
    /// Errors name the frame that was last taken of the iterator.
    ///
    /// # Errors
    /// If the tile is of another type.
    #[inline]
    pub fn frames<T: Element>(&self) -> Result<Frames<'a, T>, Failure> {
        self.check::<T>()?;
        let len = self.frame_len();
        // SAFETY: as the header says, frames lie so far apart, and the cells of each follow each other.
        let data = self.raw.data.cast::<T>();
        Ok(Frames {
            data,
            stride: self.raw.frame_stride / size_of::<T>(),
            len,
            next: 0,
            depth: self.raw.depth,
            at: self.host.frame(),
            _of: std::marker::PhantomData,
        })
    }
}

/// The frames of a tile, one after the other.
pub struct Frames<'a, T> {
    data: *const T,
    stride: usize,
    len: usize,
    next: usize,
    depth: usize,
    at: *mut u64,
    _of: std::marker::PhantomData<&'a [T]>,
}

impl<'a, T: Element> Iterator for Frames<'a, T> {
    type Item = &'a [T];

    #[inline]
    fn next(&mut self) -> Option<&'a [T]> {
        if self.next == self.depth {
            return None;
        }
        let i = self.next;
        self.next += 1;
        if !self.at.is_null() {
            // SAFETY: the host's place for it.
            unsafe { *self.at = i as u64 };
        }
        // SAFETY: as the header says, frame `i` is there.
        Some(unsafe { from_raw_parts(self.data.add(i * self.stride), self.len) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.depth - self.next;
        (left, Some(left))
    }
}

impl<T: Element> ExactSizeIterator for Frames<'_, T> {}

/// Of each frame of a tile, the cells that are not 0.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    pub(crate) raw: &'a raw::Rows,
    pub(crate) host: Host<'a>,
}

impl<'a> Rows<'a> {
    /// The frames in order: of each, the cells that are there, ascending, counted within the part of the
    /// frame in C order, and their values.
    ///
    /// Errors name the frame that was last taken of the iterator.
    ///
    /// # Errors
    /// If the tile is of another type.
    pub fn frames<T: Element>(
        &self,
    ) -> Result<impl ExactSizeIterator<Item = (&'a [u32], &'a [T])> + use<'a, T>, Failure> {
        self.check::<T>()?;
        // SAFETY: as the header says.
        let starts = unsafe { slice(self.raw.starts, self.raw.depth + 1) };
        let n_entries = starts.last().copied().unwrap_or(0);
        // SAFETY: as above.
        let (columns, values) = unsafe {
            (slice(self.raw.columns, n_entries), slice(self.raw.values.cast::<T>(), n_entries))
        };
        let at = self.host.frame();
        Ok(starts.windows(2).enumerate().map(move |(i, row)| {
            if !at.is_null() {
                // SAFETY: the host's place for it.
                unsafe { *at = i as u64 };
            }
            (&columns[row[0]..row[1]], &values[row[0]..row[1]])
        }))
    }
}
