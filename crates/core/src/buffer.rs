//! Result buffers: what a UDF declares, and the arrays that hold it.

use crate::{DType, Element, Error, Result, Shape, TypedVec};
use std::any::Any;
use std::fmt;

/// How the shape of a buffer follows from the data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferKind {
    /// One entry per selected navigation position.
    Nav,
    /// One entry per cell of a frame.
    Sig,
    /// Another shape.
    Single,
}

impl BufferKind {
    /// The name used in declarations: `nav`, `sig` or `single`.
    pub fn name(self) -> &'static str {
        match self {
            BufferKind::Nav => "nav",
            BufferKind::Sig => "sig",
            BufferKind::Single => "single",
        }
    }
}

/// Who gets to see a buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum BufferUse {
    /// Allocated on workers, merged, and part of the results.
    #[default]
    Public,
    /// Allocated and merged, but not part of the results.
    Private,
    /// Only computed from the merged buffers; not allocated on workers.
    ResultOnly,
}

/// The element type of a buffer: one of the engine's, or one that only the UDF understands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BufferDtype {
    /// One of the engine's dtypes.
    Native(DType),
    /// Anything else, such as NumPy's object dtype.
    Foreign {
        /// Its name, for messages.
        name: String,
        /// Bytes per element.
        size: usize,
    },
}

impl BufferDtype {
    /// Bytes per element.
    pub fn size(&self) -> usize {
        match self {
            BufferDtype::Native(dtype) => dtype.size(),
            BufferDtype::Foreign { size, .. } => *size,
        }
    }
}

impl From<DType> for BufferDtype {
    fn from(dtype: DType) -> Self {
        BufferDtype::Native(dtype)
    }
}

impl fmt::Display for BufferDtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BufferDtype::Native(dtype) => dtype.fmt(f),
            BufferDtype::Foreign { name, .. } => f.write_str(name),
        }
    }
}

/// The declaration of one result buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferDecl {
    /// The name users know it by.
    pub name: String,
    /// How its shape follows from the data set.
    pub kind: BufferKind,
    /// Axes appended to that shape.
    pub extra_shape: Vec<usize>,
    /// Its element type.
    pub dtype: BufferDtype,
    /// Who gets to see it.
    pub usage: BufferUse,
}

impl BufferDecl {
    /// A public buffer without extra axes.
    pub fn new(name: impl Into<String>, kind: BufferKind, dtype: DType) -> Self {
        BufferDecl {
            name: name.into(),
            kind,
            extra_shape: Vec::new(),
            dtype: dtype.into(),
            usage: BufferUse::Public,
        }
    }

    /// Sets the extra axes.
    #[must_use]
    pub fn with_extra_shape(mut self, extra_shape: &[usize]) -> Self {
        self.extra_shape = extra_shape.to_vec();
        self
    }

    /// The shape of the buffer for `n_frames` frames of a data set of `shape`, with navigation
    /// flattened. A `single` buffer without extra axes has shape `(1,)`.
    pub fn flat_shape(&self, shape: &Shape, n_frames: usize) -> Vec<usize> {
        let mut dims = match self.kind {
            BufferKind::Nav => vec![n_frames],
            BufferKind::Sig => shape.sig().to_vec(),
            BufferKind::Single if self.extra_shape.is_empty() => vec![1],
            BufferKind::Single => vec![],
        };
        dims.extend_from_slice(&self.extra_shape);
        dims
    }

    /// The size in bytes for `n_frames` frames; saturates.
    pub fn len_bytes(&self, shape: &Shape, n_frames: usize) -> u64 {
        let cells = crate::checked_product(&self.flat_shape(shape, n_frames)).unwrap_or(u64::MAX);
        cells.saturating_mul(u64::try_from(self.dtype.size()).unwrap_or(u64::MAX))
    }
}

/// An array of one of the engine's dtypes, in C order.
#[derive(Clone, Debug, PartialEq)]
pub struct NativeArray {
    shape: Vec<usize>,
    values: TypedVec,
}

impl NativeArray {
    /// Zeros.
    pub fn zeros(dtype: DType, shape: &[usize]) -> Self {
        let len = shape.iter().product();
        NativeArray { shape: shape.to_vec(), values: TypedVec::zeros(dtype, len) }
    }

    /// Zeros of a shape that follows from input.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them.
    pub fn try_zeros(dtype: DType, shape: &[usize]) -> Result<Self> {
        let len = crate::checked_product(shape).and_then(|len| usize::try_from(len).ok());
        let values = TypedVec::try_zeros(dtype, len.unwrap_or(usize::MAX))?;
        Ok(NativeArray { shape: shape.to_vec(), values })
    }

    /// Values that stand for "no value", of a shape that follows from input.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them; `Cancelled` if the run was cancelled meanwhile.
    pub fn try_missing(dtype: DType, shape: &[usize]) -> Result<Self> {
        let len = crate::checked_product(shape).and_then(|len| usize::try_from(len).ok());
        let values = TypedVec::try_missing(dtype, len.unwrap_or(usize::MAX))?;
        Ok(NativeArray { shape: shape.to_vec(), values })
    }

    /// The same array once more, where its shape follows from input.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it; `Cancelled` if the run was cancelled meanwhile.
    pub fn try_clone(&self) -> Result<Self> {
        Ok(NativeArray { shape: self.shape.clone(), values: self.values.try_clone()? })
    }

    /// Wraps a vector.
    ///
    /// # Errors
    /// `Bug` if the number of values is not the product of the shape.
    pub fn try_new(shape: &[usize], values: impl Into<TypedVec>) -> Result<Self> {
        let values = values.into();
        if crate::checked_product(shape) == u64::try_from(values.len()).ok() {
            Ok(NativeArray { shape: shape.to_vec(), values })
        } else {
            Err(Error::bug(format!("{} values for an array of shape {shape:?}", values.len())))
        }
    }

    /// The axes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.values.dtype()
    }

    /// The values in C order.
    pub fn values(&self) -> &TypedVec {
        &self.values
    }

    /// The values in C order, for writing.
    pub fn values_mut(&mut self) -> &mut TypedVec {
        &mut self.values
    }

    /// Takes the values out.
    pub fn into_values(self) -> TypedVec {
        self.values
    }

    /// The values as `T`.
    ///
    /// # Errors
    /// `Bug` if the array has another dtype.
    pub fn as_slice<T: Element>(&self) -> Result<&[T]> {
        self.values.as_slice().ok_or_else(|| wrong_dtype(self.values.dtype(), T::DTYPE))
    }

    /// Takes the values out as `T`.
    ///
    /// # Errors
    /// `Bug` if the array has another dtype.
    pub fn into_vec<T: Element>(self) -> Result<Vec<T>> {
        let dtype = self.values.dtype();
        self.values.into_vec().ok_or_else(|| wrong_dtype(dtype, T::DTYPE))
    }

    /// The values as `T`, for writing.
    ///
    /// # Errors
    /// `Bug` if the array has another dtype.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T]> {
        let dtype = self.values.dtype();
        self.values.as_mut_slice().ok_or_else(|| wrong_dtype(dtype, T::DTYPE))
    }
}

fn wrong_dtype(found: DType, expected: DType) -> Error {
    Error::bug(format!("an array of {found} was used as {expected}"))
}

/// An array that only the UDF that made it understands, such as a NumPy array.
pub trait Foreign: Any + Send {
    /// Its size in bytes, for the memory budget.
    fn len_bytes(&self) -> usize;

    /// Itself, for downcasting by its maker.
    fn into_any(self: Box<Self>) -> Box<dyn Any>;

    /// Itself, for downcasting by its maker.
    fn as_any(&self) -> &dyn Any;
}

/// The contents of a buffer.
pub enum Array {
    /// One of the engine's dtypes.
    Native(NativeArray),
    /// Anything else.
    Foreign(Box<dyn Foreign>),
}

impl Array {
    /// Its size in bytes.
    pub fn len_bytes(&self) -> usize {
        match self {
            Array::Native(array) => array.values().as_bytes().len(),
            Array::Foreign(array) => array.len_bytes(),
        }
    }

    /// The native array.
    ///
    /// # Errors
    /// `Bug` if it is foreign.
    pub fn try_native(self) -> Result<NativeArray> {
        match self {
            Array::Native(array) => Ok(array),
            Array::Foreign(_) => Err(Error::bug("a foreign array was used as a native one")),
        }
    }
}

impl From<NativeArray> for Array {
    fn from(array: NativeArray) -> Self {
        Array::Native(array)
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Array::Native(array) => array.fmt(f),
            Array::Foreign(array) => write!(f, "Foreign({} bytes)", array.len_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_has_as_many_values_as_its_shape_says() {
        assert!(NativeArray::try_new(&[2, 3], vec![0u8; 6]).is_ok());
        for shape in [vec![7], vec![1 << 32, 1 << 32], vec![(1 << 62) + 2, 4]] {
            for len in [0, 8] {
                assert!(NativeArray::try_new(&shape, vec![0f64; len]).is_err(), "{shape:?} {len}");
            }
        }
    }

    #[test]
    fn shapes_follow_kind_and_extra_shape() {
        let shape = Shape::try_new(&[14, 14], &[32, 16]).unwrap();
        let decl =
            |kind, extra: &[usize]| BufferDecl::new("x", kind, DType::F32).with_extra_shape(extra);
        assert_eq!(decl(BufferKind::Nav, &[3, 2]).flat_shape(&shape, 10), [10, 3, 2]);
        assert_eq!(decl(BufferKind::Sig, &[2]).flat_shape(&shape, 10), [32, 16, 2]);
        assert_eq!(decl(BufferKind::Single, &[16]).flat_shape(&shape, 10), [16]);
        assert_eq!(decl(BufferKind::Single, &[]).flat_shape(&shape, 10), [1]);
        assert_eq!(decl(BufferKind::Sig, &[2]).len_bytes(&shape, 10), 32 * 16 * 2 * 4);
    }
}
