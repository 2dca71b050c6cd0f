//! The merger of results that have one entry per frame.

use framefold_core::{Array, DType, Error, Merger, NativeArray, Partial, Partition, Result};

/// One row of cells per selected frame, filled partition by partition.
///
/// Until a frame is merged its row holds NaN, or zeros where the dtype has no NaN: a position
/// without data never looks like a measured zero.
pub(crate) struct NavRows {
    name: &'static str,
    rows: NativeArray,
}

impl NavRows {
    /// Rows of shape `row_shape` for `n_frames` frames, under the name that partials give them.
    pub(crate) fn new(
        name: &'static str,
        dtype: DType,
        n_frames: usize,
        row_shape: &[usize],
    ) -> Result<Self> {
        let shape = [&[n_frames], row_shape].concat();
        Ok(NavRows { name, rows: NativeArray::try_missing(dtype, &shape)? })
    }

    /// All rows, merged or not.
    pub(crate) fn rows(&self) -> &NativeArray {
        &self.rows
    }

    /// Puts the rows of a partition in their place.
    ///
    /// # Errors
    /// `Bug` if the partial result has another dtype or size than the partition calls for.
    pub(crate) fn put(&mut self, partition: &Partition, partial: &mut Partial) -> Result<()> {
        let part = partial.take_native(self.name)?;
        let n_frames = self.rows.shape().first().copied().unwrap_or(0);
        let row_bytes = self.rows.values().as_bytes().len() / n_frames.max(1);
        let place = partition.frames.start * row_bytes..partition.frames.end * row_bytes;
        let bytes = part.values().as_bytes();
        let fits = part.dtype() == self.rows.dtype() && bytes.len() == place.len();
        match self.rows.values_mut().as_bytes_mut().get_mut(place) {
            Some(target) if fits => {
                target.copy_from_slice(bytes);
                Ok(())
            }
            _ => Err(Error::bug(format!(
                "a partial result '{}' of {} {:?} does not fit {} frames of the run",
                self.name,
                part.dtype(),
                part.shape(),
                partition.n_frames()
            ))),
        }
    }
}

impl Merger for NavRows {
    fn merge(&mut self, partition: &Partition, mut partial: Partial) -> Result<()> {
        self.put(partition, &mut partial)
    }

    fn results(&self) -> Result<Vec<Array>> {
        Ok(vec![self.rows.try_clone()?.into()])
    }
}
