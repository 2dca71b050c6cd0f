//! What a viewer answers with.

use crate::AxisDescription;
use serde::Serialize;

/// One picture, or a vector field: planes of equal shape.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// What each plane is: `value`, or `y` and `x`.
    pub planes: Vec<String>,
    /// Rows and columns of each plane; only columns for lines.
    pub shape: Vec<usize>,
    /// The planes after one another; NaN where there is no data.
    pub values: Vec<f64>,
    /// How many rows and columns of the whole one of these stands for: more than 1 in previews.
    pub stride: [usize; 2],
    /// How good it is.
    pub state: State,
    /// How, in words: `preview 1/64`, `binned 8×8`, `exact`.
    pub label: String,
    /// The part of the frames that is in it, from 0 to 1.
    pub progress: f64,
    /// Its axes, where they are not those of the scan or the frame.
    pub axes: Option<Vec<AxisDescription>>,
}

/// How good a picture is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Of some frames only.
    Preview,
    /// Of binned frames.
    Binned,
    /// Of a pass that goes on: of the scan, exact where it is not NaN; of frames, those that were read so far.
    Partial,
    /// Of all frames and pixels.
    Exact,
}
