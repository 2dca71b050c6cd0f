//! Weights for the pixels of a grid, a frame or a scan, from shapes that a client drew.

mod lattice;
mod outline;
mod polygon;

use crate::{Shape, Sign, Signed};
use framefold::core::memory;
use framefold::{Error, Result};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;
use std::sync::Arc;

/// A detector is made of no more shapes.
const MOST_SHAPES: usize = 64;
/// All polygons of a detector together have no more corners: each row may meet all of their edges.
const MOST_CORNERS: usize = 10_000;
/// No coordinate is further away.
const FARTHEST: f64 = 1e9;

/// Weights that were sent as an array.
#[derive(Debug)]
pub(crate) struct ArrayMask {
    /// As it was given: one or two axes.
    pub(crate) shape: Vec<usize>,
    /// Finite.
    pub(crate) weights: Vec<f32>,
}

impl ArrayMask {
    /// A digest of shape and weights: a whole number that double precision holds, as clients do.
    pub(crate) fn number(&self) -> u64 {
        let mut digest = DefaultHasher::new();
        self.shape.iter().for_each(|&len| digest.write_u64(len as u64));
        self.weights.iter().for_each(|weight| digest.write_u32(weight.to_bits()));
        digest.finish() >> 11
    }
}

/// All such arrays, by number.
pub(crate) type ArrayMasks = HashMap<u64, Arc<ArrayMask>>;

/// What shapes are drawn on. One axis is one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Canvas {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// What its cells are, for messages.
    pub(crate) what: Cells,
}

/// What the cells of a canvas are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cells {
    /// Pixels of frames of so many axes.
    Pixels(usize),
    /// Positions of scans of so many axes.
    Positions(usize),
}

impl Canvas {
    pub(crate) fn len(&self) -> usize {
        self.rows.saturating_mul(self.columns)
    }

    /// Its shape, as users know it.
    pub(crate) fn shape(&self) -> Vec<usize> {
        match self.what {
            Cells::Pixels(1) | Cells::Positions(1) => vec![self.columns],
            _ => vec![self.rows, self.columns],
        }
    }

    fn nothing_on_it(&self) -> Error {
        let shape = self.shape();
        match self.what {
            Cells::Pixels(_) => Error::invalid(format!(
                "the detector has no pixel in frames of shape {shape:?}, or its parts cancel out"
            )),
            Cells::Positions(_) => {
                Error::invalid(format!("the region has no position in a scan of shape {shape:?}"))
            }
        }
        .with_hint("move it, or make it larger")
    }
}

/// One weight for each cell.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Weights {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) values: Vec<f32>,
}

/// The weights of shapes, added up with their signs; no shape at all is weight 1 everywhere.
///
/// # Errors
/// `InvalidArgument` that names what does not fit: a number, the shape of an array, nothing within the
/// canvas; `Limit` for more than can be drawn at once.
pub(crate) fn paint(shapes: &[Signed], canvas: Canvas, arrays: &ArrayMasks) -> Result<Weights> {
    let Canvas { rows, columns, .. } = canvas;
    if shapes.is_empty() {
        return Ok(Weights { rows, columns, values: memory::filled(1.0, canvas.len())? });
    }
    if shapes.len() > MOST_SHAPES {
        return Err(Error::limit(format!(
            "a detector of {} shapes was asked for, and there can be {MOST_SHAPES} at most",
            shapes.len()
        ))
        .with_hint("draw fewer shapes, or send the weights as an array"));
    }
    let corners = shapes.iter().map(|signed| match &signed.shape {
        Shape::Polygon { points } => points.len(),
        _ => 0,
    });
    let n_corners: usize = corners.sum();
    if n_corners > MOST_CORNERS {
        return Err(Error::limit(format!(
            "polygons of {n_corners} corners were asked for, and there can be {MOST_CORNERS} at most"
        ))
        .with_hint("leave out corners, or send the weights as an array"));
    }
    let mut values: Vec<f32> = memory::zeros(canvas.len())?;
    for Signed { shape, sign } in shapes {
        let sign = match sign {
            Sign::Plus => 1.0,
            Sign::Minus => -1.0,
        };
        if let Shape::Array { id } = shape {
            let array = array(*id, canvas, arrays)?;
            values.iter_mut().zip(&array.weights).for_each(|(value, w)| *value += sign * w);
            continue;
        }
        let outline = outline::of(shape, canvas)?;
        let lines = values.chunks_exact_mut(columns.max(1)).enumerate();
        let mut spans = Vec::new();
        for (row, line) in lines.take(outline.rows.end).skip(outline.rows.start) {
            spans.clear();
            outline.spans(row, columns, &mut spans);
            for span in &spans {
                line[span.clone()].iter_mut().for_each(|value| *value += sign);
            }
        }
    }
    if values.iter().all(|&value| value == 0.0) {
        return Err(canvas.nothing_on_it());
    }
    Ok(Weights { rows, columns, values })
}

/// The array of this number, if it has the shape of the canvas.
fn array(id: u64, canvas: Canvas, arrays: &ArrayMasks) -> Result<&ArrayMask> {
    let array = arrays.get(&id).ok_or_else(|| {
        Error::invalid(format!("there is no mask with the number {id}"))
            .with_hint("send the array again")
    })?;
    let shape = canvas.shape();
    let of = match canvas.what {
        Cells::Pixels(_) => "frames",
        Cells::Positions(_) => "the scan",
    };
    if array.shape != shape {
        return Err(Error::invalid(format!(
            "the mask has shape {:?}, but {of} have shape {shape:?}",
            array.shape
        ))
        .with_hint("send an array with one weight for each of them"));
    }
    Ok(array)
}

/// An error that names the number unless it is one that can be drawn with.
fn check(shape: &str, numbers: &[(&str, f64)]) -> Result<()> {
    for &(name, value) in numbers {
        if !value.is_finite() || value.abs() > FARTHEST {
            return Err(Error::invalid(format!(
                "{name} of a {shape} is {value}, expected a number of at most {FARTHEST:e}"
            )));
        }
    }
    Ok(())
}

/// An error if one of these cannot be a radius.
fn check_radii(shape: &str, radii: &[(&str, f64)]) -> Result<()> {
    check(shape, radii)?;
    match radii.iter().find(|(_, r)| *r < 0.0) {
        None => Ok(()),
        Some((name, r)) => Err(Error::invalid(format!("{name} of a {shape} is {r}"))
            .with_hint("radii are in pixels, 0 or more")),
    }
}

/// The numbers from `low` to `high`, both within, that are below `end`.
fn whole_between(low: f64, high: f64, end: usize) -> Range<usize> {
    let first = low.ceil().max(0.0);
    let last = high.floor();
    if last < first {
        return 0..0;
    }
    // Both are at least 0, and far below 2^53.
    (first as usize).min(end)..(last as usize).saturating_add(1).min(end)
}

#[cfg(test)]
mod tests;
