//! Vectors from moments, and what follows from them.
//!
//! Conventions are those of `CoMUDF`: (y, x), y down; turned round first, then by an angle that is
//! positive clockwise on the screen; derivatives by central differences, one-sided at the borders. Only
//! here, what is longer along y counts as such: [`Aspects`].

use super::raw::Raw;
use crate::{AxisDescription, Centre, ComPart};

/// A vector at each position, NaN where there is none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) y: Vec<f64>,
    pub(crate) x: Vec<f64>,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// How far neighbours are apart, along rows and columns, in steps of the scan along x.
    pub(crate) steps: [f64; 2],
}

/// How long a step of the scan, and a pixel of the frame, is along y: in those along x where both axes have the
/// same unit, else 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Aspects {
    pub(crate) scan: f64,
    pub(crate) frame: f64,
}

impl Default for Aspects {
    fn default() -> Self {
        Aspects { scan: 1.0, frame: 1.0 }
    }
}

impl Aspects {
    pub(crate) fn of(nav: &[AxisDescription], sig: &[AxisDescription]) -> Self {
        let aspect = |axes: &[AxisDescription]| match axes {
            [.., y, x] if y.unit == x.unit && !y.unit.is_empty() => {
                Some((y.scale / x.scale).abs()).filter(|aspect| aspect.is_normal()).unwrap_or(1.0)
            }
            _ => 1.0,
        };
        Aspects { scan: aspect(nav), frame: aspect(sig) }
    }
}

/// How vectors are taken to the axes of the scan.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) centre: Centre,
    pub(crate) rotation: f64,
    pub(crate) flip_y: bool,
}

impl Field {
    /// The centres of mass themselves, in rows and columns; `default` where a frame has no intensity.
    pub(crate) fn centres(raw: &Raw, default: [f64; 2], aspects: Aspects) -> Field {
        let entries = || raw.values.chunks_exact(raw.width);
        let centre = |axis: usize| {
            entries()
                .map(
                    |entry| {
                        if entry[0] == 0.0 { default[axis] } else { entry[axis + 1] / entry[0] }
                    },
                )
                .collect()
        };
        Field {
            y: centre(0),
            x: centre(1),
            rows: raw.rows,
            columns: raw.columns,
            steps: [raw.stride.rows as f64 * aspects.scan, raw.stride.columns as f64],
        }
    }

    /// The shifts from the centre, turned. As there, frames without intensity have their centre of
    /// mass at the centre, or, of the mean of all, in the middle of the frame.
    pub(crate) fn shifts(raw: &Raw, sig: [usize; 2], turn: Turn, aspects: Aspects) -> Field {
        let middle = sig.map(|len| (len / 2) as f64);
        let [cy, cx] = match turn.centre {
            Centre::At(centre) => centre,
            Centre::Mean => middle,
        };
        let mut field = Field::centres(raw, [cy, cx], aspects);
        field.y.iter_mut().for_each(|y| *y = (*y - cy) * aspects.frame);
        field.x.iter_mut().for_each(|x| *x -= cx);
        field.turn(turn.rotation, turn.flip_y);
        if matches!(turn.centre, Centre::Mean) {
            for component in [&mut field.y, &mut field.x] {
                let mean = mean(component);
                component.iter_mut().for_each(|value| *value -= mean);
            }
        }
        field
    }

    /// Turns y round, and then all vectors, clockwise on the screen.
    pub(crate) fn turn(&mut self, rotation: f64, flip_y: bool) {
        let (sin, cos) = rotation.to_radians().sin_cos();
        for (y, x) in self.y.iter_mut().zip(&mut self.x) {
            let up = if flip_y { -*y } else { *y };
            if rotation != 0.0 {
                (*y, *x) = (up * cos + *x * sin, *x * cos - up * sin);
            } else {
                *y = up;
            }
        }
    }

    /// The planes of a picture, with their names.
    pub(crate) fn part(self, part: ComPart) -> Vec<(&'static str, Vec<f64>)> {
        let one = |values| vec![("value", values)];
        match part {
            ComPart::Vector => vec![("y", self.y), ("x", self.x)],
            ComPart::Magnitude => {
                one(self.y.iter().zip(&self.x).map(|(y, x)| y.hypot(*x)).collect())
            }
            ComPart::Y => one(self.y),
            ComPart::X => one(self.x),
            ComPart::Divergence => one(self.divergence()),
            ComPart::Curl => one(self.curl()),
        }
    }

    /// ∂y/∂y + ∂x/∂x for a step of the scan along x.
    pub(crate) fn divergence(&self) -> Vec<f64> {
        let (along_y, along_x) = (self.along_rows(&self.y), self.along_columns(&self.x));
        self.known(along_y.zip(along_x).map(|(y, x)| y + x))
    }

    /// ∂y/∂x − ∂x/∂y for a step of the scan along x.
    pub(crate) fn curl(&self) -> Vec<f64> {
        let (along_x, along_y) = (self.along_columns(&self.y), self.along_rows(&self.x));
        self.known(along_x.zip(along_y).map(|(y, x)| y - x))
    }

    /// A position without a vector has no derivatives, though its neighbours would give some.
    fn known(&self, values: impl Iterator<Item = f64>) -> Vec<f64> {
        let known = self.y.iter().zip(&self.x).map(|(y, x)| y.is_finite() && x.is_finite());
        values.zip(known).map(|(value, known)| if known { value } else { f64::NAN }).collect()
    }

    /// The derivative from row to row.
    fn along_rows<'a>(&self, values: &'a [f64]) -> impl Iterator<Item = f64> + use<'a> {
        let (rows, columns, step) = (self.rows, self.columns, self.steps[0]);
        (0..values.len())
            .map(move |i| slope(i / columns, rows, step, |row| values[row * columns + i % columns]))
    }

    /// The derivative from column to column.
    fn along_columns<'a>(&self, values: &'a [f64]) -> impl Iterator<Item = f64> + use<'a> {
        let (columns, step) = (self.columns, self.steps[1]);
        (0..values.len()).map(move |i| {
            slope(i % columns, columns, step, |column| values[i - i % columns + column])
        })
    }
}

/// The derivative at `at` of `len` values; NaN if there is only one.
fn slope(at: usize, len: usize, step: f64, value: impl Fn(usize) -> f64) -> f64 {
    let (before, after) = (at.saturating_sub(1), (at + 1).min(len.saturating_sub(1)));
    match after - before {
        0 => f64::NAN,
        apart => (value(after) - value(before)) / (apart as f64 * step),
    }
}

/// The mean of the finite ones; 0 if there are none.
pub(crate) fn mean(values: &[f64]) -> f64 {
    let finite = || values.iter().filter(|value| value.is_finite());
    match finite().count() {
        0 => 0.0,
        n => finite().sum::<f64>() / n as f64,
    }
}
