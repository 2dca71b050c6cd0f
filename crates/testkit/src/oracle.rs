//! The reductions, straight from their definitions.
//!
//! Each function takes whole frames and gives what the result buffers should hold. Integers are
//! summed in 128 bits and expected exactly; floating-point sums come with a tolerance that
//! follows from the magnitude of their terms.

mod corrections;
mod reductions;

pub use corrections::{CorrectionOptions, corrected};
pub use reductions::{ComOptions, com, logsum, masks, max, pick, stddev, sum, sum_sig};

use crate::compare::numbers;
use crate::evaluate::runs_with_data;
use framefold_core::{
    Complex128, DType, DataSource, Dataset, FrameIndices, NativeArray, Result, Roi, TilingScheme,
    TypedVec, dispatch_frames,
};

/// The selected frames of a data set, in memory.
#[derive(Clone, Debug)]
pub struct Frames {
    /// The shape of a frame.
    pub sig: Vec<usize>,
    /// Their dtype.
    pub dtype: DType,
    /// The number of selected positions, with or without data.
    pub n_selected: usize,
    /// The frames with data and their compressed indices.
    pub frames: Vec<(usize, OracleFrame)>,
}

/// One frame in several forms.
#[derive(Clone, Debug)]
pub struct OracleFrame {
    /// The pixels as they are.
    pub cells: TypedVec,
    /// The pixels as integers, if they are integers or truth values.
    pub integers: Option<Vec<i128>>,
    /// The pixels in double precision.
    pub values: Vec<Complex128>,
}

impl Frames {
    /// Reads the selected frames one by one.
    ///
    /// # Errors
    /// Those of the source.
    pub fn read(dataset: &Dataset, roi: Option<&Roi>) -> Result<Self> {
        let source = dataset.source();
        let info = source.info();
        let position = |i: usize| roi.map_or(i, |roi| roi.positions()[i]);
        let frames = runs_with_data(dataset, roi)
            .into_iter()
            .flatten()
            .filter_map(|index| Some((index, dataset.frame_at(position(index))?)))
            .map(|(index, frame)| Ok((index, read_frame(source.as_ref(), frame)?)))
            .collect::<Result<_>>()?;
        Ok(Frames {
            sig: info.sig_shape.clone(),
            dtype: info.dtype.dtype,
            n_selected: roi.map_or(dataset.shape().n_frames(), Roi::n_selected),
            frames,
        })
    }

    /// The number of pixels of a frame.
    pub fn frame_len(&self) -> usize {
        self.sig.iter().product()
    }

    /// Whether pixels are integers or truth values.
    pub fn is_integer(&self) -> bool {
        self.dtype.is_integer() || self.dtype == DType::Bool
    }
}

fn read_frame(source: &dyn DataSource, frame: u64) -> Result<OracleFrame> {
    let sig = &source.info().sig_shape;
    let whole = TilingScheme::try_new(sig, sig, 1)?;
    let mut reader = source.reader()?;
    let tile = reader.read(FrameIndices::Run(frame..frame + 1), &whole.slices()[0])?;
    let cells: TypedVec = dispatch_frames!(tile.frames(), view => view.frame(0).to_vec().into());
    Ok(OracleFrame { integers: integers(&cells), values: numbers(&cells), cells })
}

fn integers(cells: &TypedVec) -> Option<Vec<i128>> {
    fn all<T: Copy + Into<i128>>(cells: &[T]) -> Option<Vec<i128>> {
        Some(cells.iter().map(|&cell| cell.into()).collect())
    }
    match cells {
        TypedVec::Bool(v) => Some(v.iter().map(|cell| i128::from(cell.get())).collect()),
        TypedVec::U8(v) => all(v),
        TypedVec::U16(v) => all(v),
        TypedVec::U32(v) => all(v),
        TypedVec::U64(v) => all(v),
        TypedVec::I8(v) => all(v),
        TypedVec::I16(v) => all(v),
        TypedVec::I32(v) => all(v),
        TypedVec::I64(v) => all(v),
        _ => None,
    }
}

/// Integers rounded to a float or complex dtype.
fn rounded(shape: &[usize], dtype: DType, sums: &[i128]) -> Result<NativeArray> {
    use framefold_core::{Complex64, Error};
    let values: TypedVec = match dtype {
        DType::F32 => sums.iter().map(|&sum| sum as f32).collect::<Vec<_>>().into(),
        DType::F64 => sums.iter().map(|&sum| sum as f64).collect::<Vec<_>>().into(),
        DType::C64 => {
            sums.iter().map(|&sum| Complex64::new(sum as f32, 0.0)).collect::<Vec<_>>().into()
        }
        DType::C128 => {
            sums.iter().map(|&sum| Complex128::new(sum as f64, 0.0)).collect::<Vec<_>>().into()
        }
        other => return Err(Error::bug(format!("sums of {other} are not expected"))),
    };
    NativeArray::try_new(shape, values)
}
