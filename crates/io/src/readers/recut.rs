//! Cutting one array into frames that are not its own.

use framefold_core::{Error, Result, checked_product};

/// One axis of an array in memory or in a file: how long, and how many bytes apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    /// The number of positions.
    pub len: usize,
    /// Bytes from one position to the next.
    pub stride: u64,
}

/// Splits the axes of an array, walked in C order, into those of the frames and those of a frame
/// of `n_cells` cells. An axis that the boundary falls into becomes two.
///
/// The array must hold at least one frame.
///
/// # Errors
/// `Unsupported` if frames would begin where no axis can be split.
pub(crate) fn recut(axes: &[Axis], n_cells: u64) -> Result<(Vec<Axis>, Vec<Axis>)> {
    let mut remaining = n_cells;
    let mut sig = Vec::new();
    let mut nav = axes.to_vec();
    while remaining > 1 {
        let Some(axis) = nav.pop() else {
            return Err(Error::bug(format!("a frame of {n_cells} cells in a smaller array")));
        };
        let len = u64::try_from(axis.len).unwrap_or(u64::MAX).max(1);
        if remaining.is_multiple_of(len) {
            remaining /= len;
            sig.push(axis);
            continue;
        }
        let outermost = nav.iter().all(|axis| axis.len == 1);
        if len < remaining || !(len.is_multiple_of(remaining) || outermost) {
            return Err(Error::unsupported(format!(
                "frames of {n_cells} cells do not fall on the axes of an array that is not in C \
                 order"
            ))
            .with_hint(
                "save the array in C order (numpy.ascontiguousarray), or leave sig_shape out",
            ));
        }
        let part = |len: u64, stride: u64| {
            Ok::<_, Error>(Axis {
                len: usize::try_from(len).map_err(|_| Error::limit("an axis is too long"))?,
                stride,
            })
        };
        let outer_stride = axis.stride.checked_mul(remaining);
        let outer_stride = outer_stride.ok_or_else(|| Error::limit("an axis is too long"))?;
        nav.push(part(len / remaining, outer_stride)?);
        sig.push(part(remaining, axis.stride)?);
        remaining = 1;
    }
    sig.reverse();
    Ok((nav, sig))
}

/// The scan shape for an array of `shape` that is cut into frames of `sig_shape`: its leading
/// axes where they match, otherwise a square, otherwise one axis.
pub(crate) fn suggested_nav_shape(shape: &[usize], sig_shape: &[usize]) -> Vec<usize> {
    let frame = checked_product(sig_shape);
    let fits = |n_nav: &usize| shape.get(*n_nav..).is_some_and(|sig| checked_product(sig) == frame);
    let natural = shape.len().saturating_sub(sig_shape.len());
    let n_nav = Some(natural).filter(&fits).or_else(|| (0..shape.len()).find(&fits));
    match n_nav {
        Some(0) => vec![1],
        Some(n_nav) => shape.iter().take(n_nav).copied().collect(),
        None => {
            let cells = checked_product(shape).unwrap_or(u64::MAX);
            let n_frames = cells.checked_div(frame.unwrap_or(u64::MAX)).unwrap_or(0);
            let n_frames = usize::try_from(n_frames).unwrap_or(usize::MAX).max(1);
            let side = n_frames.isqrt();
            if side * side == n_frames { vec![side, side] } else { vec![n_frames] }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(parts: &[(usize, u64)]) -> Vec<Axis> {
        parts.iter().map(|&(len, stride)| Axis { len, stride }).collect()
    }

    #[test]
    fn boundaries_on_and_within_axes() {
        let array = axes(&[(4, 1), (6, 4), (5, 24)]);
        assert_eq!(recut(&array, 30).unwrap(), (axes(&[(4, 1)]), axes(&[(6, 4), (5, 24)])));
        let split = (axes(&[(4, 1), (2, 12)]), axes(&[(3, 4), (5, 24)]));
        assert_eq!(recut(&array, 15).unwrap(), split);
        // Three of four: the last one is left out.
        let rest = (axes(&[(1, 3)]), axes(&[(3, 1), (6, 4), (5, 24)]));
        assert_eq!(recut(&array, 90).unwrap(), rest);
        assert_eq!(recut(&array, 1).unwrap(), (array.clone(), vec![]));
    }

    #[test]
    fn boundaries_that_fall_nowhere_are_refused() {
        let array = axes(&[(4, 1), (6, 4), (5, 24)]);
        for n_cells in [7, 20, 240] {
            assert!(recut(&array, n_cells).is_err(), "{n_cells}");
        }
    }

    #[test]
    fn scan_shapes() {
        assert_eq!(suggested_nav_shape(&[3, 4, 5, 6], &[5, 6]), [3, 4]);
        assert_eq!(suggested_nav_shape(&[3, 4, 30], &[5, 6]), [3, 4]);
        assert_eq!(suggested_nav_shape(&[5, 6], &[5, 6]), [1]);
        assert_eq!(suggested_nav_shape(&[3, 40], &[5, 6]), [2, 2]);
        assert_eq!(suggested_nav_shape(&[3, 41], &[10]), [12]);
    }
}
