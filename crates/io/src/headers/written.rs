//! Names in files that `write` makes, by which their meta data are found again.

/// The group in HDF5, and the attribute in Zarr, that holds meta data.
pub(crate) const METADATA: &str = "metadata";
/// In HDF5, what follows a quantity's name in that of its unit.
pub(crate) const UNIT: &str = "_unit";
/// In Zarr, the attribute that says how many of the last axes are those of a frame.
pub(crate) const SIG_DIMS: &str = "sig_dims";
