//! The shape of a data set: navigation axes first, then signal axes.

use crate::{Error, Result};
use std::fmt;

/// Navigation and signal axes of a data set, in C order, navigation first.
///
/// Every axis is at least 1 long, there is at least one axis of each kind, and the number of
/// cells fits in `u64`, so that products of axes never overflow.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    dims: Vec<usize>,
    nav_dims: usize,
}

/// The product of `dims`, or `None` where it leaves `u64`.
pub fn checked_product(dims: &[usize]) -> Option<u64> {
    dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(u64::try_from(dim).ok()?))
}

impl Shape {
    /// A shape from its navigation and its signal axes.
    ///
    /// # Errors
    /// `InvalidArgument` if either part is empty, an axis is 0, or the number of cells does not
    /// fit in 64 bits (or the number of frames or of pixels not in a `usize`).
    pub fn try_new(nav: &[usize], sig: &[usize]) -> Result<Self> {
        for (part, dims) in [("navigation", nav), ("signal", sig)] {
            if dims.is_empty() {
                return Err(Error::invalid(format!("the {part} shape has no axes"))
                    .with_hint("give at least one axis, for example (1,)"));
            }
            if dims.contains(&0) {
                return Err(Error::invalid(format!(
                    "the {part} shape {} has an axis of length 0",
                    Tuple(dims)
                )));
            }
        }
        let dims: Vec<usize> = nav.iter().chain(sig).copied().collect();
        let fits = |dims| checked_product(dims).is_some_and(|n| isize::try_from(n).is_ok());
        if checked_product(&dims).is_none() || !fits(nav) || !fits(sig) {
            return Err(Error::invalid(format!("the shape {} has too many cells", Tuple(&dims))));
        }
        Ok(Shape { dims, nav_dims: nav.len() })
    }

    /// The navigation (scan) axes.
    pub fn nav(&self) -> &[usize] {
        &self.dims[..self.nav_dims]
    }

    /// The signal (detector) axes.
    pub fn sig(&self) -> &[usize] {
        &self.dims[self.nav_dims..]
    }

    /// All axes, navigation first.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The number of navigation positions.
    pub fn n_frames(&self) -> usize {
        self.nav().iter().product()
    }

    /// The number of cells of one frame.
    pub fn frame_len(&self) -> usize {
        self.sig().iter().product()
    }

    /// The C-order coordinates of flat navigation position `position`.
    pub fn nav_coordinates(&self, position: usize) -> Vec<usize> {
        unravel(position, self.nav())
    }
}

/// The C-order coordinates of `flat` in `dims`.
fn unravel(mut flat: usize, dims: &[usize]) -> Vec<usize> {
    let mut coordinates = vec![0; dims.len()];
    for (coordinate, &dim) in coordinates.iter_mut().zip(dims).rev() {
        *coordinate = flat % dim;
        flat /= dim;
    }
    coordinates
}

/// Writes dims as Python writes a tuple.
struct Tuple<'a>(&'a [usize]);

impl fmt::Display for Tuple<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        let comma = if dims.len() == 1 { "," } else { "" };
        write!(f, "({}{comma})", dims.join(", "))
    }
}

impl fmt::Display for Shape {
    /// Writes `(scan, axes) + (detector, axes)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} + {}", Tuple(self.nav()), Tuple(self.sig()))
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shape[{self}]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_and_products() {
        let shape = Shape::try_new(&[3, 4], &[5, 6, 2]).unwrap();
        assert_eq!(shape.nav(), [3, 4]);
        assert_eq!(shape.sig(), [5, 6, 2]);
        assert_eq!((shape.n_frames(), shape.frame_len()), (12, 60));
        assert_eq!(shape.nav_coordinates(7), [1, 3]);
        assert_eq!(shape.to_string(), "(3, 4) + (5, 6, 2)");
    }

    #[test]
    fn bad_shapes_are_refused() {
        assert!(Shape::try_new(&[], &[3]).is_err());
        assert!(Shape::try_new(&[3], &[]).is_err());
        assert!(Shape::try_new(&[3, 0], &[3]).is_err());
        assert!(Shape::try_new(&[usize::MAX, 2], &[3]).is_err());
        assert!(Shape::try_new(&[1 << 40], &[1 << 40]).is_err());
    }
}
