//! How far a detector is moved on each frame.

use crate::cell::Cell;
use crate::dispatch::dispatch_dtype;
use framefold_core::{Error, NativeArray, Result, Shape, memory};
use std::fmt::Display;

/// Shifts along the signal axes, in pixels: the same for all frames, or one for each position of
/// the scan. They belong to positions, whatever is selected or missing.
#[derive(Clone, Debug)]
pub struct Shifts {
    shape: Vec<usize>,
    values: Vec<f64>,
}

impl Shifts {
    /// From real numbers: one for each signal axis, in an array of shape `(n_axes,)`,
    /// `(n_positions, n_axes)` or `(*nav, n_axes)`.
    ///
    /// # Errors
    /// `InvalidArgument` if one is complex, or that for all frames not finite; `Limit` if there is no memory
    /// for them.
    pub fn try_new(array: NativeArray) -> Result<Self> {
        let shape = array.shape().to_vec();
        let values: Vec<f64> = dispatch_dtype!(
            real array.dtype(), T => {
                let numbers = array.as_slice::<T>()?.iter();
                memory::collected(numbers.map(|&number| number.value()))?
            },
            complex => return Err(Error::invalid(format!(
                "shifts are {}; expected real numbers",
                array.dtype()
            )))
        );
        let shifts = Shifts { shape, values };
        if shifts.shape.len() == 1 {
            check_finite(&shifts.values, "all frames")?;
        }
        Ok(shifts)
    }

    /// Checks that they are shifts for a data set of this shape.
    ///
    /// # Errors
    /// `InvalidArgument` that says which shapes would fit.
    pub(crate) fn check(&self, shape: &Shape) -> Result<()> {
        let n_axes = shape.sig().len();
        let each = [shape.nav(), &[n_axes]].concat();
        let flat = vec![shape.n_frames(), n_axes];
        let mut allowed = vec![vec![n_axes], each, flat];
        allowed.dedup();
        if allowed.contains(&self.shape) {
            return Ok(());
        }
        let allowed: Vec<String> = allowed.iter().map(|shape| format!("{shape:?}")).collect();
        Err(Error::invalid(format!(
            "shifts have shape {:?}; expected {}, for a scan of shape {:?} and frames of shape {:?}",
            self.shape,
            allowed.join(" or "),
            shape.nav(),
            shape.sig()
        ))
        .with_hint("give one shift for all frames, or one for each position of the scan"))
    }

    /// The shift at a flat position of the scan that they were checked for. Positions that are not
    /// processed need none: there it may be NaN.
    ///
    /// # Errors
    /// `Bug` if there is none; `InvalidArgument` if it is not finite.
    pub(crate) fn at(&self, position: usize) -> Result<&[f64]> {
        let n_axes = match *self.shape {
            [n] if n > 0 => return Ok(&self.values),
            [.., n] if n > 0 => n,
            _ => return Err(Error::bug("shifts without axes")),
        };
        let shift = position
            .checked_mul(n_axes)
            .and_then(|start| self.values.get(start..start.checked_add(n_axes)?))
            .ok_or_else(|| Error::bug(format!("no shift for position {position}")))?;
        check_finite(shift, format_args!("position {position} of the scan"))?;
        Ok(shift)
    }
}

fn check_finite(shift: &[f64], of: impl Display) -> Result<()> {
    if shift.iter().all(|number| number.is_finite()) {
        return Ok(());
    }
    let message = format!("the shift of {of} is {shift:?}; expected finite numbers");
    let hint = "fill positions without a shift, for example with those of a fit, or leave them out";
    Err(Error::invalid(message).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shifts(shape: &[usize]) -> Shifts {
        let n = shape.iter().product::<usize>();
        let values: Vec<i32> = (0..n as i32).collect();
        Shifts::try_new(NativeArray::try_new(shape, values).unwrap()).unwrap()
    }

    #[test]
    fn they_fit_a_scan_or_do_not() {
        let shape = Shape::try_new(&[3, 4], &[8, 9]).unwrap();
        for fits in [&[2][..], &[12, 2], &[3, 4, 2]] {
            shifts(fits).check(&shape).unwrap();
        }
        for other in [&[][..], &[3], &[24], &[4, 3, 2], &[12, 3], &[3, 4], &[2, 2], &[1, 12, 2]] {
            let error = shifts(other).check(&shape).unwrap_err().to_string();
            assert!(
                error.contains("[3, 4, 2]") && error.contains(&format!("{other:?}")),
                "{error}"
            );
        }
    }

    #[test]
    fn each_position_has_its_own() {
        assert_eq!(shifts(&[2]).at(7).unwrap(), [0.0, 1.0]);
        assert_eq!(shifts(&[3, 4, 2]).at(7).unwrap(), [14.0, 15.0]);
        assert_eq!(shifts(&[12, 2]).at(11).unwrap(), [22.0, 23.0]);
        assert!(shifts(&[12, 2]).at(12).is_err());
        assert!(shifts(&[12, 2]).at(usize::MAX).is_err());
        assert!(shifts(&[0]).at(0).is_err());
    }

    #[test]
    fn what_is_no_shift_is_refused() {
        for bad in [f64::NAN, f64::INFINITY] {
            let array = NativeArray::try_new(&[2], vec![0.0, bad]).unwrap();
            let error = Shifts::try_new(array).unwrap_err().to_string();
            assert!(error.contains("all frames") && error.contains("finite"), "{error}");
            let array = NativeArray::try_new(&[2, 2], vec![0.0, 1.0, 0.0, bad]).unwrap();
            let shifts = Shifts::try_new(array).unwrap();
            assert_eq!(shifts.at(0).unwrap(), [0.0, 1.0]);
            let error = shifts.at(1).unwrap_err().to_string();
            assert!(error.contains("position 1") && error.contains("finite"), "{error}");
        }
        let complex = NativeArray::zeros(framefold_core::DType::C64, &[2]);
        assert!(Shifts::try_new(complex).unwrap_err().to_string().contains("complex64"));
    }
}
