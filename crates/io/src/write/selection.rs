//! Which frames of a data set are written, and on what grid.

use framefold_core::{
    AxisKind, Calibration, Dataset, Error, MetadataList, Quantity, Result, Roi, interrupt, memory,
};

/// The positions that are written, as a grid.
#[derive(Debug)]
pub(super) struct Selection {
    /// The shape of the scan that is written.
    pub(super) nav: Vec<usize>,
    /// Positions of the data set, in order; all of them if there is no list.
    positions: Option<Vec<usize>>,
    /// The coordinates of the first position, if neighbours in the scan that is written are
    /// neighbours in that of the data set.
    corner: Option<Vec<usize>>,
}

impl Selection {
    /// All positions, or those of `roi`. These keep the axes of the scan where they are a box
    /// without holes, and become a list where they are not.
    ///
    /// # Errors
    /// `InvalidArgument` if the region is for another scan, or selects no position.
    pub(super) fn try_new(dataset: &Dataset, roi: Option<&Roi>) -> Result<Self> {
        let nav = dataset.shape().nav();
        let Some(roi) = roi else {
            let corner = Some(vec![0; nav.len()]);
            return Ok(Selection { nav: nav.to_vec(), positions: None, corner });
        };
        if roi.n_frames() != dataset.shape().n_frames() {
            return Err(Error::invalid(format!(
                "the region of interest has {} positions, but the scan has shape {nav:?}",
                roi.n_frames()
            )));
        }
        if roi.n_selected() == 0 {
            return Err(Error::invalid("the region of interest selects no position")
                .with_hint("select at least one, or write all positions"));
        }
        let mut first = nav.to_vec();
        let mut last = vec![0; nav.len()];
        for &position in roi.positions() {
            let coordinates = dataset.shape().nav_coordinates(position).into_iter();
            for ((at, first), last) in coordinates.zip(&mut first).zip(&mut last) {
                (*first, *last) = ((*first).min(at), (*last).max(at));
            }
        }
        let extents: Vec<usize> =
            first.iter().zip(&last).map(|(first, last)| last + 1 - first).collect();
        let is_box = extents.iter().product::<usize>() == roi.n_selected();
        Ok(Selection {
            nav: if is_box { extents } else { vec![roi.n_selected()] },
            positions: Some(memory::copied(roi.positions())?),
            corner: is_box.then_some(first),
        })
    }

    /// Makes what is known of the scan true for the part that is written: a box begins at its own
    /// corner, and positions from here and there have no steps.
    pub(super) fn place(&self, nav_dims: usize, metadata: &mut MetadataList) {
        let Some(corner) = &self.corner else {
            for step in [Quantity::ScanStepX, Quantity::ScanStepY] {
                metadata.remove(step);
                step.offset_of_step().into_iter().for_each(|offset| metadata.remove(offset));
            }
            metadata.remove(Quantity::ScanAxes);
            for from_last in 0..nav_dims {
                metadata.uncalibrate(AxisKind::Nav, from_last);
            }
            return;
        };
        for (from_last, &corner) in
            corner.iter().rev().enumerate().filter(|&(_, &corner)| corner > 0)
        {
            if let Some(axis) = metadata.calibration(AxisKind::Nav, from_last).cloned() {
                let offset = axis.offset + axis.step * corner as f64;
                metadata.calibrate(AxisKind::Nav, from_last, Calibration { offset, ..axis });
            }
        }
        for (step, corner) in
            [Quantity::ScanStepX, Quantity::ScanStepY].into_iter().zip(corner.iter().rev())
        {
            let Some(offset) = step.offset_of_step() else { continue };
            if let (Some(step), 1..) = (metadata.get_number(step), *corner) {
                let start = metadata.get_number(offset).unwrap_or(0.0);
                metadata.number(offset, start + step * *corner as f64);
            }
        }
    }

    /// How many positions are written.
    pub(super) fn len(&self) -> usize {
        self.nav.iter().product()
    }

    /// The frame that is written at flat position `out`, if there is one.
    pub(super) fn frame(&self, dataset: &Dataset, out: usize) -> Option<u64> {
        let position = match &self.positions {
            Some(positions) => *positions.get(out)?,
            None => out,
        };
        dataset.frame_at(position)
    }

    /// How many positions have no frame.
    ///
    /// # Errors
    /// `Cancelled` if the run was stopped.
    pub(super) fn n_missing(&self, dataset: &Dataset) -> Result<usize> {
        const BETWEEN_CHECKS: usize = 1 << 20;
        let Some(positions) = &self.positions else {
            let runs = dataset.positions_with_data();
            return Ok(self.len() - runs.iter().map(|run| run.len()).sum::<usize>());
        };
        let mut n_missing = 0;
        for part in positions.chunks(BETWEEN_CHECKS) {
            interrupt::check()?;
            n_missing += part.iter().filter(|&&at| dataset.frame_at(at).is_none()).count();
        }
        Ok(n_missing)
    }
}
