//! What a viewer finds out by itself.

use serde::Serialize;

/// The bright disk of the mean pattern, in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DiskGuess {
    /// Row of the centre.
    pub cy: f64,
    /// Column of the centre.
    pub cx: f64,
    /// Radius.
    pub r: f64,
}

/// How vectors are taken to the axes of the scan.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ComGuess {
    /// In degrees, above −180 and up to 180, clockwise on the screen.
    pub rotation: f64,
    /// Whether y is turned round before that.
    pub flip_y: bool,
    /// Row of the mean centre of mass.
    pub cy: f64,
    /// Its column.
    pub cx: f64,
}
