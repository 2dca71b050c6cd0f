//! Stages that are written as text, of frames and of scans.

use framefold_core::{Dataset, Result};
use framefold_stages::Rebin;

/// The data set that a stage makes of `dataset`, written as text: `bin 2`, `rebin 2,2 mean=true`. No pixel is
/// read.
///
/// # Errors
/// `InvalidArgument` if there is no such stage, or it does not fit the data set.
pub fn pipe(dataset: Dataset, stage: &str) -> Result<Dataset> {
    match Rebin::parse(stage, dataset.shape().nav())? {
        Some(rebin) => framefold_io::rescan(dataset, &rebin.axes(), |dataset, metadata| {
            rebin.source(dataset, metadata)
        }),
        None => framefold_io::pipe(dataset, |frames| framefold_stages::make(stage, frames)),
    }
}
