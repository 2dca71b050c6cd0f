//! A two-dimensional array of numbers to draw.

/// Rows of values; values that are not a number mean "no data".
#[derive(Clone, Debug, PartialEq)]
pub struct Plane {
    width: usize,
    values: Vec<f64>,
}

impl Plane {
    /// Cuts `values` into rows of `width`; values past the last whole row are dropped, and a
    /// width of 0 gives an empty plane.
    pub fn new(width: usize, mut values: Vec<f64>) -> Self {
        let height = values.len().checked_div(width).unwrap_or(0);
        values.truncate(width * height);
        Plane { width, values }
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of rows.
    pub fn height(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// The values, row after row.
    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_whole() {
        let plane = Plane::new(2, vec![1.0, 2.0, 3.0]);
        assert_eq!((plane.height(), plane.values()), (1, &[1.0, 2.0][..]));
        assert_eq!(Plane::new(0, vec![1.0]).height(), 0);
    }
}
