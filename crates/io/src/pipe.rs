//! A data set made of another one by a stage.

use crate::headers::regrid::{forget, regrid};
use crate::readers::staged::StagedSource;
use framefold_core::{
    AxisKind, AxisMap, CorrectionStage, DataSource, Dataset, FrameKind, MetadataList, Quantity,
    Result, Stage, guarded_call,
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
    let dataset = corrected(dataset)?;
    let stage = make(kind_of(&dataset))?;
    guarded_call("the stage", || staged(dataset, stage))
}

/// Another scan over frames that a source makes of those of `dataset`, one of several; no pixel is read.
///
/// The corrections of the data set come before the source, as in [`pipe`]. `axes` says where the positions of
/// each axis of the scan come from. `make` is given the corrected frames, and what is known of the new axes;
/// what its source says is known of the new frames.
///
/// # Errors
/// Those of `make`; `InvalidArgument` if the corrections do not fit the pixels.
pub fn rescan(
    dataset: Dataset,
    axes: &[AxisMap],
    make: impl FnOnce(&Dataset, MetadataList) -> Result<Arc<dyn DataSource>>,
) -> Result<Dataset> {
    let dataset = corrected(dataset)?;
    let mut metadata = dataset.metadata().clone();
    for (from_last, &map) in axes.iter().rev().enumerate() {
        regrid(&mut metadata, AxisKind::Nav, from_last, axes.len(), map);
    }
    let source = make(&dataset, metadata)?;
    let metadata = source.info().metadata.clone();
    dataset.with_scan(source, metadata)
}

/// The corrections as a stage in front of others.
fn corrected(dataset: Dataset) -> Result<Dataset> {
    let Some(corrections) = dataset.corrections().cloned() else { return Ok(dataset) };
    let words = dataset.corrected();
    let stage = CorrectionStage::try_new(corrections, kind_of(&dataset))?;
    Ok(staged(dataset, Arc::new(stage))?.with_corrected_before(words))
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

/// Has the list say what holds for the axes and the counts of the frames that the stage gives.
fn carry(list: &mut MetadataList, stage: &dyn Stage) {
    let n_axes = stage.output().shape.len();
    match stage.axes() {
        Some(maps) => {
            for (from_last, map) in maps.into_iter().rev().enumerate() {
                regrid(list, AxisKind::Sig, from_last, n_axes, map);
            }
        }
        None => forget(list, stage.input().shape.len().max(n_axes)),
    }
    if stage.input().dtype != stage.output().dtype {
        list.remove(Quantity::BitDepth);
    }
    let counts = list.get_number(Quantity::CountsPerElectron).zip(stage.counts_of_one());
    list.remove(Quantity::CountsPerElectron);
    list.number(Quantity::CountsPerElectron, counts.map(|(counts, of_one)| counts * of_one));
}
