//! What is done to raw pixels before UDFs see them: dark frame, gain map, excluded pixels.

mod apply;
mod slice;
mod stage;

pub use apply::{CorrectionPlanes, correct_tile};
pub use slice::CorrectedSlice;
pub use stage::CorrectionStage;

use crate::{DType, Error, NativeArray, Orientation, Result, Shape, TypedVec};
use std::fmt;

/// Corrections for frames of one shape: `(raw - dark) * gain`, and then the repair of excluded
/// pixels.
///
/// A pixel is repaired with the mean of its good neighbours in the same frame: those among the
/// `3^d - 1` cells around it that lie inside of the frame and are not excluded themselves. The
/// neighbours enter with their corrected values. An excluded pixel without any good neighbour
/// keeps its own corrected value, if that was allowed.
#[derive(Clone, PartialEq)]
pub struct Corrections {
    sig_shape: Vec<usize>,
    dark: Option<TypedVec>,
    gain: Option<TypedVec>,
    /// Flat cells of the frame, ascending.
    excluded: Vec<usize>,
}

impl Corrections {
    /// Corrections for frames of `sig_shape`. `excluded` holds flat (C-order) cells, in any order.
    ///
    /// # Errors
    /// `InvalidArgument` if the dark frame or the gain map has another shape, or is NaN or
    /// infinite at a pixel that is not excluded; if an excluded pixel lies outside of the frame;
    /// or if one has no good neighbour and `allow_empty` is not set.
    pub fn try_new(
        sig_shape: &[usize],
        dark: Option<NativeArray>,
        gain: Option<NativeArray>,
        mut excluded: Vec<usize>,
        allow_empty: bool,
    ) -> Result<Self> {
        // Checks the axes; one position makes a shape of a frame.
        let frame_len = Shape::try_new(&[1], sig_shape)?.frame_len();
        excluded.sort_unstable();
        excluded.dedup();
        if let Some(&cell) = excluded.last().filter(|&&cell| cell >= frame_len) {
            return Err(Error::invalid(format!(
                "excluded pixel number {cell} is outside of a frame of shape {sig_shape:?} with \
                 {frame_len} pixels"
            )));
        }
        let plane = |what, array: Option<NativeArray>| {
            array.map(|array| plane(what, array, sig_shape, &excluded)).transpose()
        };
        let (dark, gain) = (plane("dark frame", dark)?, plane("gain map", gain)?);
        let corrections = Corrections { sig_shape: sig_shape.to_vec(), dark, gain, excluded };
        if !allow_empty {
            corrections.check_neighbours()?;
        }
        Ok(corrections)
    }

    /// The shape of a frame.
    pub fn sig_shape(&self) -> &[usize] {
        &self.sig_shape
    }

    /// What is subtracted, a value for each pixel.
    pub fn dark(&self) -> Option<&TypedVec> {
        self.dark.as_ref()
    }

    /// What is multiplied with, a value for each pixel.
    pub fn gain(&self) -> Option<&TypedVec> {
        self.gain.as_ref()
    }

    /// The excluded pixels as flat cells of the frame, ascending.
    pub fn excluded(&self) -> &[usize] {
        &self.excluded
    }

    /// The same corrections for frames that are turned.
    ///
    /// # Errors
    /// `InvalidArgument` if frames have too few axes for that; `Limit` if there is no memory.
    pub fn turned(&self, orientation: Orientation) -> Result<Self> {
        let sig_shape = orientation.shape(&self.sig_shape)?;
        let plane = |values: &TypedVec| {
            let size = values.dtype().size();
            let mut turned = TypedVec::try_zeros(values.dtype(), values.len())?;
            for (cell, to) in turned.as_bytes_mut().chunks_exact_mut(size).enumerate() {
                let from = orientation.cell(cell, &sig_shape) * size;
                to.copy_from_slice(&values.as_bytes()[from..from + size]);
            }
            Ok::<_, Error>(turned)
        };
        let (dark, gain) = (
            self.dark.as_ref().map(plane).transpose()?,
            self.gain.as_ref().map(plane).transpose()?,
        );
        let cells = 0..self.sig_shape.iter().product();
        let excluded = match self.excluded.len() {
            0 => Vec::new(),
            _ => cells.filter(|&c| self.is_excluded(orientation.cell(c, &sig_shape))).collect(),
        };
        Ok(Corrections { sig_shape, dark, gain, excluded })
    }

    /// Whether there is nothing to correct.
    pub fn is_empty(&self) -> bool {
        self.dark.is_none() && self.gain.is_none() && self.excluded.is_empty()
    }

    /// The dtype in which pixels of `native` come out: a float, or a complex number.
    ///
    /// # Errors
    /// `InvalidArgument` if the dark frame or the gain map is complex and the pixels are not, or is
    /// beyond the range of that dtype at a pixel that is not excluded.
    pub fn output_dtype(&self, native: DType) -> Result<DType> {
        for (what, plane) in [("dark frame", &self.dark), ("gain map", &self.gain)] {
            if let Some(plane) = plane.as_ref().filter(|plane| plane.dtype().is_complex())
                && !native.is_complex()
            {
                return Err(Error::invalid(format!(
                    "the {what} has dtype {}, but the data have dtype {native}",
                    plane.dtype()
                ))
                .with_hint(format!("pass a real {what} for real data")));
            }
        }
        let dtype = DType::promote(native, DType::F32);
        for (what, plane) in [("dark frame", &self.dark), ("gain map", &self.gain)] {
            let Some(plane) = plane else { continue };
            let narrow = matches!(dtype, DType::F32 | DType::C64);
            let bad = not_finite(plane, narrow, &self.excluded);
            if let Some(&first) = bad.first() {
                return Err(Error::invalid(format!(
                    "the {what} is too large for {dtype}, in which data of dtype {native} are \
                     corrected, at {} pixels that are not excluded; the first is {:?}",
                    bad.len(),
                    coordinates(first, &self.sig_shape)
                ))
                .with_hint("pass values that fit, or add these pixels to excluded_pixels"));
            }
        }
        Ok(dtype)
    }

    fn is_excluded(&self, cell: usize) -> bool {
        self.excluded.binary_search(&cell).is_ok()
    }

    /// The good neighbours of a cell, in C order.
    fn good_neighbours(&self, cell: usize) -> Vec<usize> {
        let mut neighbours = vec![0];
        let mut stride = self.sig_shape.iter().product::<usize>();
        let mut rest = cell;
        for &len in &self.sig_shape {
            stride /= len;
            let at = rest / stride;
            rest %= stride;
            let range = at.saturating_sub(1)..(at + 2).min(len);
            neighbours = neighbours
                .into_iter()
                .flat_map(|start| range.clone().map(move |i| start + i * stride))
                .collect();
        }
        neighbours.retain(|&neighbour| !self.is_excluded(neighbour));
        neighbours
    }

    fn check_neighbours(&self) -> Result<()> {
        let lonely = || self.excluded.iter().filter(|&&c| self.good_neighbours(c).is_empty());
        match lonely().next() {
            None => Ok(()),
            Some(&first) => Err(Error::invalid(format!(
                "{} of {} excluded pixels cannot be repaired, because all of their neighbours \
                 are excluded, too; the first is {:?}",
                lonely().count(),
                self.excluded.len(),
                coordinates(first, &self.sig_shape)
            ))
            .with_hint("exclude fewer pixels, or set allow_empty to leave these as they are")),
        }
    }
}

/// Checks the shape and the values of a dark frame or gain map.
fn plane(
    what: &str,
    array: NativeArray,
    sig_shape: &[usize],
    excluded: &[usize],
) -> Result<TypedVec> {
    if array.shape() != sig_shape {
        return Err(Error::invalid(format!(
            "the {what} has shape {:?}, but frames have shape {sig_shape:?}",
            array.shape()
        ))
        .with_hint(format!("pass a {what} with one value per pixel")));
    }
    let values = array.into_values();
    let bad = not_finite(&values, false, excluded);
    match bad.first() {
        None => Ok(values),
        Some(&first) => Err(Error::invalid(format!(
            "the {what} is NaN or infinite at {} pixels that are not excluded; the first is {:?}",
            bad.len(),
            coordinates(first, sig_shape)
        ))
        .with_hint("add these pixels to excluded_pixels")),
    }
}

/// The cells that are not excluded and hold NaN or an infinity, ascending; if `narrow`, also those that
/// single precision makes infinite.
fn not_finite(values: &TypedVec, narrow: bool, excluded: &[usize]) -> Vec<usize> {
    fn find<T: Copy>(values: &[T], finite: impl Fn(T) -> bool) -> Vec<usize> {
        values.iter().enumerate().filter(|&(_, &v)| !finite(v)).map(|(i, _)| i).collect()
    }
    let wide = |v: f64| if narrow { (v as f32).is_finite() } else { v.is_finite() };
    let mut cells = match values {
        TypedVec::F16(v) => find(v, crate::F16::is_finite),
        TypedVec::F32(v) => find(v, f32::is_finite),
        TypedVec::F64(v) => find(v, wide),
        TypedVec::C64(v) => find(v, |z| z.re.is_finite() && z.im.is_finite()),
        TypedVec::C128(v) => find(v, |z| wide(z.re) && wide(z.im)),
        _ => Vec::new(),
    };
    cells.retain(|cell| excluded.binary_search(cell).is_err());
    cells
}

/// The C-order coordinates of a cell.
fn coordinates(mut cell: usize, sig_shape: &[usize]) -> Vec<usize> {
    let mut coordinates = vec![0; sig_shape.len()];
    for (coordinate, &len) in coordinates.iter_mut().zip(sig_shape).rev() {
        *coordinate = cell % len;
        cell /= len;
    }
    coordinates
}

impl fmt::Display for Corrections {
    /// Writes `dark frame, gain map, 3 excluded pixels`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        if self.dark.is_some() {
            parts.push("dark frame".to_owned());
        }
        if self.gain.is_some() {
            parts.push("gain map".to_owned());
        }
        match self.excluded.len() {
            0 => {}
            1 => parts.push("1 excluded pixel".to_owned()),
            n => parts.push(format!("{n} excluded pixels")),
        }
        if parts.is_empty() { f.write_str("none") } else { f.write_str(&parts.join(", ")) }
    }
}

impl fmt::Debug for Corrections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Corrections[{self} for {:?}]", self.sig_shape)
    }
}

#[cfg(test)]
mod tests;
