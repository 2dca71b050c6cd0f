//! Shapes on frames and on scans, as clients draw them.

use serde::{Deserialize, Serialize};

/// A shape with the sign that it counts with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Signed {
    /// What it is.
    pub shape: Shape,
    /// Whether it adds or takes away.
    #[serde(default)]
    pub sign: Sign,
}

/// Whether a shape adds its pixels to a detector or takes them away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sign {
    /// Weight 1.
    #[default]
    Plus,
    /// Weight −1.
    Minus,
}

/// A set of pixels: those whose middles lie in it. Points are (y, x), angles in degrees clockwise from +x on
/// the screen. Frames and scans of one axis are one row.
///
/// Disks and rings are those of `framefold.masks.circular` and `ring`, to the pixel, rectangles those of
/// `rectangular` (but that a single row or column is one). No number may be above 10⁹; there are at most 64 shapes,
/// 10 000 corners of polygons, and lattices of order 32.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Shape {
    /// The pixel nearest to a point.
    Point {
        /// Row.
        y: f64,
        /// Column.
        x: f64,
    },
    /// All at most `r` from the centre.
    Disk {
        /// Row of the centre.
        cy: f64,
        /// Column of the centre.
        cx: f64,
        /// Radius.
        r: f64,
    },
    /// All at most `ro`, and more than `ri`, from the centre.
    Ring {
        /// Row of the centre.
        cy: f64,
        /// Column of the centre.
        cx: f64,
        /// Inner radius.
        ri: f64,
        /// Outer radius.
        ro: f64,
    },
    /// The part of a ring from the angle `from`, clockwise, up to before `to`: angles `a` for which
    /// `(a − from) mod 360` is below `(to − from) mod 360`; all if `to − from` is 360 or more.
    Wedge {
        /// Row of the centre.
        cy: f64,
        /// Column of the centre.
        cx: f64,
        /// Inner radius.
        ri: f64,
        /// Outer radius.
        ro: f64,
        /// Where it begins.
        from: f64,
        /// Where it ends.
        to: f64,
    },
    /// From one corner to the other, both within, in any order. Corners are truncated to integers.
    Rectangle {
        /// First row.
        y0: f64,
        /// First column.
        x0: f64,
        /// Last row.
        y1: f64,
        /// Last column.
        x1: f64,
    },
    /// By the even-odd rule.
    Polygon {
        /// Its corners.
        points: Vec<[f64; 2]>,
    },
    /// Disks of radius `r` at all `centre + i a + j b` with |i|, |j| ≤ `order`; a pixel in two of them counts once.
    Lattice {
        /// Row of the middle disk.
        cy: f64,
        /// Column of the middle disk.
        cx: f64,
        /// One vector of the lattice.
        a: [f64; 2],
        /// The other.
        b: [f64; 2],
        /// Radius of each disk.
        r: f64,
        /// How far it goes.
        order: u32,
    },
    /// The weights that were sent as an array under this number.
    Array {
        /// As the viewer gave it: a digest of the weights, below 2⁵³.
        id: u64,
    },
}
