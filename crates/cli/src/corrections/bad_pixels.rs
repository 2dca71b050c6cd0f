//! Which pixels are bad: from a file, or written down.

use crate::blocks::{self, Part, Words};
use crate::npy_input::read_npy;
use crate::numbers::{Number, ToNumber, with_values};
use framefold::core::{NativeArray, memory};
use framefold::{Error, Result};
use std::path::{Path, PathBuf};

/// How bad pixels are given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BadPixels {
    /// As an array of the shape of a frame, of which elements other than 0 are bad.
    Mask(PathBuf),
    /// As coordinates, of shape `(n, d)`.
    Rows(PathBuf),
    /// As coordinates, of shape `(d, n)`.
    Columns(PathBuf),
    /// In words.
    Blocks(Vec<Vec<Part>>),
}

const WORDS: Words = Words {
    what: "the bad pixels",
    array: "a frame",
    hint: "write pixels such as 10,40;20,7, slices such as :,511 for a column, or name an .npy file",
};

impl BadPixels {
    /// The bad pixels that `text` means in frames of shape `sig`, and their flat numbers, ascending.
    ///
    /// `text` is the name of an `.npy` file, or [`blocks`].
    ///
    /// # Errors
    /// `InvalidArgument` if it does not fit the frames; those of reading the file.
    pub(crate) fn parse(text: &str, sig: &[usize]) -> Result<(Self, Vec<usize>)> {
        if blocks::is_file(text) {
            let path = Path::new(text);
            let found = read_npy(path).and_then(|array| of_array(path, &array, sig));
            return found.map_err(|error| error.with_path(path));
        }
        let blocks = blocks::parse(text, sig, &WORDS)?;
        let cells = numbers_of(&blocks::mask(&blocks, sig)?);
        Ok((BadPixels::Blocks(blocks), cells))
    }
}

fn of_array(path: &Path, array: &NativeArray, sig: &[usize]) -> Result<(BadPixels, Vec<usize>)> {
    let path = path.to_owned();
    let (shape, n_axes) = (array.shape(), sig.len());
    let numbers: Vec<Number> =
        with_values!(array.values(), v => memory::collected(v.iter().map(|v| v.number())))?;
    if shape == sig || matches!(*sig, [len] if shape == [1, len]) {
        let mask: Vec<bool> = numbers.into_iter().map(is_set).collect();
        return Ok((BadPixels::Mask(path), numbers_of(&mask)));
    }
    let [n, width] = match *shape {
        [n, width] if array.dtype().is_integer() => [n, width],
        _ => [0, 0],
    };
    let by_rows = || cells(numbers.chunks_exact(n_axes).map(<[Number]>::to_vec), sig);
    let by_columns = || {
        let column = |i: usize| numbers.iter().skip(i).step_by(width).copied().collect();
        cells((0..width).map(column), sig)
    };
    match (width == n_axes, n == n_axes) {
        // The same pixels either way are no question.
        (true, true) if by_rows().ok() != by_columns().ok() => Err(Error::invalid(format!(
            "the coordinates of bad pixels, of shape {shape:?}, may stand in rows or in columns"
        ))
        .with_hint("write an array of the shape of a frame, or the pixels as in 10,40;20,7")),
        (true, _) => Ok((BadPixels::Rows(path), by_rows()?)),
        (_, true) => Ok((BadPixels::Columns(path), by_columns()?)),
        _ => Err(Error::invalid(format!(
            "the bad pixels have shape {shape:?} and dtype {}, but frames have shape {sig:?}",
            array.dtype()
        ))
        .with_hint(format!(
            "write an array of the shape of a frame whose elements are not 0 at bad pixels, or integers \
             of shape (n, {n_axes}) with the coordinates of a pixel in each row"
        ))),
    }
}

/// The flat numbers of pixels, ascending.
fn cells(pixels: impl Iterator<Item = Vec<Number>>, sig: &[usize]) -> Result<Vec<usize>> {
    let mut cells = Vec::new();
    for pixel in pixels {
        let mut cell = Some(0usize);
        for (index, &len) in pixel.iter().zip(sig) {
            let index = match *index {
                Number::Int(index) => usize::try_from(index).ok().filter(|&index| index < len),
                _ => None,
            };
            cell = cell.zip(index).map(|(cell, index)| cell * len + index);
        }
        let cell = cell.ok_or_else(|| {
            let shown: Vec<String> = pixel.iter().map(Number::to_string).collect();
            let shown = shown.join(", ");
            Error::invalid(format!("the bad pixel ({shown}) is outside of frames of shape {sig:?}"))
                .with_hint("coordinates are whole numbers from 0 on, slowest axis first")
        })?;
        memory::push(&mut cells, cell)?;
    }
    cells.sort_unstable();
    cells.dedup();
    Ok(cells)
}

fn is_set(number: Number) -> bool {
    match number {
        Number::Bool(value) => value,
        Number::Int(value) => value != 0,
        Number::Real(value) => value != 0.0,
        Number::Complex(re, im) => re != 0.0 || im != 0.0,
    }
}

/// The flat numbers of what is set.
fn numbers_of(mask: &[bool]) -> Vec<usize> {
    mask.iter().enumerate().filter(|(_, set)| **set).map(|(cell, _)| cell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an array of `values` says of frames of shape `sig`, in which form.
    fn read<T: framefold::core::Element>(
        shape: &[usize],
        values: Vec<T>,
        sig: &[usize],
    ) -> Result<(&'static str, Vec<usize>)>
    where
        Vec<T>: Into<framefold::core::TypedVec>,
    {
        let array = NativeArray::try_new(shape, values).unwrap();
        let (form, cells) = of_array(Path::new("bad.npy"), &array, sig)?;
        let form = match form {
            BadPixels::Mask(_) => "mask",
            BadPixels::Rows(_) => "rows",
            BadPixels::Columns(_) => "columns",
            BadPixels::Blocks(_) => "blocks",
        };
        Ok((form, cells))
    }

    #[test]
    fn masks_and_coordinates_of_either_order() {
        let mask = vec![0.0, f64::NAN, 0.0, 0.0, -0.0, 2.0];
        assert_eq!(read(&[2, 3], mask, &[2, 3]).unwrap(), ("mask", vec![1, 5]));
        // All y, then all x; and a pixel in each row.
        let columns = vec![1i64, 0, 1, 2, 1, 2];
        assert_eq!(read(&[2, 3], columns, &[4, 5]).unwrap(), ("columns", vec![1, 7]));
        assert_eq!(read(&[3, 2], vec![1u8, 2, 0, 1, 1, 2], &[4, 5]).unwrap(), ("rows", vec![1, 7]));
        // What has the shape of a frame is a mask.
        assert_eq!(read(&[2, 2], vec![1u8, 0, 0, 1], &[2, 2]).unwrap(), ("mask", vec![0, 3]));
        // Frames of one axis, and a file of one, which is read with two.
        assert_eq!(read(&[1, 3], vec![0u8, 1, 0], &[3]).unwrap(), ("mask", vec![1]));
        assert_eq!(read(&[1, 2], vec![4u8, 2], &[5]).unwrap(), ("columns", vec![2, 4]));
        assert_eq!(read(&[2, 1], vec![4u8, 2], &[5]).unwrap(), ("rows", vec![2, 4]));
        let none: Vec<u8> = Vec::new();
        assert_eq!(read(&[0, 2], none, &[4, 5]).unwrap(), ("rows", vec![]));
    }

    #[test]
    fn what_may_mean_two_things_is_refused() {
        let error = read(&[2, 2], vec![0u8, 1, 2, 3], &[4, 5]).unwrap_err();
        assert!(error.to_string().contains("rows or in columns"), "{error}");
        assert_eq!(read(&[2, 2], vec![0u8, 1, 1, 3], &[4, 5]).unwrap(), ("rows", vec![1, 8]));
    }

    #[test]
    fn what_does_not_fit_is_refused_with_words() {
        let float = read(&[3, 2], vec![1.0f32; 6], &[4, 5]).unwrap_err().to_string();
        assert!(float.contains("[3, 2]") && float.contains("float32"), "{float}");
        let deep = read(&[1, 2, 2], vec![1i32; 4], &[4, 5]).unwrap_err().to_string();
        assert!(deep.contains("[1, 2, 2]") && deep.contains("[4, 5]"), "{deep}");
        let bits = read(&[5, 4], vec![framefold::core::Bool8(1); 20], &[4, 5]).unwrap_err();
        assert!(bits.to_string().contains("bool"), "{bits}");
        for outside in [[4i64, 0, 0, 0, 0, 0], [0, 5, 0, 0, 0, 0], [0, -1, 0, 0, 0, 0]] {
            let error = read(&[3, 2], outside.to_vec(), &[4, 5]).unwrap_err().to_string();
            assert!(error.contains(&format!("({}, {})", outside[0], outside[1])), "{error}");
        }
    }

    #[test]
    fn blocks_are_pixels_rows_and_columns() {
        let cells = |text| BadPixels::parse(text, &[3, 4]).unwrap().1;
        assert_eq!(cells("1,2;0,0"), [0, 6]);
        assert_eq!(cells(":,3;-1,0"), [3, 7, 8, 11]);
        let error = BadPixels::parse("1,4", &[3, 4]).unwrap_err().to_string();
        assert!(error.contains("axis 1 of a frame goes from 0 to 4"), "{error}");
        let error = BadPixels::parse("bad.tif", &[3, 4]).unwrap_err().to_string();
        assert!(error.contains(".npy file"), "{error}");
    }
}
