//! In which array format each UDF gets its tiles.
//!
//! A UDF gets the format in which the source has the data, if it takes that, and otherwise the
//! first that it asks for. Each format is made at most once per tile, for all UDFs.

use super::saturating_u64;
use framefold_core::{ArrayFormat, Dataset, Requirements, Result};

/// The formats of all UDFs, in their order.
pub(super) fn choose(
    dataset: &Dataset,
    names: &[String],
    requirements: &[Requirements],
) -> Result<Vec<ArrayFormat>> {
    // Corrected pixels are dense, whatever they were before.
    let native = match dataset.corrections() {
        None => dataset.source().format(),
        Some(_) => ArrayFormat::Dense,
    };
    let format = |(name, required): (&String, &Requirements)| {
        required.format_for(native).map_err(|error| error.with_udf(name))
    };
    names.iter().zip(requirements).map(format).collect()
}

/// Whether tiles are views of memory that holds the data: nothing is corrected in them, and no pixels
/// are made of sparse data.
pub(super) fn lends(dataset: &Dataset, formats: &[ArrayFormat]) -> bool {
    let source = dataset.source();
    let as_stored = source.format() == ArrayFormat::Dense
        || formats.iter().all(|&format| format == source.format());
    source.info().lends && dataset.corrections().is_none() && as_stored
}

/// How much of a frame there is to read.
#[derive(Clone, Copy)]
pub(super) enum FrameSize {
    /// The bytes of its pixels.
    Dense(u64),
    /// The bytes of its entries, on average: all UDFs take them sparse from a sparse source.
    Sparse(u64),
}

impl FrameSize {
    pub(super) fn of(dataset: &Dataset, formats: &[ArrayFormat]) -> Self {
        let info = dataset.source().info();
        let sparse = dataset.source().format() == ArrayFormat::Csr
            && dataset.corrections().is_none()
            && formats.iter().all(|&format| format == ArrayFormat::Csr);
        match dataset.source().stored_bytes() {
            Some(stored) if sparse => {
                FrameSize::Sparse(stored.div_ceil(info.n_frames.max(1)).max(1))
            }
            // What is made of larger frames, say.
            Some(stored) if dataset.source().format() == ArrayFormat::Dense => {
                FrameSize::Dense(stored.div_ceil(info.n_frames.max(1)).max(1))
            }
            _ => FrameSize::Dense(
                saturating_u64(dataset.shape().frame_len())
                    .saturating_mul(saturating_u64(info.dtype.dtype.size())),
            ),
        }
    }

    pub(super) fn bytes(self) -> u64 {
        match self {
            FrameSize::Dense(bytes) | FrameSize::Sparse(bytes) => bytes,
        }
    }
}
