//! A stack of masks, in the two precisions that the product works with.

use framefold_core::{Complex64, Complex128, DType, Error, F16, NativeArray, Result, TypedVec};

/// Real numbers, mask after mask, in C order. Single precision is kept where nothing is lost by
/// it, since the product is limited by how fast masks can be read.
#[derive(Clone, Debug)]
pub(super) enum Plane {
    Single(Vec<f32>),
    Double(Vec<f64>),
}

/// Masks as a real and, if they are complex, an imaginary plane.
#[derive(Clone, Debug)]
pub(super) struct MaskStack {
    sig_shape: Vec<usize>,
    n_masks: usize,
    dtype: DType,
    real: Plane,
    imaginary: Option<Plane>,
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
        let (real, imaginary) = planes(masks.into_values());
        Ok(MaskStack { sig_shape, n_masks, dtype, real, imaginary })
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

    pub(super) fn real(&self) -> &Plane {
        &self.real
    }

    pub(super) fn imaginary(&self) -> Option<&Plane> {
        self.imaginary.as_ref()
    }
}

fn planes(values: TypedVec) -> (Plane, Option<Plane>) {
    fn single<T: Copy>(values: &[T], convert: impl Fn(T) -> f32) -> Plane {
        Plane::Single(values.iter().map(|&value| convert(value)).collect())
    }
    fn double<T: Copy>(values: &[T], convert: impl Fn(T) -> f64) -> Plane {
        Plane::Double(values.iter().map(|&value| convert(value)).collect())
    }
    match values {
        TypedVec::Bool(v) => (single(&v, |x| f32::from(u8::from(x.get()))), None),
        TypedVec::U8(v) => (single(&v, f32::from), None),
        TypedVec::I8(v) => (single(&v, f32::from), None),
        TypedVec::U16(v) => (single(&v, f32::from), None),
        TypedVec::I16(v) => (single(&v, f32::from), None),
        TypedVec::F16(v) => (single(&v, F16::to_f32), None),
        TypedVec::F32(v) => (Plane::Single(v), None),
        TypedVec::U32(v) => (double(&v, f64::from), None),
        TypedVec::I32(v) => (double(&v, f64::from), None),
        TypedVec::U64(v) => (double(&v, |x| x as f64), None),
        TypedVec::I64(v) => (double(&v, |x| x as f64), None),
        TypedVec::F64(v) => (Plane::Double(v), None),
        TypedVec::C64(v) => {
            (single(&v, |z: Complex64| z.re), Some(single(&v, |z: Complex64| z.im)))
        }
        TypedVec::C128(v) => {
            (double(&v, |z: Complex128| z.re), Some(double(&v, |z: Complex128| z.im)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_needs_masks_and_pixels() {
        for shape in [&[0, 3][..], &[3], &[]] {
            let masks = NativeArray::zeros(DType::F32, shape);
            assert!(MaskStack::try_new(masks).is_err(), "{shape:?}");
        }
    }

    #[test]
    fn nothing_is_lost_in_the_planes() {
        let (real, imaginary) = planes(vec![u32::MAX].into());
        assert!(matches!(real, Plane::Double(v) if v == [4294967295.0]));
        assert!(imaginary.is_none());
        let (real, imaginary) = planes(vec![Complex64::new(1.5, -2.5)].into());
        assert!(matches!(real, Plane::Single(v) if v == [1.5]));
        assert!(matches!(imaginary, Some(Plane::Single(v)) if v == [-2.5]));
    }
}
