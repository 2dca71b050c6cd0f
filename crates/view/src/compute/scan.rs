//! Pictures of the scan: what a detector sees at each position.

use super::com::{Field, Turn};
use super::detect::{Detect, What};
use super::detector::paint;
use super::gate::Urgent;
use super::grid::{Grid, Stride};
use super::pace::Read;
use super::pass;
use super::raw::Raw;
use super::runs::Runs;
use super::transform::{self, Plane};
use crate::viewer::Shared;
use crate::{Picture, ScanChannel, ScanQuery, Signed, State, Transform, Wish};
use framefold::core::{AxisKind, Udf};
use framefold::{Cancel, Error, Result};
use std::sync::Arc;
use std::time::Instant;

/// What a result of a pass is a result of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScanKey {
    what: What,
    detector: Vec<Signed>,
    grid: Grid,
}

/// One question, and all that its answers need.
struct Asked<'a> {
    shared: &'a Shared,
    query: &'a ScanQuery,
    grid: Grid,
    runs: Arc<Runs>,
    what: What,
}

/// How good a result is.
struct Quality {
    state: State,
    label: String,
    progress: f64,
}

impl Quality {
    fn exact() -> Self {
        Quality { state: State::Exact, label: "exact".into(), progress: 1.0 }
    }
}

pub(crate) fn answer(
    shared: &Shared,
    query: &ScanQuery,
    wish: Wish,
    cancel: &Cancel,
    emit: &mut dyn FnMut(Picture) -> Result<()>,
) -> Result<()> {
    let grid = Grid::try_new(&shared.dataset, &query.slice)?;
    let what = match &query.channel {
        ScanChannel::Own { name, buffer } => {
            return super::own::answer(
                shared,
                (name, buffer),
                AxisKind::Nav,
                query.transform,
                cancel,
                emit,
            );
        }
        ScanChannel::Sum | ScanChannel::Mean => What::Sum,
        ScanChannel::Std => What::Std,
        ScanChannel::Max => What::Max,
        ScanChannel::Com { .. } | ScanChannel::Idpc { .. } => What::Moments,
    };
    check_channel(&query.channel)?;
    let weights = paint(&query.detector, shared.sig, &shared.masks())?;
    let runs = Arc::new(Runs::try_new(weights)?);
    let asked = Asked { shared, query, grid, runs, what };
    let key = ScanKey { what, detector: query.detector.clone(), grid };
    if let Some(raw) = shared.raws.get(&key) {
        return emit(asked.picture(&raw, Quality::exact())?);
    }
    let mut shown = false;
    if let Some(store) = shared.store()
        && let Some(seen) = store.seen(what, &asked.runs, &grid)?
    {
        let label = seen.label;
        if seen.exact {
            return emit(asked.picture(&seen.raw, Quality::exact())?);
        }
        let quality = Quality { state: State::Binned, label, progress: 1.0 };
        emit(asked.picture(&seen.raw, quality)?)?;
        if wish == Wish::Fast {
            return Ok(());
        }
        shown = true;
    }
    let at_once = shared.pace.at_once(grid.len(), asked.share());
    if !at_once && !shown && asked.preview(cancel, emit)? {
        return Ok(());
    }
    if wish == Wish::Fast && !at_once {
        return Ok(());
    }
    let raw = Arc::new(asked.exact(at_once, cancel, emit)?);
    shared.raws.put(key, raw.clone(), raw.len_bytes());
    emit(asked.picture(&raw, Quality::exact())?)
}

/// The moments that a detector sees at each position, of the exact pass.
///
/// # Errors
/// Those of an answer.
pub(crate) fn moments(shared: &Shared, query: &ScanQuery, cancel: &Cancel) -> Result<Arc<Raw>> {
    let grid = Grid::try_new(&shared.dataset, &query.slice)?;
    let what = What::Moments;
    let key = ScanKey { what, detector: query.detector.clone(), grid };
    if let Some(raw) = shared.raws.get(&key) {
        return Ok(raw);
    }
    let weights = paint(&query.detector, shared.sig, &shared.masks())?;
    let runs = Arc::new(Runs::try_new(weights)?);
    let asked = Asked { shared, query, grid, runs, what };
    let raw = Arc::new(asked.exact(false, cancel, &mut |_| Ok(()))?);
    shared.raws.put(key, raw.clone(), raw.len_bytes());
    Ok(raw)
}

/// An error if a number of the channel cannot be computed with.
fn check_channel(channel: &ScanChannel) -> Result<()> {
    let (ScanChannel::Com { centre, rotation, .. } | ScanChannel::Idpc { centre, rotation, .. }) =
        channel
    else {
        return Ok(());
    };
    let mut numbers = vec![("the rotation", *rotation)];
    if let crate::Centre::At([cy, cx]) = *centre {
        numbers.extend([("cy of the centre", cy), ("cx of the centre", cx)]);
    }
    match numbers.into_iter().find(|(_, value)| !value.is_finite()) {
        None => Ok(()),
        Some((name, value)) => {
            Err(Error::invalid(format!("{name} is {value}, expected a finite number")))
        }
    }
}

impl Asked<'_> {
    /// Which part of each frame is looked at.
    fn share(&self) -> f64 {
        let looked_at: usize = self.runs.lines.iter().map(|line| line.len()).sum();
        looked_at as f64 / self.runs.weights.len().max(1) as f64
    }

    /// A picture of what was left by earlier passes, or of some frames; true if it is as good as any.
    fn preview(
        &self,
        cancel: &Cancel,
        emit: &mut dyn FnMut(Picture) -> Result<()>,
    ) -> Result<bool> {
        let stride = self.shared.pace.stride(&self.grid, self.share());
        let start = Instant::now();
        let raw = self.run(stride, &[], cancel, &mut |_, _| Ok(()))?;
        self.shared.pace.seen(Read::Apart, raw.rows * raw.columns, self.share(), start);
        let quality = match stride {
            Stride::ONE => Quality::exact(),
            stride => Quality {
                state: State::Preview,
                label: format!("preview 1/{}", stride.area()),
                progress: 1.0 / stride.area() as f64,
            },
        };
        let exact = stride == Stride::ONE;
        emit(self.picture(&raw, quality)?)?;
        Ok(exact)
    }

    /// What the detector sees at each position, with pictures on the way.
    fn exact(
        &self,
        at_once: bool,
        cancel: &Cancel,
        emit: &mut dyn FnMut(Picture) -> Result<()>,
    ) -> Result<Raw> {
        // What takes no longer than a preview need not wait.
        let _pass = if at_once { None } else { Some(self.shared.gate.pass(cancel)?) };
        let start = Instant::now();
        // What is far from linear in the vectors, or needs all of them, says nothing before the end.
        let shown = self.query.transform == Transform::None
            && !matches!(self.query.channel, ScanChannel::Idpc { .. });
        let rest = (!at_once).then(|| self.shared.rest(Urgent::Following, cancel));
        let raw = self.run(Stride::ONE, rest.as_slice(), cancel, &mut |results, progress| {
            if !shown {
                return Ok(());
            }
            let raw = Raw::of_run(&results.snapshot()?, &self.grid, Stride::ONE)?;
            let label = format!("exact, {:.0} % so far", 100.0 * progress);
            emit(self.picture(&raw, Quality { state: State::Partial, label, progress })?)
        })?;
        self.shared.pace.seen(Read::Together, self.grid.len(), self.share(), start);
        Ok(raw)
    }

    fn run(
        &self,
        stride: Stride,
        beside: &[Arc<dyn Udf>],
        cancel: &Cancel,
        look: &mut pass::Look<'_>,
    ) -> Result<Raw> {
        let mut udfs: Vec<Arc<dyn Udf>> =
            vec![Arc::new(Detect { what: self.what, runs: self.runs.clone() })];
        udfs.extend_from_slice(beside);
        let roi = self.grid.roi(stride)?;
        let results = pass::run(&self.shared.dataset, udfs, roi, cancel, look)?;
        Raw::of_run(&results, &self.grid, stride)
    }

    /// From what the detector sees to what was asked for.
    fn picture(&self, raw: &Raw, quality: Quality) -> Result<Picture> {
        let sig = [self.runs.rows, self.runs.columns];
        let aspects = self.shared.aspects();
        let shifts = |centre, rotation, flip_y| {
            Field::shifts(raw, sig, Turn { centre, rotation, flip_y }, aspects)
        };
        let value = |values| vec![("value", values)];
        let planes = match self.query.channel {
            ScanChannel::Sum | ScanChannel::Std | ScanChannel::Max => {
                value(raw.plane(0).collect::<Vec<f64>>())
            }
            ScanChannel::Mean => value(raw.plane(0).map(|sum| sum / self.runs.total).collect()),
            ScanChannel::Com { part, centre, rotation, flip_y } => {
                shifts(centre, rotation, flip_y).part(part)
            }
            ScanChannel::Idpc { centre, rotation, flip_y } => {
                value(super::idpc::phase(&shifts(centre, rotation, flip_y))?)
            }
            ScanChannel::Own { .. } => return Err(Error::bug("an own function has no detector")),
        };
        let stride = raw.stride;
        let shape = self.grid.shape(stride);
        let n_axes = shape.len();
        let nav = crate::viewer::axes_of(&self.shared.dataset, AxisKind::Nav);
        let axes = nav[nav.len() - n_axes..].to_vec();
        let steps =
            if n_axes == 1 { vec![stride.columns] } else { vec![stride.rows, stride.columns] };
        let planes = planes.into_iter().map(|(name, values)| Plane { name, values }).collect();
        let transformed = transform::apply(self.query.transform, planes, shape, &axes, &steps)?;
        let whole = self.query.transform == Transform::None;
        let Quality { state, label, progress } = quality;
        Ok(Picture {
            planes: transformed.names,
            shape: transformed.shape,
            values: transformed.values,
            stride: if whole { [stride.rows, stride.columns] } else { [1, 1] },
            state,
            label,
            progress,
            axes: transformed.axes,
        })
    }
}
