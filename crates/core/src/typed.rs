//! A vector whose element type is known at run time.

use crate::element::for_each_element;
use crate::{Complex64, Complex128, DType, Element, F16, Result, memory};
use std::ops::Range;

macro_rules! define {
    ($(($variant:ident, $type:ty)),* $(,)?) => {
        /// A vector of one of the engine's element types.
        #[derive(Clone, Debug, PartialEq)]
        pub enum TypedVec {
            $(
                #[doc = concat!("Values of dtype [`DType::", stringify!($variant), "`].")]
                $variant(Vec<$type>),
            )*
        }

        impl TypedVec {
            /// `len` zeros of `dtype`.
            pub fn zeros(dtype: DType, len: usize) -> Self {
                match dtype {
                    $(DType::$variant => TypedVec::$variant(vec![<$type>::default(); len]),)*
                }
            }

            /// The same, where the length follows from input.
            ///
            /// # Errors
            /// `Limit` if there is no memory for them.
            pub fn try_zeros(dtype: DType, len: usize) -> Result<Self> {
                match dtype {
                    $(DType::$variant => Ok(TypedVec::$variant(memory::zeros(len)?)),)*
                }
            }

            /// The same values once more, where their number follows from input.
            ///
            /// # Errors
            /// `Limit` if there is no memory for them; `Cancelled` if the run was cancelled.
            pub fn try_clone(&self) -> Result<Self> {
                match self {
                    $(TypedVec::$variant(values) => {
                        Ok(TypedVec::$variant(memory::copied(values)?))
                    })*
                }
            }

            /// The dtype of the values.
            pub fn dtype(&self) -> DType {
                match self {
                    $(TypedVec::$variant(_) => DType::$variant,)*
                }
            }

            /// The number of values.
            pub fn len(&self) -> usize {
                match self {
                    $(TypedVec::$variant(values) => values.len(),)*
                }
            }

            /// The values as bytes in native byte order.
            pub fn as_bytes(&self) -> &[u8] {
                match self {
                    $(TypedVec::$variant(values) => bytemuck::cast_slice(values),)*
                }
            }

            /// The values as bytes in native byte order, for writing.
            pub fn as_bytes_mut(&mut self) -> &mut [u8] {
                match self {
                    $(TypedVec::$variant(values) => bytemuck::cast_slice_mut(values),)*
                }
            }
        }
    };
}
for_each_element!(define);

impl TypedVec {
    /// `len` values that stand for "no value": NaN, or zeros where the dtype has no NaN.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them; `Cancelled` if the run was cancelled.
    pub fn try_missing(dtype: DType, len: usize) -> Result<Self> {
        let (single, double) = (f32::NAN, f64::NAN);
        Ok(match dtype {
            DType::F16 => TypedVec::F16(memory::filled(F16::NAN, len)?),
            DType::F32 => TypedVec::F32(memory::filled(single, len)?),
            DType::F64 => TypedVec::F64(memory::filled(double, len)?),
            DType::C64 => TypedVec::C64(memory::filled(Complex64::new(single, single), len)?),
            DType::C128 => TypedVec::C128(memory::filled(Complex128::new(double, double), len)?),
            _ => TypedVec::try_zeros(dtype, len)?,
        })
    }

    /// Has these values stand for "no value", as those of [`TypedVec::try_missing`]. Those beyond
    /// the end do not matter.
    pub fn set_missing(&mut self, cells: Range<usize>) {
        let cells = cells.start.min(self.len())..cells.end.min(self.len());
        let (single, double) = (f32::NAN, f64::NAN);
        match self {
            TypedVec::F16(values) => values[cells].fill(F16::NAN),
            TypedVec::F32(values) => values[cells].fill(single),
            TypedVec::F64(values) => values[cells].fill(double),
            TypedVec::C64(values) => values[cells].fill(Complex64::new(single, single)),
            TypedVec::C128(values) => values[cells].fill(Complex128::new(double, double)),
            other => {
                let size = other.dtype().size();
                other.as_bytes_mut()[cells.start * size..cells.end * size].fill(0);
            }
        }
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The values, if they are of type `T`.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        T::values(self)
    }

    /// The values themselves, if they are of type `T`.
    pub fn into_vec<T: Element>(self) -> Option<Vec<T>> {
        T::take(self)
    }

    /// The values for writing, if they are of type `T`.
    pub fn as_mut_slice<T: Element>(&mut self) -> Option<&mut [T]> {
        T::values_mut(self)
    }
}

impl<T: Element> From<Vec<T>> for TypedVec {
    fn from(values: Vec<T>) -> Self {
        T::wrap(values)
    }
}
