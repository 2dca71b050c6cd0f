//! A vector whose element type is known at run time.

use crate::element::for_each_element;
use crate::{DType, Element, Result, memory};

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
