//! What a caller may decide about a plan.

/// Overrides of the planner's choices; the default leaves everything to it.
///
/// None of these changes results, other than the rounding of floating-point sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanOptions {
    /// The number of partitions (at least 1, at most the number of frames; gaps in the data may
    /// need more).
    pub num_partitions: Option<usize>,
    /// Where partitions begin, as numbers of selected frames, ascending; what lies between two of
    /// them is one partition, but for gaps in the data. Goes before `num_partitions`.
    pub cuts: Option<Vec<usize>>,
    /// Whether partitions should be large, as where each costs a worker the same time whatever its size;
    /// unless a UDF takes them as a whole.
    pub large_partitions: bool,
    /// The largest number of frames in a tile, at least 1.
    pub tile_depth: Option<usize>,
    /// The shape of a tile on the signal axes; ignored if a UDF needs whole frames.
    pub tile_shape: Option<Vec<usize>>,
    /// For each UDF, the names of the `nav` buffers whose rows go to a sink, as far as they can: those
    /// of UDFs that merge [by rows](framefold_core::Requirements::by_rows) and have results of the
    /// engine's dtypes alone. `None` for all; UDFs without an entry have none.
    pub to_sink: Vec<Option<Vec<String>>>,
}
