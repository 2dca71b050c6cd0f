//! A data set made of another one by a stage.

use crate::headers::regrid::{forget, regrid};
use crate::readers::staged::StagedSource;
use framefold_core::{
    CorrectionStage, DataSource, Dataset, FrameKind, MetadataList, Result, Stage,
};
use std::sync::Arc;

/// The same scan over the frames that a stage makes of those of `dataset`; no pixel is read.
///
/// The corrections of the data set come before the stage, and the new one has none of its own. Axes keep
/// for each place the value that they had there. `make` is given what the stage will be fed with.
///
/// # Errors
/// Those of `make`; `InvalidArgument` if the corrections do not fit the pixels.
pub fn pipe(
    dataset: Dataset,
    make: impl FnOnce(FrameKind) -> Result<Arc<dyn Stage>>,
) -> Result<Dataset> {
    let dataset = match dataset.corrections().cloned() {
        Some(corrections) => {
            let stage = CorrectionStage::try_new(corrections, kind_of(&dataset))?;
            staged(dataset, Arc::new(stage))?
        }
        None => dataset,
    };
    let stage = make(kind_of(&dataset))?;
    staged(dataset, stage)
}

fn kind_of(dataset: &Dataset) -> FrameKind {
    let info = dataset.source().info();
    FrameKind { shape: info.sig_shape.clone(), dtype: info.dtype.dtype }
}

fn staged(dataset: Dataset, stage: Arc<dyn Stage>) -> Result<Dataset> {
    let mut metadata = dataset.metadata().clone();
    carry(&mut metadata, stage.as_ref());
    let source = StagedSource::try_new(dataset.source().clone(), stage, metadata.clone())?;
    let source: Arc<dyn DataSource> = Arc::new(source);
    dataset.with_source(source, metadata, None)
}

/// Has the list say what holds for the axes of the frames that the stage gives.
fn carry(list: &mut MetadataList, stage: &dyn Stage) {
    let n_axes = stage.output().shape.len();
    match stage.axes() {
        Some(maps) => {
            for (from_last, map) in maps.into_iter().rev().enumerate() {
                regrid(list, from_last, n_axes, map);
            }
        }
        None => forget(list, stage.input().shape.len().max(n_axes)),
    }
}
