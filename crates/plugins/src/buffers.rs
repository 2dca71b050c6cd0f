//! Result buffers, and what functions see of them.

use crate::dtype::number;
use framefold_abi::raw;
use framefold_core::{
    BufferDecl, BufferDtype, BufferKind, BufferUse, DType, Error, NativeArray, Result, Shape,
    SigSlice,
};
use std::ops::Range;

/// Arrays and where in them the next views begin.
pub(crate) struct Buffers {
    arrays: Vec<NativeArray>,
    layouts: Vec<Layout>,
    n_frames: usize,
    sig: Vec<usize>,
    /// Whether functions see parts of frames without gaps.
    contiguous: bool,
    /// The slice that `layouts` are about; none at first.
    slice: Option<SigSlice>,
}

/// Where a view begins, and what shape it has.
struct Layout {
    kind: BufferKind,
    dtype: raw::RawDType,
    /// Bytes of the row of a frame, or of all entries of a cell.
    unit: usize,
    n_extra: usize,
    /// Of a slice, in bytes.
    offset: usize,
    /// Those of the whole array.
    full_shape: Vec<usize>,
    full_strides: Vec<isize>,
    shape: Vec<usize>,
    strides: Vec<isize>,
    /// The slice without gaps, if the function sees that instead.
    packed: Option<NativeArray>,
}

/// The dtype of a buffer.
pub(crate) fn native_dtype(decl: &BufferDecl) -> Result<DType> {
    match &decl.dtype {
        BufferDtype::Native(dtype) => Ok(*dtype),
        BufferDtype::Foreign { name, .. } => Err(Error::unsupported(format!(
            "the buffer '{}' of a compiled function has dtype {name}",
            decl.name
        ))
        .with_hint("use a dtype of numbers")),
    }
}

/// The declarations of the buffers that functions see while they work.
pub(crate) fn worked_on(decls: &[BufferDecl]) -> impl Iterator<Item = &BufferDecl> {
    decls.iter().filter(|decl| decl.usage != BufferUse::ResultOnly)
}

/// Zeros for a buffer.
pub(crate) fn zeros(decl: &BufferDecl, shape: &Shape, n_frames: usize) -> Result<NativeArray> {
    NativeArray::try_zeros(native_dtype(decl)?, &decl.flat_shape(shape, n_frames))
}

impl Buffers {
    /// Buffers that hold `arrays`, of these declarations and in their order.
    ///
    /// # Errors
    /// `Bug` if one has another dtype or shape than it was declared with.
    pub(crate) fn try_new<'a>(
        decls: impl IntoIterator<Item = &'a BufferDecl>,
        arrays: Vec<NativeArray>,
        shape: &Shape,
        n_frames: usize,
        contiguous: bool,
    ) -> Result<Self> {
        let mut layouts = Vec::with_capacity(arrays.len());
        for (decl, array) in decls.into_iter().zip(&arrays) {
            let dtype = native_dtype(decl)?;
            let full_shape = decl.flat_shape(shape, n_frames);
            let len = framefold_core::checked_product(&full_shape);
            if array.dtype() != dtype || u64::try_from(array.values().len()).ok() != len {
                return Err(Error::bug(format!(
                    "the array of '{}' is {} {:?}, declared as {dtype} {full_shape:?}",
                    decl.name,
                    array.dtype(),
                    array.shape()
                )));
            }
            let full_strides = strides(&full_shape, dtype.size());
            layouts.push(Layout {
                kind: decl.kind,
                dtype: number(dtype),
                unit: decl.extra_shape.iter().product::<usize>() * dtype.size(),
                n_extra: decl.extra_shape.len(),
                offset: 0,
                shape: full_shape.clone(),
                strides: full_strides.clone(),
                full_shape,
                full_strides,
                packed: None,
            });
        }
        let sig = shape.sig().to_vec();
        Ok(Buffers { arrays, layouts, n_frames, sig, contiguous, slice: None })
    }

    /// Shows the rows of the frames `rows`, and the cells of `slice`.
    ///
    /// # Errors
    /// `Bug` if there are no such frames or cells.
    #[inline]
    pub(crate) fn show_tile(
        &mut self,
        rows: &Range<usize>,
        slice: &SigSlice,
        views: &mut Vec<raw::View>,
    ) -> Result<()> {
        if rows.start > rows.end || rows.end > self.n_frames {
            let n_frames = self.n_frames;
            return Err(Error::bug(format!("frames {rows:?} of a partition of {n_frames}")));
        }
        if self.slice.as_ref() != Some(slice) {
            self.enter(slice)?;
        }
        self.show(rows, views);
        Ok(())
    }

    /// Shows the rows of the frames `rows`, and all cells.
    pub(crate) fn show_rows(&mut self, rows: &Range<usize>, views: &mut Vec<raw::View>) {
        self.leave();
        self.show(rows, views);
    }

    #[inline]
    fn show(&mut self, rows: &Range<usize>, views: &mut Vec<raw::View>) {
        views.clear();
        for (layout, array) in self.layouts.iter_mut().zip(&mut self.arrays) {
            let mut offset = layout.offset;
            if layout.kind == BufferKind::Nav {
                offset = rows.start * layout.unit;
                if let Some(n_rows) = layout.shape.first_mut() {
                    *n_rows = rows.len();
                }
            }
            let array = layout.packed.as_mut().unwrap_or(array);
            let base = array.values_mut().as_bytes_mut().as_mut_ptr();
            views.push(raw::View {
                // The rows of a partition and the cells of a slice lie within the array.
                data: base.wrapping_add(offset).cast(),
                dtype: layout.dtype,
                n_dims: layout.shape.len(),
                shape: layout.shape.as_ptr(),
                strides: layout.strides.as_ptr(),
            });
        }
    }

    /// Shows all of arrays of which no tile was shown, only to be read.
    pub(crate) fn show_whole(&self, views: &mut Vec<raw::View>) {
        let shown = self.layouts.iter().zip(&self.arrays).map(|(layout, array)| raw::View {
            data: array.values().as_bytes().as_ptr().cast_mut().cast(),
            dtype: layout.dtype,
            n_dims: layout.full_shape.len(),
            shape: layout.full_shape.as_ptr(),
            strides: layout.full_strides.as_ptr(),
        });
        views.extend(shown);
    }

    /// Goes over to another slice.
    fn enter(&mut self, slice: &SigSlice) -> Result<()> {
        self.leave();
        let within = SigSlice::try_within(slice.origin().into(), slice.shape().into(), &self.sig)?;
        if within.linear() != slice.linear() {
            return Err(Error::bug(format!("{slice:?} is no part of frames of {:?}", self.sig)));
        }
        for (layout, array) in self.layouts.iter_mut().zip(&self.arrays) {
            if layout.kind != BufferKind::Sig {
                continue;
            }
            let size = array.dtype().size();
            let extra = &layout.full_shape[layout.full_shape.len() - layout.n_extra..];
            layout.shape = [slice.shape(), extra].concat();
            if let Some(cells) = slice.linear() {
                layout.offset = cells.start * layout.unit;
                layout.strides = strides(&layout.shape, size);
            } else if self.contiguous {
                let mut packed = NativeArray::try_zeros(array.dtype(), &layout.shape)?;
                let (to, from) = (packed.values_mut().as_bytes_mut(), array.values().as_bytes());
                let mut done = 0;
                for run in slice.runs(&self.sig) {
                    let run = run.start * layout.unit..run.end * layout.unit;
                    let len = run.len();
                    to[done..done + len].copy_from_slice(&from[run]);
                    done += len;
                }
                layout.offset = 0;
                layout.strides = strides(&layout.shape, size);
                layout.packed = Some(packed);
            } else {
                let first = slice.runs(&self.sig).next().map_or(0, |run| run.start);
                layout.offset = first * layout.unit;
                layout.strides.clone_from(&layout.full_strides);
            }
        }
        self.slice = Some(slice.clone());
        Ok(())
    }

    /// Goes back to whole frames; what was seen without gaps is put where it belongs.
    fn leave(&mut self) {
        let Some(slice) = self.slice.take() else { return };
        for (layout, array) in self.layouts.iter_mut().zip(&mut self.arrays) {
            if layout.kind != BufferKind::Sig {
                continue;
            }
            if let Some(packed) = layout.packed.take() {
                let (to, from) = (array.values_mut().as_bytes_mut(), packed.values().as_bytes());
                let mut done = 0;
                for run in slice.runs(&self.sig) {
                    let run = run.start * layout.unit..run.end * layout.unit;
                    let len = run.len();
                    to[run].copy_from_slice(&from[done..done + len]);
                    done += len;
                }
            }
            layout.offset = 0;
            layout.shape.clone_from(&layout.full_shape);
            layout.strides.clone_from(&layout.full_strides);
        }
    }

    /// The arrays, complete; the views that were shown are over.
    pub(crate) fn arrays(&mut self) -> &[NativeArray] {
        self.leave();
        &self.arrays
    }

    /// The same, for writing.
    pub(crate) fn arrays_mut(&mut self) -> &mut [NativeArray] {
        self.leave();
        &mut self.arrays
    }

    /// The arrays where no tile was shown.
    pub(crate) fn whole(&self) -> &[NativeArray] {
        &self.arrays
    }

    pub(crate) fn into_arrays(mut self) -> Vec<NativeArray> {
        self.leave();
        self.arrays
    }

    /// Clears the rows of `frames`.
    pub(crate) fn clear_rows(&mut self, frames: &Range<usize>) {
        for (layout, array) in self.layouts.iter().zip(&mut self.arrays) {
            if layout.kind == BufferKind::Nav {
                let rows = frames.start * layout.unit..frames.end * layout.unit;
                array.values_mut().as_bytes_mut()[rows].fill(0);
            }
        }
    }
}

/// Those of an array in C order, in bytes.
fn strides(shape: &[usize], size: usize) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut stride = size;
    for (place, &len) in strides.iter_mut().zip(shape).rev() {
        *place = isize::try_from(stride).unwrap_or(isize::MAX);
        stride = stride.saturating_mul(len.max(1));
    }
    strides
}
