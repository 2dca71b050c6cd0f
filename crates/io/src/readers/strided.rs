//! The reader for arrays whose axes lie in any order: Fortran-ordered NPY files, NumPy views.
//!
//! Frames are gathered element by element. A frame's elements and one element's frames are both
//! lists of offsets; whichever list lies closer together in memory is walked in the inner loop, so
//! that neighbours in memory are read one after the other. Where frames lie closer than their
//! elements do, a few of them would read most of the memory of all: the source then asks for tiles
//! of many frames.

mod blocked;
mod places;
mod reader;
mod transposed;

use crate::access::Storage;
use crate::readers::linear::frame_bytes;
use crate::readers::recut::Axis;
use framefold_core::{
    DataSource, Error, FrameReader, MetadataList, Presence, Result, SourceInfo, StoredDType,
};
use reader::StridedReader;

/// Where the elements of an array lie.
#[derive(Clone, Debug)]
pub(crate) struct StridedLayout {
    /// Their dtype and byte order.
    pub(crate) stored: StoredDType,
    /// The offset of the very first.
    pub(crate) first_byte: u64,
    /// The axes that count frames, slowest first.
    pub(crate) nav_axes: Vec<Axis>,
    /// The axes that count cells of a frame, slowest first.
    pub(crate) sig_axes: Vec<Axis>,
}

/// All that makes a [`StridedSource`].
pub(crate) struct StridedSpec {
    pub(crate) format: &'static str,
    pub(crate) storage: Storage,
    pub(crate) layout: StridedLayout,
    pub(crate) sig_shape: Vec<usize>,
    pub(crate) nav_shape: Vec<usize>,
    pub(crate) metadata: MetadataList,
    pub(crate) details: Vec<(String, String)>,
    pub(crate) warnings: Vec<String>,
}

/// Frames of an array in arbitrary axis order.
#[derive(Debug)]
pub(crate) struct StridedSource {
    info: SourceInfo,
    storage: Storage,
    layout: StridedLayout,
}

impl StridedSource {
    /// Checks that every element lies within the storage.
    ///
    /// # Errors
    /// `BadFile` if one does not; `InvalidArgument` if the frame shape is unusable.
    pub(crate) fn try_new(spec: StridedSpec) -> Result<Self> {
        let StridedSpec { storage, layout, .. } = spec;
        frame_bytes(&spec.sig_shape, layout.stored)?;
        let needed = layout.end();
        if needed.is_none_or(|needed| needed > storage.len()) {
            return Err(storage.locate(Error::bad_file(format!(
                "the array does not fit into {} bytes",
                storage.len()
            ))));
        }
        let n_frames = count(&layout.nav_axes);
        let (Some(n_frames), Some(n_cells)) = (n_frames, count(&layout.sig_axes)) else {
            return Err(storage.locate(Error::bad_file("the array has too many elements")));
        };
        if n_frames == 0 || Some(n_cells) != framefold_core::checked_product(&spec.sig_shape) {
            return Err(Error::bug(format!(
                "{n_frames} frames of {n_cells} cells for the shape {:?}",
                spec.sig_shape
            )));
        }
        let merged = StridedLayout {
            nav_axes: merge(&layout.nav_axes),
            sig_axes: merge(&layout.sig_axes),
            ..layout
        };
        let info = SourceInfo {
            format: spec.format,
            paths: storage.path().map(Into::into).into_iter().collect(),
            n_frames,
            presence: Presence::All,
            base_shape: base_shape(&spec.sig_shape),
            preferred_depth: preferred_depth(&merged),
            sig_shape: spec.sig_shape,
            nav_shape: spec.nav_shape,
            dtype: merged.stored,
            lends: false,
            metadata: spec.metadata,
            details: spec.details,
            warnings: spec.warnings,
        };
        Ok(StridedSource { info, storage, layout: merged })
    }
}

impl DataSource for StridedSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Ok(Box::new(StridedReader::try_new(self)?))
    }
}

impl StridedLayout {
    /// Where the last element ends.
    pub(crate) fn end(&self) -> Option<u64> {
        let mut end = self.first_byte.checked_add(u64::try_from(self.stored.dtype.size()).ok()?)?;
        for axis in self.nav_axes.iter().chain(&self.sig_axes) {
            let gaps = u64::try_from(axis.len).ok()?.checked_sub(1)?;
            end = end.checked_add(gaps.checked_mul(axis.stride)?)?;
        }
        Some(end)
    }
}

/// The number of positions on all axes together.
fn count(axes: &[Axis]) -> Option<u64> {
    axes.iter().try_fold(1u64, |n, axis| n.checked_mul(u64::try_from(axis.len).ok()?))
}

/// What is fetched from memory at a time.
const LINE: usize = 64;

/// Part of a row: elements of a row are no nearer to each other than others.
fn base_shape(sig_shape: &[usize]) -> Vec<usize> {
    let mut base_shape = vec![1; sig_shape.len()];
    if let (Some(base), Some(width)) = (base_shape.last_mut(), sig_shape.last()) {
        *base = (*width).min(LINE);
    }
    base_shape
}

/// The number of consecutive frames that make use of all of a line of memory, or of a page where
/// they are neighbours: finding a page costs more than reading a line of it.
fn preferred_depth(layout: &StridedLayout) -> usize {
    let nearest = |axes: &[Axis]| {
        let axes = axes.iter().enumerate().filter(|(_, axis)| axis.len > 1 && axis.stride > 0);
        axes.min_by_key(|(_, axis)| axis.stride).map(|(index, axis)| (index, *axis))
    };
    let Some((index, axis)) = nearest(&layout.nav_axes) else { return 1 };
    let cells_are_nearer = nearest(&layout.sig_axes).is_some_and(|(_, s)| s.stride < axis.stride);
    let is_last = index + 1 == layout.nav_axes.len();
    let fetched = if is_last { transposed::PAGE } else { LINE };
    let in_a_line = usize::try_from(axis.stride).map_or(1, |stride| fetched / stride);
    if cells_are_nearer || in_a_line <= 1 {
        return 1;
    }
    // Frames that follow each other on this axis are that far apart in the order of frames.
    let apart = layout.nav_axes.iter().skip(index + 1).map(|axis| axis.len);
    apart.fold(in_a_line.min(axis.len), usize::saturating_mul)
}

/// The same positions in the same order with as few axes as possible.
pub(crate) fn merge(axes: &[Axis]) -> Vec<Axis> {
    let mut merged: Vec<Axis> = Vec::new();
    for &axis in axes.iter().filter(|axis| axis.len != 1) {
        let inner_bytes = u64::try_from(axis.len).ok().and_then(|len| len.checked_mul(axis.stride));
        match merged.last_mut() {
            Some(outer) if inner_bytes == Some(outer.stride) => {
                // The product was checked to fit when all axes were counted.
                *outer = Axis { len: outer.len.saturating_mul(axis.len), stride: axis.stride };
            }
            _ => merged.push(axis),
        }
    }
    merged
}
