//! An array that is in memory already, such as a NumPy array: nothing is copied where its layout
//! allows.

use crate::access::{SharedBytes, Storage};
use crate::readers::linear::frame_bytes;
use crate::readers::linear::{LinearFile, LinearSource, LinearSpec, Pixels};
use crate::readers::recut::Axis;
use crate::readers::strided::{StridedLayout, StridedSource, StridedSpec, merge};
use framefold_core::{
    DataSource, Error, FrameReader, MetadataList, Result, SourceInfo, StoredDType, checked_product,
};
use std::sync::Arc;

const FORMAT: &str = "memory";

/// Where the elements of an array lie in shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryArray {
    /// Its axes, navigation first; at least one, none of which is 0.
    pub shape: Vec<usize>,
    /// Bytes from one position to the next on each axis; `None` is C order without gaps.
    pub strides_bytes: Option<Vec<usize>>,
    /// Bytes before the first element.
    pub offset_bytes: usize,
    /// The dtype of its elements. Truth values are taken to be 0 and 1.
    pub stored: StoredDType,
    /// How many trailing axes are signal axes. If all of them are, there is one frame.
    pub sig_dims: usize,
}

/// Frames of an array in memory.
#[derive(Debug)]
pub struct MemorySource(Box<dyn DataSource>);

impl MemorySource {
    /// Lays an array out as frames.
    ///
    /// Frames are lent, not copied, if each is contiguous in C order and they are evenly spaced.
    ///
    /// # Errors
    /// `InvalidArgument` if the shape is unusable, or the array does not fit into the memory.
    pub fn try_new(bytes: Arc<dyn SharedBytes>, array: MemoryArray) -> Result<Self> {
        let refuse = |error: Error| error.with_format(FORMAT);
        Self::build(bytes, array).map_err(refuse)
    }

    fn build(bytes: Arc<dyn SharedBytes>, array: MemoryArray) -> Result<Self> {
        let storage = Storage::shared(bytes);
        let MemoryArray { shape, sig_dims, stored, .. } = &array;
        let axes = array.axes()?;
        let Some(n_nav) = shape.len().checked_sub(*sig_dims).filter(|_| *sig_dims > 0) else {
            return Err(Error::invalid(format!(
                "the array has {} axes ({shape:?}), of which {sig_dims} cannot be signal axes",
                shape.len()
            ))
            .with_hint("set sig_dims to a number from 1 to the number of axes"));
        };
        let (nav, sig) = shape.split_at(n_nav);
        let (nav_axes, sig_axes) = axes.split_at(n_nav);
        let nav_shape = if nav.is_empty() { vec![1] } else { nav.to_vec() };
        let layout = StridedLayout {
            stored: *stored,
            first_byte: u64::try_from(array.offset_bytes).unwrap_or(u64::MAX),
            nav_axes: nav_axes.to_vec(),
            sig_axes: sig_axes.to_vec(),
        };
        let frame = frame_bytes(sig, *stored)?;
        if layout.end().is_none_or(|end| end > storage.len()) {
            return Err(Error::invalid(format!(
                "the array of shape {shape:?} does not fit into {} bytes of memory",
                storage.len()
            )));
        }
        let n_frames = checked_product(&nav_shape)
            .filter(|&n| n > 0)
            .ok_or_else(|| Error::invalid(format!("the array of shape {shape:?} has no frames")))?;
        let details = vec![("array shape".to_string(), format!("{shape:?}"))];
        let sig_shape = sig.to_vec();
        let source: Box<dyn DataSource> = match linear_stride(&layout, frame) {
            Some(stride) => Box::new(LinearSource::try_new(LinearSpec {
                format: FORMAT,
                files: vec![LinearFile {
                    storage,
                    frames: 0..n_frames,
                    first_pixel: layout.first_byte,
                    stride,
                }],
                pixels: Pixels::Plain { stored: *stored },
                sig_shape,
                nav_shape,
                metadata: MetadataList::new(),
                details,
                warnings: Vec::new(),
            })?),
            None => Box::new(StridedSource::try_new(StridedSpec {
                format: FORMAT,
                storage,
                layout,
                sig_shape,
                nav_shape,
                metadata: MetadataList::new(),
                details,
                warnings: Vec::new(),
            })?),
        };
        Ok(MemorySource(source))
    }
}

impl DataSource for MemorySource {
    fn info(&self) -> &SourceInfo {
        self.0.info()
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        self.0.reader()
    }
}

impl MemoryArray {
    fn axes(&self) -> Result<Vec<Axis>> {
        let overflow =
            || Error::invalid(format!("an array of shape {:?} is too large", self.shape));
        if self.shape.is_empty() || self.shape.contains(&0) {
            return Err(Error::invalid(format!("the array of shape {:?} is empty", self.shape)));
        }
        let strides: Vec<u64> = match &self.strides_bytes {
            Some(strides) if strides.len() == self.shape.len() => {
                strides.iter().map(|&s| u64::try_from(s).unwrap_or(u64::MAX)).collect()
            }
            Some(strides) => {
                return Err(Error::invalid(format!(
                    "{} strides for an array of {} axes",
                    strides.len(),
                    self.shape.len()
                )));
            }
            None => {
                let mut strides = vec![0; self.shape.len()];
                let mut stride = u64::try_from(self.stored.dtype.size()).unwrap_or(u64::MAX);
                for (place, &len) in strides.iter_mut().zip(&self.shape).rev() {
                    *place = stride;
                    let len = u64::try_from(len).unwrap_or(u64::MAX);
                    stride = stride.checked_mul(len).ok_or_else(overflow)?;
                }
                strides
            }
        };
        Ok(self.shape.iter().zip(strides).map(|(&len, stride)| Axis { len, stride }).collect())
    }
}

/// The distance between frames of `frame` bytes, if each lies in one piece and all are evenly
/// spaced.
fn linear_stride(layout: &StridedLayout, frame: u64) -> Option<u64> {
    let size = u64::try_from(layout.stored.dtype.size()).ok()?;
    let in_one_piece = match merge(&layout.sig_axes).as_slice() {
        [] => true,
        [axis] => axis.stride == size,
        _ => false,
    };
    let stride = match merge(&layout.nav_axes).as_slice() {
        [] => frame,
        [axis] => axis.stride,
        _ => return None,
    };
    (in_one_piece && stride >= frame).then_some(stride)
}
