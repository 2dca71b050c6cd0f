//! Frames seen another way round: axes swapped, rows or columns in reverse.

use crate::{Error, Result, SigSlice};
use std::fmt;

/// How frames are turned: the last two axes are swapped first, then reversed.
///
/// The default leaves frames as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Orientation {
    /// Whether rows become columns.
    pub transpose: bool,
    /// Whether the order of rows is reversed, after that.
    pub flip_y: bool,
    /// Whether the order of columns is reversed, after that.
    pub flip_x: bool,
}

impl Orientation {
    /// That of the options `flip` and `transpose`: which of the last two axes are reversed, `y`, `x`
    /// or both, and whether they are swapped before.
    ///
    /// # Errors
    /// `InvalidArgument` that says what was expected.
    pub fn of_options(flip: Option<&str>, transpose: bool) -> Result<Self> {
        let (flip_y, flip_x) = match flip {
            None => (false, false),
            Some("y") => (true, false),
            Some("x") => (false, true),
            Some("yx" | "xy") => (true, true),
            Some(other) => {
                return Err(Error::invalid(format!("flip='{other}' is not 'y', 'x' or 'yx'"))
                    .with_hint("name the axes of frames that run the other way round"));
            }
        };
        Ok(Orientation { transpose, flip_y, flip_x })
    }

    /// Whether frames stay as they are.
    pub fn is_none(self) -> bool {
        self == Orientation::default()
    }

    /// What this and then `next` do together.
    #[must_use]
    pub fn then(self, next: Orientation) -> Orientation {
        let (y, x) =
            if next.transpose { (self.flip_x, self.flip_y) } else { (self.flip_y, self.flip_x) };
        Orientation {
            transpose: self.transpose != next.transpose,
            flip_y: y != next.flip_y,
            flip_x: x != next.flip_x,
        }
    }

    /// The shape of turned frames, of those of shape `sig`.
    ///
    /// # Errors
    /// `InvalidArgument` if frames have too few axes to be turned so.
    pub fn shape(self, sig: &[usize]) -> Result<Vec<usize>> {
        if sig.len() < 2 && (self.transpose || self.flip_y) {
            let option = if self.transpose { "transpose=True" } else { "flip='y'" };
            return Err(Error::invalid(format!(
                "{option} needs frames of two axes at least, and these have the shape {sig:?}"
            ))
            .with_hint("frames of one axis can be turned by flip='x'"));
        }
        let mut shape = sig.to_vec();
        self.swap(&mut shape);
        Ok(shape)
    }

    /// The part of frames of shape `sig` that is seen as `slice` of turned frames.
    ///
    /// # Errors
    /// `Bug` if there is no such part.
    pub fn slice(self, slice: &SigSlice, sig: &[usize]) -> Result<SigSlice> {
        let (mut origin, mut shape) = (slice.origin().to_vec(), slice.shape().to_vec());
        let turned = self.shape(sig)?;
        for (from_last, flips) in [self.flip_x, self.flip_y].into_iter().enumerate() {
            let axis = turned.len().checked_sub(from_last + 1);
            if let (true, Some(axis)) = (flips, axis)
                && let (Some(at), Some(len), Some(all)) =
                    (origin.get_mut(axis), shape.get(axis), turned.get(axis))
            {
                let end = at.checked_add(*len).and_then(|end| all.checked_sub(end));
                *at = end.ok_or_else(|| {
                    Error::bug(format!("{slice:?} reaches beyond frames of {turned:?}"))
                })?;
            }
        }
        self.swap(&mut origin);
        self.swap(&mut shape);
        SigSlice::try_within(origin, shape, sig)
    }

    /// The cell that turned frames, of shape `turned`, show at their cell `cell`, both counted in C
    /// order.
    pub fn cell(self, cell: usize, turned: &[usize]) -> usize {
        let mut lengths = turned.iter().rev().copied();
        let (width, height) =
            (lengths.next().unwrap_or(1).max(1), lengths.next().unwrap_or(1).max(1));
        let (x, y, plane) = (cell % width, cell / width % height, cell / width / height);
        let x = if self.flip_x { width - 1 - x } else { x };
        let y = if self.flip_y { height - 1 - y } else { y };
        let within = if self.transpose { x * height + y } else { y * width + x };
        plane * width * height + within
    }

    /// Swaps what is said of the last two axes, if those are swapped.
    pub fn swap<T>(self, of_axes: &mut [T]) {
        let n = of_axes.len();
        if self.transpose && n >= 2 {
            of_axes.swap(n - 2, n - 1);
        }
    }
}

/// `transpose, flip yx`.
impl fmt::Display for Orientation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let axes = match (self.flip_y, self.flip_x) {
            (true, true) => "flip yx",
            (true, false) => "flip y",
            (false, true) => "flip x",
            (false, false) => "",
        };
        let comma = if self.transpose && !axes.is_empty() { ", " } else { "" };
        write!(f, "{}{comma}{axes}", if self.transpose { "transpose" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TilingScheme;

    fn all() -> impl Iterator<Item = Orientation> {
        (0..8).map(|i| Orientation { transpose: i & 1 > 0, flip_y: i & 2 > 0, flip_x: i & 4 > 0 })
    }

    /// The cells of frames of shape `sig`, in the order in which turned frames show them: those of
    /// rows and columns, one after the other.
    fn turned(orientation: Orientation, [h, w]: [usize; 2], cells: &[usize]) -> Vec<usize> {
        let at = |y: usize, x: usize| cells[y * w + x];
        let (rows, columns) = if orientation.transpose { (w, h) } else { (h, w) };
        let mut found = vec![];
        for y in 0..rows {
            for x in 0..columns {
                let y = if orientation.flip_y { rows - 1 - y } else { y };
                let x = if orientation.flip_x { columns - 1 - x } else { x };
                found.push(if orientation.transpose { at(x, y) } else { at(y, x) });
            }
        }
        found
    }

    #[test]
    fn one_after_the_other_is_what_both_do() {
        let cells: Vec<usize> = (0..12).collect();
        for first in all() {
            for next in all() {
                let once = turned(first, [3, 4], &cells);
                let shape: [usize; 2] = first.shape(&[3, 4]).unwrap().try_into().unwrap();
                let expected = turned(next, shape, &once);
                assert_eq!(turned(first.then(next), [3, 4], &cells), expected, "{first}; {next}");
            }
        }
    }

    #[test]
    fn each_cell_is_found() {
        let cells: Vec<usize> = (0..12).collect();
        for orientation in all() {
            let shape = [&[2][..], &orientation.shape(&[3, 4]).unwrap()].concat();
            let once = turned(orientation, [3, 4], &cells);
            let expected: Vec<usize> =
                once.iter().copied().chain(once.iter().map(|c| c + 12)).collect();
            let found: Vec<usize> = (0..24).map(|cell| orientation.cell(cell, &shape)).collect();
            assert_eq!(found, expected, "{orientation}");
        }
    }

    #[test]
    fn slices_are_of_the_same_cells() {
        let sig = [2, 3, 4];
        for orientation in all() {
            let shape = orientation.shape(&sig).unwrap();
            for tile in [[1, 2, 3], [2, 1, 2], [2, 4, 4]] {
                let scheme = TilingScheme::try_new(&shape, &tile, 1).unwrap();
                let mut seen = vec![0; 24];
                for slice in scheme.slices() {
                    let own = orientation.slice(slice, &sig).unwrap();
                    assert_eq!(own.len(), slice.len());
                    own.runs(&sig).flatten().for_each(|cell| seen[cell] += 1);
                }
                assert_eq!(seen, [1; 24], "{orientation} {tile:?}");
            }
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for flip in ["", "z", "yy", "Y"] {
            let error = Orientation::of_options(Some(flip), false).unwrap_err().to_string();
            assert!(error.contains(&format!("flip='{flip}'")), "{error}");
        }
        let of = |flip, transpose| Orientation::of_options(flip, transpose).unwrap();
        assert_eq!(of(Some("xy"), true).to_string(), "transpose, flip yx");
        assert_eq!(of(Some("x"), false).shape(&[5]).unwrap(), [5]);
        assert!(of(Some("yx"), false).shape(&[5]).unwrap_err().to_string().contains("flip='y'"));
        assert!(of(None, true).shape(&[5]).unwrap_err().to_string().contains("transpose=True"));
    }
}
