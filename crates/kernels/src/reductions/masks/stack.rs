//! A stack of masks, laid out for the product.

use super::columns::Columns;
use super::entries::ByPixel;
use super::sparse::SparseColumns;
use framefold_core::{DType, Error, F16, NativeArray, Result, TypedVec, checked_product, memory};
use std::sync::OnceLock;

/// The masks' values. Single precision is kept where nothing is lost by it.
#[derive(Clone, Debug)]
pub(super) enum Weights {
    Single(Columns<f32>),
    Double(Columns<f64>),
    /// Only what is not zero.
    Sparse(SparseColumns),
}

/// Masks as real columns: complex ones have a second column for the imaginary part, after the
/// real columns of all masks.
#[derive(Clone, Debug)]
pub(super) struct MaskStack {
    sig_shape: Vec<usize>,
    n_masks: usize,
    dtype: DType,
    weights: Weights,
    largest_integer: f64,
    are_finite: bool,
    by_pixel: OnceLock<ByPixel>,
}

impl MaskStack {
    pub(super) fn try_new(masks: NativeArray) -> Result<Self> {
        let (n_masks, sig_shape) = match masks.shape() {
            [0, ..] => return Err(Error::invalid("the stack of masks is empty")),
            [n_masks, sig_shape @ ..] if !sig_shape.is_empty() => (*n_masks, sig_shape.to_vec()),
            shape => {
                return Err(Error::invalid(format!("masks of shape {shape:?} are not a stack"))
                    .with_hint("the first axis counts masks; add it if there is only one mask"));
            }
        };
        let dtype = masks.dtype();
        let n_columns = n_masks * if dtype.is_complex() { 2 } else { 1 };
        let values = values(masks.into_values())?;
        let are_finite = values.are_finite();
        let (weights, largest_integer) = match values {
            Values::Single(v) => {
                let largest = largest_integer(&v, n_columns);
                (Weights::Single(Columns::try_new(v, n_columns)?), largest)
            }
            Values::Double(v) => (Weights::Double(Columns::try_new(v, n_columns)?), 0.0),
        };
        Ok(MaskStack {
            sig_shape,
            n_masks,
            dtype,
            weights,
            largest_integer,
            are_finite,
            by_pixel: OnceLock::new(),
        })
    }

    /// As [`super::Masks::try_new_sparse`].
    pub(super) fn try_new_sparse(
        sig_shape: &[usize],
        starts: &[usize],
        pixels: &[usize],
        masks: NativeArray,
    ) -> Result<Self> {
        let n_masks = starts.len().saturating_sub(1);
        if n_masks == 0 || sig_shape.is_empty() {
            return Err(Error::invalid("the stack of masks is empty"));
        }
        let n_pixels = checked_product(sig_shape).and_then(|n| usize::try_from(n).ok());
        let n_pixels = n_pixels.ok_or_else(|| {
            Error::invalid(format!("masks of shape {sig_shape:?} have too many pixels"))
        })?;
        let dtype = masks.dtype();
        let values = values(masks.into_values())?;
        let are_finite = values.are_finite();
        let values = match values {
            Values::Single(v) => memory::collected(v.into_iter().map(f64::from))?,
            Values::Double(v) => v,
        };
        let columns = if dtype.is_complex() {
            // The imaginary parts follow, at the same pixels.
            let shifted = starts.iter().skip(1).map(|start| start.saturating_add(pixels.len()));
            let starts: Vec<usize> = starts.iter().copied().chain(shifted).collect();
            let mut twice = memory::with_room(pixels.len().saturating_mul(2))?;
            twice.extend_from_slice(pixels);
            twice.extend_from_slice(pixels);
            SparseColumns::try_new(&starts, &twice, values, n_pixels)?
        } else {
            SparseColumns::try_new(starts, pixels, values, n_pixels)?
        };
        let (sig_shape, weights) = (sig_shape.to_vec(), Weights::Sparse(columns));
        Ok(MaskStack {
            sig_shape,
            n_masks,
            dtype,
            weights,
            largest_integer: 0.0,
            are_finite,
            by_pixel: OnceLock::new(),
        })
    }

    pub(super) fn sig_shape(&self) -> &[usize] {
        &self.sig_shape
    }

    pub(super) fn n_masks(&self) -> usize {
        self.n_masks
    }

    pub(super) fn dtype(&self) -> DType {
        self.dtype
    }

    /// Whether results are in double precision, whatever the dtype of the data.
    pub(super) fn in_double(&self) -> bool {
        matches!(DType::promote(DType::F32, self.dtype), DType::F64 | DType::C128)
    }

    pub(super) fn weights(&self) -> &Weights {
        &self.weights
    }

    /// The same values where the entries of sparse tiles find them; made when first asked for.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them.
    pub(super) fn by_pixel(&self) -> Result<&ByPixel> {
        if let Some(made) = self.by_pixel.get() {
            return Ok(made);
        }
        let n_pixels = self.sig_shape.iter().product();
        let made = ByPixel::try_new(&self.weights, n_pixels)?;
        Ok(self.by_pixel.get_or_init(|| made))
    }

    /// Whether a pixel that is zero has no part in any product: NaN and infinity times zero are NaN.
    pub(super) fn are_finite(&self) -> bool {
        self.are_finite
    }

    /// The largest magnitude in those columns of single precision that hold nothing but integers.
    pub(super) fn largest_integer(&self) -> f64 {
        self.largest_integer
    }
}

/// Of `n_columns` columns, one after the other; 0 if each of them has other numbers, too.
fn largest_integer(values: &[f32], n_columns: usize) -> f64 {
    let of_column = |column: &[f32]| {
        column.iter().try_fold(0.0, |largest: f32, value| {
            (value.fract() == 0.0).then_some(largest.max(value.abs()))
        })
    };
    let columns = values.chunks_exact((values.len() / n_columns.max(1)).max(1));
    f64::from(columns.filter_map(of_column).fold(0.0, f32::max))
}

enum Values {
    Single(Vec<f32>),
    Double(Vec<f64>),
}

impl Values {
    fn are_finite(&self) -> bool {
        match self {
            Values::Single(values) => values.iter().all(|x| x.is_finite()),
            Values::Double(values) => values.iter().all(|x| x.is_finite()),
        }
    }
}

/// Real numbers; imaginary parts follow after all real parts.
fn values(values: TypedVec) -> Result<Values> {
    fn single<T: Copy>(values: &[T], convert: impl Fn(T) -> f32) -> Result<Values> {
        memory::collected(values.iter().map(|&value| convert(value))).map(Values::Single)
    }
    fn double<T: Copy>(values: &[T], convert: impl Fn(T) -> f64) -> Result<Values> {
        memory::collected(values.iter().map(|&value| convert(value))).map(Values::Double)
    }
    fn parts<T>(
        n: usize,
        real: impl Iterator<Item = T>,
        imaginary: impl Iterator<Item = T>,
    ) -> Result<Vec<T>> {
        let mut parts = memory::with_room(n.saturating_mul(2))?;
        parts.extend(real);
        parts.extend(imaginary);
        Ok(parts)
    }
    match values {
        TypedVec::Bool(v) => single(&v, |x| f32::from(u8::from(x.get()))),
        TypedVec::U8(v) => single(&v, f32::from),
        TypedVec::I8(v) => single(&v, f32::from),
        TypedVec::U16(v) => single(&v, f32::from),
        TypedVec::I16(v) => single(&v, f32::from),
        TypedVec::F16(v) => single(&v, F16::to_f32),
        TypedVec::F32(v) => Ok(Values::Single(v)),
        TypedVec::U32(v) => double(&v, f64::from),
        TypedVec::I32(v) => double(&v, f64::from),
        TypedVec::U64(v) => double(&v, |x| x as f64),
        TypedVec::I64(v) => double(&v, |x| x as f64),
        TypedVec::F64(v) => Ok(Values::Double(v)),
        TypedVec::C64(v) => {
            parts(v.len(), v.iter().map(|z| z.re), v.iter().map(|z| z.im)).map(Values::Single)
        }
        TypedVec::C128(v) => {
            parts(v.len(), v.iter().map(|z| z.re), v.iter().map(|z| z.im)).map(Values::Double)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::Complex64;

    #[test]
    fn masks_that_there_is_no_memory_for_are_an_error() {
        use super::super::product::Product;
        use framefold_core::{ErrorKind, memory};
        use framefold_simd::Simd;
        let refused = |error: Error| assert_eq!(error.kind(), ErrorKind::Limit);
        let masks = || NativeArray::zeros(DType::U8, &[3, 10, 10]);
        memory::within(1000, || refused(MaskStack::try_new(masks()).unwrap_err()));
        let stack = MaskStack::try_new(masks()).unwrap();
        let product = |n| memory::within(1000, || Product::try_new::<u8>(Simd::best(), &stack, n));
        assert!(product(41).is_ok());
        product(42).map(drop).map_err(refused).unwrap_err();
        memory::within(1000, || stack.by_pixel().map(drop).map_err(refused).unwrap_err());
        assert!(stack.by_pixel().is_ok());
        let values = NativeArray::zeros(DType::F64, &[1]);
        let sparse = MaskStack::try_new_sparse(&[10, 20], &[0, 1], &[7], values).unwrap();
        memory::within(1000, || sparse.by_pixel().map(drop).map_err(refused).unwrap_err());
    }

    #[test]
    fn a_stack_needs_masks_and_pixels() {
        for shape in [&[0, 3][..], &[3], &[]] {
            let masks = NativeArray::zeros(DType::F32, shape);
            assert!(MaskStack::try_new(masks).is_err(), "{shape:?}");
        }
    }

    #[test]
    fn nothing_is_lost() {
        assert!(
            matches!(values(vec![u32::MAX].into()), Ok(Values::Double(v)) if v == [4294967295.0])
        );
        let complex = vec![Complex64::new(1.5, -2.5), Complex64::new(3.0, 4.0)];
        assert!(
            matches!(values(complex.into()), Ok(Values::Single(v)) if v == [1.5, 3.0, -2.5, 4.0])
        );
    }

    #[test]
    fn integers_are_distinguished_from_other_numbers() {
        assert_eq!(largest_integer(&[0.0, -3.0, 2.0], 1), 3.0);
        for other in [0.5, f32::NAN, f32::INFINITY] {
            assert_eq!(largest_integer(&[1.0, other], 1), 0.0);
            assert_eq!(largest_integer(&[4.0, other, 2.0, -3.0, 1.0, 2.0], 3), 3.0);
        }
        assert_eq!(largest_integer(&[], 3), 0.0);
    }
}
