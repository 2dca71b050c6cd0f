//! What a client has to know of a data set before it asks for pictures.

use serde::Serialize;

/// A data set.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// What to call it: the file's name.
    pub name: String,
    /// The name of its format.
    pub format: String,
    /// The dtype of its pixels.
    pub dtype: String,
    /// The axes of the scan, slowest first.
    pub nav: Vec<AxisDescription>,
    /// The axes of a frame, slowest first.
    pub sig: Vec<AxisDescription>,
    /// What is odd about it, and what was corrected.
    pub warnings: Vec<String>,
    /// Flat indices of bad pixels, each of which is the mean of its good neighbours; none if there are very many.
    pub excluded: Vec<usize>,
    /// Scan positions without data.
    pub n_missing: usize,
    /// Shapes that the scan may have, the likeliest first, where the file does not say.
    pub suggested_shapes: Vec<[usize; 2]>,
    /// Functions of the session.
    pub own: Vec<OwnFunction>,
}

/// One axis: index `i` is at `offset + i * scale`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AxisDescription {
    /// Its name.
    pub name: String,
    /// How many positions.
    pub size: usize,
    /// The distance of neighbours; 1 if it is not known.
    pub scale: f64,
    /// The value of index 0.
    pub offset: f64,
    /// Empty if there is none.
    pub unit: String,
}

/// A function of the session, whose results are channels.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OwnFunction {
    /// The name under which it was given.
    pub name: String,
    /// Buffers of kind `nav` that are pictures of the scan.
    pub nav: Vec<String>,
    /// Buffers of kind `sig` that are pictures of frames.
    pub sig: Vec<String>,
}
