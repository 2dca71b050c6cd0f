//! What a client asks for: one picture of the scan, or one of the frames.
//!
//! Vectors and points are (y, x), in pixels; the middle of the first pixel is (0, 0).

use crate::Signed;
use serde::{Deserialize, Serialize};

/// One picture.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "pane", rename_all = "lowercase", deny_unknown_fields)]
pub enum Query {
    /// A value, or a vector, for each scan position.
    Scan(ScanQuery),
    /// A value for each pixel of a frame.
    Pattern(PatternQuery),
}

impl Query {
    /// Whether it asks for a function that was given to the viewer.
    pub(crate) fn is_own(&self) -> bool {
        match self {
            Query::Scan(query) => matches!(query.channel, ScanChannel::Own { .. }),
            Query::Pattern(query) => matches!(query.channel, PatternChannel::Own { .. }),
        }
    }

    /// With the index on each axis in front of the last two of a scan of so many axes: the first one where it does not
    /// say any.
    pub(crate) fn sliced(&self, n_axes: usize) -> Self {
        let mut query = self.clone();
        let slice = match &mut query {
            Query::Scan(query) => &mut query.slice,
            Query::Pattern(query) => &mut query.slice,
        };
        if slice.is_empty() {
            *slice = vec![0; n_axes.saturating_sub(2)];
        }
        query
    }
}

/// A picture of the scan: what a detector sees at each position.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScanQuery {
    /// What is computed of the pixels of the detector.
    pub channel: ScanChannel,
    /// Added up with their signs; no shape at all is the whole frame.
    pub detector: Vec<Signed>,
    /// The index on each axis of the scan in front of the last two; none is the first of each.
    pub slice: Vec<usize>,
    /// What is done to the picture.
    pub transform: Transform,
}

/// What is computed of the pixels of a detector, at each scan position.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum ScanChannel {
    /// Their sum, each with the weight that the detector gives it.
    #[default]
    Sum,
    /// The sum over the sum of the absolute weights.
    Mean,
    /// The standard deviation of those with a weight other than 0.
    Std,
    /// The largest of those with a weight other than 0.
    Max,
    /// Their centre of mass from `centre`, turned by `rotation`. Here and in what follows from it, a pixel, or a step
    /// of the scan, along y counts as many along x as it is long if both axes have the same unit.
    Com {
        /// What is shown of the vectors.
        #[serde(default)]
        part: ComPart,
        /// Where vectors begin.
        #[serde(default)]
        centre: Centre,
        /// By how many degrees vectors are turned, clockwise on the screen.
        #[serde(default)]
        rotation: f64,
        /// Whether y is turned round before that.
        #[serde(default)]
        flip_y: bool,
    },
    /// The integrated centre of mass: the phase, but for a factor, in a thin sample. Its gradient is 2π times the
    /// vectors; in pixels of the frame times steps of the scan, both along x.
    ///
    /// Lazić, Bosch, Lazar: Phase contrast STEM for thin samples: integrated differential phase contrast.
    /// Ultramicroscopy 160 (2016), 265. <https://doi.org/10.1016/j.ultramic.2015.10.011>
    Idpc {
        /// Where vectors begin.
        #[serde(default)]
        centre: Centre,
        /// By how many degrees vectors are turned, clockwise on the screen.
        #[serde(default)]
        rotation: f64,
        /// Whether y is turned round before that.
        #[serde(default)]
        flip_y: bool,
    },
    /// A result buffer of kind `nav` of a function of the session; the detector is not used.
    Own {
        /// The name under which the function was given.
        name: String,
        /// The name of the buffer.
        buffer: String,
    },
}

/// What is shown of vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComPart {
    /// Both components: two planes, `y` and `x`.
    #[default]
    Vector,
    /// The length.
    Magnitude,
    /// The component along y.
    Y,
    /// The component along x.
    X,
    /// ∂y/∂y + ∂x/∂x, for a step of the scan along x.
    Divergence,
    /// ∂y/∂x − ∂x/∂y, for a step of the scan along x.
    Curl,
}

/// Where the vectors of a centre of mass begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Centre {
    /// At the mean of the centres of mass of all positions. A frame without intensity has its own in the
    /// middle of the frame, `shape // 2`: as `CoMUDF(regression=0)`.
    #[default]
    Mean,
    /// At this pixel, (y, x), where that of a frame without intensity is, too.
    At([f64; 2]),
}

/// A picture of frames: those of a region of the scan, each pixel for itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PatternQuery {
    /// What is computed of the frames.
    pub channel: PatternChannel,
    /// The scan positions whose weight is above 0; no shape at all is the whole scan.
    pub region: Vec<Signed>,
    /// The index on each axis of the scan in front of the last two; none is the first of each.
    pub slice: Vec<usize>,
    /// What is done to the picture.
    pub transform: Transform,
}

/// What is computed of the frames of a region, for each pixel.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum PatternChannel {
    /// Their sum.
    Sum,
    /// Their mean; of a single position, its frame.
    #[default]
    Mean,
    /// Their standard deviation.
    Std,
    /// Their maximum.
    Max,
    /// A result buffer of kind `sig` of a function of the session.
    Own {
        /// The name under which the function was given.
        name: String,
        /// The name of the buffer.
        buffer: String,
    },
}

/// What is done to a picture before it is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transform {
    /// Nothing.
    #[default]
    None,
    /// The absolute value of its Fourier transform, with frequency 0 in the middle.
    Fft,
    /// The absolute value of the Fourier transform of its logarithm: the exit-wave power cepstrum.
    ///
    /// Padgett, Holtz, Cueva, Shao, Langenberg, Schlom, Muller: The exit-wave power-cepstrum transform for
    /// scanning nanobeam electron diffraction. Ultramicroscopy 214 (2020), 112994.
    /// <https://doi.org/10.1016/j.ultramic.2020.112994>
    Ewpc,
}
