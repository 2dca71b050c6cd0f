//! Frames of a data set turned: rows or columns in reverse, axes swapped.

use crate::formats;
use crate::headers::regrid::regrid;
use crate::readers::oriented::OrientedSource;
use framefold_core::{
    AxisKind, AxisMap, COLOUR, DataSource, Dataset, Error, MetadataList, MetadataValue,
    NAMES_SEPARATOR, Orientation, Quantity, Result, split_names, usual_axis_name,
};
use std::sync::Arc;

/// The same data set with its frames turned.
///
/// Its axes keep for each pixel the value that it had: the step of an axis in reverse changes its
/// sign. Its corrections turn with the frames. Turned back, it reads as before.
///
/// # Errors
/// `InvalidArgument` if frames have too few axes to be turned so, or if the last one holds colours: the last two
/// are taken for rows and columns.
pub fn orient(dataset: Dataset, orientation: Orientation) -> Result<Dataset> {
    let sig = orientation.shape(dataset.shape().sig())?;
    if orientation.is_none() {
        return Ok(dataset);
    }
    if dataset.axes().last().is_some_and(|axis| axis.name == COLOUR) {
        return Err(Error::invalid(format!(
            "frames of shape {:?} whose last axis is '{COLOUR}' cannot be turned ({orientation}): \
             the last two axes would be taken for rows and columns",
            dataset.shape().sig()
        ))
        .with_hint(
            "turn arrays of results, or save the colours as planes: their axis is the first",
        ));
    }
    let source = dataset.source();
    let (source, before) = source.turned().unwrap_or((source, Orientation::default()));
    let (source, all) = (source.clone(), before.then(orientation));
    let mut list = dataset.metadata().clone();
    swap_axes(&mut list, orientation, sig.len());
    reverse_axes(&mut list, orientation, &sig);
    name(&mut list, source.as_ref(), all);
    let corrections = dataset.corrections().map(|own| own.turned(orientation)).transpose()?;
    let source: Arc<dyn DataSource> = if all.is_none() {
        source
    } else {
        Arc::new(OrientedSource::try_new(source, all, list.clone())?)
    };
    dataset.with_source(source, list, corrections.map(Arc::new))
}

/// In which order a data set has its rows, in words, where that is not simply from the top down as
/// they lie in the file.
pub fn row_order_of(dataset: &Dataset) -> Option<String> {
    let of_format = formats::row_order(dataset.source().info().format);
    let orientation = dataset.source().orientation();
    if orientation.is_none() {
        return of_format.map(str::to_owned);
    }
    let before = of_format.unwrap_or("as stored");
    Some(format!("turned ({orientation}); without that, {before}"))
}

/// What is known of rows and of columns, in each other's place.
fn swap_axes(list: &mut MetadataList, orientation: Orientation, n_sig: usize) {
    use Quantity as Q;
    if !orientation.transpose {
        return;
    }
    let calibration = |from_last| list.calibration(AxisKind::Sig, from_last).cloned();
    let of_axes = [calibration(1), calibration(0)];
    for (from_last, calibration) in of_axes.into_iter().enumerate() {
        list.uncalibrate(AxisKind::Sig, from_last);
        if let Some(calibration) = calibration {
            list.calibrate(AxisKind::Sig, from_last, calibration);
        }
    }
    for (x, y) in [
        (Q::DiffractionStepX, Q::DiffractionStepY),
        (Q::DiffractionOffsetX, Q::DiffractionOffsetY),
        (Q::AngleStepX, Q::AngleStepY),
        (Q::AngleOffsetX, Q::AngleOffsetY),
        (Q::ImageStepX, Q::ImageStepY),
        (Q::ImageOffsetX, Q::ImageOffsetY),
        (Q::PixelSizeX, Q::PixelSizeY),
        (Q::BinningX, Q::BinningY),
    ] {
        let (of_x, of_y) = (list.get_number(x), list.get_number(y));
        list.remove(x);
        list.remove(y);
        list.number(x, of_y);
        list.number(y, of_x);
    }
    // Names that are given stay with what they name; y and x are rows and columns, whatever those are.
    let names = text_of(list, Q::FrameAxes);
    let usual = |index: usize| usual_axis_name(AxisKind::Sig, index, n_sig);
    let mut names: Vec<&str> = split_names(&names, n_sig)
        .into_iter()
        .enumerate()
        .map(|(index, name)| if name == usual(index) { "" } else { name })
        .collect();
    orientation.swap(&mut names);
    list.remove(Q::FrameAxes);
    if names.iter().any(|name| !name.is_empty()) {
        let names = (0..n_sig).zip(names).map(|(index, name)| match name {
            "" => usual(index),
            name => name.to_owned(),
        });
        list.text(Q::FrameAxes, names.collect::<Vec<_>>().join(NAMES_SEPARATOR).as_str());
    }
}

/// Has axes that are known begin at what was their end.
fn reverse_axes(list: &mut MetadataList, orientation: Orientation, sig: &[usize]) {
    let flips = [orientation.flip_x, orientation.flip_y];
    let axes = sig.iter().rev().enumerate().zip(flips).filter(|&(_, flips)| flips);
    for ((from_last, &size), _) in axes {
        let map = AxisMap { first: size.saturating_sub(1) as f64, step: -1.0 };
        regrid(list, AxisKind::Sig, from_last, sig.len(), map);
    }
}

/// Has the list say how frames are turned, besides what the file says of that.
fn name(list: &mut MetadataList, source: &dyn DataSource, orientation: Orientation) {
    let of_file = text_of(&source.info().metadata, Quantity::Orientation);
    list.remove(Quantity::Orientation);
    let own = match orientation.is_none() {
        true => String::new(),
        false => format!("{orientation} of {}", source.info().format),
    };
    let separator = if of_file.is_empty() || own.is_empty() { "" } else { "; " };
    list.text(Quantity::Orientation, format!("{of_file}{separator}{own}").as_str());
}

fn text_of(list: &MetadataList, quantity: Quantity) -> String {
    match list.get(quantity) {
        Some(MetadataValue::Text(text)) => text.clone(),
        _ => String::new(),
    }
}
