//! The merger of results that have one entry per frame.

use framefold_core::{
    Array, DType, FinalRows, Merger, NativeArray, Partial, Partition, Result, RunMeta,
};

/// One row of cells per selected frame, filled partition by partition.
pub(crate) struct NavRows {
    name: &'static str,
    rows: FinalRows,
}

impl NavRows {
    /// Rows of shape `row_shape` for the frames of a run, under the name that partials give them.
    pub(crate) fn new(
        name: &'static str,
        dtype: DType,
        run: &RunMeta,
        row_shape: &[usize],
    ) -> Result<Self> {
        Ok(NavRows { name, rows: FinalRows::of_run(run, name, dtype, row_shape)? })
    }

    /// Calls `look` with all rows, merged or not.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&NativeArray) -> T) -> T {
        self.rows.look(look)
    }

    /// Puts the rows of a partition in their place.
    ///
    /// # Errors
    /// `Bug` if the partial result has another dtype or size than the partition calls for.
    pub(crate) fn put(&mut self, partition: &Partition, partial: &mut Partial) -> Result<()> {
        self.rows.put(partition.frames.clone(), partial.take_native(self.name)?)
    }
}

impl Merger for NavRows {
    fn merge(&mut self, partition: &Partition, mut partial: Partial) -> Result<()> {
        self.put(partition, &mut partial)
    }

    fn results(&self) -> Result<Vec<Array>> {
        Ok(vec![self.rows.first(usize::MAX)?.into()])
    }

    fn final_rows(&self) -> Option<Vec<FinalRows>> {
        Some(vec![self.rows.clone()])
    }
}
