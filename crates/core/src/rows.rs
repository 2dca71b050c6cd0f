//! Rows of results that are final while a run goes on.

use crate::{DType, Error, NativeArray, Result, interrupt};
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

/// One row of cells per selected frame, put in partition by partition. Clones show the same rows,
/// on any thread.
///
/// A row that was put in stays as it is. Until then it holds NaN, or zeros where the dtype has no
/// NaN: a position without data never looks like a measured zero.
#[derive(Clone, Debug)]
pub struct FinalRows(Arc<RwLock<NativeArray>>);

/// So many bytes are copied while nothing can be put in.
const COPIED_AT_ONCE: usize = 16 << 20;

impl FinalRows {
    /// Rows of shape `row_shape` for `n_frames` frames.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them; `Cancelled` if the run was cancelled meanwhile.
    pub fn try_new(dtype: DType, n_frames: usize, row_shape: &[usize]) -> Result<Self> {
        let array = NativeArray::try_missing(dtype, &[&[n_frames], row_shape].concat())?;
        Ok(FinalRows(Arc::new(RwLock::new(array))))
    }

    /// Puts the rows of `frames` in their place.
    ///
    /// # Errors
    /// `Bug` if `rows` are of another dtype or size than these frames call for.
    pub fn put(&self, frames: Range<usize>, rows: &NativeArray) -> Result<()> {
        // Nothing panics while it holds the lock; a poisoned one is still consistent.
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let place = bytes_of(&all, &frames);
        let source = rows.values().as_bytes();
        let fits = rows.dtype() == all.dtype() && source.len() == place.len();
        match all.values_mut().as_bytes_mut().get_mut(place) {
            Some(target) if fits => {
                target.copy_from_slice(source);
                Ok(())
            }
            _ => Err(Error::bug(format!(
                "rows of {} {:?} do not fit {} frames of the run",
                rows.dtype(),
                rows.shape(),
                frames.len()
            ))),
        }
    }

    /// Calls `look` with all rows, put in or not; nothing is put in meanwhile.
    pub fn look<T>(&self, look: impl FnOnce(&NativeArray) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Calls `look` with the rows of `frames` as bytes, in C order and native byte order; none, if
    /// there are fewer frames.
    pub fn look_at<T>(&self, frames: &Range<usize>, look: impl FnOnce(&[u8]) -> T) -> T {
        self.look(|array| {
            look(array.values().as_bytes().get(bytes_of(array, frames)).unwrap_or_default())
        })
    }

    /// A copy of all rows, as they were when those of the first `n_frames` frames were put in, and
    /// no others.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it; `Cancelled` if the run was cancelled meanwhile.
    pub fn first(&self, n_frames: usize) -> Result<NativeArray> {
        let (dtype, shape) = self.look(|all| (all.dtype(), all.shape().to_vec()));
        let mut copy = NativeArray::try_zeros(dtype, &shape)?;
        let bytes = copy.values_mut().as_bytes_mut();
        let len = bytes.len();
        let end = self.look(|all| bytes_of(all, &(0..n_frames)).end).min(len);
        // Asked whether to go on with no lock held: who answers may wait for other threads.
        for start in (0..end).step_by(COPIED_AT_ONCE) {
            interrupt::check()?;
            let part = start..end.min(start + COPIED_AT_ONCE);
            let target = &mut bytes[part.clone()];
            self.look(|all| target.copy_from_slice(&all.values().as_bytes()[part]));
        }
        for start in (end..len).step_by(COPIED_AT_ONCE) {
            interrupt::check()?;
            let part = start / dtype.size()..len.min(start + COPIED_AT_ONCE) / dtype.size();
            copy.values_mut().set_missing(part);
        }
        Ok(copy)
    }
}

/// Where the rows of `frames` lie.
fn bytes_of(array: &NativeArray, frames: &Range<usize>) -> Range<usize> {
    let n_frames = array.shape().first().copied().unwrap_or(0);
    let row = array.values().as_bytes().len() / n_frames.max(1);
    frames.start.saturating_mul(row)..frames.end.saturating_mul(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(values: &[f32]) -> NativeArray {
        NativeArray::try_new(&[values.len() / 2, 2], values.to_vec()).unwrap()
    }

    #[test]
    fn earlier_rows_can_be_told_later() {
        let rows = FinalRows::try_new(DType::F32, 3, &[2]).unwrap();
        let clone = rows.clone();
        rows.put(0..1, &pairs(&[1.0, 2.0])).unwrap();
        let before = clone.first(1).unwrap();
        rows.put(1..3, &pairs(&[3.0, 4.0, 5.0, 6.0])).unwrap();
        for first in [before, clone.first(1).unwrap()] {
            assert_eq!(first.shape(), [3, 2]);
            let values = first.as_slice::<f32>().unwrap();
            assert_eq!(values[..2], [1.0, 2.0]);
            assert!(values[2..].iter().all(|value| value.is_nan()));
        }
        assert_eq!(clone.first(3).unwrap(), pairs(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]));
        assert_eq!(
            clone.look_at(&(1..2), <[u8]>::to_vec),
            [3f32, 4.0].map(f32::to_ne_bytes).concat()
        );
        assert!(clone.look_at(&(2..4), <[u8]>::is_empty), "there is no fourth frame");
    }

    #[test]
    fn rows_that_do_not_fit_are_refused() {
        let rows = FinalRows::try_new(DType::F32, 3, &[2]).unwrap();
        assert!(rows.put(0..2, &pairs(&[1.0, 2.0])).is_err(), "one row for two frames");
        assert!(rows.put(2..4, &pairs(&[1.0; 4])).is_err(), "beyond the last frame");
        let doubles = NativeArray::try_new(&[1, 2], vec![1f64, 2.0]).unwrap();
        assert!(rows.put(0..1, &doubles).is_err(), "of another dtype");
        assert!(rows.first(3).unwrap().as_slice::<f32>().unwrap().iter().all(|v| v.is_nan()));
    }
}
