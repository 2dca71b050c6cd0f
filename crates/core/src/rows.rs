//! Rows of results that are final while a run goes on.

use crate::{DType, Error, NativeArray, Result, RunMeta, interrupt};
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// One row of cells per selected frame, put in partition by partition. Clones show the same rows,
/// on any thread.
///
/// A row that was put in stays as it is. Until then it holds NaN, or zeros where the dtype has no
/// NaN: a position without data never looks like a measured zero.
///
/// Those that go to a [`Sink`](crate::Sink) are not kept: there are the latest alone.
#[derive(Clone, Debug)]
pub struct FinalRows(Arc<RwLock<Rows>>);

#[derive(Debug)]
struct Rows {
    array: NativeArray,
    /// The frame of its first row.
    first: usize,
    /// Of one row.
    len_bytes: usize,
    /// Whether these are the latest alone.
    pass: bool,
}

/// So many bytes are copied while nothing can be put in.
const COPIED_AT_ONCE: usize = 16 << 20;

impl FinalRows {
    /// Rows of shape `row_shape` for `n_frames` frames.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them; `Cancelled` if the run was cancelled meanwhile.
    pub fn try_new(dtype: DType, n_frames: usize, row_shape: &[usize]) -> Result<Self> {
        let array = NativeArray::try_missing(dtype, &[&[n_frames], row_shape].concat())?;
        Ok(FinalRows::of(array, row_shape, false))
    }

    /// The rows of the result `name` of a run, for all of its frames or for the latest alone: see
    /// [`RunMeta::to_sink`].
    ///
    /// # Errors
    /// As [`FinalRows::try_new`].
    pub fn of_run(run: &RunMeta, name: &str, dtype: DType, row_shape: &[usize]) -> Result<Self> {
        if !run.to_sink.iter().any(|each| each == name) {
            return FinalRows::try_new(dtype, run.job.n_selected(), row_shape);
        }
        let none = NativeArray::try_zeros(dtype, &[&[0], row_shape].concat())?;
        Ok(FinalRows::of(none, row_shape, true))
    }

    fn of(array: NativeArray, row_shape: &[usize], pass: bool) -> Self {
        let cells = row_shape.iter().fold(1usize, |n, &axis| n.saturating_mul(axis));
        let len_bytes = cells.saturating_mul(array.dtype().size());
        FinalRows(Arc::new(RwLock::new(Rows { array, first: 0, len_bytes, pass })))
    }

    /// Whether only the latest are there.
    pub fn pass(&self) -> bool {
        self.read().pass
    }

    fn read(&self) -> RwLockReadGuard<'_, Rows> {
        // Nothing panics while it holds the lock; a poisoned one is still consistent.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the rows of `frames` in their place.
    ///
    /// # Errors
    /// `Bug` if `rows` are of another dtype or size than these frames call for.
    pub fn put(&self, frames: Range<usize>, rows: NativeArray) -> Result<()> {
        let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let place = all.place_of(&frames);
        let source = rows.values().as_bytes();
        let wrong = || {
            Error::bug(format!(
                "rows of {} {:?} do not fit {} frames of the run",
                rows.dtype(),
                rows.shape(),
                frames.len()
            ))
        };
        if rows.dtype() != all.array.dtype() || source.len() != place.len() {
            return Err(wrong());
        }
        if all.pass {
            (all.array, all.first) = (rows, frames.start);
            return Ok(());
        }
        let target = all.array.values_mut().as_bytes_mut().get_mut(place).ok_or_else(wrong)?;
        target.copy_from_slice(source);
        Ok(())
    }

    /// Calls `look` with all rows that are kept, put in or not; nothing is put in meanwhile.
    pub fn look<T>(&self, look: impl FnOnce(&NativeArray) -> T) -> T {
        look(&self.read().array)
    }

    /// Calls `look` with the rows of `frames` as bytes, in C order and native byte order; none, if
    /// there are fewer frames, or they are not kept.
    pub fn look_at<T>(&self, frames: &Range<usize>, look: impl FnOnce(&[u8]) -> T) -> T {
        look(self.read().bytes_of(frames))
    }

    /// The same for several results at once.
    pub fn look_at_each<T>(
        all: &[FinalRows],
        frames: &Range<usize>,
        look: impl FnOnce(&[&[u8]]) -> T,
    ) -> T {
        let rows: Vec<_> = all.iter().map(FinalRows::read).collect();
        let bytes: Vec<&[u8]> = rows.iter().map(|rows| rows.bytes_of(frames)).collect();
        look(&bytes)
    }

    /// All rows, which are only copied if there is another clone that shows them.
    ///
    /// # Errors
    /// As [`FinalRows::first`].
    pub fn into_array(self) -> Result<NativeArray> {
        if self.pass() {
            return self.first(0);
        }
        match Arc::try_unwrap(self.0) {
            Ok(rows) => Ok(rows.into_inner().unwrap_or_else(PoisonError::into_inner).array),
            Err(shared) => FinalRows(shared).first(usize::MAX),
        }
    }

    /// A copy of all rows, as they were when those of the first `n_frames` frames were put in, and
    /// no others. Of those that are not kept, none.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it; `Cancelled` if the run was cancelled meanwhile.
    pub fn first(&self, n_frames: usize) -> Result<NativeArray> {
        let (dtype, mut shape) = self.look(|all| (all.dtype(), all.shape().to_vec()));
        if self.pass() {
            shape.iter_mut().take(1).for_each(|n| *n = 0);
            return NativeArray::try_zeros(dtype, &shape);
        }
        let mut copy = NativeArray::try_zeros(dtype, &shape)?;
        let bytes = copy.values_mut().as_bytes_mut();
        let len = bytes.len();
        let end = self.read().place_of(&(0..n_frames)).end.min(len);
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

impl Rows {
    /// Where the rows of `frames` lie.
    fn place_of(&self, frames: &Range<usize>) -> Range<usize> {
        frames.start.saturating_mul(self.len_bytes)..frames.end.saturating_mul(self.len_bytes)
    }

    fn bytes_of(&self, frames: &Range<usize>) -> &[u8] {
        let from_first = |frame: usize| frame.checked_sub(self.first);
        let place = from_first(frames.start)
            .zip(from_first(frames.end))
            .map(|(start, end)| self.place_of(&(start..end)));
        let bytes = self.array.values().as_bytes();
        place.and_then(|place| bytes.get(place)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(values: &[f32]) -> NativeArray {
        NativeArray::try_new(&[values.len() / 2, 2], values.to_vec()).unwrap()
    }

    #[test]
    fn earlier_rows_can_be_given_later() {
        let rows = FinalRows::try_new(DType::F32, 3, &[2]).unwrap();
        let clone = rows.clone();
        rows.put(0..1, pairs(&[1.0, 2.0])).unwrap();
        let before = clone.first(1).unwrap();
        rows.put(1..3, pairs(&[3.0, 4.0, 5.0, 6.0])).unwrap();
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
        assert!(rows.put(0..2, pairs(&[1.0, 2.0])).is_err(), "one row for two frames");
        assert!(rows.put(2..4, pairs(&[1.0; 4])).is_err(), "beyond the last frame");
        let doubles = NativeArray::try_new(&[1, 2], vec![1f64, 2.0]).unwrap();
        assert!(rows.put(0..1, doubles).is_err(), "of another dtype");
        assert!(rows.first(3).unwrap().as_slice::<f32>().unwrap().iter().all(|v| v.is_nan()));
    }

    #[test]
    fn rows_for_a_sink_are_there_until_the_next_ones() {
        let none = NativeArray::zeros(DType::F32, &[0, 2]);
        let rows = FinalRows::of(none, &[2], true);
        for start in [0, 2, 5] {
            let frames = start..start + 2;
            rows.put(frames.clone(), pairs(&[start as f32, 1.0, 2.0, 3.0])).unwrap();
            let both = [rows.clone(), rows.clone()];
            FinalRows::look_at_each(&both, &frames, |bytes| {
                let expected = [start as f32, 1.0, 2.0, 3.0].map(f32::to_ne_bytes).concat();
                assert_eq!(bytes, [expected.as_slice(); 2]);
            });
        }
        assert!(rows.look_at(&(0..2), <[u8]>::is_empty), "they are gone");
        assert_eq!(rows.first(7).unwrap().shape(), [0, 2]);
        assert!(rows.put(7..9, pairs(&[1.0, 2.0])).is_err(), "one row for two frames");
    }
}
